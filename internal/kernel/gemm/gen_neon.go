//go:build ignore

package main

import (
	"fmt"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// neonTile is the body of a tile for NEON: C[mr][16*np] from A[mr][k] and np panels of B; of float64, with 8 columns a panel. It has no
// broadcast: a vector holds four elements of a row of A, or two, and a multiply-add takes one of its lanes. It has no masks: what is left of a last panel is
// moved in halves and quarters of a vector.
//
// Registers: R0 params, R1 step of b from one k to the next, R2 to R5 the panels of b, R6 k, R7 to R12 the rows of a, R13
// what walks the rows of c or res, R14 its step, R15 flags, R16 bytes in use of the last panel, R19 and R20 scratch. Vectors:
// the accumulators row by row, then the elements of A, then columns of B in turn.
type neonTile struct {
	*asm.Func
	shape
	mr, np int
	size   int  // bytes of an element
	pairs  bool // elements of A and B are two bfloat16 in a word
	half   bool // elements of B are float16
}

// multiply emits the multiply-add of vector j of B and lane u of the elements of row r.
func (t *neonTile) multiply(r, j, u int) {
	if t.pairs {
		t.VLane("bfdot.4s", t.acc(r, j), t.b(j), t.a(r), u)
		return
	}
	t.VLane(t.op("fmla"), t.acc(r, j), t.b(j), t.a(r), u)
}

// pointer is a parameter that points to elements.
func (t *neonTile) pointer(name string) asm.Arg {
	if t.size == 8 {
		return asm.Typed(name, "*float64")
	}
	return asm.Ptr(name)
}

// op names an instruction on whole vectors of elements.
func (t *neonTile) op(name string) string { return name + map[int]string{4: ".4s", 8: ".2d"}[t.size] }

// next loads the next element of a row of A alone.
func (t *neonTile) next(r int) {
	t.I("%s %d(%s), F%d", map[int]string{4: "FMOVS.P", 8: "FMOVD.P"}[t.size], t.size, t.row(r), t.a(r))
}

func (t *neonTile) nv() int          { return 4 * t.np }
func (t *neonTile) acc(r, j int) int { return r*t.nv() + j }
func (t *neonTile) a(r int) int      { return t.mr*t.nv() + r }
func (t *neonTile) b(j int) int      { return t.mr*(t.nv()+1) + j%(t.Registers-t.mr*(t.nv()+1)) }
func (t *neonTile) panel(j int) string {
	return fmt.Sprintf("R%d", 2+j/4)
}
func (t *neonTile) row(r int) string     { return fmt.Sprintf("R%d", 7+r) }
func (t *neonTile) lastPanel(j int) bool { return j >= 4*(t.np-1) }

func (t *neonTile) emit(f *asm.File, name string) { t.frame(f, name, t.products) }

// frame emits a tile whose products are those of body, from the accumulators on to them.
func (t *neonTile) frame(f *asm.File, name string, body func()) {
	args := []asm.Arg{asm.Typed("p", "*tileParams"), t.pointer("a"), t.pointer("b"), t.pointer("bias"), t.pointer("res"), t.pointer("c")}
	if t.size == 4 {
		args = append(args, asm.Typed("next", "uintptr"))
	}
	t.Func = f.Func(name, fmt.Sprintf("%s computes a tile of %d rows and %d columns; see tileParams.", name, t.mr, 64/t.size*t.np), args...)
	t.Load("p", "R0")
	t.Load("b", "R2")
	t.Load("a", "R7")
	t.I("MOVD %d(R0), R1", offBStep)
	if t.np > 1 {
		t.I("MOVD %d(R0), R19", offBPanel)
		for q := 1; q < t.np; q++ {
			t.I("ADD R19, R%d, R%d", 1+q, 2+q)
		}
	}
	if t.mr > 1 {
		t.I("MOVD %d(R0), R19", offLDA)
		for r := 1; r < t.mr; r++ {
			t.I("ADD R19, %s, %s", t.row(r-1), t.row(r))
		}
	}
	t.I("MOVD %d(R0), R6", offK)
	t.I("MOVWU %d(R0), R15", offFlags)
	// The table of masks that maskRow is an offset into has 64 bytes of ones.
	t.I("MOVD %d(R0), R19", offMaskRow)
	t.I("MOVD $64, R16")
	t.I("SUB R19, R16, R16")
	t.start()
	body()
	t.finish()
	t.Ret()
}

// products emits the loops over k. Panels of 16 bits are padded.
func (t *neonTile) products() {
	if t.half || t.pairs {
		t.loop()
		return
	}
	t.I("TBNZ $%d, R15, tailb", bit(flagTailB))
	t.loop()
	t.I("B store")
	t.Label("tailb")
	t.While("R6", 1, func() { t.step(0, true, t.next) })
	t.Label("store")
}

// bit returns the number of the bit of a flag.
func bit(flag int) int {
	n := 0
	for flag>>n != 1 {
		n++
	}
	return n
}

// start sets the accumulators: from C, from bias, or to zero.
func (t *neonTile) start() {
	t.I("TBZ $%d, R15, fresh", bit(flagAccumulate))
	t.rows("c", offLDC, "accfull", "started", func(r, j int, tail bool) { t.load(t.acc(r, j), j, "R13", tail) })
	t.Label("fresh")
	t.Load("bias", "R13")
	t.I("CBZ R13, zero")
	t.withTail("biasfull", "started", func(tail bool) {
		for j := range t.nv() {
			t.load(t.acc(0, j), j, "R13", tail)
		}
		for r := 1; r < t.mr; r++ {
			for j := range t.nv() {
				t.I("VMOV V%d.B16, V%d.B16", t.acc(0, j), t.acc(r, j))
			}
		}
	})
	t.Label("zero")
	for i := range t.mr * t.nv() {
		t.Clear(t.ISA, t.R(i))
	}
	t.Label("started")
}

// rows emits op for each vector of each row of an argument whose rows lie the field at step apart, once with and once
// without a ragged last panel; both end in a jump to end.
func (t *neonTile) rows(arg string, step int, full, end string, op func(r, j int, tail bool)) {
	t.Load(arg, "R13")
	t.I("MOVD %d(R0), R14", step)
	t.withTail(full, end, func(tail bool) {
		for r := range t.mr {
			for j := range t.nv() {
				op(r, j, tail)
			}
			if r < t.mr-1 {
				t.I("ADD R14, R13")
			}
		}
	})
}

// withTail emits body for a ragged and for a full last panel; both end in a jump to end. full is the label of the second.
func (t *neonTile) withTail(full, end string, body func(tail bool)) {
	t.I("TBZ $%d, R15, %s", bit(flagTailC), full)
	body(true)
	t.I("B %s", end)
	t.Label(full)
	body(false)
	t.I("B %s", end)
}

// load loads vector j of a row at base; of the last panel, where tail is set, what is in use, and zeros behind it.
func (t *neonTile) load(x, j int, base string, tail bool) {
	t.loadAt(x, 16*j, j%4, base, tail && t.lastPanel(j))
}

// loadAt loads vector v of a panel, off bytes behind base; only what is in use of it where part is set.
func (t *neonTile) loadAt(x, off, v int, base string, part bool) {
	if !part {
		t.I("FMOVQ %d(%s), F%d", off, base, x)
		return
	}
	t.part(off, v, base, partial{
		none:    func() { t.Clear(t.ISA, t.R(x)) },
		whole:   func(at string) { t.I("FMOVQ (%s), F%d", at, x) },
		half:    func(at string) { t.I("FMOVD (%s), F%d", at, x) },
		quarter: func(at string) { t.I("FMOVS (%s), F%d", at, x) },
		third:   func(at string) { t.I("VLD1 (%s), V%d.S[2]", at, x) },
	})
}

// store is the store that goes with load.
func (t *neonTile) store(x, j int, base string, tail bool) {
	off := 16 * j
	if !tail || !t.lastPanel(j) {
		t.I("FMOVQ F%d, %d(%s)", x, off, base)
		return
	}
	t.part(off, j%4, base, partial{
		whole:   func(at string) { t.I("FMOVQ F%d, (%s)", x, at) },
		half:    func(at string) { t.I("FMOVD F%d, (%s)", x, at) },
		quarter: func(at string) { t.I("FMOVS F%d, (%s)", x, at) },
		third:   func(at string) { t.I("VST1 V%d.S[2], (%s)", x, at) },
	})
}

// partial moves the lanes in use of a vector: none, all four, the lower two, the lowest, and the third.
type partial struct {
	none                        func()
	whole, half, quarter, third func(at string)
}

// part emits the choice among the moves of vector v of a last panel, off bytes behind base.
func (t *neonTile) part(off, v int, base string, m partial) {
	less, low, end := t.NewLabel("less"), t.NewLabel("low"), t.NewLabel("moved")
	if m.none != nil {
		m.none()
	}
	t.I("SUBS $%d, R16, R19", 16*v)
	t.I("BLE %s", end)
	t.I("ADD $%d, %s, R20", off, base)
	t.I("CMP $16, R19")
	t.I("BLT %s", less)
	m.whole("R20")
	t.I("B %s", end)
	t.Label(less)
	t.I("TBZ $3, R19, %s", low)
	m.half("R20")
	t.I("TBZ $2, R19, %s", end)
	t.I("ADD $8, R20")
	m.third("R20")
	t.I("B %s", end)
	t.Label(low)
	m.quarter("R20")
	t.Label(end)
}

// loop emits the loop over k, four at a time, and its remainder.
func (t *neonTile) loop() {
	t.While("R6", 4, func() {
		for u := range 4 {
			lane := u % (16 / t.size)
			t.step(lane, false, func(r int) {
				if lane == 0 {
					t.I("FMOVQ.P 16(%s), F%d", t.row(r), t.a(r))
				}
			})
		}
	})
	t.While("R6", 1, func() { t.step(0, false, t.next) })
}

// step emits one k, lane u of the elements of A, which element loads.
func (t *neonTile) step(u int, tail bool, element func(r int)) {
	for r := range t.mr {
		element(r)
	}
	for j := range t.nv() {
		switch {
		case !t.half:
			t.loadAt(t.b(j), 16*(j%4), j%4, t.panel(j), tail && t.lastPanel(j))
		case j%2 == 0: // eight float16 are two vectors
			t.I("FMOVQ %d(%s), F%d", 8*(j%4), t.panel(j), t.b(j))
			t.V("fcvtl2.4s", t.b(j+1), t.b(j))
			t.V("fcvtl.4s", t.b(j), t.b(j))
		}
		for r := range t.mr {
			t.multiply(r, j, u)
		}
	}
	for q := range t.np {
		t.I("ADD R1, R%d", 2+q)
	}
}

// finish adds the residual, clips float32 and stores.
func (t *neonTile) finish() {
	x := t.a(0)
	t.Load("res", "R13")
	t.I("CBZ R13, clip")
	t.rows("res", offLDR, "resfull", "clip", func(r, j int, tail bool) {
		t.load(x, j, "R13", tail)
		t.V(t.op("fadd"), t.acc(r, j), t.acc(r, j), x)
	})
	t.Label("clip")
	if t.size == 4 {
		t.clip()
	}
	t.rows("c", offLDC, "outfull", "end", func(r, j int, tail bool) { t.store(t.acc(r, j), j, "R13", tail) })
	t.Label("end")
}

// clip bounds the results, where that is asked for.
func (t *neonTile) clip() {
	x, y := t.a(0), t.b(0)
	t.I("TBZ $%d, R15, out", bit(flagClip))
	for _, bound := range []struct{ off, x int }{{offLo, x}, {offHi, y}} {
		t.I("ADD $%d, R0, R19", bound.off)
		t.I("VLD1R (R19), [V%d.S4]", bound.x)
	}
	for i := range t.mr * t.nv() {
		t.V("fmax.4s", i, i, x)
		t.V("fmin.4s", i, i, y)
	}
	t.Label("out")
}
