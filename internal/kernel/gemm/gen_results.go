//go:build ignore

package main

import (
	"fmt"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// fetchResults has the lines of C fetched that the tile will be stored to. Rows may begin anywhere in a line.
func (t *tile) fetchResults() {
	t.Load("c", "R14")
	for r := range t.mr {
		for j := range t.np {
			t.I("PREFETCHT0 %d(R14)", 64*j)
		}
		t.I("PREFETCHT0 %d(R14)", 64*t.np-1)
		if r < t.mr-1 {
			t.I("ADDQ %d(R13), R14", offLDC)
		}
	}
}

// finish adds the residual, clips float32 and stores.
func (t *tile) finish() {
	t.Load("res", "AX")
	t.I("TESTQ AX, AX")
	t.I("JZ clip")
	x := t.R(t.free())
	t.withTail("resfull", "clip", func(tail bool) {
		for r := range t.mr {
			for j := range t.nv() {
				t.loadTail("AX", j, x, tail)
				t.I("%s %s, %s, %s", t.op("VADDP"), x, t.acc(r, j), t.acc(r, j))
			}
			if r < t.mr-1 {
				t.I("ADDQ %d(R13), AX", offLDR)
			}
		}
	})
	t.Label("clip")
	if t.size == 4 {
		t.clip()
	}
	t.Load("c", "R8")
	t.withTail("outfull", "end", func(tail bool) {
		if tail && !t.Masks {
			t.storeNarrow()
			return
		}
		for r := range t.mr {
			for j := range t.nv() {
				t.storeTail(t.acc(r, j), "R8", j, tail)
			}
			if r < t.mr-1 {
				t.I("ADDQ %d(R13), R8", offLDC)
			}
		}
	})
	t.Label("end")
}

// storeNarrow stores rows of which the last panel is ragged, by moves of ever fewer lanes: a masked store takes 12 cycles on AMD's processors.
// Results move down in their registers as their lower lanes are stored.
func (t *tile) storeNarrow() {
	last := t.nv() - 16/t.Lanes
	each := func(op func(r int)) {
		t.I("MOVQ R8, SI")
		for r := range t.mr {
			op(r)
			if r < t.mr-1 {
				t.I("ADDQ %d(R13), SI", offLDC)
			}
		}
	}
	if last > 0 {
		each(func(r int) {
			for j := range last {
				t.StoreVector(t.ISA, t.acc(r, j), fmt.Sprintf("%d(SI)", j*t.Size()), "")
			}
		})
	}
	t.I("ADDQ $%d, R8", last*t.Size())
	// The table of masks that maskRow is an offset into has 64 bytes of ones.
	t.I("MOVQ $64, DI")
	t.I("SUBQ %d(R13), DI", offMaskRow)
	part := func(bytes int, op func(r int)) {
		t.I("TESTQ $%d, DI", bytes)
		none := t.NewLabel("narrow")
		t.I("JZ %s", none)
		each(op)
		t.I("ADDQ $%d, R8", bytes)
		t.Label(none)
	}
	low := func(r int) string { return asm.X(r*t.nv() + last) }
	part(32, func(r int) {
		t.I("VMOVUPS %s, (SI)", t.acc(r, last))
		t.I("VMOVAPS %s, %s", t.acc(r, last+1), t.acc(r, last))
	})
	part(16, func(r int) {
		t.I("VMOVUPS %s, (SI)", low(r))
		t.I("VEXTRACTF128 $1, %s, %s", t.acc(r, last), low(r))
	})
	part(8, func(r int) {
		t.I("VMOVLPS %s, (SI)", low(r))
		t.I("VMOVHLPS %s, %s, %s", low(r), low(r), low(r))
	})
	part(4, func(r int) { t.I("VMOVSS %s, (SI)", low(r)) })
}

// clip bounds the results, where that is asked for.
func (t *tile) clip() {
	t.I("TESTL $%d, %d(R13)", flagClip, offFlags)
	t.I("JZ out")
	lo, hi := t.R(t.free()), t.R(t.free()+1)
	t.I("VBROADCASTSS %d(R13), %s", offLo, lo)
	t.I("VBROADCASTSS %d(R13), %s", offHi, hi)
	for r := range t.mr {
		for j := range t.nv() {
			t.I("VMAXPS %s, %s, %s", t.acc(r, j), lo, t.acc(r, j))
			t.I("VMINPS %s, %s, %s", t.acc(r, j), hi, t.acc(r, j))
		}
	}
	t.Label("out")
}

// advance goes on with the tile below, or beside, where there is one.
func (t *tile) advance() {
	end := t.NewLabel("last")
	t.I("DECQ %s", t.Addr("tiles"))
	t.I("JZ %s", end)
	if t.beside() {
		below := t.NewLabel("below")
		t.I("TESTL $%d, %d(R13)", flagAcross, offFlags)
		t.I("JZ %s", below)
		t.advanceAcross()
		t.Label(below)
	}
	by := func(name string, off int) {
		t.I("IMUL3Q $%d, %d(R13), R14", t.mr, off)
		t.I("ADDQ R14, %s", t.Addr(name))
	}
	by("a", offLDA)
	by("c", offLDC)
	if t.fetches() {
		once, done := t.NewLabel("once"), t.NewLabel("next")
		t.I("TESTL $%d, %d(R13)", flagBelow, offFlags)
		t.I("JZ %s", once)
		by("next", offLDA)
		t.I("JMP %s", done)
		t.Label(once)
		t.I("MOVQ $0, %s", t.Addr("next"))
		t.Label(done)
	}
	t.I("CMPQ %s, $0", t.Addr("res"))
	t.I("JEQ tile")
	by("res", offLDR)
	t.I("JMP tile")
	t.Label(end)
}

// advanceAcross goes on with the tile beside: that has the piece fetched behind the one that this tile has.
func (t *tile) advanceAcross() {
	where := func(name string, op func()) { // where a pointer is not nil
		none := t.NewLabel("no" + name)
		t.I("CMPQ %s, $0", t.Addr(name))
		t.I("JEQ %s", none)
		op()
		t.Label(none)
	}
	t.I("MOVQ %d(R13), R14", offBPanel)
	t.I("ADDQ R14, %s", t.Addr("b"))
	t.I("ADDQ $64, %s", t.Addr("c"))
	if t.fetches() {
		where("next", func() {
			t.I("MOVQ %d(R13), R14", offK)
			t.I("IMULQ %d(R13), R14", offAhead)
			t.I("ADDQ R14, %s", t.Addr("next"))
		})
	}
	for _, name := range []string{"bias", "res"} {
		where(name, func() { t.I("ADDQ $64, %s", t.Addr(name)) })
	}
	t.I("JMP tile")
}
