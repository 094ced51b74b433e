package gemm

import (
	"github.com/carve-dev/carve/internal/cpuid"
)

// Plan is a product whose division into chunks, tiles and kernel calls is decided. It is immutable and may be used by any
// number of goroutines at once, with different matrices.
type Plan struct {
	spec   Spec
	level  cpuid.Level
	groups []group // of columns, left to right
	phases []phase // of k, first to last
	// Rows are divided into supers of superRows (A's part of them stays in the second-level cache), each into subs of subRows;
	// the last of each is shorter.
	superRows, subRows int
	units              int // super x group x sub, the last varying fastest
	perChunk           int // units per chunk
}

// group is a range of columns whose part of B stays in the second-level cache: panels of 16, the last of them possibly
// ragged, of which one tile covers width.
type group struct {
	col, cols, panels int
	width             int
	maxRows           int // of a tile
}

// phase is a range of k that is computed before the next is begun, with the parameters of its kernel calls: without and
// with a ragged last panel.
type phase struct {
	k0, k      int
	first      bool
	last       bool
	full, tail tileParams
}

// Constants of the division into chunks. Speeds are those of one core of a current server in round figures: a division that
// depended on a measurement would not be repeatable.
const (
	flopsPerNs    = 100       // multiply-adds count twice
	bytesPerNs    = 20        // of B, read from beyond the second-level cache
	unitNs        = 30_000    // aim for a sub of rows
	chunkNs       = 8_000     // least for a chunk
	superBytes    = 512 << 10 // of A
	phaseK        = 1024      // aim for the length of a phase; three quarters of it below AVX-512, where second-level caches may be small
	phaseMaxK     = 1536      // longest phase before k is divided; likewise
	phaseMaxKOnce = 4096      // the same when B is read only once
)

// tiling is what the kernels of a level can do: maxRows[p] is the highest number of rows of a tile of p panels, 0 where there is
// no such tile or it is not wanted for the number of rows at hand.
type tiling struct {
	maxRows [5]int
}

// groupPanels is how many panels make a group, where a tile has fewer: the elements of A that a row of tiles reads come from the
// first-level cache for all tiles but the first.
const groupPanels = 4

// tilingOf returns the tile sizes for m rows.
func tilingOf(l cpuid.Level, m int) tiling {
	switch {
	case l == cpuid.AVX512:
		return tiling{[5]int{0, 8, 8, 8, 6}}
	case l == cpuid.AVX2 && m == 1:
		return tiling{[5]int{0, 6, 2, 0, 1}}
	case l == cpuid.AVX2 && m == 2:
		return tiling{[5]int{0, 6, 2, 0, 0}}
	case l == cpuid.AVX2:
		return tiling{[5]int{0, 6, 0, 0, 0}}
	}
	return tiling{[5]int{0, 4, 0, 0, 0}}
}

// NewPlan plans a product for the level that cpuid.Best returns now. The error is a *SpecError. Cost: O(N/64 + K/1024).
func NewPlan(s Spec) (*Plan, error) {
	s, err := s.complete()
	if err != nil {
		return nil, err
	}
	p := &Plan{spec: s, level: cpuid.Best()}
	if s.M == 0 || s.N == 0 {
		return p, nil
	}
	if s.B == Columns {
		p.planDot()
	} else {
		p.planTiles()
	}
	p.planUnits()
	return p, nil
}

// planTiles divides columns and k for the tile kernels.
func (p *Plan) planTiles() {
	s := &p.spec
	t := tilingOf(p.level, s.M)
	total := (s.N + 15) / 16
	for at := 0; at < total; {
		width := panelsAt(t, total-at)
		n := width
		if width < groupPanels && t.maxRows[width+1] == 0 {
			n = min(total-at, groupPanels) / width * width
		}
		p.groups = append(p.groups, group{col: 16 * at, cols: min(16*n, s.N-16*at), panels: n, width: width, maxRows: t.maxRows[width]})
		at += n
	}
	aim, longest := phaseK, phaseMaxK
	switch {
	case s.M <= p.groups[0].maxRows:
		aim, longest = phaseMaxKOnce, phaseMaxKOnce
	case p.level != cpuid.AVX512:
		aim, longest = phaseK*3/4, phaseMaxK*3/4
	}
	count := 1
	if s.K > longest {
		count = (s.K + aim - 1) / aim
	}
	for i := range count {
		k0, k1 := s.K*i/count, s.K*(i+1)/count
		ph := phase{k0: k0, k: k1 - k0, first: i == 0, last: i == count-1}
		ph.full = tileParams{lda: 4 * s.LDA, bstep: 64, bpanel: 64 * s.K, ldc: 4 * s.LDC, ldr: 4 * s.LDR, k: ph.k, lo: s.Lo, hi: s.Hi}
		if s.B == Rows {
			ph.full.bstep, ph.full.bpanel = 4*s.LDB, 64
		}
		if !ph.first {
			ph.full.flags |= flagAccumulate
		}
		if ph.last && s.Clip {
			ph.full.flags |= flagClip
		}
		ph.full.setMask(16)
		ph.tail = ph.full
		if r := s.N % 16; r != 0 {
			ph.tail.setMask(r)
			ph.tail.flags |= flagTailC
			if s.B == Rows {
				ph.tail.flags |= flagTailB
			}
		}
		p.phases = append(p.phases, ph)
	}
}

