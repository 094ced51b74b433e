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

// transpose256 transposes 8x8 tiles.
func transpose256(f *asm.File) {
	fn := f.Func("transpose256", "transpose256"+fmt.Sprintf(transposeDoc, 8), transposeArgs()...)
	begin(fn)
	fn.Load("lanes", "DX")
	table := laneMasks(f)
	for i, count := range []string{"R11", "DX"} {
		fn.I("LEAQ %s, AX", table)
		fn.I("MOVQ $16, CX")
		fn.I("SUBQ %s, CX", count)
		fn.I("VMOVUPS (AX)(CX*4), Y%d", 14+i)
	}
	// Masked stores take some 20 cycles on several processors: full tiles have a loop of their own.
	masked := fn.NewLabel("masked")
	for _, count := range []string{"R10", "R11", "DX"} {
		fn.I("CMPQ %s, $8", count)
		fn.I("JNE %s", masked)
	}
	fn.Load("srcStep", "R13")
	fn.Load("dstStep", "DX")
	step := func() {
		fn.I("ADDQ R13, SI")
		fn.I("ADDQ DX, DI")
	}
	fn.Loop("R12", func() {
		fn.I("MOVQ SI, AX")
		for r := range 8 {
			fn.I("VMOVUPS (AX), Y%d", r)
			fn.I("ADDQ R9, AX")
		}
		shuffle8(fn)
		fn.I("MOVQ DI, AX")
		for c := range 8 {
			fn.I("VMOVUPS Y%d, (AX)", c)
			fn.I("ADDQ R8, AX")
		}
		step()
	})
	fn.Ret()
	fn.Label(masked)
	fn.Load("srcStep", "R13")
	fn.Load("dstStep", "DX")
	fn.Loop("R12", func() {
		loaded := fn.NewLabel("loaded")
		for r := range 8 {
			fn.I("VXORPS Y%d, Y%d, Y%d", r, r, r)
		}
		fn.I("MOVQ SI, AX")
		for r := range 8 {
			fn.I("CMPQ R10, $%d", r)
			fn.I("JLE %s", loaded)
			fn.I("VMASKMOVPS (AX), Y14, Y%d", r)
			fn.I("ADDQ R9, AX")
		}
		fn.Label(loaded)
		shuffle8(fn)
		stored := fn.NewLabel("stored")
		fn.I("MOVQ DI, AX")
		for c := range 8 {
			fn.I("CMPQ R11, $%d", c)
			fn.I("JLE %s", stored)
			fn.I("VMASKMOVPS Y%d, Y15, (AX)", c)
			fn.I("ADDQ R8, AX")
		}
		fn.Label(stored)
		step()
	})
	fn.Ret()
	serveTranspose(f, asm.AVX2(), "transpose256", 8)
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
