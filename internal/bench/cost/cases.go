package main

import (
	"fmt"
	"strings"
)

// task is one operator to measure: inputs whose names begin with w are constants.
type task struct {
	inputs string // "%x: f32[1,64,56,56]; %w: f32[64,64,3,3]"
	call   string // "Conv(%x, %w; pads=[1,1,1,1])"
	// image puts a convolution of 1 by 1 in front of each operand that is an image and one behind the result, so that the
	// operator runs in the format that convolutions have. Its channels and those of its result are 16 times these.
	image bool
}

// conv is a convolution of x[1, C, side, side] with w[O, C/groups, k, k].
func conv(c, o, side, k, stride, groups, dilation int) task {
	p := dilation * (k - 1) / 2
	return task{inputs: fmt.Sprintf("%%x: f32[1,%d,%d,%d]; %%w: f32[%d,%d,%d,%d]; %%wb: f32[%d]", c, side, side, o, c/groups, k, k, o),
		call: fmt.Sprintf("Conv(%%x, %%w, %%wb; pads=[%d,%d,%d,%d], strides=[%d,%d], group=%d, dilations=[%d,%d])", p, p, p, p, stride, stride, groups, dilation, dilation)}
}

// line is a convolution of x[1, C, length] with w[O, C/groups, k].
func line(c, o, length, k, stride, groups int) task {
	return task{inputs: fmt.Sprintf("%%x: f32[1,%d,%d]; %%w: f32[%d,%d,%d]", c, length, o, c/groups, k),
		call: fmt.Sprintf("Conv(%%x, %%w; pads=[%d,%d], strides=[%d], group=%d)", (k-1)/2, (k-1)/2, stride, groups)}
}

// each returns a task per shape: the first operand of call is %x, of that shape.
func each(call string, shapes ...string) (list []task) {
	for _, s := range shapes {
		list = append(list, task{inputs: "%x: " + s, call: call})
	}
	return list
}

// pairs are tasks of two operands of these shapes, "a; b".
func pairs(call string, shapes ...string) (list []task) {
	for _, s := range shapes {
		a, b, _ := strings.Cut(s, ";")
		list = append(list, task{inputs: "%x: " + a + "; %y: " + strings.TrimSpace(b), call: call})
	}
	return list
}

// weighed are products of these shapes with a constant.
func weighed(call string, shapes ...string) (list []task) {
	for _, s := range shapes {
		a, b, _ := strings.Cut(s, ";")
		list = append(list, task{inputs: "%x: " + a + "; %w: " + strings.TrimSpace(b), call: call})
	}
	return list
}

// images are operators on the results of convolutions.
func images() (list []task) {
	for _, s := range []string{"f32[1,64,56,56]", "f32[1,256,14,14]", "f32[1,16,8,8]", "f32[1,232,7,7]", "f32[1,116,14,14]"} {
		list = append(list, task{"%x: " + s + "; %y: " + s, "Concat(%x, %y; axis=1)", true},
			task{"%x: " + s + "; %ws: i64[1]{0}; %we: i64[1]{16}; %wa: i64[1]{1}", "Slice(%x, %ws, %we, %wa)", true},
			task{"%x: " + s + "; %ws: i64[1]{1}; %we: i64[1]{11}; %wa: i64[1]{1}", "Slice(%x, %ws, %we, %wa)", true},
			task{"%x: " + s + "; %y: f32[1," + strings.Split(s, ",")[1] + ",1,1]", "Mul(%x, %y)", true},
			task{"%x: " + s + strings.ReplaceAll("; %wc: f32[C]; %wd: f32[C]; %we: f32[C]; %wf: f32[C]", "C", strings.Split(s, ",")[1]),
				"MaxPool(%x; kernel_shape=[3,3], pads=[1,1,1,1]) \"a\"\n%r = BatchNormalization(%ia, %wc, %wd, %we, %wf)", true},
			task{"%x: " + s + "; %ws: i64[1]{2}; %we: i64[1]{7}; %wa: i64[1]{2}", "Slice(%x, %ws, %we, %wa)", true},
			task{"%x: " + s, "MaxPool(%x; kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1])", true},
			task{"%x: " + s, "AveragePool(%x; kernel_shape=[3,3], pads=[1,1,1,1])", true},
			task{"%x: " + s + "; %y: " + s, "Add(%x, %y)", true},
			task{"%x: " + s + "; %ws: f32[4]{1, 1, 2, 2}", "Resize(%x, _, %ws; mode=\"nearest\", nearest_mode=\"floor\", coordinate_transformation_mode=\"asymmetric\")", true})
	}
	for _, s := range [][2]int{{116, 28}, {464, 7}, {232, 14}, {240, 28}} {
		list = append(list, task{fmt.Sprintf("%%x: f32[1,%[1]d,%[2]d,%[2]d]; %%ws: i64[5]{1, 2, %[3]d, %[2]d, %[2]d}; %%wt: i64[4]{1, %[1]d, %[2]d, %[2]d}", s[0], s[1], s[0]/2),
			"Reshape(%x, %ws) \"a\"\n%ib = Transpose(%ia; perm=[0,2,1,3,4]) \"b\"\n%r = Reshape(%ib, %wt)", true})
	}
	return list
}

