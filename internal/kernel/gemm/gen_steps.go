//go:build ignore

package main

import "github.com/carve-dev/carve/internal/kernel/asm"

// loopMasked emits the loop over the last k, of which the last panel is masked. Panels of float16 are padded.
func (t *tile) loopMasked() {
	if t.half {
		return
	}
	end := t.NewLabel("store")
	t.I("MOVQ %d(R13), DI", offMasked)
	t.I("TESTQ DI, DI")
	t.I("JZ %s", end)
	t.steps(1, func(u int) { t.step(u, true) })
	t.Label(end)
}

// unroll is how many k a round of the loop has.
const unroll = 4

// loop emits the loop over k, unrolled, and its remainder.
func (t *tile) loop() {
	if t.fetches() { // in a loop of its own: fetching what is there costs some percent
		plain, rest := t.NewLabel("plain"), t.NewLabel("rest")
		t.Load("next", "R10")
		t.I("TESTQ R10, R10")
		t.I("JZ %s", plain)
		if t.indexed() {
			t.I("LEAQ (R11)(R11*2), R14")
		}
		t.rounds(true)
		t.I("JMP %s", rest)
		t.Label(plain)
		t.rounds(false)
		t.Label(rest)
	} else {
		t.rounds(false)
	}
	end := t.NewLabel("kend")
	t.I("TESTQ DI, DI")
	t.I("JZ %s", end)
	t.Loop("DI", func() {
		t.step(0, false)
		t.I("ADDQ $%d, AX", t.size)
	})
	t.Label(end)
}

// indexed reports whether the rows of B that are gone through in a round of the loop, and the lines fetched there, are addressed by index. An addition for each is one
// of 22 instructions of a k, which counts where another thread has its share of the core: on an Intel Emerald Rapids 6 rows went from 85 to 88 % of the peak then,
// and stay at 98 else.
func (t *tile) indexed() bool { return t.ISA == asm.AVX2() && t.np == 1 && t.mr > 1 }

// beside reports whether the tile goes on with the one beside it where that is asked for.
func (t *tile) beside() bool { return t.across() && t.np == 1 }

// rounds emits the loop of whole rounds, which have fetched what comes next, or have not.
func (t *tile) rounds(fetch bool) {
	t.steps(unroll, func(u int) {
		if t.indexed() {
			t.row = u
		}
		if fetch {
			t.fetch(u)
		}
		t.products(u, false)
		t.row = 0
		switch {
		case !t.indexed():
			t.I("ADDQ R9, R8")
			if fetch {
				t.I("ADDQ %d(R13), R10", offAhead)
			}
		case u == unroll-1:
			t.I("LEAQ (R8)(R9*%d), R8", unroll)
			if fetch {
				t.I("ADDQ %d(R13), R10", offRound)
			}
		}
	})
}

// steps emits a loop over k that takes unroll of them at a time.
func (t *tile) steps(unroll int, step func(u int)) {
	t.While("DI", unroll, func() {
		for u := range unroll {
			step(u)
		}
		t.I("ADDQ $%d, AX", t.size*unroll)
	})
}

// step emits one k, and goes on to the next row of B.
func (t *tile) step(u int, tail bool) {
	t.products(u, tail)
	t.I("ADDQ R9, R8")
}

// products emits those of one k: the row of B is loaded once, each element of A broadcast once.
func (t *tile) products(u int, tail bool) {
	masked := func(j int) bool { return tail && t.lastPanel(j) }
	bc := t.free() + t.nv()
	if t.inPlace() {
		bc = t.free()
	}
	if !t.inPlace() {
		for j := range t.nv() {
			t.loadB(j, t.b(j), masked(j))
		}
	}
	spare := t.Registers - bc
	if masked(t.nv()-1) && !t.Masks && spare > 1 {
		spare--
	}
	for r := range t.mr {
		x := t.R(bc + r%min(spare, 4))
		t.I("%s %s, %s", t.op("VBROADCASTS"), t.aAddr(r, u), x)
		for j := range t.nv() {
			switch {
			case !t.inPlace():
				t.multiply(t.b(j), x, t.acc(r, j))
			case masked(j):
				y := t.R(t.free() + 1)
				if !t.Masks {
					y = t.R(t.Registers - 2)
				}
				t.loadB(j, y, true)
				t.multiply(y, x, t.acc(r, j))
			case t.pairs || t.half: // B is no operand in memory
				y := t.R(t.free() + 1 + j%(t.Registers-t.free()-1))
				t.loadB(j, y, false)
				t.multiply(y, x, t.acc(r, j))
			default:
				t.multiply(t.bAddr(j), x, t.acc(r, j))
			}
		}
	}
}

// fetches reports whether a tile takes what is to be fetched for those behind it: those of float32.
func (t *tile) fetches() bool { return t.size == 4 }

// fetch has a line at R10 fetched into the second-level cache, which a tile behind this one will read. The few rows of a tile that does
// little else than wait for memory have a line of each panel fetched into the first, which they read themselves soon.
func (t *tile) fetch(u int) {
	if u%(4/t.sizeB()) != 0 { // one of two in a line
		return
	}
	panels, level := 1, 1
	if t.mr <= fewRows {
		panels, level = t.np, 0
	}
	if t.row > 0 {
		t.I("PREFETCHT%d %s", level, []string{"", "(R10)(R11*1)", "(R10)(R11*2)", "(R10)(R14*1)"}[t.row])
		return
	}
	for q := range panels {
		t.I("PREFETCHT%d %s", level, []string{"(R10)", "(R10)(R11*1)", "(R10)(R11*2)", "(R10)(R12*1)"}[q])
	}
}
