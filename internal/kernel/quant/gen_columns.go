//go:build ignore

package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// columnWidths are the kinds of integers that columns have, with what extends and stores them.
var columnWidths = []struct {
	name, unsigned, signed string
	size                   int
}{{"Bytes", "VPMOVZXBD", "VPMOVSXBD", 1}, {"Words", "VPMOVZXWD", "VPMOVSXWD", 2}}

// columnLimit is that of the package.
const columnLimit = 1 << 18

// columnModes are kernels of 16 elements with a scale and a zero point each, and of runs of whole groups that have one.
var columnModes = []struct {
	name, doc string
	each      bool
}{{"Columns", "for n times 16 elements, each with its own, as many times as groups says", true}, {"Runs", "for n runs of groups of 16 elements, which have one", false}}

// columnKernels writes these kernels.
//
// Registers: DI the result, SI operands, AX scales, BX zero points, CX what has the same of both, R8 groups of 16 in each and DX those left.
// Vectors: 3, or 3 and 4, scales, 5, or 5 and 6, zero points.
func columnKernels(f *asm.File) {
	for _, v := range sets {
		for _, mode := range columnModes {
			k := &columns{v: v, each: mode.each, mode: mode.name, doc: mode.doc}
			quantized, code := map[int]string{}, map[string]string{}
			for _, w := range columnWidths {
				quantized[w.size] = k.quantize(f, w.name, w.size)
				for _, extend := range []string{w.unsigned, w.signed} {
					kind := map[bool]string{true: "Signed", false: "Unsigned"}[extend == w.signed] + w.name
					code[kind] = k.dequantize(f, kind, extend, w.size) + "(dst, src, scale, zero, groups, n)"
				}
			}
			f.Serve("quantize"+k.mode, v, fmt.Sprintf("if words {\n%[1]s%[3]s\n} else {\n%[2]s%[3]s\n}", quantized[2], quantized[1], "(dst, src, scale, zero, least, most, groups, n)"))
			f.Serve("dequantize"+k.mode, v, dequantizeSwitch(func(kind string) string { return code[kind] }))
		}
	}
}

// dequantizeSwitch is Go code that calls what there is for a kind of integers.
func dequantizeSwitch(call func(kind string) string) string {
	return fmt.Sprintf("switch {\ncase words && signed:\n%s\ncase words:\n%s\ncase signed:\n%s\ndefault:\n%s\n}",
		call("SignedWords"), call("UnsignedWords"), call("SignedBytes"), call("UnsignedBytes"))
}

// columns is a kernel being written.
type columns struct {
	*asm.Func
	v         asm.ISA
	each      bool
	mode, doc string
}

// quantizeArgs and dequantizeArgs are the arguments of kernels.
var (
	quantizeArgs = []asm.Arg{pointer("dst", "byte"), asm.Ptr("src"), asm.Ptr("scale"), pointer("zero", "int32"), asm.Int("least"), asm.Int("most"),
		asm.Int("groups"), asm.Int("n")}
	dequantizeArgs = []asm.Arg{asm.Ptr("dst"), pointer("src", "byte"), asm.Ptr("scale"), pointer("zero", "int32"), asm.Int("groups"), asm.Int("n")}
)

func (k *columns) quantize(f *asm.File, kind string, size int) string {
	v, name := k.v, named("quantize"+k.mode+kind, k.v)
	fn := f.Func(name, name+" rounds src/scale, adds zero and bounds it, "+k.doc+"; both are above 0. NaN becomes the least.", quantizeArgs...)
	k.Func = fn
	limit := func(bits uint32, x int) {
		fn.I("MOVL $%#x, DX", bits)
		fn.I("VMOVD DX, X%d", x)
		fn.I("VPBROADCASTD X%d, %s", x, v.R(x))
	}
	limit(math.Float32bits(-columnLimit), 12)
	limit(math.Float32bits(columnLimit), 13)
	fn.I("VPBROADCASTD %s, %s", fn.Addr("least"), v.R(14))
	fn.I("VPBROADCASTD %s, %s", fn.Addr("most"), v.R(15))
	if !v.Masks {
		fn.I("VPCMPEQD Y11, Y11, Y11")
		fn.I("VPSRLD $%d, Y11, Y11", 32-8*size)
	}
	k.loop(16*size, 64, func() {
		for i := range bytesVectors(v) {
			x := v.R(i)
			fn.I("VMOVUPS %d(SI), %s", v.Size()*i, x)
			fn.I("VDIVPS %s, %s, %s", v.R(3+i), x, x)
			fn.I("VMAXPS %s, %s, %s", v.R(12), x, x)
			fn.I("VMINPS %s, %s, %s", v.R(13), x, x)
			fn.I("VCVTPS2DQ %s, %s", x, x)
			fn.I("VPADDD %s, %s, %s", v.R(5+i), x, x)
			fn.I("VPMAXSD %s, %s, %s", v.R(14), x, x)
			fn.I("VPMINSD %s, %s, %s", v.R(15), x, x)
		}
		storeColumns(fn, v, size)
	})
	return name
}