// tasks are shapes of real models and of others, of every class.
func tasks() []task {
	var list []task
	for _, group := range [][]task{convolutions(), products(), elementwise(), rows(), windows(), movements(), recurrent(), integers(), images()} {
		list = append(list, group...)
	}
	return list
}

func convolutions() []task {
	list := []task{
		conv(64, 64, 56, 3, 1, 1, 1), conv(128, 128, 28, 3, 1, 1, 1), conv(256, 256, 14, 3, 1, 1, 1), conv(512, 512, 7, 3, 1, 1, 1),
		conv(64, 128, 56, 3, 2, 1, 1), conv(32, 32, 112, 3, 1, 1, 1), conv(16, 16, 8, 3, 1, 1, 1), conv(96, 208, 14, 3, 1, 1, 1), conv(128, 32, 28, 3, 1, 1, 1),
		conv(64, 64, 28, 5, 1, 1, 1), conv(32, 64, 149, 3, 1, 1, 1),
		conv(64, 256, 56, 1, 1, 1, 1), conv(256, 64, 56, 1, 1, 1, 1), conv(1024, 256, 14, 1, 1, 1, 1), conv(2048, 512, 7, 1, 1, 1, 1), conv(16, 96, 112, 1, 1, 1, 1),
		conv(512, 1024, 28, 1, 2, 1, 1), conv(32, 16, 16, 1, 1, 1, 1), conv(960, 160, 7, 1, 1, 1, 1), conv(96, 24, 56, 1, 1, 1, 1), conv(480, 20, 1, 1, 1, 1, 1),
		conv(58, 58, 28, 1, 1, 1, 1), conv(1152, 48, 1, 1, 1, 1, 1),
		conv(3, 64, 224, 7, 2, 1, 1), conv(3, 32, 224, 3, 2, 1, 1), conv(3, 64, 112, 3, 1, 1, 1), conv(1, 16, 28, 5, 1, 1, 1), conv(4, 8, 16, 3, 1, 1, 1), conv(3, 768, 224, 16, 16, 1, 1),
		conv(100, 100, 28, 3, 1, 1, 1), conv(58, 58, 28, 3, 1, 1, 1), conv(24, 72, 56, 3, 1, 1, 1), conv(10, 20, 14, 3, 1, 1, 1), conv(20, 24, 7, 5, 1, 1, 1),
		conv(32, 32, 112, 3, 1, 32, 1), conv(144, 144, 56, 3, 2, 144, 1), conv(960, 960, 7, 3, 1, 960, 1), conv(240, 240, 28, 5, 1, 240, 1), conv(58, 58, 28, 3, 2, 58, 1),
		conv(16, 16, 8, 3, 1, 16, 1), conv(1152, 1152, 7, 5, 1, 1152, 1), conv(96, 96, 112, 3, 2, 96, 1), conv(384, 384, 14, 7, 1, 384, 1),
		conv(128, 128, 56, 3, 1, 4, 1), conv(256, 256, 28, 3, 1, 8, 1), conv(1024, 1024, 14, 3, 1, 32, 1), conv(64, 64, 14, 3, 1, 2, 1), conv(512, 512, 14, 3, 2, 16, 1), conv(64, 64, 14, 1, 1, 4, 1),
		conv(128, 128, 56, 3, 1, 32, 1), conv(48, 48, 56, 3, 1, 2, 1), conv(120, 120, 28, 3, 1, 5, 1), conv(336, 336, 14, 3, 1, 14, 1), conv(888, 888, 7, 3, 1, 37, 1), conv(72, 72, 28, 3, 1, 3, 1), conv(240, 240, 28, 1, 1, 3, 1), conv(24, 24, 14, 3, 1, 12, 1),
		conv(64, 64, 56, 3, 1, 1, 2), conv(256, 256, 28, 3, 1, 1, 4), conv(256, 256, 33, 3, 1, 1, 12), conv(512, 128, 14, 3, 1, 1, 6), conv(16, 16, 16, 3, 1, 1, 2),
		line(64, 64, 1000, 3, 1, 1), line(80, 384, 3000, 3, 1, 1), line(384, 384, 3000, 3, 2, 1), line(1, 32, 16000, 10, 5, 1), line(512, 512, 200, 3, 2, 1), line(256, 256, 400, 1, 1, 1), line(16, 16, 50, 3, 1, 1),
		line(512, 512, 400, 31, 1, 512), line(64, 64, 200, 3, 1, 64), line(256, 256, 1000, 15, 1, 256), line(256, 256, 400, 9, 1, 16), line(768, 768, 49, 128, 1, 16),
	}
	for _, s := range [][4]int{{16, 16, 8, 16}, {32, 32, 8, 14}, {3, 16, 8, 56}, {64, 64, 4, 7}} {
		list = append(list, task{inputs: fmt.Sprintf("%%x: f32[1,%d,%d,%d,%d]; %%w: f32[%d,%d,3,3,3]", s[0], s[2], s[3], s[3], s[1], s[0]), call: "Conv(%x, %w; pads=[1,1,1,1,1,1])"})
	}
	for _, s := range [][3]int{{64, 32, 28}, {128, 64, 14}, {16, 16, 8}, {256, 128, 28}} {
		list = append(list, task{inputs: fmt.Sprintf("%%x: f32[1,%d,%d,%d]; %%w: f32[%d,%d,2,2]", s[0], s[2], s[2], s[0], s[1]), call: "ConvTranspose(%x, %w; strides=[2,2])"},
			task{inputs: fmt.Sprintf("%%x: f32[1,%d,%d,%d]; %%w: f32[%d,%d,4,4]", s[0], s[2], s[2], s[0], s[1]), call: "ConvTranspose(%x, %w; strides=[2,2], pads=[1,1,1,1])"})
	}
	for _, s := range [][2]int{{64, 14}, {16, 8}, {128, 28}, {256, 7}} {
		list = append(list, task{inputs: fmt.Sprintf("%%x: f32[1,%d,%d,%d]; %%w: f32[%d,1,4,4]", s[0], s[1], s[1], s[0]), call: fmt.Sprintf("ConvTranspose(%%x, %%w; strides=[2,2], pads=[1,1,1,1], group=%d)", s[0])})
	}
	return list
}

