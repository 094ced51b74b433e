//go:build ignore

// Command gen writes the kernels of package trees.
package main

import (
	"fmt"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

func main() {
	asm.Main("trees", asm.Table{Entries: []asm.Entry{
		{Name: "row", Doc: "walks n trees with a row, up to 32 at a time, and writes what their leaves hold. Where near is set, x are 32 numbers.",
			Params: "near bool, out *uint32, nodes *uint64, roots *int32, n int, x *float32, bits int", Portable: "genericRow(out, nodes, roots, n, x, bits)"},
		{Name: "leaves", Doc: "walks n trees with 32 rows that begin at offsets, and writes what their leaves hold, tree by tree.",
			Params: "out *uint32, nodes *uint64, roots *int32, n int, x *float32, offsets *int32, bits int", Portable: "genericLeaves(out, nodes, roots, n, x, offsets, bits)"},
		{Name: "sum", Doc: "walks n trees with 32 rows that begin at offsets, and adds what their leaves hold to the sums [32] of each tree's target.",
			Params:   "sums *float64, targets *int32, nodes *uint64, roots *int32, n int, x *float32, offsets *int32, bits int",
			Portable: "genericSum(sums, targets, nodes, roots, n, x, offsets, bits)"},
	}}, asm.Unit{Base: "walk", Arch: "amd64", Generate: func(f *asm.File) {
		v := asm.AVX512()
		code := ""
		for _, near := range []bool{true, false} {
			w := &walk{file: f, name: map[bool]string{true: "rowNear", false: "rowFar"}[near], oneRow: true, near: near}
			w.row()
			code += fmt.Sprintf("if near == %v {\n%s(out, nodes, roots, (n+31)/32, x, bits)\n}\n", near, w.name)
		}
		f.Serve("row", v, code)
		(&walk{file: f, name: "leavesOfRows"}).rows(false)
		f.Serve("leaves", v, "leavesOfRows(out, nodes, roots, n, x, offsets, bits)")
		(&walk{file: f, name: "sumOfRows"}).rows(true)
		f.Serve("sum", v, "sumOfRows(sums, targets, nodes, roots, n, x, offsets, bits)")
		single(f)
	}})
}

// walk is a kernel being written. Registers: SI nodes, R8 roots, DX the row or rows, DI the result, CX counts trees or groups of them.
//
// Vectors: 2 groups of 16 lanes, each with its nodes' places, splits, ways, what is added to places, features, and offsets of rows; then
// tables for all.
type walk struct {
	*asm.Func
	file *asm.File
	name string
	// oneRow is set where lanes walk a tree each, near where their row is in registers.
	oneRow, near bool
}

const (
	even, odd, features, missing, one = 31, 30, 29, 28, 27
	x0, x1                            = 26, 25 // of a row that is near
	shift                             = 24
	root, ahead                       = 23, 22 // of a tree that all lanes walk, and how many of its nodes stand in near ones
	nearSplits, nearWays              = 18, 20 // and the next ones
)

// registers of group g
func place(g int) int  { return 8 * g }
func splits(g int) int { return 8*g + 1 }
func ways(g int) int   { return 8*g + 2 }
func upper(g int) int  { return 8*g + 3 }
func delta(g int) int  { return 8*g + 4 }
func value(g int) int  { return 8*g + 5 }
func offset(g int) int { return 8*g + 6 }

// tables fills the registers that all groups read: bits is how many bits of a node's way its feature takes; the next one is set where NaN
// goes the first way, and the others are what is added to its place.
func (w *walk) tables() {
	var evens, odds []uint32
	for i := range uint32(16) {
		evens, odds = append(evens, 2*i), append(odds, 2*i+1)
	}
	w.I("VMOVDQU32 %s, Z%d", w.file.Data("evens", evens...), even)
	w.I("VMOVDQU32 %s, Z%d", w.file.Data("odds", odds...), odd)
	w.Load("bits", "CX")
	w.I("MOVL $1, AX")
	w.I("SHLL CX, AX")
	w.I("VPBROADCASTD AX, Z%d", missing)
	w.I("DECL AX")
	w.I("VPBROADCASTD AX, Z%d", features)
	w.I("MOVL $1, AX")
	w.I("VPBROADCASTD AX, Z%d", one)
	w.I("INCL CX")
	w.I("VMOVD CX, X%d", shift)
}

// walk goes on until all lanes are at leaves, whose splits are what they hold.
func (w *walk) walk() {
	top, done := w.NewLabel("walk"), w.NewLabel("there")
	if !w.oneRow {
		w.begin(top, done)
	}
	w.Label(top)
	for g := range 2 {
		w.I("KXNORW K0, K0, K%d", 5)
		w.I("VPXORD Z%[1]d, Z%[1]d, Z%[1]d", ways(g))
		w.I("VPGATHERDQ (SI)(Y%d*8), K5, Z%d", place(g), ways(g))
		w.I("VEXTRACTI64X4 $1, Z%d, Y%d", place(g), value(g))
		w.I("KXNORW K0, K0, K%d", 6)
		w.I("VPXORD Z%[1]d, Z%[1]d, Z%[1]d", upper(g))
		w.I("VPGATHERDQ (SI)(Y%d*8), K6, Z%d", value(g), upper(g))
		w.I("VMOVDQA64 Z%d, Z%d", ways(g), splits(g))
		w.I("VPERMT2D Z%d, Z%d, Z%d", upper(g), even, splits(g))
		w.I("VPERMT2D Z%d, Z%d, Z%d", upper(g), odd, ways(g))
	}
	w.step(done)
	w.I("JMP %s", top)
	w.Label(done)
}

// begin walks as long as all lanes are among the nodes at the root, which stand in registers, and goes on at top.
func (w *walk) begin(top, done string) {
	w.I("MOVLQSX (R8), AX")
	w.I("VPBROADCASTD AX, Z%d", root)
	for half := range 2 {
		w.I("VMOVDQU32 %d(SI)(AX*8), Z%d", 128*half, nearSplits+half)
		w.I("VMOVDQU32 %d(SI)(AX*8), Z%d", 128*half+64, upper(0))
		w.I("VMOVDQA64 Z%d, Z%d", nearSplits+half, nearWays+half)
		w.I("VPERMT2D Z%d, Z%d, Z%d", upper(0), even, nearSplits+half)
		w.I("VPERMT2D Z%d, Z%d, Z%d", upper(0), odd, nearWays+half)
	}
	for g := range 2 {
		w.I("VMOVDQA64 Z%d, Z%d", root, place(g))
	}
	near := w.NewLabel("near")
	w.Label(near)
	for g := range 2 {
		w.I("VPSUBD Z%d, Z%d, Z%d", root, place(g), splits(g))
		w.I("VPCMPUD $5, Z%d, Z%d, K%d", ahead, splits(g), 1+g) // not less
	}
	w.I("KORTESTW K1, K2")
	w.I("JNE %s", top)
	for g := range 2 {
		w.I("VMOVDQA64 Z%d, Z%d", splits(g), ways(g))
		w.I("VPERMI2D Z%d, Z%d, Z%d", nearSplits+1, nearSplits, splits(g))
		w.I("VPERMI2D Z%d, Z%d, Z%d", nearWays+1, nearWays, ways(g))
	}
	w.step(done)
	w.I("JMP %s", near)
}

// step goes on from nodes whose splits and ways are there, or to done where all are leaves.
func (w *walk) step(done string) {
	for g := range 2 {
		w.I("VPSRAD X%d, Z%d, Z%d", shift, ways(g), delta(g))
		w.I("VPTESTMD Z%[1]d, Z%[1]d, K%[2]d", delta(g), 1+g)
	}
	w.I("KORTESTW K1, K2")
	w.I("JEQ %s", done)
	for g := range 2 {
		w.I("VPANDD Z%d, Z%d, Z%d", features, ways(g), upper(g))
		x := upper(g)
		if w.near {
			w.I("VPERMI2PS Z%d, Z%d, Z%d", x1, x0, upper(g))
		} else {
			if !w.oneRow {
				w.I("VPADDD Z%[1]d, Z%[2]d, Z%[2]d", offset(g), upper(g))
			}
			x = value(g)
			w.I("KXNORW K0, K0, K%d", 5)
			w.I("VPXORD Z%[1]d, Z%[1]d, Z%[1]d", x)
			w.I("VGATHERDPS (DX)(Z%d*4), K5, Z%d", upper(g), x)
		}
		w.I("VPADDD Z%[1]d, Z%[2]d, Z%[2]d", delta(g), place(g))
		w.I("VCMPPS $0x16, Z%d, Z%d, K%d, K3", splits(g), x, 1+g) // neither less nor equal, or NaN
		w.I("VCMPPS $3, Z%[1]d, Z%[1]d, K3, K4", x)
		w.I("VPTESTMD Z%d, Z%d, K4, K4", missing, ways(g))
		w.I("KANDNW K3, K4, K3")
		w.I("VPADDD Z%[1]d, Z%[2]d, K3, Z%[2]d", one, place(g))
	}
}

// row writes the kernel of one row.
func (w *walk) row() {
	ptr := func(name, typ string) asm.Arg { return asm.Typed(name, "*"+typ) }
	w.Func = w.file.Func(w.name, w.name+" walks 32 trees at a time with one row; groups > 0.",
		ptr("out", "uint32"), ptr("nodes", "uint64"), ptr("roots", "int32"), asm.Int("groups"), asm.Ptr("x"), asm.Int("bits"))
	w.tables()
	for _, a := range [][2]string{{"out", "DI"}, {"nodes", "SI"}, {"roots", "R8"}, {"x", "DX"}, {"groups", "CX"}} {
		w.Load(a[0], a[1])
	}
	if w.near {
		w.I("VMOVUPS (DX), Z%d", x0)
		w.I("VMOVUPS 64(DX), Z%d", x1)
	}
	w.Loop("CX", func() {
		for g := range 2 {
			w.I("VMOVDQU32 %d(R8), Z%d", 64*g, place(g))
		}
		w.walk()
		for g := range 2 {
			w.I("VMOVDQU32 Z%d, %d(DI)", splits(g), 64*g)
		}
		w.I("ADDQ $128, R8")
		w.I("ADDQ $128, DI")
	})
	w.Ret()
}

// rows writes the kernel of 32 rows, which adds what leaves hold, or stores it.
func (w *walk) rows(sums bool) {
	ptr := func(name, typ string) asm.Arg { return asm.Typed(name, "*"+typ) }
	args := []asm.Arg{ptr("out", "uint32")}
	if sums {
		args = []asm.Arg{ptr("sums", "float64"), ptr("targets", "int32")}
	}
	w.Func = w.file.Func(w.name, w.name+" walks n trees with 32 rows; n > 0.", append(args,
		ptr("nodes", "uint64"), ptr("roots", "int32"), asm.Int("n"), asm.Ptr("x"), ptr("offsets", "int32"), asm.Int("bits"))...)
	w.tables()
	for _, a := range [][2]string{{args[0].Name, "DI"}, {"nodes", "SI"}, {"roots", "R8"}, {"x", "DX"}, {"n", "CX"}, {"offsets", "AX"}} {
		w.Load(a[0], a[1])
	}
	if sums {
		w.Load("targets", "R9")
	}
	for g := range 2 {
		w.I("VMOVDQU32 %d(AX), Z%d", 64*g, offset(g))
	}
	w.I("MOVL $%d, AX", 32)
	w.I("VPBROADCASTD AX, Z%d", ahead)
	w.Loop("CX", func() {
		w.walk()
		if sums {
			w.I("MOVLQSX (R9), AX")
			w.I("ADDQ $4, R9")
			w.I("SHLQ $8, AX")
			for g := range 2 {
				w.I("VEXTRACTF32X8 $1, Z%d, Y%d", splits(g), upper(g))
				for half, x := range []int{splits(g), upper(g)} {
					w.I("VCVTPS2PD Y%d, Z%d", x, x)
					w.I("VADDPD %d(DI)(AX*1), Z%d, Z%d", 128*g+64*half, x, x)
					w.I("VMOVUPD Z%d, %d(DI)(AX*1)", x, 128*g+64*half)
				}
			}
		} else {
			for g := range 2 {
				w.I("VMOVDQU32 Z%d, %d(DI)", splits(g), 64*g)
			}
			w.I("ADDQ $128, DI")
		}
		w.I("ADDQ $4, R8")
	})
	w.Ret()
}
