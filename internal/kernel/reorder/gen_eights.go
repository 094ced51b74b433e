//go:build ignore

package main

import (
	"github.com/carve-dev/carve/internal/kernel/asm"
)

// eights writes the kernels of blocks of 8 channels. A cache line is two of their pixels: they write, and the wide ones read, whole lines.
func eights(f *asm.File) {
	fewPlanes(f)
	for _, isa := range []asm.ISA{asm.AVX512(), asm.AVX2()} {
		bits := 8 * isa.Size()
		for _, v := range []variant{{}, {stream: true}} {
			planesToEights(f, isa, v)
			eightsToPlanes(f, isa, v)
			pairEights(f, isa, v)
			partEights(f, isa, v)
		}
		for _, call := range []struct{ entry, args string }{{"planesToEights", "(dst, src, srcStride, ahead, n)"}, {"eightsToPlanes", "(dst, dstStride, src, n)"},
			{"pairEights", "(dst, dstStride, a, b, n)"}, {"partEights", "(a, b, src, srcStride, n)"}} {
			f.Serve(call.entry, isa, choose([]variant{{stream: true}, {}}, func(v variant) string { return v.name(call.entry, bits) + call.args }))
		}
		f.Serve("hasEights", isa, "return true")
	}
}

// quads transposes, in each 128-bit part of four registers from in on, 4x4 floats, to those from out on; it uses four from tmp on.
func quads(fn *asm.Func, reg func(int) string, in, out, tmp int) {
	for i, op := range []string{"VUNPCKLPS", "VUNPCKHPS"} {
		fn.I("%s %s, %s, %s", op, reg(in+1), reg(in), reg(tmp+2*i))
		fn.I("%s %s, %s, %s", op, reg(in+3), reg(in+2), reg(tmp+2*i+1))
	}
	for i := range 4 {
		fn.I("%s %s, %s, %s", []string{"VUNPCKLPD", "VUNPCKHPD"}[i%2], reg(tmp+i/2*2+1), reg(tmp+i/2*2), reg(out+i))
	}
}

// evenOdd loads indices for VPERMI2PS to the registers from r on. The first two take of two planes the even and the odd pixels of 8, by turns
// four of each plane, from pixel 0 and from pixel 8 on; the last two undo that, for the first and the second plane.
func evenOdd(f *asm.File, fn *asm.Func, r int) {
	var words []uint32
	for half := range uint32(2) {
		for i := range uint32(16) {
			words = append(words, i/4%2*16+8*half+i%4*2+i/8)
		}
	}
	for plane := range uint32(2) {
		for px := range uint32(16) {
			words = append(words, px/8*16+px%2*8+plane*4+px%8/2)
		}
	}
	f.Data("evenOdd", words...)
	for i := range 4 {
		fn.I("VMOVUPS %s, %s", asm.DataAt("evenOdd", 64*i), asm.Z(r+i))
	}
}

func planesToEights(f *asm.File, isa asm.ISA, v variant) {
	name := v.name("planesToEights", 8*isa.Size())
	fn := f.Func(name, name+` transposes 8 rows that lie srcStride bytes apart, n times 16 floats of each, to rows of 8 that adjoin. What lies
ahead bytes behind is asked for. n is at least 1.`+v.doc(), asm.Ptr("dst"), asm.Ptr("src"), asm.Int("srcStride"), asm.Int("ahead"), asm.Int("n"))
	fn.Load("dst", "DI")
	fn.Load("src", "SI")
	fn.Load("srcStride", "R9")
	fn.Load("ahead", "BX")
	fn.Load("n", "CX")
	load := func(at int) {
		fn.I("MOVQ SI, AX")
		for r := range 8 {
			fn.I("VMOVUPS %d(AX), %s", at, isa.R(r))
			if at == 0 {
				fn.I("PREFETCHT1 (AX)(BX*1)")
			}
			fn.I("ADDQ R9, AX")
		}
	}
	if isa.Lanes == 16 {
		evenOdd(f, fn, 28)
	}
	fn.Loop("CX", func() {
		if isa.Lanes == 16 {
			load(0)
			planeLines(fn)
			storeLines(fn, v, isa, 16, 0)
		} else {
			for i := range 2 {
				load(32 * i)
				shuffle8(fn)
				storeLines(fn, v, isa, 0, 256*i)
			}
		}
		fn.I("ADDQ $64, SI")
		fn.I("ADDQ $512, DI")
	})
	fn.Ret()
}

// storeLines stores eight registers one behind the other.
func storeLines(fn *asm.Func, v variant, isa asm.ISA, r, at int) {
	for i := range 8 {
		fn.I("%s %s, %d(DI)", v.store(), isa.R(r+i), at+isa.Size()*i)
	}
}