func products() []task {
	list := weighed("MatMul(%x, %w)", "f32[128,768]; f32[768,768]", "f32[128,768]; f32[768,3072]", "f32[197,3072]; f32[3072,768]", "f32[1,8,128]; f32[128,128]", "f32[1,32,256]; f32[256,100]",
		"f32[49,96]; f32[96,288]", "f32[3136,96]; f32[96,96]", "f32[37,51]; f32[51,23]", "f32[16,16]; f32[16,16]", "f32[3,128]; f32[128,512]", "f32[1,768]; f32[768,3072]", "f32[1,512]; f32[512,1000]", "f32[2,4096]; f32[4096,1024]",
		"f32[1,64]; f32[64,10]", "f32[4,256]; f32[256,256]", "f32[1,25088]; f32[25088,512]", "f32[784,192]; f32[192,384]", "f32[13,700]; f32[700,1031]")
	list = append(list, weighed("Gemm(%x, %w; transB=1)", "f32[1,2048]; f32[1000,2048]", "f32[64,512]; f32[512,512]", "f32[1,9216]; f32[4096,9216]", "f32[8,100]; f32[37,100]")...)
	list = append(list, pairs("MatMul(%x, %y)", "f32[1,12,128,64]; f32[1,12,64,128]", "f32[1,12,128,128]; f32[1,12,128,64]", "f32[64,3,49,32]; f32[64,3,32,49]", "f32[64,3,49,49]; f32[64,3,49,32]",
		"f32[256,7,7]; f32[256,7,7]", "f32[8,1,64]; f32[8,64,200]", "f32[32,17,19]; f32[32,19,23]", "f32[256,256]; f32[256,256]", "f32[4,8,16,16]; f32[4,8,16,16]", "f32[1000,3,3]; f32[1000,3,1]", "f32[1,12,197,64]; f32[1,12,64,197]", "f32[512,512]; f32[512,512]", "f32[1,2,3,64]; f32[1,2,64,10]", "f32[4,4]; f32[4,4]")...)
	list = append(list, pairs("MatMul(%x, %y)", "f64[64,64]; f64[64,64]", "i32[32,32]; i32[32,32]", "f64[128,256]; f64[256,64]")...)
	return list
}

