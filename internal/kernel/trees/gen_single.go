//go:build ignore

package main

import (
	"fmt"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// steps is a kernel of eight walks in general registers. SI nodes, DX the row or rows, CX one more than the bits of a feature; AX is a node's
// way and then what is added to its place, DI the feature and then the next place, and R14 tells whether a walk goes on.
type steps struct {
	*asm.Func
	rows bool // of as many rows, whose offsets are in the frame, and not of one
}

// eight are the walks' places.
var eight = [...]string{"R8", "R9", "R10", "R11", "R12", "R13", "R15", "BX"}

// Of the frame.
const (
	mask   = "mask-8(SP)"    // of the bits of a way that are its feature
	count  = "count-16(SP)"  // trees that are left
	from   = "from-24(SP)"   // the next root
	target = "target-32(SP)" // where the next tree's target stands
	groups = "groups-40(SP)" // of rows that are left
	frame  = 72
)

func offsetOf(i int) string { return fmt.Sprintf("offset%d-%d(SP)", i, frame-4*i) }

func single(f *asm.File) {
	v := asm.AVX2()
	ptr := func(name, typ string) asm.Arg { return asm.Typed(name, "*"+typ) }
	forest := []asm.Arg{ptr("nodes", "uint64"), ptr("roots", "int32"), asm.Int("n"), asm.Ptr("x")}
	s := &steps{Func: f.Func("stepsOfTrees", "stepsOfTrees walks n trees with one row, eight at a time; n > 0.",
		append(append([]asm.Arg{ptr("out", "uint32")}, forest...), asm.Int("bits"))...)}
	s.one()
	f.Serve("row", v, "stepsOfTrees(out, nodes, roots, n, x, bits)")

	forest = append(forest, ptr("offsets", "int32"), asm.Int("bits"))
	s = &steps{rows: true, Func: f.Func("stepsOfRows", "stepsOfRows walks n trees with 32 rows; n > 0.", append([]asm.Arg{ptr("out", "uint32")}, forest...)...)}
	s.many("out", 4, func() {
		s.I("MOVQ %s, AX", s.Addr("out"))
		s.I("MOVQ %s, DI", s.Addr("n")) // what is left of it tells the tree's number
		s.I("SUBQ %s, DI", count)
		s.I("SHLQ $7, DI")
		s.I("ADDQ DI, AX")
		s.held()
	})
	f.Serve("leaves", v, "stepsOfRows(out, nodes, roots, n, x, offsets, bits)")

	s = &steps{rows: true, Func: f.Func("stepsAndSums", "stepsAndSums walks n trees with 32 rows, and adds; n > 0.",
		append([]asm.Arg{ptr("sums", "float64"), ptr("targets", "int32")}, forest...)...)}
	s.many("sums", 8, func() {
		s.I("MOVQ %s, AX", target)
		s.I("ADDQ $4, %s", target)
		s.I("MOVLQSX (AX), AX")
		s.I("SHLQ $8, AX")
		s.I("ADDQ %s, AX", s.Addr("sums"))
		s.I("VXORPS X8, X8, X8")
		for i, at := range eight {
			s.I("VCVTSS2SD (SI)(%s*8), X8, X%d", at, i)
			s.I("VADDSD %d(AX), X%[2]d, X%[2]d", 8*i, i)
			s.I("VMOVSD X%d, %d(AX)", i, 8*i)
		}
	})
	f.Serve("sum", v, "stepsAndSums(sums, targets, nodes, roots, n, x, offsets, bits)")
}

// begin loads what all walks read.
func (s *steps) begin() {
	s.Frame(frame)
	s.Load("bits", "CX")
	s.I("MOVL $1, AX")
	s.I("SHLL CX, AX")
	s.I("DECL AX")
	s.I("MOVL AX, %s", mask)
	s.I("INCL CX")
	s.Load("nodes", "SI")
	s.Load("x", "DX")
}

// walk goes on until all are at leaves. A comparison sets the carry where x is greater than the split, or one of them is none, which
// the addition of the step takes to the second node. A leaf's walk stays: its step is 0.
func (s *steps) walk() {
	top, done := s.NewLabel("walk"), s.NewLabel("there")
	var unordered, on [len(eight)]string
	s.Label(top)
	s.I("XORL R14, R14")
	for i, at := range eight {
		unordered[i], on[i] = s.NewLabel("unordered"), s.NewLabel("on")
		s.I("MOVL 4(SI)(%s*8), AX", at)
		s.I("MOVL AX, DI")
		s.I("ANDL %s, DI", mask)
		if s.rows {
			s.I("ADDL %s, DI", offsetOf(i))
		}
		s.I("SARXL CX, AX, AX")
		s.I("VMOVSS (SI)(%s*8), X0", at)
		s.I("VUCOMISS (DX)(DI*4), X0")
		s.I("JPS %s", unordered[i])
		s.Label(on[i])
		s.I("MOVL %s, DI", at)
		s.I("ADCL AX, DI")
		s.I("TESTL AX, AX")
		s.I("CMOVLNE DI, %s", at)
		s.I("ORL AX, R14")
	}
	s.I("TESTL R14, R14")
	s.I("JNE %s", top)
	s.I("JMP %s", done)
	for i, at := range eight {
		s.Label(unordered[i])
		s.I("VMOVSS (DX)(DI*4), X0")
		s.I("VUCOMISS X0, X0")
		s.I("STC")
		none := s.NewLabel("none")
		s.I("JPS %s", none)
		s.I("JMP %s", on[i])
		s.Label(none) // x is none: the carry is the bit that says whether it goes the first way, turned around
		s.I("MOVL 4(SI)(%s*8), DI", at)
		s.I("SHRL CX, DI")
		s.I("CMC")
		s.I("JMP %s", on[i])
	}
	s.Label(done)
}

// held writes what leaves hold to where AX points.
func (s *steps) held() {
	for i, at := range eight {
		s.I("MOVL (SI)(%s*8), DI", at)
		s.I("MOVL DI, %d(AX)", 4*i)
	}
}

// one writes the kernel of one row.
func (s *steps) one() {
	s.begin()
	top := s.NewLabel("trees")
	s.Label(top)
	s.I("MOVQ %s, AX", s.Addr("roots"))
	s.I("ADDQ $32, %s", s.Addr("roots"))
	for i, at := range eight {
		s.I("MOVL %d(AX), %s", 4*i, at)
	}
	s.walk()
	s.I("MOVQ %s, AX", s.Addr("out"))
	s.I("ADDQ $32, %s", s.Addr("out"))
	s.held()
	s.I("SUBQ $8, %s", s.Addr("n"))
	s.I("JGT %s", top)
	s.Ret()
}

// many writes a kernel of 32 rows, eight at a time through all trees; finish does what is done behind a walk. The result's address goes on
// by eight numbers of a size in bytes.
func (s *steps) many(result string, size int, finish func()) {
	s.begin()
	s.I("MOVQ $4, %s", groups)
	rows, trees := s.NewLabel("rows"), s.NewLabel("trees")
	s.Label(rows)
	s.I("MOVQ %s, AX", s.Addr("offsets"))
	s.I("ADDQ $32, %s", s.Addr("offsets"))
	for i := range eight {
		s.I("MOVL %d(AX), DI", 4*i)
		s.I("MOVL DI, %s", offsetOf(i))
	}
	for _, x := range [][2]string{{"n", count}, {"roots", from}, {"targets", target}} {
		if x[0] != "targets" || size == 8 {
			s.I("MOVQ %s, AX", s.Addr(x[0]))
			s.I("MOVQ AX, %s", x[1])
		}
	}
	s.Label(trees)
	s.I("MOVQ %s, AX", from)
	s.I("ADDQ $4, %s", from)
	s.I("MOVL (AX), R8")
	for _, at := range eight[1:] {
		s.I("MOVL R8, %s", at)
	}
	s.walk()
	finish()
	s.I("DECQ %s", count)
	s.I("JNE %s", trees)
	s.I("ADDQ $%d, %s", 8*size, s.Addr(result))
	s.I("DECQ %s", groups)
	s.I("JNE %s", rows)
	s.Ret()
}
