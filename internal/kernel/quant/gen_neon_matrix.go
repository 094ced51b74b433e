//go:build ignore

package main

import (
	"fmt"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// neonMatrices writes the kernels of products for processors that multiply matrices of 2 x 8 bytes: one instruction adds the products of two
// rows and two columns, 8 k deep. Pairs of columns are put together before (neonPairs), pairs of rows as they are read.
func neonMatrices(f *asm.File) {
	table(f, "callMatrixNEON", "p, a, rows, b, start, c, n", "p *tileParams, a *byte, rows *int, b *byte, start, c *int32, n int", []int{1},
		func(height, _ int, signed bool) string {
			return (&neonMatrix{neonTile{height: height, signed: signed}}).emit(f)
		})
	neonPairs(f)
	f.Serve("multiplyMatrices", asm.NEON(), "matricesNEON(p, c, a, rows, b, start, panels)")
}

// neonPairs writes the kernel that puts the quads of a panel together in pairs: of each pair the 8 k of a column after those of another. The
// last quad of an odd number goes with zeros.
func neonPairs(f *asm.File) {
	fn := f.Loaded("pairsNEON", "puts the quads of so many segments of a panel together in pairs; both numbers are above 0.",
		pointer("dst", "byte"), pointer("src", "byte"), asm.Int("segments"), asm.Int("quads"))
	pair := func(second int) {
		for j := range panelVectors {
			fn.V("zip1.4s", 8+2*j, j, second+j%4)
			fn.V("zip2.4s", 9+2*j, j, second+j%4)
		}
		for j := 0; j < 8; j += 2 {
			fn.I("FSTPQ.P (F%d, F%d), 32(R0)", 8+j, 9+j)
		}
	}
	load := func(n int) {
		for j := 0; j < n; j += 2 {
			fn.I("FLDPQ.P 32(R1), (F%d, F%d)", j, j+1)
		}
	}
	for j := range panelVectors {
		fn.Clear(asm.NEON(), fmt.Sprint("V", 16+j))
	}
	fn.Loop("R2", func() {
		fn.I("MOVD R3, R4")
		fn.While("R4", 2, func() {
			load(8)
			pair(4)
		})
		fn.While("R4", 1, func() {
			load(4)
			pair(16)
		})
	})
	fn.Ret()
}

// neonMatrix is a kernel being written: sums of height rows of A times a panel of pairs of quads, n tiles one below the other. It has the
// registers of neonTile, and R24 for what sums begin with. Vectors: for each pair of rows eight sums of two columns, then rows of A and
// two for what is read of them and of columns. Of an odd number of rows the last is its own partner.
type neonMatrix struct{ neonTile }

func (t *neonMatrix) pairs() int          { return (t.height + 1) / 2 }
func (t *neonMatrix) sum(pair, j int) int { return 8*pair + j }
func (t *neonMatrix) a(r int) int         { return 24 + r }

// partner is the second row of the pair of row r.
func (t *neonMatrix) partner(r int) int { return min(r+1, t.height-1) }

// oct is the register of 8 k of a pair of rows: the first eight of 16, or the others.
func (t *neonMatrix) oct(pair, half int) int {
	switch {
	case half == 1:
		return t.a(2*pair + 1)
	case pair == 0:
		return 30
	}
	return t.a(2*pair - 2) // which the pair before left
}

func (t *neonMatrix) emit(f *asm.File) string {
	name := kernelName("Matrix", t.height, 1, t.signed)
	t.Func = f.Func(name, fmt.Sprintf("%s sums n tiles of %d rows; n > 0; see tileParams.", name, t.height),
		pointer("p", "tileParams"), pointer("a", "byte"), pointer("rows", "int"), pointer("b", "byte"), pointer("start", "int32"),
		pointer("c", "int32"), asm.Int("n"))
	for _, x := range [][2]string{{"p", "R0"}, {"a", "R23"}, {"rows", "R6"}, {"start", "R24"}, {"c", "R20"}, {"n", "R21"}} {
		t.Load(x[0], x[1])
	}
	t.Loop("R21", func() {
		for r := range t.height {
			t.I("MOVD.P 8(R6), %s", t.row(r))
			t.I("ADD R23, %s", t.row(r))
		}
		t.begin()
		t.Load("b", "R1")
		t.I("MOVD %d(R0), R2", offSegments)
		t.I("MOVD %d(R0), R3", offCount)
		t.Loop("R3", t.segment)
		t.store()
	})
	t.Ret()
	return name
}

// together and apart are what makes sums of pairs of rows and columns from rows, and back: an instruction's first operand, which is the
// unsigned one, is of rows where A is unsigned, and else of columns.
func (t *neonMatrix) together() string { return map[bool]string{true: ".2d", false: ".4s"}[t.signed] }

func (t *neonMatrix) apart() [2]string {
	if t.signed {
		return [2]string{"zip1.2d", "zip2.2d"}
	}
	return [2]string{"uzp1.4s", "uzp2.4s"}
}

func (t *neonMatrix) begin() {
	t.I("MOVD %d(R0), R22", offLDS)
	for pair := range t.pairs() {
		t.I("MOVD R24, R5")
		t.I("ADD R22, R24")
		two := 2*pair+1 < t.height
		for v := range panelVectors {
			t.I("FMOVQ %d(R5), F24", 16*v)
			if two {
				t.I("FMOVQ %d(R24), F25", 16*v)
			} else {
				t.I("VMOV V24.B16, V25.B16")
			}
			t.V("zip1"+t.together(), t.sum(pair, 2*v), 24, 25)
			t.V("zip2"+t.together(), t.sum(pair, 2*v+1), 24, 25)
		}
		if two {
			t.I("ADD R22, R24")
		}
	}
}

func (t *neonMatrix) store() {
	t.I("MOVD %d(R0), R22", offLDC)
	for r := range t.height {
		for v := range panelVectors {
			t.V(t.apart()[r%2], 24, t.sum(r/2, 2*v), t.sum(r/2, 2*v+1))
			t.I("FMOVQ F24, %d(R20)", 16*v)
		}
		t.I("ADD R22, R20")
	}
}

// segment emits the loop over the quads of a segment, four at a time, and its remainder.
func (t *neonMatrix) segment() {
	t.I("MOVD.P 8(R2), R5")
	t.I("MOVD %d(R0), R4", offQuads)
	for r := range t.height {
		t.I("ADD R5, %s, %s", t.row(r), t.at(r))
	}
	for _, quads := range []int{4, 2, 1} {
		t.While("R4", quads, func() {
			for r := range t.height {
				t.I("%s %d(%s), F%d", map[int]string{4: "FMOVQ.P", 2: "FMOVD.P", 1: "FMOVS.P"}[quads], 4*quads, t.at(r), t.a(r))
			}
			for pair := range t.pairs() {
				r := 2 * pair
				first, second := t.a(r), t.a(t.partner(r))
				t.V("zip1.2d", t.oct(pair, 0), first, second)
				if quads == 4 {
					t.V("zip2.2d", t.oct(pair, 1), first, second)
				}
			}
			octs := (quads + 1) / 2
			for half := range octs {
				t.columns(half)
			}
			t.I("ADD $%d, R1", 128*octs)
		})
	}
}

// columns emits 8 k.
func (t *neonMatrix) columns(half int) {
	for j := range 8 {
		b := []int{31, t.a(2*t.pairs() - 2)}[j%2] // which the last pair left
		t.I("FMOVQ %d(R1), F%d", 128*half+16*j, b)
		for pair := range t.pairs() {
			n, m := t.oct(pair, half), b
			if !t.signed {
				n, m = m, n
			}
			t.V("usmmla.4s", t.sum(pair, j), n, m)
		}
	}
}
