//go:build ignore

package main

import (
	"github.com/carve-dev/carve/internal/kernel/asm"
)

// transposes writes the transposition of a strip: 16 (AVX-512) or 8 (AVX2) rows and any number of columns.
func transposes(f *asm.File) {
	strip512(f)
	stream512(f)
	strip2(f)
}

// strip512 writes dst[c][r] = src[r][c] for r < rows ≤ 16, c < cols, in blocks of 16x16.
func strip512(f *asm.File) {
	fn := f.Func("transposeStrip512", "transposeStrip512 writes dst[c, r] = src[r, c] for r < rows, c < cols; strides in bytes; 0 < rows ≤ 16, cols > 0.",
		args("dst", "src", "rows", "cols:int", "ldd", "lds")...)
	fn.Load("dst", "DI")
	fn.Load("src", "SI")
	fn.Load("rows", "CX")
	fn.Load("cols", "DX")
	fn.Load("ldd", "R8")
	fn.Load("lds", "R9")
	fn.I("MOVL $1, R10")
	fn.I("SHLL CX, R10")
	fn.I("DECL R10")
	fn.I("KMOVW R10, K2")
	fn.I("CMPQ CX, $16")
	fn.I("JNE edge")
	fn.While("DX", 16, func() {
		fn.I("MOVQ SI, AX")
		for r := range 16 {
			fn.I("VMOVUPS (AX), Z%d", r)
			if r < 15 {
				fn.I("ADDQ R9, AX")
			}
		}
		transpose16(fn)
		for c := range 16 {
			fn.I("VMOVUPS Z%d, (DI)", c)
			fn.I("ADDQ R8, DI")
		}
		fn.I("ADDQ $64, SI")
	})
	fn.I("TESTQ DX, DX")
	fn.I("JZ end")
	// What is left has fewer rows or columns: rows that do not exist are read as copies of the last, under the mask of
	// the columns, and not stored.
	fn.Label("edge")
	fn.I("MOVL $0xffff, R10")
	fn.I("CMPQ DX, $16")
	fn.I("JGE wide")
	fn.I("MOVQ DX, CX")
	fn.I("MOVL $1, R10")
	fn.I("SHLL CX, R10")
	fn.I("DECL R10")
	fn.Label("wide")
	fn.I("KMOVW R10, K1")
	fn.Load("rows", "CX")
	fn.I("MOVQ SI, AX")
	for r := range 16 {
		fn.I("VMOVUPS.Z (AX), K1, Z%d", r)
		if r < 15 {
			fn.I("LEAQ (AX)(R9*1), R10")
			fn.I("CMPQ CX, $%d", r+2)
			fn.I("CMOVQGE R10, AX")
		}
	}
	transpose16(fn)
	for c := range 16 {
		fn.I("VMOVUPS Z%d, K2, (DI)", c)
		fn.I("DECQ DX")
		fn.I("JZ end")
		fn.I("ADDQ R8, DI")
	}
	fn.I("ADDQ $64, SI")
	fn.I("JMP edge")
	fn.Label("end")
	fn.Ret()
}

// stream512 is strip512 for whole blocks and aligned destinations, with stores that bypass the caches: a result larger than
// they are is not read into them first.
func stream512(f *asm.File) {
	fn := f.Func("transposeStream512", "transposeStream512 writes dst[c, r] = src[r, c] for r < 16, c < cols; strides in bytes; cols > 0 is a multiple of 16, dst and\nldd are of 64.",
		args("dst", "src", "cols:int", "ldd", "lds")...)
	fn.Load("dst", "DI")
	fn.Load("src", "SI")
	fn.Load("cols", "DX")
	fn.Load("ldd", "R8")
	fn.Load("lds", "R9")
	fn.While("DX", 16, func() {
		fn.I("MOVQ SI, AX")
		for r := range 16 {
			fn.I("VMOVUPS (AX), Z%d", r)
			if r < 15 {
				fn.I("ADDQ R9, AX")
			}
		}
		transpose16(fn)
		for c := range 16 {
			fn.I("VMOVNTPS Z%d, (DI)", c)
			fn.I("ADDQ R8, DI")
		}
		fn.I("ADDQ $64, SI")
	})
	fn.I("SFENCE")
	fn.Ret()
}

