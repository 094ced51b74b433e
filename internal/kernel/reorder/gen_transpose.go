//go:build ignore

package main

import (
	"fmt"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// transposeArgs are the arguments of both transposing kernels.
func transposeArgs() []asm.Arg {
	return []asm.Arg{asm.Ptr("dst"), asm.Int("dstStride"), asm.Int("dstStep"), asm.Ptr("src"), asm.Int("srcStride"), asm.Int("srcStep"),
		asm.Int("rows"), asm.Int("cols"), asm.Int("lanes"), asm.Int("n")}
}

const transposeDoc = ` transposes n tiles. A tile has rows by cols floats, at most %[1]d each: row r
starts at src + r*srcStride bytes, and its transpose is stored as cols rows of lanes floats (rows <= lanes; what is behind
rows is zero) at dst + c*dstStride bytes. From tile to tile src moves by srcStep bytes and dst by dstStep. n is at least 1.`

func begin(fn *asm.Func) {
	fn.Load("dst", "DI")
	fn.Load("dstStride", "R8")
	fn.Load("src", "SI")
	fn.Load("srcStride", "R9")
	fn.Load("rows", "R10")
	fn.Load("cols", "R11")
	fn.Load("n", "R12")
}

// transpose512 transposes 16x16 tiles in four rounds of 16 shuffles.
func transpose512(f *asm.File) {
	fn := f.Func("transpose512", "transpose512"+fmt.Sprintf(transposeDoc, 16), transposeArgs()...)
	begin(fn)
	fn.Load("lanes", "DX")
	lowBits(fn, "R11", "AX", "K1")
	lowBits(fn, "DX", "AX", "K2")
	fn.Load("srcStep", "R13")
	fn.Load("dstStep", "DX")
	fn.Loop("R12", func() {
		loaded := fn.NewLabel("loaded")
		zero := fn.NewLabel("zero")
		fn.I("CMPQ R10, $16")
		fn.I("JLT %s", zero)
		row := func(r int) {
			if r == 0 {
				fn.I("MOVQ SI, AX")
			} else {
				fn.I("ADDQ R9, AX")
			}
			fn.I("VMOVUPS.Z (AX), K1, Z%d", r)
		}
		for r := range 16 {
			row(r)
		}
		fn.I("JMP %s", loaded)
		fn.Label(zero)
		for r := range 16 {
			fn.I("VPXORD Z%d, Z%d, Z%d", r, r, r)
		}
		for r := range 15 {
			fn.I("CMPQ R10, $%d", r)
			fn.I("JLE %s", loaded)
			row(r)
		}
		fn.Label(loaded)
		shuffle16(fn)
		stored := fn.NewLabel("stored")
		part := fn.NewLabel("part")
		store := func(c int) {
			if c == 0 {
				fn.I("MOVQ DI, AX")
			} else {
				fn.I("ADDQ R8, AX")
			}
			fn.I("VMOVUPS Z%d, K2, (AX)", c)
		}
		fn.I("CMPQ R11, $16")
		fn.I("JLT %s", part)
		for c := range 16 {
			store(c)
		}
		fn.I("JMP %s", stored)
		fn.Label(part)
		for c := range 15 {
			fn.I("CMPQ R11, $%d", c)
			fn.I("JLE %s", stored)
			store(c)
		}
		fn.Label(stored)
		fn.I("ADDQ R13, SI")
		fn.I("ADDQ DX, DI")
	})
	fn.Ret()
	serveTranspose(f, asm.AVX512(), "transpose512", 16)
}

// serveTranspose makes a kernel for tiles of that side known.
func serveTranspose(f *asm.File, v asm.ISA, name string, side int) {
	f.Serve("tileSide", v, fmt.Sprint("return ", side))
	f.Serve("transposeTiles", v, name+"(dst, dstStride, dstStep, src, srcStride, srcStep, rows, cols, lanes, n)")
}

// shuffle16 transposes Z0..Z15, using Z16..Z31.
func shuffle16(fn *asm.Func) {
	// Pairs of rows interleaved: Z16+r from Z0..Z15.
	for r := 0; r < 16; r += 2 {
		fn.I("VUNPCKLPS Z%d, Z%d, Z%d", r+1, r, 16+r)
		fn.I("VUNPCKHPS Z%d, Z%d, Z%d", r+1, r, 17+r)
	}
	// Rows 4i..4i+3: Z(4i+j) has columns j, 4+j, 8+j, 12+j of four rows, one per 128-bit part.
	for i := range 4 {
		a := 16 + 4*i
		fn.I("VUNPCKLPD Z%d, Z%d, Z%d", a+2, a, 4*i)
		fn.I("VUNPCKHPD Z%d, Z%d, Z%d", a+2, a, 4*i+1)
		fn.I("VUNPCKLPD Z%d, Z%d, Z%d", a+3, a+1, 4*i+2)
		fn.I("VUNPCKHPD Z%d, Z%d, Z%d", a+3, a+1, 4*i+3)
	}
	// 4x4 transposes of 128-bit parts among Z(j), Z(4+j), Z(8+j), Z(12+j).
	for j := range 4 {
		fn.I("VSHUFF32X4 $0x88, Z%d, Z%d, Z%d", 4+j, j, 16+j)    // parts 0 and 2 of rows 0-7
		fn.I("VSHUFF32X4 $0xdd, Z%d, Z%d, Z%d", 4+j, j, 20+j)    // parts 1 and 3
		fn.I("VSHUFF32X4 $0x88, Z%d, Z%d, Z%d", 12+j, 8+j, 24+j) // of rows 8-15
		fn.I("VSHUFF32X4 $0xdd, Z%d, Z%d, Z%d", 12+j, 8+j, 28+j)
	}
	for j := range 4 {
		fn.I("VSHUFF32X4 $0x88, Z%d, Z%d, Z%d", 24+j, 16+j, j)
		fn.I("VSHUFF32X4 $0x88, Z%d, Z%d, Z%d", 28+j, 20+j, 4+j)
		fn.I("VSHUFF32X4 $0xdd, Z%d, Z%d, Z%d", 24+j, 16+j, 8+j)
		fn.I("VSHUFF32X4 $0xdd, Z%d, Z%d, Z%d", 28+j, 20+j, 12+j)
	}
}

// laneMasks is a table of 16 ones and 16 zeros: at 4*(16-n) starts a mask of n lanes.
func laneMasks(f *asm.File) string {
	words := make([]uint32, 32)
	for i := range 16 {
		words[i] = 0xffffffff
	}
	f.Data("laneMasks", words...)
	return "laneMasks<>(SB)"
}

// transpose256 transposes 8x8 tiles. Masked stores take some 20 cycles on several processors: results of fewer lanes are stored in two parts that
// overlap, and full tiles and those of few rows or columns have loops of their own.
func transpose256(f *asm.File) {
	fn := f.Func("transpose256", "transpose256"+fmt.Sprintf(transposeDoc, 8), transposeArgs()...)
	begin(fn)
	fn.Load("srcStep", "R13")
	fn.Load("dstStep", "DX")
	fn.Load("lanes", "BX")
	ragged := fn.NewLabel("ragged")
	for _, count := range []string{"R10", "R11", "BX"} {
		fn.I("CMPQ %s, $8", count)
		fn.I("JNE %s", ragged)
	}
	tile := func(body func()) {
		fn.Loop("R12", func() {
			body()
			fn.I("ADDQ R13, SI")
			fn.I("ADDQ DX, DI")
		})
		fn.Ret()
	}
	tile(func() {
		fn.I("MOVQ SI, AX")
		for r := range 8 {
			fn.I("VMOVUPS (AX), Y%d", r)
			fn.I("ADDQ R9, AX")
		}
		shuffle8(fn)
		storeColumns(fn, "", func(c int) { fn.I("VMOVUPS Y%d, (AX)", c) })
	})
	fn.Label(ragged)
	masks := laneMasks(f)
	fn.I("LEAQ %s, AX", masks)
	fn.I("MOVQ $16, CX")
	fn.I("SUBQ R11, CX")
	fn.I("VMOVUPS (AX)(CX*4), Y14") // of a row
	short := fn.NewLabel("short")
	fn.I("CMPQ BX, $8")
	fn.I("JNE %s", short)
	fewRows, fewColumns, any := fn.NewLabel("fewRows"), fn.NewLabel("fewColumns"), fn.NewLabel("any")
	fn.I("CMPQ R10, $4")
	fn.I("JLE %s", fewRows)
	fn.I("CMPQ R11, $4")
	fn.I("JLE %s", fewColumns)
	fn.Label(any)
	tile(func() {
		loadRagged(fn, 8)
		shuffle8(fn)
		storeColumns(fn, "R11", func(c int) { fn.I("VMOVUPS Y%d, (AX)", c) })
	})
	fewRowsTile(fn, fewRows, tile)
	fn.Label(fewColumns)
	fn.I("CMPQ R10, $8")
	fn.I("JNE %s", any)
	tile(func() {
		fn.I("MOVQ SI, AX")
		for half := range 2 {
			for r := range 4 {
				fn.I("VMASKMOVPS (AX), X14, X%d", 4*half+r)
				fn.I("ADDQ R9, AX")
			}
		}
		for r := range 4 {
			fn.I("VINSERTF128 $1, X%d, Y%d, Y%d", 4+r, r, r)
		}
		quads(fn, asm.Y, 0, 4, 8)
		storeColumns(fn, "R11", func(c int) {
			if c < 4 {
				fn.I("VMOVUPS Y%d, (AX)", 4+c)
			}
		})
	})
	fn.Label(short)
	shortColumns(f, fn, tile)
	serveTranspose(f, asm.AVX2(), "transpose256", 8)
}

// loadRagged loads rows of a tile, at most so many, of as many floats as Y14 says, to registers from Y0 on. Those that are not there become zero.
func loadRagged(fn *asm.Func, most int) {
	loaded := fn.NewLabel("loaded")
	for r := range most {
		fn.I("VXORPS X%d, X%d, X%d", r, r, r)
	}
	fn.I("MOVQ SI, AX")
	for r := range most {
		fn.I("CMPQ R10, $%d", r)
		fn.I("JLE %s", loaded)
		fn.I("VMASKMOVPS (AX), Y14, Y%d", r)
		fn.I("ADDQ R9, AX")
	}
	fn.Label(loaded)
}

// storeColumns emits stores of eight columns to (AX), or of as many as a register says.
func storeColumns(fn *asm.Func, columns string, store func(c int)) {
	stored := fn.NewLabel("stored")
	fn.I("MOVQ DI, AX")
	for c := range 8 {
		if columns != "" {
			fn.I("CMPQ %s, $%d", columns, c)
			fn.I("JLE %s", stored)
		}
		store(c)
		fn.I("ADDQ R8, AX")
	}
	fn.Label(stored)
}

// fewRowsTile emits the loops of tiles of up to four rows to columns of eight lanes, of which the last four are zero, and so are all without rows.
func fewRowsTile(fn *asm.Func, begin string, tile func(func())) {
	none := fn.NewLabel("none")
	fn.Label(begin)
	for r := range 4 {
		fn.I("VXORPS X%d, X%d, X%d", r, r, r)
	}
	fn.I("TESTQ R10, R10")
	fn.I("JZ %s", none)
	tile(func() {
		loadRagged(fn, 4)
		quads(fn, asm.Y, 0, 4, 8)
		for c := range 4 {
			fn.I("VEXTRACTF128 $1, Y%d, X%d", 4+c, 8+c)
			fn.I("VMOVAPS X%d, X%d", 4+c, 4+c) // and zeros behind it
		}
		storeColumns(fn, "R11", func(c int) { fn.I("VMOVUPS Y%d, (AX)", 4+c) })
	})
	fn.Label(none)
	tile(func() { storeColumns(fn, "R11", func(int) { fn.I("VMOVUPS Y0, (AX)") }) })
}

// shortColumns emits the loops of tiles whose columns have fewer than eight lanes.
func shortColumns(f *asm.File, fn *asm.Func, tile func(func())) {
	numbers := make([]uint32, 16) // at 4*n starts n, n+1, …
	for i := range numbers {
		numbers[i] = uint32(i)
	}
	f.Data("laneNumbers", numbers...)
	fn.I("LEAQ %s, AX", "laneNumbers<>(SB)")
	fn.I("VMOVUPS -16(AX)(BX*4), Y15") // the last four of so many lanes
	var labels [5]string
	for lanes := 1; lanes <= 4; lanes++ {
		labels[lanes] = fn.NewLabel("lanes")
		fn.I("CMPQ BX, $%d", lanes)
		fn.I("JEQ %s", labels[lanes])
	}
	tile(func() {
		loadRagged(fn, 8)
		shuffle8(fn)
		storeColumns(fn, "R11", func(c int) {
			fn.I("VMOVUPS X%d, (AX)", c)
			fn.I("VPERMPS Y%d, Y15, Y%d", c, c)
			fn.I("VMOVUPS X%d, -16(AX)(BX*4)", c)
		})
	})
	short := func(lanes int, store func(c int)) {
		fn.Label(labels[lanes])
		tile(func() {
			loadRagged(fn, lanes)
			quads(fn, asm.Y, 0, 4, 8)
			for c := range 4 {
				fn.I("VEXTRACTF128 $1, Y%d, X%d", 4+c, 8+c)
			}
			storeColumns(fn, "R11", func(c int) { store(4 + c) })
		})
	}
	short(1, func(c int) { fn.I("VMOVSS X%d, (AX)", c) })
	short(2, func(c int) { fn.I("VMOVLPS X%d, (AX)", c) })
	short(3, func(c int) {
		fn.I("VMOVLPS X%d, (AX)", c)
		fn.I("VEXTRACTPS $2, X%d, 8(AX)", c)
	})
	short(4, func(c int) { fn.I("VMOVUPS X%d, (AX)", c) })
}

// shuffle8 transposes Y0..Y7, using Y8..Y13.
func shuffle8(fn *asm.Func) {
	// Rows 0-3 become Y8..Y11, four columns of four rows in each 128-bit half; then rows 4-7 become Y0..Y3.
	quad := func(in, out int) {
		fn.I("VUNPCKLPS Y%d, Y%d, Y12", in+1, in)
		fn.I("VUNPCKHPS Y%d, Y%d, Y13", in+1, in)
		fn.I("VUNPCKLPS Y%d, Y%d, Y%d", in+3, in+2, in)
		fn.I("VUNPCKHPS Y%d, Y%d, Y%d", in+3, in+2, in+1)
		fn.I("VUNPCKHPD Y%d, Y12, Y%d", in, out+1)
		fn.I("VUNPCKLPD Y%d, Y12, Y%d", in, out)
		fn.I("VUNPCKLPD Y%d, Y13, Y%d", in+1, out+2)
		fn.I("VUNPCKHPD Y%d, Y13, Y%d", in+1, out+3)
	}
	quad(0, 8)
	// The outputs Y0..Y3 are free now; the inputs are Y4..Y7.
	quad(4, 0)
	for j := range 4 {
		fn.I("VPERM2F128 $0x31, Y%d, Y%d, Y%d", j, 8+j, 4+j)
		fn.I("VINSERTF128 $1, X%d, Y%d, Y%d", j, 8+j, j)
	}
}
