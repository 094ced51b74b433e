package main

import (
	"fmt"
	"strings"
)

// quantum are the parameters of integers that stand for floats, as constants of a task: scale and zero point of activations, and zero point of
// weights.
const quantum = "; %ws: f32[]{0.02}; %wz: u8[]{128}; %wu: i8[]{0}"

// integers are operators on integers of eight bits, and those between them and floats.
func integers() []task {
	scale, zero := "%ws: f32[]{0.02}", "%wz: u8[]{128}"
	list := each("QuantizeLinear(%x, %ws, %wz)", "f32[1,64,56,56]; "+scale+"; "+zero, "f32[64]; "+scale+"; "+zero, "f32[128,768]; "+scale+"; "+zero)
	list = append(list, each("DequantizeLinear(%x, %ws, %wz)", "u8[1,64,56,56]; "+scale+"; "+zero, "u8[64]; "+scale+"; "+zero, "u8[128,768]; "+scale+"; "+zero)...)
	list = append(list, each("DynamicQuantizeLinear(%x)", "f32[1,64,28,28]", "f32[64]", "f32[128,768]")...)
	list = append(list, weighed("MatMulInteger(%x, %w)", "u8[128,768]; i8[768,768]", "u8[16,16]; i8[16,16]", "u8[64,512]; i8[512,128]")...)
	list = append(list, weighed("ConvInteger(%x, %w; pads=[1,1,1,1])", "u8[1,64,28,28]; u8[64,64,3,3]", "u8[1,16,8,8]; u8[16,16,3,3]", "u8[1,128,14,14]; u8[128,128,3,3]")...)
	for _, s := range []string{"u8[128,768]; i8[768,768]", "u8[197,768]; i8[768,3072]", "u8[128,3072]; i8[3072,768]", "u8[16,128]; i8[128,128]", "u8[49,96]; i8[96,288]", "u8[3136,96]; i8[96,96]", "u8[37,51]; i8[51,23]",
		"u8[1,1280]; i8[1280,1000]", "u8[1,64]; i8[64,10]", "u8[2,768]; i8[768,3072]", "u8[1,4096]; i8[4096,4096]"} {
		list = append(list, weighed("QLinearMatMul(%x, %ws, %wz, %w, %ws, %wu, %ws, %wz)", s+quantum)...)
	}
	return append(append(list, integerConvolutions()...), integerSums()...)
}

// integerConv is a convolution of integers x[1, C, side, side] with w[O, C/groups, k, k], between others where its operands are made by them.
func integerConv(c, o, side, k, stride, groups int) task {
	p := (k - 1) / 2
	return task{inputs: fmt.Sprintf("%%x: u8[1,%d,%d,%d]; %%w: i8[%d,%d,%d,%d]; %%wb: i32[%d]", c, side, side, o, c/groups, k, k, o) + quantum, image: c > 4,
		call: fmt.Sprintf("QLinearConv(%%x, %%ws, %%wz, %%w, %%ws, %%wu, %%ws, %%wz, %%wb; pads=[%d,%d,%d,%d], strides=[%d,%d], group=%d)", p, p, p, p, stride, stride, groups)}
}

func integerConvolutions() []task {
	return []task{
		integerConv(64, 64, 56, 3, 1, 1), integerConv(128, 128, 28, 3, 1, 1), integerConv(256, 256, 14, 3, 1, 1), integerConv(512, 512, 7, 3, 1, 1), integerConv(128, 128, 56, 3, 2, 1),
		integerConv(32, 32, 112, 3, 1, 1), integerConv(16, 16, 8, 3, 1, 1), integerConv(48, 64, 35, 5, 1, 1), integerConv(58, 58, 28, 3, 1, 1), integerConv(100, 100, 14, 3, 1, 1), integerConv(24, 72, 56, 3, 1, 1),
		integerConv(144, 24, 56, 1, 1, 1), integerConv(240, 40, 28, 1, 1, 1), integerConv(40, 240, 28, 1, 1, 1), integerConv(232, 232, 7, 1, 1, 1), integerConv(672, 28, 1, 1, 1, 1), integerConv(12, 20, 8, 3, 1, 1),
		integerConv(64, 256, 56, 1, 1, 1), integerConv(256, 64, 56, 1, 1, 1), integerConv(1024, 256, 14, 1, 1, 1), integerConv(512, 2048, 7, 1, 1, 1), integerConv(16, 96, 112, 1, 1, 1),
		integerConv(512, 1024, 28, 1, 2, 1), integerConv(960, 160, 7, 1, 1, 1), integerConv(24, 144, 56, 1, 1, 1), integerConv(58, 58, 28, 1, 1, 1), integerConv(32, 16, 16, 1, 1, 1), integerConv(1152, 48, 1, 1, 1, 1),
		integerConv(3, 64, 224, 7, 2, 1), integerConv(3, 32, 224, 3, 2, 1), integerConv(3, 24, 64, 3, 2, 1), integerConv(1, 16, 28, 5, 1, 1),
		integerConv(32, 32, 112, 3, 1, 32), integerConv(144, 144, 56, 3, 2, 144), integerConv(960, 960, 7, 3, 1, 960), integerConv(240, 240, 28, 5, 1, 240), integerConv(58, 58, 28, 3, 2, 58), integerConv(16, 16, 8, 3, 1, 16),
		integerConv(1152, 1152, 7, 5, 1, 1152), integerConv(128, 128, 56, 3, 1, 4), integerConv(256, 256, 28, 3, 1, 8), integerConv(1024, 1024, 14, 3, 1, 32), integerConv(64, 64, 14, 3, 1, 2), integerConv(24, 24, 14, 3, 1, 12),
	}
}

// integerSums are element-wise operators between DequantizeLinear and QuantizeLinear.
func integerSums() (list []task) {
	for _, s := range []string{"u8[1,64,56,56]", "u8[1,256,14,14]", "u8[1,16,8,8]", "u8[1,96,28,28]", "u8[1,256,56,56]"} {
		for _, op := range []string{"Sigmoid", "HardSwish"} {
			list = append(list, task{"%x: " + s + quantum, "DequantizeLinear(%x, %ws, %wz) \"a\"\n%ic = " + op + "(%ia) \"ic\"\n%r = QuantizeLinear(%ic, %ws, %wz)", true})
		}
		channels := strings.Split(s, ",")[1]
		for _, op := range [][2]string{{"Add", s}, {"Mul", "u8[1," + channels + ",1,1]"}} {
			list = append(list, task{"%x: " + s + "; %y: " + op[1] + quantum,
				"DequantizeLinear(%x, %ws, %wz) \"a\"\n%ic = DequantizeLinear(%y, %ws, %wz) \"ic\"\n%id = " + op[0] + "(%ia, %ic) \"id\"\n%r = QuantizeLinear(%id, %ws, %wz)", true})
		}
	}
	return list
}
