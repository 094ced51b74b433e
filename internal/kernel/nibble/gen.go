//go:build ignore

// Command gen writes the kernels of package nibble.
package main

import (
	"fmt"
	"math"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

func main() {
	asm.Main("nibble", asm.Table{Entries: []asm.Entry{{Name: "callDot",
		Doc:      "multiplies rows of floats, width apart, by n rows of weights, into rows ldd apart; zero points are step apart.",
		Params:   "rows int, dst *float32, ldd int, a *float32, width int, w *byte, scale, zero *float32, step, blocks, groups, n int",
		Portable: "genericDot(rows, dst, ldd, a, width, w, scale, zero, step, blocks, groups, n)"},
		{Name: "unpack", Doc: "writes two rows of 16 floats for each of n rows of bytes: of lower halves, and of upper ones.",
			Params: "dst *float32, src *byte, scale, zero *float32, n int", Portable: "genericUnpack(dst, src, scale, zero, n)"},
		{Name: "callRounded", Doc: "multiplies rows that were rounded by n rows of weights, where something multiplies bytes.",
			Params: "rows int, p *roundedParams, dst *float32, a, w *byte, scale, zero *float32, n int", Portable: `panic("nibble: no kernel multiplies bytes")`}}},
		asm.Unit{Base: "dot", Arch: "amd64", Generate: func(f *asm.File) {
			for _, v := range []asm.ISA{asm.AVX512(), asm.AVX2()} {
				code := "switch rows {\n"
				for _, rows := range heights(v) {
					name := dot(f, v, rows)
					code += fmt.Sprintf("case %d:\n%s(dst, 4*ldd, a, 4*width, w, scale, zero, 4*step, blocks, groups, n)\n", rows, name)
				}
				f.Serve("callDot", v, code+"}")
				f.Serve("unpack", v, unpack(f, v)+"(dst, src, scale, zero, n)")
			}
		}},
		asm.Unit{Base: "dot", Arch: "arm64", Generate: neon})
}

// Registers of dot: DX the result, DI the rows of floats, R13 the place in them and R15 that in the fifth, SI weights, R10 scales, R11 zero points and R12 how far
// these are apart, R8 the distance of rows and R9 three times that; CX, BX and AX count columns, blocks and groups.

// dot writes the kernel of some rows. Vectors 0 to 2·rows-1 are sums, two for each row: of even places and of odd ones.
func dot(f *asm.File, v asm.ISA, rows int) string {
	name := fmt.Sprintf("dot%d_%s", rows, map[bool]string{true: "512", false: "256"}[v.Masks])
	ptr := func(name, typ string) asm.Arg { return asm.Typed(name, "*"+typ) }
	fn := f.Func(name, fmt.Sprintf("%s multiplies %d rows by n rows of weights; distances are in bytes.", name, rows), ptr("dst", "float32"), asm.Int("ldd"),
		ptr("a", "float32"), asm.Int("lda"), ptr("w", "byte"), ptr("scale", "float32"), ptr("zero", "float32"), asm.Int("step"), asm.Int("blocks"),
		asm.Int("groups"), asm.Int("n"))
	for _, x := range [][2]string{{"dst", "DX"}, {"a", "DI"}, {"lda", "R8"}, {"w", "SI"}, {"scale", "R10"}, {"zero", "R11"}, {"step", "R12"}, {"n", "CX"}} {
		fn.Load(x[0], x[1])
	}
	fn.I("LEAQ (R8)(R8*2), R9")
	if v.Masks {
		fn.I("VMOVUPS %s, Z31", digits(f))
	} else {
		fn.I("VPCMPEQD Y15, Y15, Y15")
		fn.I("VPSRLD $28, Y15, Y15")
	}
	column := func() { column(fn, v, rows) }
	if rows == 1 && !v.Masks {
		distances(fn)
		fn.While("CX", 2, func() { pair(fn, v) })
		fn.While("CX", 1, column)
	} else {
		fn.Loop("CX", column)
	}
	fn.Ret()
	return name
}

// column emits the products of all rows with the next row of weights.
func column(fn *asm.Func, v asm.ISA, rows int) {
	for i := range 2 * rows {
		fn.Clear(v, v.R(i))
	}
	fn.I("MOVQ DI, R13")
	if rows > 4 {
		fn.I("LEAQ (DI)(R8*4), R15")
	}
	fn.Load("blocks", "BX")
	fn.Loop("BX", func() {
		if v.Masks {
			fn.I("VSUBPS.BCST (R11), Z31, Z30")
			fn.I("VMULPS.BCST (R10), Z30, Z30")
		} else {
			scaled(fn, "(R10)", "(R11)", 14, 13)
		}
		fn.I("ADDQ $4, R10")
		fn.I("ADDQ R12, R11")
		fn.I("PREFETCHT0 1024(SI)")
		fn.Load("groups", "AX")
		fn.Loop("AX", func() {
			for part := 0; part < 16; part += v.Lanes {
				if v.Masks {
					lookedUp(fn, part)
				} else {
					converted(fn, fmt.Sprintf("%d(SI)", part), 8, 14, 13)
				}
				for r := range rows {
					at := []string{"(R13)", "(R13)(R8*1)", "(R13)(R8*2)", "(R13)(R9*1)", "(R15)", "(R15)(R8*1)", "(R15)(R8*2)", "(R15)(R9*1)"}[r]
					even, odd := v.R(v.Registers-8), v.R(v.Registers-7)
					fn.I("VFMADD231PS %d%s, %s, %s", 4*part, at, even, v.R(2*r))
					fn.I("VFMADD231PS %d%s, %s, %s", 64+4*part, at, odd, v.R(2*r+1))
				}
			}
			fn.I("ADDQ $16, SI")
			fn.I("ADDQ $128, R13")
			if rows > 4 {
				fn.I("ADDQ $128, R15")
			}
		})
	})
	fn.Load("ldd", "AX")
	finish(fn, v, rows)
	fn.I("ADDQ $4, DX")
}

// distances loads how far rows of weights are apart to R8, their scales to R9, and their zero points to R15, which a single row of floats leaves free.
func distances(fn *asm.Func) {
	fn.Load("blocks", "AX")
	fn.I("LEAQ (AX*4), R9")
	fn.I("MOVQ R12, R15")
	fn.I("IMULQ AX, R15")
	fn.Load("groups", "R8")
	fn.I("IMULQ AX, R8")
	fn.I("SHLQ $4, R8")
}

// pair emits the products of one row of floats with the next two rows of weights, with AVX2: the two sums of one alone are done sooner than their additions, which wait for
// each other. Each sum is made as that of one.
func pair(fn *asm.Func, v asm.ISA) {
	for i := range 4 {
		fn.Clear(v, v.R(i))
	}
	fn.I("MOVQ DI, R13")
	fn.Load("blocks", "BX")
	fn.Loop("BX", func() {
		scaled(fn, "(R10)", "(R11)", 14, 13)
		scaled(fn, "(R10)(R9*1)", "(R11)(R15*1)", 12, 11)
		fn.I("ADDQ $4, R10")
		fn.I("ADDQ R12, R11")
		fn.I("PREFETCHT0 1024(SI)")
		fn.I("PREFETCHT0 1024(SI)(R8*1)")
		fn.Load("groups", "AX")
		fn.Loop("AX", func() {
			for part := 0; part < 16; part += v.Lanes {
				converted(fn, fmt.Sprintf("%d(SI)", part), 8, 14, 13)
				converted(fn, fmt.Sprintf("%d(SI)(R8*1)", part), 5, 12, 11)
				for half := range 2 {
					at := fmt.Sprintf("%d(R13)", 64*half+4*part)
					fn.I("VFMADD231PS %s, Y%d, Y%d", at, 8+half, half)
					fn.I("VFMADD231PS %s, Y%d, Y%d", at, 5+half, 2+half)
				}
			}
			fn.I("ADDQ $16, SI")
			fn.I("ADDQ $128, R13")
		})
	})
	fn.I("ADDQ R8, SI")
	fn.I("ADDQ R9, R10")
	fn.I("ADDQ R15, R11")
	fn.I("MOVQ $4, AX")
	finish(fn, v, 2)
	fn.I("ADDQ $8, DX")
}

// scaled loads a block's scale, and what its zero point takes off.
func scaled(fn *asm.Func, scaleAt, zeroAt string, scale, zero int) {
	fn.I("VBROADCASTSS %s, Y%d", scaleAt, scale)
	fn.I("VBROADCASTSS %s, Y%d", zeroAt, zero)
	fn.I("VMULPS Y%[1]d, Y%[2]d, Y%[2]d", scale, zero)
}

// heights are the numbers of rows that there are kernels for: two sums for each have to fit into registers.
func heights(v asm.ISA) []int {
	if v.Registers == 32 {
		return []int{1, 4, 8}
	}
	return []int{1, 2, 4}
}

// digits is the table of the numbers that 4 bits stand for.
func digits(f *asm.File) string {
	words := make([]uint32, 16)
	for i := range words {
		words[i] = math.Float32bits(float32(i))
	}
	return f.Data("digits", words...)
}

// lookedUp brings the weights in 16 bytes from part on into two vectors: those in lower halves, and those in upper halves. A vector holds what all 16 digits stand for in
// this block.
func lookedUp(fn *asm.Func, part int) {
	fn.I("VPMOVZXBD %d(SI), Z26", part)
	fn.I("VPERMPS Z30, Z26, Z24")
	fn.I("VPSRLD $4, Z26, Z26")
	fn.I("VPERMPS Z30, Z26, Z25")
}

// converted brings the weights in 8 bytes into two vectors of AVX2, the first of which is even: those in lower halves, and those in upper halves. The next vector is
// overwritten.
func converted(fn *asm.Func, at string, even, scale, zero int) {
	fn.I("VPMOVZXBD %s, Y%d", at, even+2)
	fn.I("VPSRLD $4, Y%d, Y%d", even+2, even+1)
	fn.I("VPAND Y15, Y%d, Y%d", even+2, even)
	for x := even; x < even+2; x++ {
		fn.I("VCVTDQ2PS Y%[1]d, Y%[1]d", x)
		fn.I("VFMSUB213PS Y%d, Y%d, Y%d", zero, scale, x)
	}
}

// finish adds the lanes of each row's sums and stores them, as far apart as AX says.
func finish(fn *asm.Func, v asm.ISA, rows int) {
	fn.I("LEAQ (AX)(AX*2), BX")
	fn.I("LEAQ (DX)(AX*4), R13")
	for r := range rows {
		fn.I("VADDPS %s, %s, %s", v.R(2*r+1), v.R(2*r), v.R(2*r))
		if v.Masks {
			fn.I("VEXTRACTF32X8 $1, Z%d, Y%d", 2*r, 2*r+1)
			fn.I("VADDPS Y%d, Y%d, Y%d", 2*r+1, 2*r, 2*r)
		}
		fn.I("VEXTRACTF128 $1, Y%d, X%d", 2*r, 2*r+1)
		fn.I("VADDPS X%d, X%d, X%d", 2*r+1, 2*r, 2*r)
		fn.I("VHADDPS X%d, X%d, X%d", 2*r, 2*r, 2*r)
		fn.I("VHADDPS X%d, X%d, X%d", 2*r, 2*r, 2*r)
		fn.I("VMOVSS X%d, %s", 2*r, []string{"(DX)", "(DX)(AX*1)", "(DX)(AX*2)", "(DX)(BX*1)", "(R13)", "(R13)(AX*1)", "(R13)(AX*2)", "(R13)(BX*1)"}[r])
	}
}

// unpack writes the kernel that makes floats of weights of 16 columns, a vector or two of them at a time, and returns its name. The
// last vector is of bits of a half, those before it are scales and zero points.
func unpack(f *asm.File, v asm.ISA) string {
	name := fmt.Sprintf("unpack_%d", 32*v.Lanes)
	ptr := func(name, typ string) asm.Arg { return asm.Typed(name, "*"+typ) }
	fn := f.Func(name, name+" writes two rows of 16 floats for each of n rows of bytes; n > 0.",
		ptr("dst", "float32"), ptr("src", "byte"), ptr("scale", "float32"), ptr("zero", "float32"), asm.Int("n"))
	for _, x := range [][2]string{{"dst", "DI"}, {"src", "SI"}, {"scale", "AX"}, {"zero", "BX"}, {"n", "CX"}} {
		fn.Load(x[0], x[1])
	}
	parts, last := 16/v.Lanes, v.Registers-1
	scale, zero := func(i int) string { return v.R(last - 1 - i) }, func(i int) string { return v.R(last - 1 - parts - i) }
	for i := range parts {
		fn.I("VMOVUPS %d(AX), %s", v.Size()*i, scale(i))
		fn.I("VMOVUPS %d(BX), %s", v.Size()*i, zero(i))
	}
	if v.Masks {
		fn.I("VPTERNLOGD $0xff, %[1]s, %[1]s, %[1]s", v.R(last))
	} else {
		fn.I("VPCMPEQD %[1]s, %[1]s, %[1]s", v.R(last))
	}
	fn.I("VPSRLD $28, %[1]s, %[1]s", v.R(last))
	and := map[bool]string{true: "VPANDD", false: "VPAND"}[v.Masks]
	fn.Loop("CX", func() {
		for i := range parts {
			low, high := v.R(2*i), v.R(2*i+1)
			fn.I("VPMOVZXBD %d(SI), %s", v.Lanes*i, low)
			fn.I("VPSRLD $4, %s, %s", low, high)
			fn.I("%s %s, %s, %s", and, v.R(last), low, low)
			for half, x := range []string{low, high} {
				fn.I("VCVTDQ2PS %[1]s, %[1]s", x)
				fn.I("VSUBPS %s, %s, %s", zero(i), x, x)
				fn.I("VMULPS %s, %s, %s", scale(i), x, x)
				fn.I("VMOVUPS %s, %d(DI)", x, 64*half+v.Size()*i)
			}
		}
		fn.I("ADDQ $16, SI")
		fn.I("ADDQ $128, DI")
	})
	fn.Ret()
	return name
}
