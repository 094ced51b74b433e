//go:build ignore

package main

import (
	"fmt"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// runs writes the kernel that copies rows to such that do not begin at cache lines.
func runs(f *asm.File) {
	fn := f.Func("runs512", `runs512 copies rows of so many floats that start srcStride bytes apart to rows that start dstStride bytes apart, in whole cache lines but
for their ends. dst is a multiple of 4, and dstStride. What lies behind a row of src is read, less than a cache line. floats and rows are at least 1.`,
		asm.Ptr("dst"), asm.Int("dstStride"), asm.Ptr("src"), asm.Int("srcStride"), asm.Int("floats"), asm.Int("rows"))
	for _, load := range [][2]string{{"dst", "DI"}, {"dstStride", "R8"}, {"src", "SI"}, {"srcStride", "R9"}, {"floats", "R10"}, {"rows", "R11"}} {
		fn.Load(load[0], load[1])
	}
	fn.I("MOVL $-1, R13")
	part := func(floats string) {
		fn.I("BZHIL %s, R13, R12", floats)
		fn.I("KMOVW R12, K1")
		fn.I("VMOVUPS (BX), Z0")
		fn.I("VMOVUPS Z0, K1, (AX)")
	}
	fn.Loop("R11", func() {
		lines, done := fn.NewLabel("lines"), fn.NewLabel("done")
		fn.I("MOVQ DI, AX")
		fn.I("MOVQ SI, BX")
		fn.I("MOVQ R10, CX")
		fn.I("MOVQ DI, DX")
		fn.I("NEGQ DX")
		fn.I("ANDQ $63, DX")
		fn.I("JZ %s", lines)
		fn.I("SHRQ $2, DX") // floats in front of the first line
		fn.I("CMPQ DX, CX")
		fn.I("CMOVQGT CX, DX")
		part("DX")
		fn.I("LEAQ (AX)(DX*4), AX")
		fn.I("LEAQ (BX)(DX*4), BX")
		fn.I("SUBQ DX, CX")
		fn.Label(lines)
		for _, n := range []int{4, 1} {
			fn.While("CX", 16*n, func() {
				for i := range n {
					fn.I("VMOVUPS %d(BX), Z%d", 64*i, i)
				}
				for i := range n {
					fn.I("VMOVUPS Z%d, %d(AX)", i, 64*i)
				}
				fn.I("ADDQ $%d, BX", 64*n)
				fn.I("ADDQ $%d, AX", 64*n)
			})
		}
		fn.I("TESTQ CX, CX")
		fn.I("JZ %s", done)
		part("CX")
		fn.Label(done)
		fn.I("ADDQ R8, DI")
		fn.I("ADDQ R9, SI")
	})
	fn.Ret()
	f.Serve("copyRuns", asm.AVX512(), "runs512(dst, dstStride, src, srcStride, floats, rows)")
}

// weld writes the kernel that makes lines of rows that follow each other. A line is made of the last 16 floats of what went before, and of the next 16 of a
// row; behind the end of a row the floats that are not yet written move up.
func weld(f *asm.File) {
	fn := f.Func("weld512", `weld512 writes rows of so many floats one behind the other, in whole cache lines but for the first and the last. Of a row each 16 floats start
srcBlock bytes behind those before, of which the last are read as a whole too, and rows start srcRow bytes apart. dst is a multiple of 4; floats is at
least 16, and rows at least 1.`,
		asm.Ptr("dst"), asm.Ptr("src"), asm.Int("srcRow"), asm.Int("srcBlock"), asm.Int("floats"), asm.Int("rows"))
	for _, load := range [][2]string{{"dst", "DI"}, {"src", "SI"}, {"srcRow", "R8"}, {"srcBlock", "R9"}, {"floats", "R10"}, {"rows", "R11"}} {
		fn.Load(load[0], load[1])
	}
	numbers := make([]uint32, 32)
	for i := range numbers {
		numbers[i] = uint32(i)
	}
	f.Data("numbers", numbers...)
	// DX: how many floats of the line at DI there are. Z1: the last 16. Z2: where a line's floats are in those and the next 16; Z3: where the last 16
	// are, behind the end of a row.
	fn.I("LEAQ %s, R13", asm.DataAt("numbers", 64))
	fn.I("MOVQ R10, R12")
	fn.I("ANDQ $15, R12")
	fn.I("SHRQ $4, R10")
	fn.I("VMOVDQU32 -64(R13)(R12*4), Z3")
	fn.I("MOVQ DI, DX")
	fn.I("ANDQ $63, DX")
	fn.I("ANDQ $-64, DI")
	fn.I("SHRQ $2, DX")
	places := func() {
		fn.I("MOVQ DX, AX")
		fn.I("NEGQ AX")
		fn.I("VMOVDQU32 (R13)(AX*4), Z2")
	}
	// lines writes n lines, with the next n times 16 floats in Z4 to Z7, and the last of these in Z1 then.
	lines := func(n int, mask string) {
		for i := range n {
			fn.I("VMOVUPS (BX)%s, Z%d", []string{"", "(R9*1)", "(R9*2)", "(R15*1)"}[i], 4+i)
		}
		last := 1
		for i := range n {
			fn.I("VMOVDQA32 Z2, Z%d", 8+i)
			fn.I("VPERMI2PS Z%d, Z%d, Z%d", 4+i, last, 8+i)
			last = 4 + i
		}
		for i := range n {
			fn.I("VMOVUPS Z%d, %s%d(DI)", 8+i, mask, 64*i)
		}
		fn.I("ADDQ $%d, DI", 64*n)
	}
	places()
	fn.I("LEAQ (R9)(R9*2), R15")
	fn.I("MOVL $-1, AX")
	fn.I("MOVQ DX, CX")
	fn.I("SHLL CX, AX")
	fn.I("KMOVW AX, K1")
	fn.I("MOVQ SI, BX")
	fn.I("MOVQ R10, CX")
	fn.I("VPXORD Z1, Z1, Z1")
	lines(1, "K1, ")
	fn.I("VMOVDQA32 Z4, Z1")
	fn.I("ADDQ R9, BX")
	fn.I("DECQ CX")
	row, more := fn.NewLabel("row"), fn.NewLabel("more")
	fn.I("JMP %s", more)
	fn.Label(row)
	fn.I("MOVQ SI, BX")
	fn.I("MOVQ R10, CX")
	fn.Label(more)
	fn.While("CX", 4, func() {
		lines(4, "")
		fn.I("VMOVDQA32 Z7, Z1")
		fn.I("LEAQ (BX)(R9*4), BX")
	})
	fn.While("CX", 1, func() {
		lines(1, "")
		fn.I("VMOVDQA32 Z4, Z1")
		fn.I("ADDQ R9, BX")
	})
	next, some := fn.NewLabel("next"), fn.NewLabel("some")
	fn.I("TESTQ R12, R12")
	fn.I("JZ %s", next)
	fn.I("ADDQ R12, DX")
	fn.I("VMOVUPS (BX), Z4")
	fn.I("CMPQ DX, $16")
	fn.I("JLT %s", some)
	lines(1, "")
	fn.I("SUBQ $16, DX")
	fn.Label(some)
	fn.I("VMOVDQA32 Z3, Z5")
	fn.I("VPERMI2PS Z4, Z1, Z5")
	fn.I("VMOVDQA32 Z5, Z1")
	places()
	fn.Label(next)
	fn.I("ADDQ R8, SI")
	fn.I("DECQ R11")
	fn.I("JNZ %s", row)
	end := fn.NewLabel("end")
	fn.I("TESTQ DX, DX")
	fn.I("JZ %s", end)
	fn.I("MOVL $-1, AX")
	fn.I("BZHIL DX, AX, AX")
	fn.I("KMOVW AX, K1")
	fn.I("VPERMI2PS Z1, Z1, Z2")
	fn.I("VMOVUPS Z2, K1, (DI)")
	fn.Label(end)
	fn.Ret()
	f.Serve("weldRows", asm.AVX512(), "weld512(dst, src, srcRow, srcBlock, floats, rows)")
}

// partTiles writes the kernel of tiles with half the shuffles of others: parts of rows that lie four apart come to one register when they are read,
// four columns of all rows.
func partTiles(f *asm.File) {
	fn := f.Func("partTiles512", "partTiles512"+fmt.Sprintf(tilesDoc, 16), asm.Ptr("dst"), asm.Int("dstStride"), asm.Int("dstStep"), asm.Ptr("src"), asm.Int("srcStride"),
		asm.Int("srcStep"), asm.Int("n"))
	for _, load := range [][2]string{{"dst", "DI"}, {"dstStride", "R8"}, {"dstStep", "DX"}, {"src", "SI"}, {"srcStride", "R9"}, {"srcStep", "R13"}, {"n", "R12"}} {
		fn.Load(load[0], load[1])
	}
	fn.I("LEAQ (R9)(R9*2), R15")
	fn.I("LEAQ (SI)(R9*4), AX")
	fn.I("LEAQ (SI)(R9*8), BX")
	fn.I("LEAQ (AX)(R9*8), R14")
	fn.Loop("R12", func() {
		fn.I("MOVQ DI, R10")
		for four := range 4 {
			in, out := four%2*8, 16+four%2*4
			for r, row := range []string{"", "(R9*1)", "(R9*2)", "(R15*1)"} {
				fn.I("VMOVUPS %d(SI)%s, X%d", 16*four, row, in+r)
				fn.I("VINSERTF128 $1, %d(AX)%s, Y%d, Y%d", 16*four, row, in+r, in+r)
				fn.I("VINSERTF32X4 $2, %d(BX)%s, Z%d, Z%d", 16*four, row, in+r, in+r)
				fn.I("VINSERTF32X4 $3, %d(R14)%s, Z%d, Z%d", 16*four, row, in+r, in+r)
			}
			quads(fn, asm.Z, in, out, 24+four%2*4)
			for c := range 4 {
				fn.I("VMOVUPS Z%d, (R10)", out+c)
				fn.I("ADDQ R8, R10")
			}
		}
		for _, row := range []string{"SI", "AX", "BX", "R14"} {
			fn.I("ADDQ R13, %s", row)
		}
		fn.I("ADDQ DX, DI")
	})
	fn.Ret()
	f.Serve("partTiles", asm.AVX512(), "partTiles512(dst, dstStride, dstStep, src, srcStride, srcStep, n)")
}

// fourRows writes the kernel of tiles of one to four rows.
func fourRows(f *asm.File) {
	fn := f.Func("fourRows512", `fourRows512 writes one to four rows of 16 floats, srcStride bytes apart, as columns: of 16 rows of four that start dstStride bytes
apart. Columns of rows that are not there repeat the last one.`, asm.Ptr("dst"), asm.Int("dstStride"), asm.Ptr("src"), asm.Int("srcStride"), asm.Int("rows"))
	for _, load := range [][2]string{{"dst", "DI"}, {"dstStride", "R8"}, {"src", "SI"}, {"srcStride", "R9"}, {"rows", "CX"}} {
		fn.Load(load[0], load[1])
	}
	fn.I("XORL AX, AX")
	for r := range 4 {
		if r > 0 {
			fn.I("CMPQ CX, $%d", r)
			fn.I("CMOVQEQ AX, R9") // the last one
			fn.I("ADDQ R9, SI")
		}
		fn.I("VMOVUPS (SI), Z%d", r)
	}
	quads(fn, asm.Z, 0, 4, 8)
	fn.I("LEAQ (R8)(R8*2), R10")
	for four := range 4 {
		for c, at := range []string{"(DI)", "(DI)(R8*1)", "(DI)(R8*2)", "(DI)(R10*1)"} {
			if four == 0 {
				fn.I("VMOVUPS X%d, %s", 4+c, at)
			} else {
				fn.I("VEXTRACTF32X4 $%d, Z%d, %s", four, 4+c, at)
			}
		}
		if four < 3 {
			fn.I("LEAQ (DI)(R8*4), DI")
		}
	}
	fn.Ret()
	f.Serve("fourRows", asm.AVX512(), "fourRows512(dst, dstStride, src, srcStride, rows)")
}
