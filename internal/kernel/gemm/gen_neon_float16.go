//go:build ignore

package main

import "github.com/carve-dev/carve/internal/kernel/asm"

// neonFloat16 is the body of a tile of words of two float16 for NEON, where FEAT_FP16 is. A vector of B is eight numbers of one k, those of even
// k and of odd k have sums of their own in float16, and after 64 of each they are added to sums in float32, which are kept on the stack
// meanwhile: that bounds how far sums lose their last bits, or grow beyond what float16 holds.
//
// Registers as neonTile, and R21 the sums in float32, R22 words of k until they are added. In the loop, vectors are: the elements of A, whose
// lanes may be those of V0 to V15 alone, two of B, the sums, and the rest of B.
type neonFloat16 struct{ neonTile }

// chainWords is how many words are multiplied before their sums are added to those in float32.
const chainWords = 64

func (t *neonFloat16) sums() int { return 4 * t.mr * t.np }

// sum is the sum of vector v of row r, of even or odd k.
func (t *neonFloat16) sum(r, v, odd int) int { return 8 + 2*(2*t.np*r+v) + odd }

// columns is vector i of B, of those that a loop reads.
func (t *neonFloat16) columns(i int) int {
	spare := t.Registers - 8 - t.sums()
	if i %= 2 + spare; i >= 2 {
		return 8 + t.sums() + i - 2
	}
	return 6 + i
}

func (t *neonFloat16) emit(f *asm.File, name string) {
	t.frame(f, name, func() {
		bytes := 64 * t.np * t.mr
		t.Frame(bytes)
		t.I("MOVD $sums-%d(SP), R21", bytes)
		each := func(op string) {
			for i := range t.mr * t.nv() {
				if op == "store" {
					t.I("FMOVQ F%d, %d(R21)", i, 16*i)
				} else {
					t.I("FMOVQ %d(R21), F%d", 16*i, i)
				}
			}
		}
		t.I("CBZ R6, summed")
		each("store")
		t.Label("chain")
		t.chain()
		t.I("CBNZ R6, chain")
		each("load")
		t.Label("summed")
	})
}

// chain emits the products of up to chainWords words and the addition of their sums to those in float32.
func (t *neonFloat16) chain() {
	t.I("MOVD $%d, R22", chainWords)
	t.I("CMP R22, R6")
	t.I("CSEL LT, R6, R22, R22")
	t.I("SUB R22, R6")
	for i := range t.sums() {
		t.Clear(t.ISA, t.R(8+i))
	}
	words := func(n int, load string) {
		t.While("R22", n, func() {
			for r := range t.mr {
				t.I("%s %d(%s), F%d", load, 4*n, t.row(r), r)
			}
			loaded := 0
			for k := range 2 * n {
				for v := range 2 * t.np {
					x := t.columns(loaded)
					loaded++
					t.I("FMOVQ %d(R%d), F%d", 32*k+v%2*16, 2+v/2, x)
					for r := range t.mr {
						t.VLane("fmla.8h", t.sum(r, v, k%2), x, r, k)
					}
				}
			}
			for q := range t.np {
				t.I("ADD $%d, R%d", 64*n, 2+q)
			}
		})
	}
	words(4, "FMOVQ.P")
	words(1, "FMOVS.P")
	for r := range t.mr {
		for v := range 2 * t.np {
			at := 16 * (t.nv()*r + 2*v)
			low, high, x, y := v%2*4, v%2*4+1, v%2*4+2, v%2*4+3
			t.I("FMOVQ %d(R21), F%d", at, x)
			t.I("FMOVQ %d(R21), F%d", at+16, y)
			t.V("fadd.8h", t.sum(r, v, 0), t.sum(r, v, 0), t.sum(r, v, 1))
			t.V("fcvtl.4s", low, t.sum(r, v, 0))
			t.V("fcvtl2.4s", high, t.sum(r, v, 0))
			t.V("fadd.4s", x, x, low)
			t.V("fadd.4s", y, y, high)
			t.I("FMOVQ F%d, %d(R21)", x, at)
			t.I("FMOVQ F%d, %d(R21)", y, at+16)
		}
	}
}