func eightsToPlanes(f *asm.File, isa asm.ISA, v variant) {
	name := v.name("eightsToPlanes", 8*isa.Size())
	fn := f.Func(name, name+` transposes n times 16 rows of 8 floats that adjoin to 8 rows that lie dstStride bytes apart. n is at least 1.`+v.doc(),
		asm.Ptr("dst"), asm.Int("dstStride"), asm.Ptr("src"), asm.Int("n"))
	fn.Load("dst", "DI")
	fn.Load("dstStride", "R8")
	fn.Load("src", "SI")
	fn.Load("n", "CX")
	if isa.Lanes == 16 {
		evenOdd(f, fn, 28)
	}
	fn.Loop("CX", func() {
		if isa.Lanes == 16 {
			for i := range 8 {
				fn.I("VMOVUPS %d(SI), Z%d", 64*i, i)
			}
			quads(fn, asm.Z, 0, 8, 24)
			quads(fn, asm.Z, 4, 12, 24)
		}
		fn.I("MOVQ DI, AX")
		for c := range 8 {
			switch {
			case isa.Lanes == 16:
				fn.I("VMOVDQA32 Z%d, Z16", 30+c/4)
				fn.I("VPERMI2PS Z%d, Z%d, Z16", 12+c%4, 8+c%4)
				fn.I("%s Z16, (AX)", v.store())
			case c%4 == 0:
				fourPlanes(fn, 4*c)
				fallthrough
			default:
				fn.I("%s Y%d, (AX)", v.store(), 4+c%4)
				fn.I("%s Y%d, 32(AX)", v.store(), 8+c%4)
			}
			fn.I("ADDQ R8, AX")
		}
		fn.I("ADDQ $512, SI")
		fn.I("ADDQ $64, DI")
	})
	fn.Ret()
}

// fourPlanes takes four channels, from at bytes behind (SI) on, of 16 pixels to Y4 to Y7, and Y8 to Y11.
func fourPlanes(fn *asm.Func, at int) {
	for i := range 2 {
		for px := range 4 {
			fn.I("VMOVUPS %d(SI), X%d", at+256*i+32*px, px)
			fn.I("VINSERTF128 $1, %d(SI), Y%d, Y%d", at+256*i+32*px+128, px, px)
		}
		quads(fn, asm.Y, 0, 4+4*i, 12)
	}
}

// fewPlanes writes the kernels of AVX-512 for planes whose rows fall into few sets of the first-level cache: transpositions of eight of them.
func fewPlanes(f *asm.File) {
	args := []asm.Arg{asm.Ptr("dst"), asm.Int("dstStride"), asm.Ptr("src"), asm.Int("srcStride"), asm.Int("n")}
	fn := f.Func("planesToRows512", "planesToRows512 transposes 8 rows that lie srcStride bytes apart, n times 16 floats of each, to rows of 8 that lie dstStride bytes apart.",
		args...)
	beginFewPlanes(f, fn)
	fn.Loop("CX", func() {
		fn.I("MOVQ SI, AX")
		for r := range 8 {
			fn.I("VMOVUPS (AX), Z%d", r)
			fn.I("ADDQ R9, AX")
		}
		planeLines(fn)
		for i := range 8 {
			fn.I("VMOVUPS Y%d, (DI)", 16+i)
			fn.I("VEXTRACTF64X4 $1, Z%d, (DI)(R8*1)", 16+i)
			fn.I("LEAQ (DI)(R8*2), DI")
		}
		fn.I("ADDQ $64, SI")
	})
	fn.Ret()
	fn = f.Func("rowsToPlanes512", "rowsToPlanes512 transposes n times 16 rows of 8 floats that lie srcStride bytes apart to 8 rows that lie dstStride bytes apart.",
		args...)
	beginFewPlanes(f, fn)
	fn.Loop("CX", func() {
		for i := range 8 {
			fn.I("VMOVUPS (SI), Y%d", i)
			fn.I("VINSERTF64X4 $1, (SI)(R9*1), Z%d, Z%d", i, i)
			fn.I("LEAQ (SI)(R9*2), SI")
		}
		quads(fn, asm.Z, 0, 8, 24)
		quads(fn, asm.Z, 4, 12, 24)
		fn.I("MOVQ DI, AX")
		for c := range 8 {
			fn.I("VMOVDQA32 Z%d, Z16", 30+c/4)
			fn.I("VPERMI2PS Z%d, Z%d, Z16", 12+c%4, 8+c%4)
			fn.I("VMOVUPS Z16, (AX)")
			fn.I("ADDQ R8, AX")
		}
		fn.I("ADDQ $64, DI")
	})
	fn.Ret()
	f.Serve("hasFewPlanes", asm.AVX512(), "return true")
	f.Serve("planesToRows", asm.AVX512(), "planesToRows512(dst, dstStride, src, srcStride, n)")
	f.Serve("rowsToPlanes", asm.AVX512(), "rowsToPlanes512(dst, dstStride, src, srcStride, n)")
}

