//go:build ignore

package main

import (
	"fmt"
	"strings"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// strip is how many vectors of a row are folded at a time: so many are kept while the rows pass.
const strip = 8

// columns writes the kernels that fold rows into one.
func columns(f *asm.File) {
	var code strings.Builder
	code.WriteString("switch made {\ncase Squares:\n")
	cases := func(first int, kernel func(c int) string) {
		code.WriteString("switch code {\n")
		for c := first; c < first+4; c++ {
			both := fmt.Sprint(c)
			if first == 0 {
				both += fmt.Sprintf(", %d", c+4)
			}
			fmt.Fprintf(&code, "case %s:\n%s", both, kernel(c))
		}
		code.WriteString("}\n")
	}
	call := "(dst, src, ld, rows, more, n)\n"
	cases(0, func(c int) string {
		name := fmt.Sprintf("columnsSquares%d", 8<<c)
		columnsOf(f, name, "Add", "Squares", c)
		return name + call
	})
	code.WriteString("case Sizes:\n")
	cases(4, func(c int) string {
		name := fmt.Sprintf("columnsSizes%d", 8<<(c-4))
		columnsOf(f, name, "Add", "Sizes", c)
		return name + call
	})
	code.WriteString("default:\nswitch op {\n")
	for _, op := range []string{"Add", "Mul", "Max", "Min"} {
		code.WriteString(perType(op, func(name string, c int) string {
			columnsOf(f, name+"Columns", op, "", c)
			return name + "Columns" + call
		}))
	}
	served(f, "columns", code.String()+"}\n}")
}

// columnsStart begins a kernel: DI what it writes, SI the rows, R8 the bytes between two, R9 their number, R11 whether there is a result so far, CX the vectors of one.
func columnsStart(f *asm.File, name, doc, to, from string) *asm.Func {
	fn := f.Func(name, name+" "+doc+" n, rows > 0.", asm.Typed("dst", to), asm.Typed("src", from), asm.Int("ld"), asm.Int("rows"), asm.Int("more"), asm.Int("n"))
	for _, x := range [][2]string{{"dst", "DI"}, {"src", "SI"}, {"ld", "R8"}, {"rows", "R9"}, {"more", "R11"}, {"n", "CX"}} {
		fn.Load(x[0], x[1])
	}
	return fn
}

// columnsStrips emits strips of vectors, whose results are in Y0 and so on. load has vector u of a row, which lies so many bytes long, in a register, and join adds a register to vector u.
func columnsStrips(fn *asm.Func, bytes int, load func(u int, to string), join func(u int, x string)) {
	some := func(n int) {
		begun, rows, store := fn.NewLabel("begun"), fn.NewLabel("rows"), fn.NewLabel("store")
		fn.I("MOVQ SI, R10")
		fn.I("MOVQ R9, BX")
		fn.I("TESTQ R11, R11")
		fn.I("JNZ %s", begun)
		for u := range n {
			load(u, fmt.Sprintf("Y%d", u))
		}
		fn.I("ADDQ R8, R10")
		fn.I("DECQ BX")
		fn.I("JZ %s", store)
		fn.I("JMP %s", rows)
		fn.Label(begun)
		for u := range n {
			fn.I("VMOVDQU %d(DI), Y%d", 32*u, u)
		}
		fn.Label(rows)
		fn.Loop("BX", func() {
			for u := range n {
				load(u, "Y8")
				join(u, "Y8")
			}
			fn.I("ADDQ R8, R10")
		})
		fn.Label(store)
		for u := range n {
			fn.I("VMOVDQU Y%d, %d(DI)", u, 32*u)
		}
		fn.I("ADDQ $%d, DI", 32*n)
		fn.I("ADDQ $%d, SI", bytes*n)
	}
	fn.While("CX", strip, func() { some(strip) })
	end := fn.NewLabel("end")
	fn.I("TESTQ CX, CX")
	fn.I("JZ %s", end)
	fn.Loop("CX", func() { some(1) })
	fn.Label(end)
	fn.Ret()
}

// columnsOf writes a kernel of an operator on elements of a type, by its code, or on their squares or sizes.
func columnsOf(f *asm.File, name, op, made string, code int) {
	what := map[string]string{"": "elements", "Squares": "squares of elements", "Sizes": "sizes of elements"}[made]
	fn := columnsStart(f, name, fmt.Sprintf("writes %s of rows of n vectors, of %s.", op, what), "*byte", "*byte")
	letter := letters[code%4]
	masks(fn, op, code)
	if made == "Squares" {
		masks(fn, "Mul", code)
	}
	if made == "Sizes" && letter == "Q" {
		fn.I("VPXOR Y11, Y11, Y11")
	}
	columnsStrips(fn, 32, func(u int, to string) {
		fn.I("VMOVDQU %d(R10), %s", 32*u, to)
		switch {
		case made == "Squares":
			fn.I("VMOVDQA %s, Y10", to)
			combine(fn, "Mul", letter, code, to, "Y10", "Y9")
		case made == "Sizes" && letter == "Q":
			fn.I("VPCMPGTQ %s, Y11, Y9", to)
			fn.I("VPXOR Y9, %s, %[1]s", to)
			fn.I("VPSUBQ Y9, %s, %[1]s", to)
		case made == "Sizes":
			fn.I("VPABS%s %s, %[2]s", letter, to)
		}
	}, func(u int, x string) { combine(fn, op, letter, code, fmt.Sprintf("Y%d", u), x, "Y9") })
}

// columnsWide writes the kernels that add up rows of int32, or of their squares, in float64.
func columnsWide(f *asm.File) {
	for _, squares := range []bool{false, true} {
		name, what := "wideColumns", "elements"
		if squares {
			name, what = "wideSquaresColumns", "squares of elements"
		}
		fn := columnsStart(f, name, fmt.Sprintf("adds up rows of n vectors of four float64, of %s.", what), "*float64", "*int32")
		columnsStrips(fn, 16, func(u int, to string) {
			fn.I("VCVTDQ2PD %d(R10), %s", 16*u, to)
			if squares {
				fn.I("VMULPD %s, %[1]s, %[1]s", to)
			}
		}, func(u int, x string) { fn.I("VADDPD %s, Y%d, Y%[2]d", x, u) })
	}
	call := "(dst, src, ld, rows, more, n)\n"
	served(f, "columnsWide", "if squares {\nwideSquaresColumns"+call+"} else {\nwideColumns"+call+"}\n")
}

// extremes writes the kernels that look for the greatest, or least, of the elements of rows, column by column, and for the row it is in.
func extremes(f *asm.File) {
	code := "switch c {\n"
	for _, c := range []struct {
		comparison, name string
		predicate        int
	}{{"Less", "leastFirst", 0x11}, {"AtMost", "leastLast", 0x12}, {"Greater", "greatestFirst", 0x1e}, {"AtLeast", "greatestLast", 0x1d}} {
		fn := f.Func(c.name, c.name+" takes over elements that stand so to the best, and the numbers of their rows. n, rows > 0.",
			asm.Ptr("best"), asm.Typed("at", "*uint32"), asm.Ptr("src"), asm.Int("ld"), asm.Int("rows"), asm.Int("first"), asm.Int("n"))
		for _, x := range [][2]string{{"best", "DI"}, {"at", "DX"}, {"src", "SI"}, {"ld", "R8"}, {"rows", "R9"}, {"first", "AX"}, {"n", "CX"}} {
			fn.Load(x[0], x[1])
		}
		const first, row, less, x, wins, most = "Y15", "Y14", "Y13", "Y12", "Y11", 4
		fn.I("VMOVD AX, X15")
		fn.I("VPBROADCASTD X15, %s", first)
		fn.I("VPCMPEQD %s, %[1]s, %[1]s", less) // -1
		some := func(n int) {
			for u := range n {
				fn.I("VMOVUPS %d(DI), Y%d", 32*u, u)
				fn.I("VMOVDQU %d(DX), Y%d", 32*u, most+u)
			}
			fn.I("VMOVDQA %s, %s", first, row)
			fn.I("MOVQ SI, R10")
			fn.I("MOVQ R9, BX")
			fn.Loop("BX", func() {
				for u := range n {
					fn.I("VMOVUPS %d(R10), %s", 32*u, x)
					fn.I("VCMPPS $%#x, Y%d, %s, %s", c.predicate, u, x, wins)
					fn.I("VBLENDVPS %s, %s, Y%d, Y%[3]d", wins, x, u)
					fn.I("VBLENDVPS %s, %s, Y%d, Y%[3]d", wins, row, most+u)
				}
				fn.I("VPSUBD %s, %s, %[2]s", less, row)
				fn.I("ADDQ R8, R10")
			})
			for u := range n {
				fn.I("VMOVUPS Y%d, %d(DI)", u, 32*u)
				fn.I("VMOVDQU Y%d, %d(DX)", most+u, 32*u)
			}
			for _, at := range []string{"DI", "DX", "SI"} {
				fn.I("ADDQ $%d, %s", 32*n, at)
			}
		}
		fn.While("CX", most, func() { some(most) })
		end := fn.NewLabel("end")
		fn.I("TESTQ CX, CX")
		fn.I("JZ %s", end)
		fn.Loop("CX", func() { some(1) })
		fn.Label(end)
		fn.Ret()
		code += fmt.Sprintf("case %s:\n%s(best, at, src, ld, rows, first, n)\n", c.comparison, c.name)
	}
	served(f, "extremes", code+"}\n")
}