// loop emits the loops around body, which does 16 elements, and the return: dst and src are how many bytes it moves on.
func (k *columns) loop(dst, src int, body func()) {
	for _, x := range [][2]string{{"dst", "DI"}, {"src", "SI"}, {"scale", "AX"}, {"zero", "BX"}, {"groups", "R8"}, {"n", "CX"}} {
		k.Load(x[0], x[1])
	}
	k.Loop("CX", func() {
		step := 4
		for i := range bytesVectors(k.v) {
			if k.each {
				k.I("VMOVUPS %d(AX), %s", k.v.Size()*i, k.v.R(3+i))
				k.I("VMOVUPS %d(BX), %s", k.v.Size()*i, k.v.R(5+i))
				step = 64
			} else {
				k.I("VBROADCASTSS (AX), %s", k.v.R(3+i))
				k.I("VPBROADCASTD (BX), %s", k.v.R(5+i))
			}
		}
		k.I("ADDQ $%d, AX", step)
		k.I("ADDQ $%d, BX", step)
		k.I("MOVQ R8, DX")
		k.Func.Loop("DX", func() {
			body()
			k.I("ADDQ $%d, DI", dst)
			k.I("ADDQ $%d, SI", src)
		})
	})
	k.Ret()
}

// storeColumns stores the lowest bytes or words of 16 integers.
func storeColumns(fn *asm.Func, v asm.ISA, size int) {
	switch {
	case v.Masks && size == 1:
		fn.I("VPMOVDB Z0, (DI)")
		return
	case v.Masks:
		fn.I("VPMOVDW Z0, (DI)")
		return
	}
	for i := range 2 {
		fn.I("VPAND Y11, Y%[1]d, Y%[1]d", i)
	}
	fn.I("VPACKUSDW Y1, Y0, Y0")
	fn.I("VPERMQ $0xd8, Y0, Y0")
	if size == 2 {
		fn.I("VMOVDQU Y0, (DI)")
		return
	}
	fn.I("VEXTRACTI128 $1, Y0, X1")
	fn.I("VPACKUSWB X1, X0, X0")
	fn.I("VMOVDQU X0, (DI)")
}

func (k *columns) dequantize(f *asm.File, kind, extend string, size int) string {
	v, name := k.v, named("dequantize"+k.mode+kind, k.v)
	fn := f.Func(name, name+" writes (src - zero)*scale, "+k.doc+"; both are above 0.", dequantizeArgs...)
	k.Func = fn
	k.loop(64, 16*size, func() {
		for i := range bytesVectors(v) {
			x := v.R(i)
			fn.I("%s %d(SI), %s", extend, v.Lanes*size*i, x)
			fn.I("VPSUBD %s, %s, %s", v.R(5+i), x, x)
			fn.I("VCVTDQ2PS %s, %s", x, x)
			fn.I("VMULPS %s, %s, %s", v.R(3+i), x, x)
			fn.I("VMOVUPS %s, %d(DI)", x, v.Size()*i)
		}
	})
	return name
}

