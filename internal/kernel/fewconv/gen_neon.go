//go:build ignore

package main

import (
	"fmt"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// neonTile is a tile for NEON, whose vectors have 4 lanes. Registers: R0 the call; R1 the distance of pixels; R2, R3 and R4 the source of a block, row and tap, R5, R6
// and R7 their weights, R8, R9 and R10 how many are left; R11 to R15 distances of
// the call; R16, R17 and R22 the next tile's source and result, and tiles left; R19 to R21 pixels. Vectors: four sums for
// each pixel of each result; then pixels, and weights.
type neonTile struct {
	*asm.Func
	name            string
	results, pixels int
}

func (t *neonTile) sum(r, p, quad int) int { return 4*(r*t.pixels+p) + quad }

func (t *neonTile) field(name, reg string) { t.I("MOVD %d(R0), %s", off(name), reg) }

func (t *neonTile) emit(f *asm.File) {
	t.name = fmt.Sprintf("sums%dx%dNEON", t.results, t.pixels)
	t.Func = f.Loaded(t.name, fmt.Sprintf("computes tiles of %d results of %d pixels; all counts are above zero.", t.results, t.pixels), asm.Typed("c", "*call"))
	for _, x := range [][2]string{{"srcPixel", "R1"}, {"srcBlock", "R11"}, {"srcRow", "R12"}, {"srcTap", "R13"}, {"wBlock", "R14"}, {"wRow", "R15"}, {"src", "R16"}, {"dst", "R17"}, {"tiles", "R22"}} {
		t.field(x[0], x[1])
	}
	again := t.NewLabel("tile")
	t.Label(again)
	for i := range 4 * t.results * t.pixels {
		t.Clear(asm.NEON(), fmt.Sprint("V", i))
	}
	t.I("MOVD R16, R2")
	t.field("w", "R5")
	t.field("blocks", "R8")
	t.Loop("R8", func() {
		t.I("MOVD R2, R3")
		t.I("MOVD R5, R6")
		t.field("rows", "R9")
		t.Loop("R9", func() {
			t.I("MOVD R3, R4")
			t.I("MOVD R6, R7")
			t.field("taps", "R10")
			t.Loop("R10", func() {
				t.tap()
				t.I("ADD R13, R4")
				t.I("ADD $%d, R7", 64*t.results)
			})
			t.I("ADD R12, R3")
			t.I("ADD R15, R6")
		})
		t.I("ADD R11, R2")
		t.I("ADD R14, R5")
	})
	t.store()
	t.field("srcTile", "R3")
	t.I("ADD R3, R16")
	t.I("ADD $%d, R17", 4*t.pixels)
	t.I("SUBS $1, R22")
	t.I("BNE %s", again)
	t.Ret()
}

// tap adds the products of a tap, two vectors of channels at a time.
func (t *neonTile) tap() {
	x := 4 * t.results * t.pixels // of pixels: two vectors each
	w := x + 2*t.pixels
	at := func(p int) string { return []string{"R4", "R19", "R20", "R21"}[p] }
	for p := 1; p < t.pixels; p++ {
		t.I("ADD R1, %s, %s", at(p-1), at(p))
	}
	for pair := 0; pair < 4; pair += 2 {
		if t.results == 1 { // weights first, which are for all pixels
			t.I("FLDPQ %d(R7), (F%d, F%d)", 16*pair, w, w+1)
		}
		for p := range t.pixels {
			t.I("FLDPQ %d(%s), (F%d, F%d)", 16*pair, at(p), x+2*p, x+2*p+1)
		}
		for r := range t.results {
			if t.results > 1 {
				t.I("FLDPQ %d(R7), (F%d, F%d)", 64*r+16*pair, w, w+1)
			}
			for p := range t.pixels {
				for i := range 2 {
					t.V("fmla.4s", t.sum(r, p, pair+i), x+2*p+i, w+i)
				}
			}
		}
	}
}

// store adds up the sums in the order of vectors of 8 lanes, and stores results.
func (t *neonTile) store() {
	n := t.results * t.pixels
	for i := range n {
		for quad := range 2 {
			t.V("fadd.4s", 4*i+quad, 4*i+quad, 4*i+quad+2)
		}
	}
	t.I("MOVD R17, R2")
	t.field("dstPlane", "R3")
	for from := 0; from < n; from += 4 {
		in := func(i, quad int) int { return 4*min(from+i, n-1) + quad }
		a, b, c := 29, 30, 31
		half := func(quad, d int) {
			t.V("faddp.4s", d, in(0, quad), in(1, quad))
			t.V("faddp.4s", c, in(2, quad), in(3, quad))
			t.V("faddp.4s", d, d, c)
		}
		half(0, a)
		half(1, b)
		t.V("fadd.4s", a, a, b)
		for i := 0; i < min(4, n-from); i += t.pixels {
			if from+i > 0 {
				t.I("ADD R3, R2")
			}
			switch {
			case t.pixels == 4:
				t.I("FMOVQ F%d, (R2)", a)
			case t.pixels == 2:
				t.I("VMOV V%d.D[%d], R4", a, i/2)
				t.I("MOVD R4, (R2)")
			default:
				t.I("VMOV V%d.S[%d], R4", a, i)
				t.I("MOVW R4, (R2)")
			}
		}
	}
}