func elementwise() []task {
	flat := []string{"f32[64]", "f32[10000]", "f32[1,64,56,56]", "f32[1,256,56,56]", "f32[8,256,56,56]"}
	list := each("Relu(%x)", flat...)
	for _, op := range []string{"Sigmoid(%x)", "Tanh(%x)", "Erf(%x)", "HardSwish(%x)", "HardSigmoid(%x)"} {
		list = append(list, each(op, flat[:4]...)...)
	}
	list = append(list, each("Pow(%x, %x)", flat[:2]...)...)
	list = append(list, each("Sin(%x)", flat[:3]...)...)
	for _, op := range []string{"Add(%x, %y)", "Div(%x, %y)"} {
		list = append(list, pairs(op, "f32[64]; f32[64]", "f32[10000]; f32[10000]", "f32[1,64,56,56]; f32[1,64,56,56]", "f32[1,256,56,56]; f32[1,256,56,56]", "f32[4,256,56,56]; f32[4,256,56,56]")...)
	}
	list = append(list, pairs("Mul(%x, %y)", "f32[1,64,56,56]; f32[1,64,1,1]", "f32[128,768]; f32[768]", "f32[1,960,7,7]; f32[1,960,1,1]", "f32[1,12,128,128]; f32[1,1,1,128]", "f32[49,1,96]; f32[1,49,96]", "f32[8]; f32[8,8]", "f32[1,256,56,56]; f32[1,256,1,1]")...)
	list = append(list, pairs("Add(%x, %y)", "i64[64]; i64[64]", "i32[10000]; i32[10000]", "f64[100,100]; f64[100,100]", "i64[100000]; i64[100000]", "f64[100000]; f64[100000]")...)
	list = append(list, each("Exp(%x)", "f64[64]", "f64[10000]", "f64[100000]")...)
	list = append(list, pairs("Less(%x, %y)", "f32[64]; f32[64]", "f32[10000]; f32[10000]", "f32[100,1000]; f32[100,1000]", "i64[10000]; i64[10000]")...)
	list = append(list, task{inputs: "%c: bool[100,1000]; %x: f32[100,1000]; %y: f32[100,1000]", call: "Where(%c, %x, %y)"}, task{inputs: "%c: bool[64]; %x: f32[64]; %y: f32[64]", call: "Where(%c, %x, %y)"},
		task{inputs: "%c: bool[1,1,128,128]; %x: f32[1,12,128,128]; %y: f32[]", call: "Where(%c, %x, %y)"})
	return list
}