// transpose16 transposes registers 0 to 15 in place, with 16 to 31 as scratch: pairs of words, pairs of double words, then
// quarters twice.
func transpose16(fn *asm.Func) {
	z := func(i int) string { return asm.Z(i) }
	for i := 0; i < 16; i += 2 {
		fn.I("VUNPCKLPS %s, %s, %s", z(i+1), z(i), z(16+i))
		fn.I("VUNPCKHPS %s, %s, %s", z(i+1), z(i), z(17+i))
	}
	for i := 0; i < 16; i += 4 {
		fn.I("VUNPCKLPD %s, %s, %s", z(18+i), z(16+i), z(i))
		fn.I("VUNPCKHPD %s, %s, %s", z(18+i), z(16+i), z(i+1))
		fn.I("VUNPCKLPD %s, %s, %s", z(19+i), z(17+i), z(i+2))
		fn.I("VUNPCKHPD %s, %s, %s", z(19+i), z(17+i), z(i+3))
	}
	// Register 4g+j holds, in quarter q, rows 4g..4g+3 of column 4q+j.
	for j := range 4 {
		fn.I("VSHUFF32X4 $0x88, %s, %s, %s", z(4+j), z(j), z(16+j))
		fn.I("VSHUFF32X4 $0xdd, %s, %s, %s", z(4+j), z(j), z(20+j))
		fn.I("VSHUFF32X4 $0x88, %s, %s, %s", z(12+j), z(8+j), z(24+j))
		fn.I("VSHUFF32X4 $0xdd, %s, %s, %s", z(12+j), z(8+j), z(28+j))
	}
	for j := range 4 {
		fn.I("VSHUFF32X4 $0x88, %s, %s, %s", z(24+j), z(16+j), z(j))
		fn.I("VSHUFF32X4 $0xdd, %s, %s, %s", z(24+j), z(16+j), z(8+j))
		fn.I("VSHUFF32X4 $0x88, %s, %s, %s", z(28+j), z(20+j), z(4+j))
		fn.I("VSHUFF32X4 $0xdd, %s, %s, %s", z(28+j), z(20+j), z(12+j))
	}
}

// strip2 writes dst[c][r] = src[r][c] for r < 8, c < cols, a multiple of 8.
func strip2(f *asm.File) {
	fn := f.Func("transposeStrip2", "transposeStrip2 writes dst[c, r] = src[r, c] for r < 8, c < cols; strides in bytes; cols > 0 is a multiple of 8.",
		args("dst", "src", "cols:int", "ldd", "lds")...)
	fn.Load("dst", "DI")
	fn.Load("src", "SI")
	fn.Load("cols", "DX")
	fn.Load("ldd", "R8")
	fn.Load("lds", "R9")
	fn.While("DX", 8, func() {
		fn.I("MOVQ SI, AX")
		for r := range 8 {
			// Low halves of rows r and r+4 come together in one register, then the high halves.
			if r < 4 {
				fn.I("VMOVUPS (AX), X%d", r)
				fn.I("VMOVUPS 16(AX), X%d", r+4)
			} else {
				fn.I("VINSERTF128 $1, (AX), Y%d, Y%d", r-4, r-4)
				fn.I("VINSERTF128 $1, 16(AX), Y%d, Y%d", r, r)
			}
			if r < 7 {
				fn.I("ADDQ R9, AX")
			}
		}
		for h := 0; h < 8; h += 4 {
			for i := 0; i < 4; i += 2 {
				fn.I("VUNPCKLPS Y%d, Y%d, Y%d", h+i+1, h+i, 8+i)
				fn.I("VUNPCKHPS Y%d, Y%d, Y%d", h+i+1, h+i, 9+i)
			}
			fn.I("VUNPCKLPD Y10, Y8, Y%d", h)
			fn.I("VUNPCKHPD Y10, Y8, Y%d", h+1)
			fn.I("VUNPCKLPD Y11, Y9, Y%d", h+2)
			fn.I("VUNPCKHPD Y11, Y9, Y%d", h+3)
		}
		for c := range 8 {
			fn.I("VMOVUPS Y%d, (DI)", c)
			fn.I("ADDQ R8, DI")
		}
		fn.I("ADDQ $32, SI")
	})
	fn.Ret()
}
