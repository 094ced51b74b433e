//go:build ignore

package main

import (
	"fmt"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// neonWideHeight is the most rows that the registers have sums for, two for each column.
const neonWideHeight = 3

// neonWides writes the kernels of products for processors that multiply no bytes.
func neonWides(f *asm.File) {
	tables(f, "callWideNEON", "p, a, b, start, c, n", "p *tileParams, a *int16, b *byte, start, c *int32, n int", neonWideHeight, []int{1},
		func(height, _ int, signed bool) string { return (&neonWide{height: height, signed: signed}).emit(f) })
	f.Serve("callWide", asm.NEON(), "for i := range tiles {\ncallWideNEON(signed, height, width, p, advance(a, i*height*p.lda/2), b, start, advance(c, i*height*p.ldc/4), n)\n}")
}

// neonWide is wide for NEON. A vector of sums has two of each of two columns, as a pair of elements of A is multiplied by a pair of B's; they are
// added where a tile ends.
//
// Registers: R0 params, R1 a, R2 b, R3 start, R4 c, R5 tiles left, R6 the place in b, R7 to R9 even elements of rows, R10 to R12 odd ones,
// R13 quads left, R14 to R16 scratch. Vectors: eight sums a row, then pairs of elements, the even before the odd, then two for columns.
type neonWide struct {
	*asm.Func
	height int
	signed bool // B is
}

func (t *neonWide) sum(r, j int) int    { return 2*panelVectors*r + j }
func (t *neonWide) pair(r, odd int) int { return 2*panelVectors*t.height + 2*r + odd }

func (t *neonWide) emit(f *asm.File) string {
	name := kernelName("WideNEON", t.height, 1, t.signed)
	t.Func = f.Loaded(name, fmt.Sprintf("sums n tiles of %d rows, side by side; n > 0; see tileParams.", t.height),
		pointer("p", "tileParams"), pointer("a", "int16"), pointer("b", "byte"), pointer("start", "int32"), pointer("c", "int32"), asm.Int("n"))
	t.Loop("R5", func() {
		for i := range 2 * panelVectors * t.height {
			t.Clear(asm.NEON(), fmt.Sprint("V", i))
		}
		t.I("MOVD %d(R0), R13", offQuads)
		t.I("MOVD %d(R0), R14", offLDA)
		t.I("MOVD R1, R7")
		for r := 1; r < t.height; r++ {
			t.I("ADD R14, R%d, R%d", 6+r, 7+r)
		}
		for r := range t.height {
			t.I("ADD R13<<2, R%d, R%d", 7+r, 10+r)
		}
		t.I("MOVD R2, R6")
		t.Loop("R13", t.quad)
		t.store()
		t.I("MOVD %d(R0), R14", offLDB)
		t.I("ADD R14, R2")
		t.I("ADD $64, R3")
		t.I("ADD $64, R4")
	})
	t.Ret()
	return name
}

// quad emits four k: of each vector of columns first the even elements, then the odd ones.
func (t *neonWide) quad() {
	right := map[bool]string{true: "sshr.8h", false: "ushr.8h"}[t.signed]
	for r := range t.height {
		t.I("VLD1R.P 4(R%d), [V%d.S4]", 7+r, t.pair(r, 0))
		t.I("VLD1R.P 4(R%d), [V%d.S4]", 10+r, t.pair(r, 1))
	}
	for j := range panelVectors {
		t.I("FMOVQ.P 16(R6), F31")
		t.VShift("shl.8h", 30, 31, 8)
		t.VShift(right, 30, 30, 8)
		t.VShift(right, 31, 31, 8)
		for odd := range 2 {
			for r := range t.height {
				t.V("smlal.4s", t.sum(r, 2*j), 30+odd, t.pair(r, odd))
				t.V("smlal2.4s", t.sum(r, 2*j+1), 30+odd, t.pair(r, odd))
			}
		}
	}
}

func (t *neonWide) store() {
	t.I("MOVD R3, R15")
	t.I("MOVD R4, R16")
	for r := range t.height {
		for j := range panelVectors {
			x := t.sum(r, 2*j)
			t.V("addp.4s", x, x, x+1)
			t.I("FMOVQ %d(R15), F30", 16*j)
			t.V("add.4s", x, x, 30)
			t.I("FMOVQ F%d, %d(R16)", x, 16*j)
		}
		for i, off := range []int{offLDS, offLDC} {
			t.I("MOVD %d(R0), R14", off)
			t.I("ADD R14, R%d", 15+i)
		}
	}
}