func rows() []task {
	shapes := []string{"f32[8,16]", "f32[128,768]", "f32[197,768]", "f32[3136,96]", "f32[12,128,128]", "f32[64,3,49,49]", "f32[2000,81]"}
	list := each("Softmax(%x; axis=-1)", append(shapes, "f32[1,1000]")...)
	list = append(list, each("Softmax(%x; axis=1)", "f32[1,21,64,64]", "f32[4,16,8]", "f32[1,1000,10,10]")...)
	for _, s := range shapes[:5] {
		width := s[strings.LastIndex(s, ",")+1 : len(s)-1]
		list = append(list, task{inputs: "%x: " + s + "; %w: f32[" + width + "]; %wb: f32[" + width + "]", call: "LayerNormalization(%x, %w, %wb)"})
	}
	for _, s := range []string{"1,64,56,56", "1,16,8,8", "1,256,14,14"} {
		c := strings.Split(s, ",")[1]
		list = append(list, task{inputs: "%x: f32[" + s + "]; %w: f32[" + c + "]; %wb: f32[" + c + "]", call: "InstanceNormalization(%x, %w, %wb)"},
			task{inputs: "%x: f32[" + s + "]; %w: f32[" + c + "]; %wb: f32[" + c + "]; %wm: f32[" + c + "]; %wv: f32[" + c + "]", call: "BatchNormalization(%x, %w, %wb, %wm, %wv)"})
	}
	list = append(list, each("ReduceMean(%x; axes=[-1])", shapes[:5]...)...)
	list = append(list, each("ReduceSum(%x)", "f32[64]", "f32[1000,100]")...)
	list = append(list, each("ReduceMax(%x; axes=[1])", "f32[1,64,56,56]", "f32[4,16,8]", "f32[1,1000,10,10]", "f32[8,197,768]")...)
	list = append(list, each("ReduceMean(%x; axes=[-1])", "f64[100,100]", "f64[8,8]", "f64[1000,100]")...)
	list = append(list, each("LRN(%x; size=5)", "f32[1,64,56,56]", "f32[1,16,8,8]", "f32[1,256,27,27]")...)
	list = append(list, each("ArgMax(%x; axis=-1)", "f32[128,768]", "f32[8,16]", "f32[1,1000]", "f32[10,30000]", "f32[64,64]")...)
	list = append(list, each("CumSum(%x, %w)", "f32[128,768]; %w: i64[]", "f32[8,16]; %w: i64[]", "f32[1,1000]; %w: i64[]")...)
	return list
}

func windows() []task {
	list := each("MaxPool(%x; kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1])", "f32[1,64,112,112]", "f32[1,192,28,28]", "f32[1,16,8,8]", "f32[8,64,56,56]")
	list = append(list, each("MaxPool(%x; kernel_shape=[2,2], strides=[2,2])", "f32[1,64,224,224]", "f32[1,512,14,14]", "f32[1,16,8,8]")...)
	list = append(list, each("AveragePool(%x; kernel_shape=[3,3], pads=[1,1,1,1])", "f32[1,192,35,35]", "f32[1,768,17,17]", "f32[1,16,8,8]")...)
	list = append(list, each("GlobalAveragePool(%x)", "f32[1,2048,7,7]", "f32[1,64,56,56]", "f32[1,16,8,8]", "f32[1,960,14,14]", "f32[8,512,7,7]")...)
	list = append(list, each("Resize(%x, _, %w; mode=\"nearest\", nearest_mode=\"floor\", coordinate_transformation_mode=\"asymmetric\")",
		"f32[1,64,28,28]; %w: f32[4]{1, 1, 2, 2}", "f32[1,256,14,14]; %w: f32[4]{1, 1, 2, 2}", "f32[1,16,8,8]; %w: f32[4]{1, 1, 2, 2}")...)
	list = append(list, each("Resize(%x, _, %w; mode=\"linear\")", "f32[1,64,28,28]; %w: f32[4]{1, 1, 2, 2}", "f32[1,21,65,65]; %w: f32[4]{1, 1, 8, 8}", "f32[1,16,8,8]; %w: f32[4]{1, 1, 2, 2}")...)
	for _, s := range []string{"1,64,28,28", "1,16,8,8", "1,256,14,14"} {
		d := strings.Split(s, ",")
		list = append(list, task{inputs: "%x: f32[" + s + "]; %g: f32[1," + d[2] + "," + d[3] + ",2]", call: "GridSample(%x, %g)"})
	}
	return list
}

