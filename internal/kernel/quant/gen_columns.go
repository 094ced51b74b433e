//go:build ignore

package main

import (
	"fmt"
	"math"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// columnWidths are the kinds of integers that columns have, with what extends and stores them.
var columnWidths = []struct {
	name, unsigned, signed string
	size                   int
}{{"Bytes", "VPMOVZXBD", "VPMOVSXBD", 1}, {"Words", "VPMOVZXWD", "VPMOVSXWD", 2}}

// columnLimit is that of the package.
const columnLimit = 1 << 18

// columnKernels writes the kernels of elements with a scale and a zero point each.
//
// Registers: DI the result, SI operands, AX scales, BX zero points, R8 how far both move with 16 elements, CX groups of these.
func columnKernels(f *asm.File) {
	for _, v := range sets {
		code := map[string]string{}
		for _, w := range columnWidths {
			quantizeColumns(f, v, w.name, w.size)
			for _, extend := range []string{w.unsigned, w.signed} {
				name := map[bool]string{true: "Signed", false: "Unsigned"}[extend == w.signed] + w.name
				dequantizeColumns(f, v, name, extend, w.size)
				code[name] = named("dequantizeColumns"+name, v) + "(dst, src, scale, zero, step, n)"
			}
		}
		f.Serve("quantizeColumns", v, fmt.Sprintf("if words {\n%[1]s%[3]s\n} else {\n%[2]s%[3]s\n}", named("quantizeColumnsWords", v), named("quantizeColumnsBytes", v),
			"(dst, src, scale, zero, least, most, step, n)"))
		f.Serve("dequantizeColumns", v, fmt.Sprintf("switch {\ncase words && signed:\n%s\ncase words:\n%s\ncase signed:\n%s\ndefault:\n%s\n}",
			code["SignedWords"], code["UnsignedWords"], code["SignedBytes"], code["UnsignedBytes"]))
	}
}

// columnArgs are the arguments of both kinds of kernels behind the first two.
var columnArgs = []asm.Arg{asm.Ptr("scale"), pointer("zero", "int32")}

func quantizeColumns(f *asm.File, v asm.ISA, kind string, size int) {
	name := named("quantizeColumns"+kind, v)
	fn := f.Func(name, name+" rounds src/scale, adds zero and bounds it, for n groups of 16; n > 0. NaN counts as 0.",
		append(append([]asm.Arg{pointer("dst", "byte"), asm.Ptr("src")}, columnArgs...), asm.Int("least"), asm.Int("most"), asm.Int("step"), asm.Int("n"))...)
	loadColumns(fn)
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
	fn.Loop("CX", func() {
		for i := range bytesVectors(v) {
			x, at := v.R(i), v.Size()*i
			fn.I("VMOVUPS %d(SI), %s", at, x)
			fn.I("VDIVPS %d(AX), %s, %s", at, x, x)
			if v.Masks {
				fn.I("VCMPPS $7, %s, %s, K1", x, x)
				fn.I("VMOVAPS.Z %s, K1, %s", x, x)
			} else {
				fn.I("VCMPPS $7, %s, %s, Y2", x, x)
				fn.I("VANDPS Y2, %s, %s", x, x)
			}
			fn.I("VMAXPS %s, %s, %s", v.R(12), x, x)
			fn.I("VMINPS %s, %s, %s", v.R(13), x, x)
			fn.I("VCVTPS2DQ %s, %s", x, x)
			fn.I("VPADDD %d(BX), %s, %s", at, x, x)
			fn.I("VPMAXSD %s, %s, %s", v.R(14), x, x)
			fn.I("VPMINSD %s, %s, %s", v.R(15), x, x)
		}
		storeColumns(fn, v, size)
		nextColumns(fn, 16*size, 64)
	})
	fn.Ret()
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

func loadColumns(fn *asm.Func) {
	for _, x := range [][2]string{{"dst", "DI"}, {"src", "SI"}, {"scale", "AX"}, {"zero", "BX"}, {"step", "R8"}, {"n", "CX"}} {
		fn.Load(x[0], x[1])
	}
}

func nextColumns(fn *asm.Func, dst, src int) {
	fn.I("ADDQ $%d, DI", dst)
	fn.I("ADDQ $%d, SI", src)
	fn.I("ADDQ R8, AX")
	fn.I("ADDQ R8, BX")
}

func dequantizeColumns(f *asm.File, v asm.ISA, kind, extend string, size int) {
	name := named("dequantizeColumns"+kind, v)
	fn := f.Func(name, name+" writes (src - zero)*scale for n groups of 16; n > 0.",
		append(append([]asm.Arg{asm.Ptr("dst"), pointer("src", "byte")}, columnArgs...), asm.Int("step"), asm.Int("n"))...)
	loadColumns(fn)
	fn.Loop("CX", func() {
		for i := range bytesVectors(v) {
			x, at := v.R(i), v.Size()*i
			fn.I("%s %d(SI), %s", extend, v.Lanes*size*i, x)
			fn.I("VPSUBD %d(BX), %s, %s", at, x, x)
			fn.I("VCVTDQ2PS %s, %s", x, x)
			fn.I("VMULPS %d(AX), %s, %s", at, x, x)
			fn.I("VMOVUPS %s, %d(DI)", x, at)
		}
		nextColumns(fn, 64, 16*size)
	})
	fn.Ret()
}

// neonColumns writes these kernels for NEON.
func neonColumns(f *asm.File) {
	for _, words := range []bool{false, true} {
		neonQuantizeColumns(f, words)
	}
	f.Serve("quantizeColumns", asm.NEON(), "if words {\nquantizeColumnsWordsNEON(dst, src, scale, zero, least, most, step, n)\n} else {\n"+
		"quantizeColumnsBytesNEON(dst, src, scale, zero, least, most, step, n)\n}")
	code := "switch {\n"
	for _, x := range []struct{ when, kind, letter string }{{"case words && signed", "SignedWords", "s"}, {"case words", "UnsignedWords", "u"},
		{"case signed", "SignedBytes", "s"}, {"default", "UnsignedBytes", "u"}} {
		neonDequantizeColumns(f, x.kind, x.letter)
		code += x.when + ":\ndequantizeColumns" + x.kind + "NEON(dst, src, scale, zero, step, n)\n"
	}
	f.Serve("dequantizeColumns", asm.NEON(), code+"}")
}

// neonSixteen loads 16 elements at a register to four vectors from x on.
func neonSixteen(fn *asm.Func, at string, x int) {
	for i := 0; i < 4; i += 2 {
		fn.I("FLDPQ %d(%s), (F%d, F%d)", 16*i, at, x+i, x+i+1)
	}
}

func neonQuantizeColumns(f *asm.File, words bool) {
	name := map[bool]string{true: "quantizeColumnsWordsNEON", false: "quantizeColumnsBytesNEON"}[words]
	fn := f.Loaded(name, "rounds src/scale, adds zero and bounds it, for n groups of 16; n > 0. NaN counts as 0.",
		append(append([]asm.Arg{pointer("dst", "byte"), asm.Ptr("src")}, columnArgs...), asm.Int("least"), asm.Int("most"), asm.Int("step"), asm.Int("n"))...)
	fn.I("VDUP R4, V30.S4")
	fn.I("VDUP R5, V31.S4")
	fn.I("MOVW $%#x, R8", math.Float32bits(columnLimit))
	fn.I("VDUP R8, V29.S4")
	fn.I("MOVW $%#x, R8", math.Float32bits(-columnLimit))
	fn.I("VDUP R8, V28.S4")
	fn.Loop("R7", func() {
		neonSixteen(fn, "R1", 0)
		neonSixteen(fn, "R2", 4)
		neonSixteen(fn, "R3", 8)
		for i := range 4 {
			fn.V("fdiv.4s", i, i, 4+i)
			fn.V("fcmeq.4s", 4+i, i, i)
			fn.V("and.16b", i, i, 4+i)
			fn.V("fmax.4s", i, i, 28)
			fn.V("fmin.4s", i, i, 29)
			fn.V("fcvtns.4s", i, i)
			fn.V("add.4s", i, i, 8+i)
			fn.V("smax.4s", i, i, 30)
			fn.V("smin.4s", i, i, 31)
		}
		for i := range 2 {
			fn.V("xtn.4h", 4+i, 2*i)
			fn.V("xtn2.8h", 4+i, 2*i+1)
		}
		if words {
			fn.I("FSTPQ.P (F4, F5), 32(R0)")
		} else {
			fn.V("xtn.8b", 6, 4)
			fn.V("xtn2.16b", 6, 5)
			fn.I("FMOVQ.P F6, 16(R0)")
		}
		fn.I("ADD $64, R1")
		fn.I("ADD R6, R2")
		fn.I("ADD R6, R3")
	})
	fn.Ret()
}

func neonDequantizeColumns(f *asm.File, kind, letter string) {
	fn := f.Loaded("dequantizeColumns"+kind+"NEON", "writes (src - zero)*scale for n groups of 16; n > 0.",
		append(append([]asm.Arg{asm.Ptr("dst"), pointer("src", "byte")}, columnArgs...), asm.Int("step"), asm.Int("n"))...)
	fn.Loop("R5", func() {
		if kind == "SignedWords" || kind == "UnsignedWords" {
			fn.I("FLDPQ.P 32(R1), (F13, F14)")
		} else {
			fn.I("FMOVQ.P 16(R1), F12")
			fn.V(letter+"xtl.8h", 13, 12)
			fn.V(letter+"xtl2.8h", 14, 12)
		}
		neonSixteen(fn, "R2", 4)
		neonSixteen(fn, "R3", 8)
		for i := range 4 {
			fn.V(letter+[]string{"xtl.4s", "xtl2.4s"}[i%2], i, 13+i/2)
			fn.V("sub.4s", i, i, 8+i)
			fn.V("scvtf.4s", i, i)
			fn.V("fmul.4s", i, i, 4+i)
		}
		fn.I("FSTPQ.P (F0, F1), 32(R0)")
		fn.I("FSTPQ.P (F2, F3), 32(R0)")
		fn.I("ADD R4, R2")
		fn.I("ADD R4, R3")
	})
	fn.Ret()
}