// neonColumns writes these kernels for NEON. Vectors 4 to 7 are scales, 8 to 11 zero points.
func neonColumns(f *asm.File) {
	for _, mode := range columnModes {
		k := &columns{v: asm.NEON(), each: mode.each, mode: mode.name, doc: mode.doc}
		f.Serve("quantize"+k.mode, asm.NEON(), fmt.Sprintf("if words {\n%[1]s%[3]s\n} else {\n%[2]s%[3]s\n}", k.neonQuantize(f, "Words"), k.neonQuantize(f, "Bytes"),
			"(dst, src, scale, zero, least, most, groups, n)"))
		f.Serve("dequantize"+k.mode, asm.NEON(), dequantizeSwitch(func(kind string) string {
			return k.neonDequantize(f, kind) + "(dst, src, scale, zero, groups, n)"
		}))
	}
}

// neonLoop emits the loops around body, for arguments in registers from R0 on: groups is in that of a number.
func (k *columns) neonLoop(groups int, body func()) {
	k.Func.Loop(fmt.Sprintf("R%d", groups+1), func() {
		for i := range 4 {
			if k.each {
				k.I("FMOVQ.P 16(R2), F%d", 4+i)
				k.I("FMOVQ.P 16(R3), F%d", 8+i)
			} else {
				k.I("VLD1R (R2), [V%d.S4]", 4+i)
				k.I("VLD1R (R3), [V%d.S4]", 8+i)
			}
		}
		if !k.each {
			k.I("ADD $4, R2")
			k.I("ADD $4, R3")
		}
		k.I("MOVD R%d, R9", groups)
		k.Func.Loop("R9", body)
	})
	k.Ret()
}

func (k *columns) neonQuantize(f *asm.File, kind string) string {
	name := "quantize" + k.mode + kind + "NEON"
	fn := f.Loaded(name, "rounds src/scale, adds zero and bounds it, "+k.doc+"; both are above 0. NaN becomes the least.", quantizeArgs...)
	k.Func = fn
	fn.I("VDUP R4, V30.S4")
	fn.I("VDUP R5, V31.S4")
	fn.I("MOVW $%#x, R8", math.Float32bits(columnLimit))
	fn.I("VDUP R8, V29.S4")
	fn.I("MOVW $%#x, R8", math.Float32bits(-columnLimit))
	fn.I("VDUP R8, V28.S4")
	k.neonLoop(6, func() {
		fn.I("FLDPQ.P 32(R1), (F0, F1)")
		fn.I("FLDPQ.P 32(R1), (F2, F3)")
		for i := range 4 {
			fn.V("fdiv.4s", i, i, 4+i)
			fn.V("fmaxnm.4s", i, i, 28)
			fn.V("fmin.4s", i, i, 29)
			fn.V("fcvtns.4s", i, i)
			fn.V("add.4s", i, i, 8+i)
			fn.V("smax.4s", i, i, 30)
			fn.V("smin.4s", i, i, 31)
		}
		for i := range 2 {
			fn.V("xtn.4h", 12+i, 2*i)
			fn.V("xtn2.8h", 12+i, 2*i+1)
		}
		if kind == "Words" {
			fn.I("FSTPQ.P (F12, F13), 32(R0)")
			return
		}
		fn.V("xtn.8b", 14, 12)
		fn.V("xtn2.16b", 14, 13)
		fn.I("FMOVQ.P F14, 16(R0)")
	})
	return name
}

func (k *columns) neonDequantize(f *asm.File, kind string) string {
	name := "dequantize" + k.mode + kind + "NEON"
	fn := f.Loaded(name, "writes (src - zero)*scale, "+k.doc+"; both are above 0.", dequantizeArgs...)
	k.Func = fn
	letter := map[bool]string{true: "s", false: "u"}[strings.HasPrefix(kind, "Signed")]
	k.neonLoop(4, func() {
		if strings.HasSuffix(kind, "Words") {
			fn.I("FLDPQ.P 32(R1), (F13, F14)")
		} else {
			fn.I("FMOVQ.P 16(R1), F12")
			fn.V(letter+"xtl.8h", 13, 12)
			fn.V(letter+"xtl2.8h", 14, 12)
		}
		for i := range 4 {
			fn.V(letter+[]string{"xtl.4s", "xtl2.4s"}[i%2], i, 13+i/2)
			fn.V("sub.4s", i, i, 8+i)
			fn.V("scvtf.4s", i, i)
			fn.V("fmul.4s", i, i, 4+i)
		}
		fn.I("FSTPQ.P (F0, F1), 32(R0)")
		fn.I("FSTPQ.P (F2, F3), 32(R0)")
	})
	return name
}