func beginFewPlanes(f *asm.File, fn *asm.Func) {
	for _, load := range [][2]string{{"dst", "DI"}, {"dstStride", "R8"}, {"src", "SI"}, {"srcStride", "R9"}, {"n", "CX"}} {
		fn.Load(load[0], load[1])
	}
	evenOdd(f, fn, 28)
}

// planeLines makes of 8 rows of 16 floats, in Z0 to Z7, 16 rows of 8 in Z16 to Z23.
func planeLines(fn *asm.Func) {
	for i := range 8 {
		fn.I("VMOVDQA32 Z%d, Z%d", 28+i/4, 8+i)
		fn.I("VPERMI2PS Z%d, Z%d, Z%d", 4+i%4, i%4, 8+i)
	}
	for i := range 2 {
		quads(fn, asm.Z, 8+4*i, 16+4*i, 24)
	}
}

func pairEights(f *asm.File, isa asm.ISA, v variant) {
	name := v.name("pairEights", 8*isa.Size())
	fn := f.Func(name, name+` makes n rows of 16 floats, dstStride bytes apart, of rows of 8 at a and at b that adjoin. n is at least 1.`+v.doc(),
		asm.Ptr("dst"), asm.Int("dstStride"), asm.Ptr("a"), asm.Ptr("b"), asm.Int("n"))
	fn.Load("dst", "DI")
	fn.Load("dstStride", "R8")
	fn.Load("a", "SI")
	fn.Load("b", "BX")
	fn.Load("n", "CX")
	rows := func(n int) {
		fn.While("CX", n, func() {
			for i := range n {
				fn.I("VMOVUPS %d(SI), Y%d", 32*i, 2*i)
				if isa.Lanes == 16 {
					fn.I("VINSERTF64X4 $1, %d(BX), Z%d, Z%d", 32*i, 2*i, 2*i)
					fn.I("%s Z%d, (DI)", v.store(), 2*i)
				} else {
					fn.I("VMOVUPS %d(BX), Y%d", 32*i, 2*i+1)
					fn.I("%s Y%d, (DI)", v.store(), 2*i)
					fn.I("%s Y%d, 32(DI)", v.store(), 2*i+1)
				}
				fn.I("ADDQ R8, DI")
			}
			fn.I("ADDQ $%d, SI", 32*n)
			fn.I("ADDQ $%d, BX", 32*n)
		})
	}
	rows(4)
	rows(1)
	fn.Ret()
}

func partEights(f *asm.File, isa asm.ISA, v variant) {
	name := v.name("partEights", 8*isa.Size())
	fn := f.Func(name, name+` writes of n rows of 16 floats, srcStride bytes apart, the first halves to a, one behind the other, and the second to b.
n is at least 1.`+v.doc(), asm.Ptr("a"), asm.Ptr("b"), asm.Ptr("src"), asm.Int("srcStride"), asm.Int("n"))
	fn.Load("a", "DI")
	fn.Load("b", "BX")
	fn.Load("src", "SI")
	fn.Load("srcStride", "R9")
	fn.Load("n", "CX")
	fn.While("CX", 2, func() {
		if isa.Lanes == 16 {
			fn.I("VMOVUPS (SI), Z0")
			fn.I("VMOVUPS (SI)(R9*1), Z1")
			fn.I("VSHUFF64X2 $0x44, Z1, Z0, Z2")
			fn.I("VSHUFF64X2 $0xee, Z1, Z0, Z3")
			fn.I("%s Z2, (DI)", v.store())
			fn.I("%s Z3, (BX)", v.store())
		} else {
			for i, at := range []string{"(SI)", "(SI)(R9*1)", "32(SI)", "32(SI)(R9*1)"} {
				fn.I("VMOVUPS %s, Y%d", at, i)
			}
			for i := range 4 {
				fn.I("%s Y%d, %d(%s)", v.store(), i, i%2*32, []string{"DI", "BX"}[i/2])
			}
		}
		fn.I("LEAQ (SI)(R9*2), SI")
		fn.I("ADDQ $64, DI")
		fn.I("ADDQ $64, BX")
	})
	fn.While("CX", 1, func() { // the last of an odd number: half lines, which stores past the caches are not for
		for i, to := range []string{"DI", "BX"} {
			fn.I("VMOVUPS %d(SI), Y%d", 32*i, i)
			fn.I("VMOVUPS Y%d, (%s)", i, to)
		}
	})
	fn.Ret()
}
