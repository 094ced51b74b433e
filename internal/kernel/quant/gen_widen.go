//go:build ignore

package main

import (
	"strings"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// widens writes the kernels that widen bytes to integers of 16 bits.
func widens(f *asm.File) {
	for _, k := range kinds {
		fn := f.Func("widen"+k.name, "widen"+k.name+" widens n quads of bytes: elements 0 and 2 of each to dst, 1 and 3 behind an offset in bytes; n > 0.",
			pointer("dst", "int16"), asm.Int("odd"), pointer("src", "byte"), asm.Int("n"))
		fn.Load("dst", "DI")
		fn.Load("odd", "BX")
		fn.Load("src", "SI")
		fn.Load("n", "CX")
		widenQuads(fn, k.name)
		fn.Ret()
		widenRows(f, "widenRows"+k.name, "as widen does", func(fn *asm.Func) { widenQuads(fn, k.name) })
		widenRows(f, "plainRows"+k.name, "each element in its place", func(fn *asm.Func) { plainQuads(fn, k.words) })
	}
	served(f, "plainRows", "if signed {\nplainRowsSigned(p, dst, a, rows, n)\n} else {\nplainRowsUnsigned(p, dst, a, rows, n)\n}")
	served(f, "widen", "if signed {\nwidenSigned(dst, odd, src, n)\n} else {\nwidenUnsigned(dst, odd, src, n)\n}")
	served(f, "widenRows", "if signed {\nwidenRowsSigned(p, dst, a, rows, n)\n} else {\nwidenRowsUnsigned(p, dst, a, rows, n)\n}")
}

// widenQuads emits what widens CX quads at SI to DI, and their odd elements BX bytes behind.
func widenQuads(fn *asm.Func, kind string) {
	right := map[string]string{"Signed": "VPSRAW", "Unsigned": "VPSRLW"}[kind]
	step := func(load, letter string, bytes int) {
		fn.I("%s (SI), %s0", load, letter)
		fn.I("VPSLLW $8, %[1]s0, %[1]s1", letter)
		fn.I("%[2]s $8, %[1]s1, %[1]s1", letter, right)
		fn.I("%[2]s $8, %[1]s0, %[1]s0", letter, right)
		fn.I("%s %s1, (DI)", load, letter)
		fn.I("%s %s0, (DI)(BX*1)", load, letter)
		fn.I("ADDQ $%d, SI", bytes)
		fn.I("ADDQ $%d, DI", bytes)
	}
	fn.While("CX", 8, func() { step("VMOVDQU", "Y", 32) })
	fn.While("CX", 4, func() { step("VMOVDQU", "X", 16) })
	end := fn.NewLabel("end")
	fn.I("TESTQ CX, CX")
	fn.I("JZ %s", end)
	fn.Loop("CX", func() { step("VMOVD", "X", 4) })
	fn.Label(end)
}

// plainQuads emits what widens CX quads at SI to DI, element for element, and moves DI behind them.
func plainQuads(fn *asm.Func, words string) {
	fn.While("CX", 4, func() {
		fn.I("%s (SI), Y0", words)
		fn.I("VMOVDQU Y0, (DI)")
		fn.I("ADDQ $16, SI")
		fn.I("ADDQ $32, DI")
	})
	end := fn.NewLabel("end")
	fn.I("TESTQ CX, CX")
	fn.I("JZ %s", end)
	fn.Loop("CX", func() {
		fn.I("VMOVD (SI), X0")
		fn.I("%s X0, X0", words)
		fn.I("VMOVQ X0, (DI)")
		fn.I("ADDQ $4, SI")
		fn.I("ADDQ $8, DI")
	})
	fn.Label(end)
}

// widenRows writes a kernel that widens whole rows, of all segments.
//
// Registers: AX params, DX where segments begin and R8 how far they are, R9 segments left; R10 rows and R11 how many are left; CX, SI, DI and BX as what widens quads
// has them; BX is how far elements 1 and 3 are behind the others.
func widenRows(f *asm.File, name, how string, quads func(fn *asm.Func)) {
	fn := f.Func(name, name+" widens n rows of bytes, those of all segments, "+how+"; n > 0.",
		asm.Typed("p", "*tileParams"), pointer("dst", "int16"), pointer("a", "byte"), pointer("rows", "int"), asm.Int("n"))
	fn.Load("p", "AX")
	fn.Load("dst", "DI")
	fn.Load("rows", "R10")
	fn.Load("n", "R11")
	fn.I("MOVQ %d(AX), BX", offCount)
	fn.I("IMULQ %d(AX), BX", offQuads)
	fn.I("SHLQ $2, BX")
	fn.Loop("R11", func() {
		fn.Load("a", "DX")
		fn.I("ADDQ (R10), DX")
		fn.I("ADDQ $8, R10")
		fn.I("MOVQ %d(AX), R8", offSegments)
		fn.I("MOVQ %d(AX), R9", offCount)
		fn.Loop("R9", func() {
			fn.I("MOVQ (R8), SI")
			fn.I("ADDQ $8, R8")
			fn.I("ADDQ DX, SI")
			fn.I("MOVQ %d(AX), CX", offQuads)
			quads(fn)
		})
		if strings.HasPrefix(name, "widen") {
			fn.I("ADDQ BX, DI")
		}
	})
	fn.Ret()
}