func movements() []task {
	list := each("Transpose(%x; perm=[0,2,1,3])", "f32[1,128,12,64]", "f32[1,12,197,64]", "f32[4,8,8,16]", "f32[64,49,3,32]", "f32[1,3,2,64]", "f32[1,32,2,64]")
	list = append(list, each("Transpose(%x; perm=[0,2,3,1])", "f32[1,64,56,56]", "f32[1,96,56,56]", "f32[1,16,8,8]")...)
	list = append(list, each("Transpose(%x; perm=[1,0])", "f32[1000,1031]", "f32[16,16]", "i64[300,300]", "f32[4000,3000]")...)
	list = append(list, pairs("Concat(%x, %y; axis=1)", "f32[1,58,28,28]; f32[1,58,28,28]", "f32[8,16]; f32[8,16]", "f32[1,1,768]; f32[1,196,768]", "f32[1000,4]; f32[1000,2]")...)
	list = append(list, pairs("Concat(%x, %y; axis=0)", "i64[4]; i64[4]")...) // of shape arithmetic
	list = append(list, each("Slice(%x, %w, %we, %wa)", "f32[1,128,768]; %w: i64[1]{0}; %we: i64[1]{64}; %wa: i64[1]{1}", "f32[1,64,56,56]; %w: i64[1]{0}; %we: i64[1]{28}; %wa: i64[1]{3}", "f32[1,300,300]; %w: i64[1]{0}; %we: i64[1]{100}; %wa: i64[1]{2}",
		"f32[8,16]; %w: i64[1]{0}; %we: i64[1]{8}; %wa: i64[1]{1}", "f32[1,56,56,96]; %w: i64[1]{3}; %we: i64[1]{56}; %wa: i64[1]{1}")...)
	list = append(list, each("Pad(%x, %w)", "f32[1,64,56,56]; %w: i64[8]{0, 0, 1, 1, 0, 0, 1, 1}", "f32[1,16,8,8]; %w: i64[8]{0, 0, 1, 1, 0, 0, 1, 1}", "f32[1,3,224,224]; %w: i64[8]{0, 0, 3, 3, 0, 0, 3, 3}")...)
	list = append(list, each("Expand(%x, %w)", "f32[1,1,768]; %w: i64[3]{1, 128, 768}", "f32[8,1]; %w: i64[2]{8, 16}", "f32[1,64,1,1]; %w: i64[4]{1, 64, 28, 28}", "f32[1,1,128,128]; %w: i64[4]{1, 12, 128, 128}")...)
	list = append(list, each("Gather(%w, %x)", "i64[1,128]; %w: f32[30522,768]", "i64[16]; %w: f32[1000,32]", "i64[1,197]; %w: f32[512,64]", "i64[1]; %w: f32[100,8]", "i64[10000]; %w: f32[1000,16]")...)
	list = append(list, each("GatherElements(%x, %i; axis=1)", "f32[100,100]; %i: i64[100,100]", "f32[8,16]; %i: i64[8,16]", "f32[300,1000]; %i: i64[300,10]")...)
	list = append(list, each("ScatterElements(%x, %i, %u; axis=1)", "f32[100,100]; %i: i64[100,100]; %u: f32[100,100]", "f32[8,16]; %i: i64[8,16]; %u: f32[8,16]", "f32[300,1000]; %i: i64[300,10]; %u: f32[300,10]")...)
	list = append(list, each("Cast(%x; to=6)", "f32[64]", "f32[100,1000]", "f32[10000]")...)
	list = append(list, each("Cast(%x; to=1)", "i64[64]", "i64[100,1000]", "f16[100,1000]", "u8[3,224,224]", "bool[100,1000]", "u8[64]", "i32[10000]")...)
	list = append(list, each("TopK(%x, %w)", "f32[100,1000]; %w: i64[1]{10}", "f32[8,16]; %w: i64[1]{5}", "f32[1,10000]; %w: i64[1]{300}")...)
	list = append(list, each("Reshape(%x, %w)", "f32[128,768]; %w: i64[1]{-1}", "f32[8,16]; %w: i64[1]{-1}", "f32[1,256,56,56]; %w: i64[1]{-1}")...)
	return list
}

func recurrent() (list []task) {
	for _, s := range [][4]int{{20, 1, 64, 128}, {50, 1, 256, 256}, {10, 8, 128, 128}, {30, 1, 16, 16}} {
		for _, op := range []struct {
			name  string
			gates int
		}{{"LSTM", 4}, {"GRU", 3}} {
			list = append(list, task{inputs: fmt.Sprintf("%%x: f32[%d,%d,%d]; %%w: f32[1,%d,%d]; %%wr: f32[1,%d,%d]", s[0], s[1], s[2], op.gates*s[3], s[2], op.gates*s[3], s[3]), call: fmt.Sprintf("%s(%%x, %%w, %%wr; hidden_size=%d)", op.name, s[3])})
		}
	}
	return list
}
