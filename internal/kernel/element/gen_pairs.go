//go:build ignore

package main

import (
	"fmt"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// Kernels of pairs of 32 bits.

// unzip writes the kernel that takes pairs apart, and that which makes them. Rows of no whole groups end with a group that reaches back.
func unzip(f *asm.File) {
	rows := func(name, doc, entry string, group func(fn *asm.Func)) {
		fn := f.Func(name, fmt.Sprintf("%s %s rows of n groups of eight pairs, which lie apart bytes apart; n, rows > 0.", name, doc),
			asm.Typed("first", "*byte"), asm.Typed("second", "*byte"), asm.Typed("pairs", "*byte"), asm.Int("apart"), asm.Int("n"), asm.Int("back"), asm.Int("rows"))
		for _, x := range [][2]string{{"first", "DI"}, {"second", "DX"}, {"pairs", "SI"}, {"apart", "R8"}, {"back", "R9"}, {"rows", "R10"}} {
			fn.Load(x[0], x[1])
		}
		fn.I("SHLQ $2, R9")
		next := func() {
			group(fn)
			for _, at := range []string{"DI", "DX"} {
				fn.I("ADDQ $32, %s", at)
			}
			fn.I("ADDQ $64, R11")
		}
		fn.Loop("R10", func() {
			fn.I("MOVQ SI, R11")
			fn.Load("n", "CX")
			fn.Loop("CX", next)
			whole := fn.NewLabel("whole")
			fn.I("TESTQ R9, R9")
			fn.I("JZ %s", whole)
			for _, at := range []string{"DI", "DX", "R11", "R11"} {
				fn.I("SUBQ R9, %s", at)
			}
			next()
			fn.Label(whole)
			fn.I("ADDQ R8, SI")
		})
		fn.Ret()
		served(f, entry, name+"(first, second, pairs, apart, n, back, rows)")
	}
	rows("unzipPairs", "takes apart", "unzip", func(fn *asm.Func) {
		fn.I("VMOVUPS (R11), Y0")
		fn.I("VMOVUPS 32(R11), Y1")
		for i, at := range []string{"DI", "DX"} {
			fn.I("VSHUFPS $%#x, Y1, Y0, Y%d", []int{0x88, 0xdd}[i], 2+i)
			fn.I("VPERMQ $0xd8, Y%d, Y%[1]d", 2+i)
			fn.I("VMOVUPS Y%d, (%s)", 2+i, at)
		}
	})
	rows("zipPairs", "makes", "zip", func(fn *asm.Func) {
		fn.I("VMOVUPS (DI), Y0")
		fn.I("VMOVUPS (DX), Y1")
		fn.I("VUNPCKLPS Y1, Y0, Y2") // of both halves, the first two
		fn.I("VUNPCKHPS Y1, Y0, Y3")
		for i := range 2 {
			fn.I("VPERM2F128 $%#x, Y3, Y2, Y%d", []int{0x20, 0x31}[i], i)
			fn.I("VMOVUPS Y%d, %d(R11)", i, 32*i)
		}
	})
}

// eachRow emits a loop over rows of n vectors: what is at the registers of at moves on by bytes from row to row, at those of turns by angles bytes; row goes
// over vectors of 32 bytes of the first, and of so many of the others.
func eachRow(fn *asm.Func, at, turns []string, bytes int, row func()) {
	const by, angles = "R11", "R12" // less what row goes on
	fn.Load("n", "CX")
	fn.Load("by", by)
	fn.Load("angles", angles)
	fn.I("IMUL3Q $%d, CX, AX", bytes)
	fn.I("SUBQ AX, %s", angles)
	fn.I("SHLQ $5, CX")
	fn.I("SUBQ CX, %s", by)
	fn.Load("rows", "BX")
	fn.Loop("BX", func() {
		fn.Load("n", "CX")
		row()
		for _, reg := range at {
			fn.I("ADDQ %s, %s", by, reg)
		}
		for _, reg := range turns {
			fn.I("ADDQ %s, %s", angles, reg)
		}
	})
	fn.Ret()
}

// rotate writes the kernel of pairs that are turned.
func rotate(f *asm.File) {
	fn := f.Func("rotateFloats", "rotateFloats writes a*cos - b*sin and a*sin + b*cos for rows of n vectors of 8 floats, by bytes apart, whose angles lie angles bytes apart; n, rows > 0.",
		asm.Ptr("low"), asm.Ptr("high"), asm.Ptr("a"), asm.Ptr("b"), asm.Ptr("cos"), asm.Ptr("sin"), asm.Int("n"), asm.Int("rows"), asm.Int("by"), asm.Int("angles"))
	at := []string{"DI", "R8", "SI", "DX", "R9", "R10"}
	for i, name := range []string{"low", "high", "a", "b", "cos", "sin"} {
		fn.Load(name, at[i])
	}
	eachRow(fn, at[:4], at[4:], 32, func() {
		loops(fn, 2, func(u int) {
			a, b, cos, sin, other := 5*u, 5*u+1, 5*u+2, 5*u+3, 5*u+4
			for i, to := range []int{a, b, cos, sin} {
				fn.I("VMOVUPS %d(%s), Y%d", 32*u, at[2+i], to)
			}
			fn.I("VMULPS Y%d, Y%d, Y%d", sin, b, other)
			fn.I("VMULPS Y%d, Y%d, Y%[1]d", sin, a)
			fn.I("VMULPS Y%d, Y%d, Y%[2]d", cos, a)
			fn.I("VMULPS Y%d, Y%d, Y%[2]d", cos, b)
			fn.I("VSUBPS Y%d, Y%d, Y%[2]d", other, a)
			fn.I("VADDPS Y%d, Y%d, Y%[2]d", sin, b)
			fn.I("VMOVUPS Y%d, %d(DI)", a, 32*u)
			fn.I("VMOVUPS Y%d, %d(R8)", b, 32*u)
		}, func(n int) {
			for _, reg := range at {
				fn.I("ADDQ $%d, %s", 32*n, reg)
			}
		})
	})
	served(f, "rotate", "rotateFloats(low, high, a, b, cos, sin, n, rows, by, angles)\n")
}

// rotatePairs writes the kernel of turned pairs whose numbers are neighbours: VADDSUBPS subtracts in lanes of even numbers.
func rotatePairs(f *asm.File) {
	f.Data("eachTwice", 0, 0, 1, 1, 2, 2, 3, 3)
	fn := f.Func("rotatePairsFloats", "rotatePairsFloats writes pairs that are turned, for rows of n vectors of 4 pairs, by bytes apart, whose angles lie angles bytes apart; n, rows > 0.",
		asm.Ptr("dst"), asm.Ptr("src"), asm.Ptr("cos"), asm.Ptr("sin"), asm.Int("n"), asm.Int("rows"), asm.Int("by"), asm.Int("angles"))
	at := []string{"DI", "SI", "R8", "R9"}
	for i, name := range []string{"dst", "src", "cos", "sin"} {
		fn.Load(name, at[i])
	}
	fn.I("VMOVDQU %s, Y15", asm.DataAt("eachTwice", 0))
	eachRow(fn, at[:2], at[2:], 16, func() {
		loops(fn, 2, func(u int) {
			x, turned, cos, sin := 4*u, 4*u+1, 4*u+2, 4*u+3
			fn.I("VBROADCASTF128 %d(R8), Y%d", 16*u, cos)
			fn.I("VBROADCASTF128 %d(R9), Y%d", 16*u, sin)
			fn.I("VMOVUPS %d(SI), Y%d", 32*u, x)
			for _, angle := range []int{cos, sin} { // the lower half has the first two of four, each of them twice
				fn.I("VPERMILPS Y15, Y%d, Y%[1]d", angle)
			}
			fn.I("VPERMILPS $0xb1, Y%d, Y%d", x, turned)
			fn.I("VMULPS Y%d, Y%d, Y%[2]d", cos, x)
			fn.I("VMULPS Y%d, Y%d, Y%[2]d", sin, turned)
			fn.I("VADDSUBPS Y%d, Y%d, Y%[2]d", turned, x)
			fn.I("VMOVUPS Y%d, %d(DI)", x, 32*u)
		}, func(n int) {
			fn.I("ADDQ $%d, DI", 32*n)
			fn.I("ADDQ $%d, SI", 32*n)
			fn.I("ADDQ $%d, R8", 16*n)
			fn.I("ADDQ $%d, R9", 16*n)
		})
	})
	served(f, "rotatePairs", "rotatePairsFloats(dst, src, cos, sin, n, rows, by, angles)\n")
}