// panelsAt returns how many of the remaining panels the next group takes: the widest tiles, but nine or five remaining are
// divided so that no group is a single panel, whose tiles are short of independent sums.
func panelsAt(t tiling, left int) int {
	widest := len(t.maxRows) - 1
	for t.maxRows[widest] == 0 {
		widest--
	}
	n := min(widest, left)
	if left > widest && left-widest < 2 && t.maxRows[widest-1] > 0 && widest > 2 {
		n = widest - 1
	}
	for t.maxRows[n] == 0 {
		n--
	}
	return n
}

// planDot divides columns for the dot kernels: groups of up to 64, a multiple of 4 but for the last, and of up to 1 MiB of B.
func (p *Plan) planDot() {
	s := &p.spec
	rows := map[cpuid.Level]int{cpuid.AVX512: 4, cpuid.AVX2: 2, cpuid.Generic: 1}[p.level]
	wide := max(4, min(64, 1<<18/max(1, s.K))&^3)
	for at := 0; at < s.N; at += wide {
		n := min(wide, s.N-at)
		p.groups = append(p.groups, group{col: at, cols: n, maxRows: rows})
	}
	t := tileParams{lda: 4 * s.LDA, bpanel: 4 * s.LDB, ldc: 4 * s.LDC, ldr: 4 * s.LDR, k: s.K, lo: s.Lo, hi: s.Hi}
	lanes := 16
	if p.level == cpuid.AVX2 {
		lanes = 8
	}
	t.setMask(s.K % lanes)
	if s.Clip {
		t.flags |= flagClip
	}
	p.phases = []phase{{k: s.K, first: true, last: true, full: t, tail: t}}
}

// planUnits divides rows, and joins units into chunks.
func (p *Plan) planUnits() {
	s := &p.spec
	g := p.groups[0]
	flops := 2 * g.cols * max(1, s.K) // of one row
	p.subRows = roundUp(max(1, unitNs*flopsPerNs/flops), g.maxRows)
	p.superRows = roundUp(max(1, superBytes/(4*max(1, min(s.K, phaseMaxK)))), p.subRows)
	p.subRows, p.superRows = min(p.subRows, s.M), min(p.superRows, s.M)
	for row := 0; row < s.M; row += p.superRows {
		p.units += len(p.groups) * p.subs(row)
	}
	rows := min(p.subRows, s.M)
	ns := max(flops*rows/flopsPerNs, 4*g.cols*s.K/bytesPerNs)
	p.perChunk = max(1, (chunkNs+ns/2)/max(1, ns))
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }

// subs returns how many subs the super that starts at row has.
func (p *Plan) subs(row int) int {
	return (min(p.superRows, p.spec.M-row) + p.subRows - 1) / p.subRows
}

// Chunks returns the number of independent chunks, 0 for an empty C.
func (p *Plan) Chunks() int {
	if p.units == 0 {
		return 0
	}
	return (p.units + p.perChunk - 1) / p.perChunk
}

// Spec returns what the plan computes, with every stride filled in.
func (p *Plan) Spec() Spec { return p.spec }

// Level returns the instruction set that the plan uses.
func (p *Plan) Level() cpuid.Level { return p.level }

// Flops returns the number of floating-point operations of one run, a multiply-add counting twice.
func (p *Plan) Flops() int { return 2 * p.spec.M * p.spec.N * p.spec.K }
