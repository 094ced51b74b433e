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
	fn.Loop("CX", func() {
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
				fn.I("VBROADCASTSS (R10), Y14")
				fn.I("VBROADCASTSS (R11), Y13")
				fn.I("VMULPS Y14, Y13, Y13")
			}
			fn.I("ADDQ $4, R10")
			fn.I("ADDQ R12, R11")
			fn.I("PREFETCHT0 1024(SI)")
			fn.Load("groups", "AX")
			fn.Loop("AX", func() {
				for part := 0; part < 16; part += v.Lanes {
					weights(fn, v, part)
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
		finish(fn, v, rows)
		fn.I("ADDQ $4, DX")
	})
	fn.Ret()
	return name
}

// heights are the numbers of rows that there are kernels for: two sums for each have to fit into registers.
func heights(v asm.ISA) []int {
	if v.Registers == 32 {
		return []int{1, 4, 8}
	}
	return []int{1, 4}
}

// digits is the table of the numbers that 4 bits stand for.
func digits(f *asm.File) string {
	words := make([]uint32, 16)
	for i := range words {
		words[i] = math.Float32bits(float32(i))
	}
	return f.Data("digits", words...)
}

// weights brings the weights in the lanes' bytes from part on into two vectors: those in lower halves, and those in upper halves. With
// enough lanes a vector holds what all 16 digits stand for in this block, and is looked up; else they are converted and scaled.
func weights(fn *asm.Func, v asm.ISA, part int) {
	if v.Masks {
		fn.I("VPMOVZXBD %d(SI), Z26", part)
		fn.I("VPERMPS Z30, Z26, Z24")
		fn.I("VPSRLD $4, Z26, Z26")
		fn.I("VPERMPS Z30, Z26, Z25")
		return
	}
	fn.I("VPMOVZXBD %d(SI), Y10", part)
	fn.I("VPSRLD $4, Y10, Y9")
	fn.I("VPAND Y15, Y10, Y8")
	for _, x := range []string{"Y8", "Y9"} {
		fn.I("VCVTDQ2PS %s, %s", x, x)
		fn.I("VFMSUB213PS Y13, Y14, %s", x)
	}
}

// finish adds the lanes of each row's sums and stores them.
func finish(fn *asm.Func, v asm.ISA, rows int) {
	fn.Load("ldd", "AX")
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
