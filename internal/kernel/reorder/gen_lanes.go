//go:build ignore

package main

import (
	"fmt"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

func copyArgs() []asm.Arg {
	return []asm.Arg{asm.Ptr("dst"), asm.Int("dstStride"), asm.Ptr("src"), asm.Int("srcStride"), asm.Int("lanes"), asm.Int("stored"), asm.Int("n")}
}

const copyDoc = ` copies n rows of lanes floats (at most 16) that start srcStride bytes apart to rows that start dstStride bytes
apart, and stores zeros behind them up to stored floats. n is at least 1.`

func copy512(f *asm.File) {
	fn := f.Func("copy512", "copy512"+copyDoc, copyArgs()...)
	fn.Load("dst", "DI")
	fn.Load("dstStride", "R8")
	fn.Load("src", "SI")
	fn.Load("srcStride", "R9")
	fn.Load("lanes", "R10")
	fn.Load("stored", "R11")
	lowBits(fn, "R10", "AX", "K1")
	lowBits(fn, "R11", "AX", "K2")
	fn.Load("n", "R12")
	row := func(store string) {
		fn.I("VMOVUPS.Z (SI), K1, Z0")
		fn.I("%s", store)
		fn.I("ADDQ R9, SI")
		fn.I("ADDQ R8, DI")
	}
	// Masked stores are slow. Where rows of two to four floats adjoin, a row is written over what is too much of the one before.
	fn.I("LEAQ -2(R11), AX")
	fn.I("CMPQ AX, $2")
	fn.I("JHI masked")
	fn.I("LEAQ (R11*4), AX")
	fn.I("CMPQ AX, R8")
	fn.I("JNE masked")
	fn.I("MOVQ R12, CX")
	fn.I("DECQ CX")
	fn.I("JZ masked")
	fn.I("MOVQ $1, R12")
	fn.Loop("CX", func() { row("VMOVUPS X0, (DI)") })
	fn.Label("masked")
	fn.Loop("R12", func() { row("VMOVUPS Z0, K2, (DI)") })
	fn.Ret()
	f.Serve("copyLanes", asm.AVX512(), "copy512(dst, dstStride, src, srcStride, lanes, stored, n)")
}

// copy256 writes the copies of AVX2. Masked stores take some 20 cycles on several processors: rows of five floats and more are copied in two parts that
// overlap, where they have as many lanes as are stored.
func copy256(f *asm.File) {
	fn := f.Func("copy256", "copy256"+copyDoc+" stored is lanes, 8 or 16.", copyArgs()...)
	for _, load := range [][2]string{{"dst", "DI"}, {"dstStride", "R8"}, {"src", "SI"}, {"srcStride", "R9"}, {"lanes", "R10"}, {"stored", "R11"}, {"n", "R12"}} {
		fn.Load(load[0], load[1])
	}
	rows := func(body func()) {
		fn.Loop("R12", func() {
			body()
			fn.I("ADDQ R9, SI")
			fn.I("ADDQ R8, DI")
		})
		fn.Ret()
	}
	more := fn.NewLabel("more")
	fn.I("CMPQ R10, R11")
	fn.I("JNE %s", more)
	// The two parts of a row.
	twice := func(floats int, reg string) {
		rows(func() {
			fn.I("VMOVUPS (SI), %s0", reg)
			fn.I("VMOVUPS %d(SI)(R10*4), %s1", -4*floats, reg)
			fn.I("VMOVUPS %s0, (DI)", reg)
			fn.I("VMOVUPS %s1, %d(DI)(R10*4)", reg, -4*floats)
		})
	}
	fours, three, two, one := fn.NewLabel("fours"), fn.NewLabel("three"), fn.NewLabel("two"), fn.NewLabel("one")
	fn.I("CMPQ R10, $8")
	fn.I("JLT %s", fours)
	twice(8, "Y")
	fn.Label(fours)
	for _, few := range []struct {
		floats int
		label  string
	}{{3, three}, {2, two}, {1, one}} {
		fn.I("CMPQ R10, $%d", few.floats)
		fn.I("JEQ %s", few.label)
	}
	twice(4, "X")
	fn.Label(three)
	rows(func() {
		fn.I("MOVQ (SI), AX")
		fn.I("MOVL 8(SI), BX")
		fn.I("MOVQ AX, (DI)")
		fn.I("MOVL BX, 8(DI)")
	})
	fn.Label(two)
	rows(func() {
		fn.I("MOVQ (SI), AX")
		fn.I("MOVQ AX, (DI)")
	})
	fn.Label(one)
	rows(func() {
		fn.I("MOVL (SI), AX")
		fn.I("MOVL AX, (DI)")
	})
	// Zeros behind the lanes.
	fn.Label(more)
	fn.I("LEAQ %s, AX", laneMasks(f))
	fn.I("MOVQ $16, CX")
	fn.I("SUBQ R10, CX")
	fn.I("VMOVUPS (AX)(CX*4), Y12")
	fn.I("VMOVUPS 32(AX)(CX*4), Y13")
	fn.I("VXORPS X1, X1, X1")
	eight, few := fn.NewLabel("eight"), fn.NewLabel("few")
	fn.I("CMPQ R11, $8")
	fn.I("JEQ %s", eight)
	fn.I("CMPQ R10, $8")
	fn.I("JLE %s", few)
	rows(func() {
		fn.I("VMOVUPS (SI), Y0")
		fn.I("VMASKMOVPS 32(SI), Y13, Y1")
		fn.I("VMOVUPS Y0, (DI)")
		fn.I("VMOVUPS Y1, 32(DI)")
	})
	fn.Label(few)
	rows(func() {
		fn.I("VMASKMOVPS (SI), Y12, Y0")
		fn.I("VMOVUPS Y0, (DI)")
		fn.I("VMOVUPS Y1, 32(DI)")
	})
	fn.Label(eight)
	rows(func() {
		fn.I("VMASKMOVPS (SI), Y12, Y0")
		fn.I("VMOVUPS Y0, (DI)")
	})
	f.Serve("copyLanes", asm.AVX2(), "copy256(dst, dstStride, src, srcStride, lanes, stored, n)")
}

// eights256 writes the copies of rows of 8 floats for both sets.
func eights256(f *asm.File) {
	variants := []variant{{stream: true}, {}}
	for _, v := range variants {
		oneOfEights(f, v)
	}
	for _, isa := range []asm.ISA{asm.AVX512(), asm.AVX2()} {
		f.Serve("moveEights", isa, choose(variants, func(v variant) string { return v.name("eights", 256) + "(dst, dstStride, src, srcStride, n)" }))
	}
}

func oneOfEights(f *asm.File, v variant) {
	name := v.name("eights", 256)
	doc := ""
	if v.stream {
		doc = "\nStores bypass the caches: dst and dstStride are multiples of 32, rows should adjoin, and storeFence has to follow."
	}
	fn := f.Func(name, name+" copies n rows of 8 floats that start srcStride bytes apart to rows that start dstStride bytes apart. n is at least 1."+doc,
		asm.Ptr("dst"), asm.Int("dstStride"), asm.Ptr("src"), asm.Int("srcStride"), asm.Int("n"))
	fn.Load("dst", "DI")
	fn.Load("dstStride", "R8")
	fn.Load("src", "SI")
	fn.Load("srcStride", "R9")
	fn.Load("n", "CX")
	fn.I("LEAQ (R8)(R8*2), R10")
	fn.I("LEAQ (R9)(R9*2), R11")
	fn.While("CX", 4, func() {
		for i, at := range []string{"(SI)", "(SI)(R9*1)", "(SI)(R9*2)", "(SI)(R11*1)"} {
			fn.I("VMOVUPS %s, Y%d", at, i)
		}
		for i, at := range []string{"(DI)", "(DI)(R8*1)", "(DI)(R8*2)", "(DI)(R10*1)"} {
			fn.I("%s Y%d, %s", v.store(), i, at)
		}
		fn.I("LEAQ (SI)(R9*4), SI")
		fn.I("LEAQ (DI)(R8*4), DI")
	})
	fn.While("CX", 1, func() {
		fn.I("VMOVUPS (SI), Y0")
		fn.I("%s Y0, (DI)", v.store())
		fn.I("ADDQ R9, SI")
		fn.I("ADDQ R8, DI")
	})
	fn.Ret()
}

func gatherArgs() []asm.Arg {
	return []asm.Arg{asm.Ptr("dst"), asm.Ptr("a"), asm.Ptr("b"), asm.Typed("m", "*mixture"), asm.Int("keep"), asm.Int("n")}
}

const gatherDoc = ` computes n pixels of %d channels from two source blocks as m says. With keep 1, lanes that m does not name keep
what dst holds; with 0 they become zero. n is at least 1.`

func gather512(f *asm.File) {
	fn := f.Func("gather512", "gather512"+fmt.Sprintf(gatherDoc, 16), gatherArgs()...)
	fn.Load("dst", "DI")
	fn.Load("a", "SI")
	fn.Load("b", "BX")
	fn.Load("m", "DX")
	fn.I("VMOVDQU32 (DX), Z31")
	fn.I("VPMOVD2M Z31, K2") // bit 31 set: the lane is not named
	fn.I("KNOTW K2, K1")
	fn.Load("n", "CX")
	fn.Load("keep", "AX")
	fn.I("TESTQ AX, AX")
	fn.I("JNE keep")
	fn.Loop("CX", func() {
		fn.I("VMOVUPS (SI), Z0")
		fn.I("VMOVDQA32 Z31, Z1")
		fn.I("VPERMI2PS.Z (BX), Z0, K1, Z1")
		fn.I("VMOVUPS Z1, (DI)")
		fn.I("ADDQ $64, SI")
		fn.I("ADDQ $64, BX")
		fn.I("ADDQ $64, DI")
	})
	fn.Ret()
	fn.Label("keep")
	fn.Loop("CX", func() {
		fn.I("VMOVUPS (SI), Z0")
		fn.I("VMOVDQA32 Z31, Z1")
		fn.I("VPERMI2PS (BX), Z0, Z1")
		fn.I("VMOVUPS Z1, K1, (DI)")
		fn.I("ADDQ $64, SI")
		fn.I("ADDQ $64, BX")
		fn.I("ADDQ $64, DI")
	})
	fn.Ret()
}

// gather256 makes each half of the result from the four halves of the sources: permuted all alike by the low three bits of
// the index, chosen by bits 3 and 4.
func gather256(f *asm.File) {
	fn := f.Func("gather256", "gather256"+fmt.Sprintf(gatherDoc, 16), gatherArgs()...)
	fn.Load("dst", "DI")
	fn.Load("a", "SI")
	fn.Load("b", "BX")
	fn.Load("m", "DX")
	for h := range 2 {
		fn.I("VMOVDQU %d(DX), Y%d", 32*h, 12+h)  // index; bit 31: not named
		fn.I("VPSLLD $28, Y%d, Y%d", 12+h, 10+h) // sign: bit 3, the half
		fn.I("VPSLLD $27, Y%d, Y%d", 12+h, 8+h)  // sign: bit 4, the source
	}
	fn.Load("n", "CX")
	fn.Load("keep", "AX")
	fn.Loop("CX", func() {
		named := fn.NewLabel("named")
		done := fn.NewLabel("done")
		for h := range 2 {
			fn.I("VPERMPS (SI), Y%d, Y0", 12+h)
			fn.I("VPERMPS 32(SI), Y%d, Y1", 12+h)
			fn.I("VPERMPS (BX), Y%d, Y2", 12+h)
			fn.I("VPERMPS 32(BX), Y%d, Y3", 12+h)
			fn.I("VBLENDVPS Y%d, Y1, Y0, Y0", 10+h)
			fn.I("VBLENDVPS Y%d, Y3, Y2, Y2", 10+h)
			fn.I("VBLENDVPS Y%d, Y2, Y0, Y%d", 8+h, 4+h)
		}
		fn.I("VXORPS Y6, Y6, Y6")
		fn.I("VXORPS Y7, Y7, Y7")
		fn.I("TESTQ AX, AX")
		fn.I("JEQ %s", named)
		fn.I("VMOVUPS (DI), Y6")
		fn.I("VMOVUPS 32(DI), Y7")
		fn.Label(named)
		fn.I("VBLENDVPS Y12, Y6, Y4, Y4")
		fn.I("VBLENDVPS Y13, Y7, Y5, Y5")
		fn.I("VMOVUPS Y4, (DI)")
		fn.I("VMOVUPS Y5, 32(DI)")
		fn.Label(done)
		fn.I("ADDQ $64, SI")
		fn.I("ADDQ $64, BX")
		fn.I("ADDQ $64, DI")
	})
	fn.Ret()
}

// gatherEights makes blocks of 8: both sources are permuted by the low three bits of the index, and bit 3 chooses.
func gatherEights(f *asm.File) {
	fn := f.Func("gatherEights", "gatherEights"+fmt.Sprintf(gatherDoc, 8), gatherArgs()...)
	fn.Load("dst", "DI")
	fn.Load("a", "SI")
	fn.Load("b", "BX")
	fn.Load("m", "DX")
	fn.I("VMOVDQU (DX), Y12")    // index; bit 31: not named
	fn.I("VPSLLD $28, Y12, Y10") // sign: bit 3, the source
	fn.I("VPSRAD $31, Y12, Y11") // all ones: not named
	fn.Load("n", "CX")
	fn.Load("keep", "AX")
	choose := func() {
		fn.I("VPERMPS (SI), Y12, Y0")
		fn.I("VPERMPS (BX), Y12, Y1")
		fn.I("VBLENDVPS Y10, Y1, Y0, Y0")
	}
	next := func() {
		fn.I("VMOVUPS Y0, (DI)")
		fn.I("ADDQ $32, SI")
		fn.I("ADDQ $32, BX")
		fn.I("ADDQ $32, DI")
	}
	fn.I("TESTQ AX, AX")
	fn.I("JNE keep")
	fn.Loop("CX", func() {
		choose()
		fn.I("VANDNPS Y0, Y11, Y0")
		next()
	})
	fn.Ret()
	fn.Label("keep")
	fn.Loop("CX", func() {
		choose()
		fn.I("VMOVUPS (DI), Y2")
		fn.I("VBLENDVPS Y11, Y2, Y0, Y0")
		next()
	})
	fn.Ret()
}

// gatherLanes serves choices of channels. Blocks of 8 are half a register of AVX-512's.
func gatherLanes(f *asm.File) {
	call := func(wide string) string {
		return "if w == 16 {\n" + wide + "(dst, a, b, m, keep, n)\n} else {\ngatherEights(dst, a, b, m, keep, n)\n}"
	}
	f.Serve("gatherLanes", asm.AVX512(), call("gather512"))
	f.Serve("gatherLanes", asm.AVX2(), call("gather256"))
}
