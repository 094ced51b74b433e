package gemm

import (
	"cmp"
	"math"
	"unsafe"

	"github.com/carve-dev/carve/internal/kernel/amx"
	"github.com/carve-dev/carve/internal/kernel/pairs"
)

// Products of bfloat16 by tiles (package amx), where the target has them. Sums begin with the bias, and go straight to C, or, where there is more
// to be done with them or columns fill no panels, to scratch memory on the stack first. Within a plan all elements of C are made so, which
// adds in another order than other kernels.

const (
	leastTiled  = 4   // rows: fewer wait for B whatever multiplies them
	tiledPanels = 4   // of a group
	tiledWords  = 256 // of k that are multiplied before the next: those of two tiles of A fill two thirds of a first-level cache of 48 KiB
	tiledRows   = 2 * amx.Rows
	tiledPairs  = 4       // of tiles of a call
	tiledUnit   = 6 << 20 // products of words in a unit, some 20 µs
	tiledSpeed  = 4       // times that of other kernels, at least
)

// tiled reports whether a product is one for tiles.
func (p *Plan) tiled() bool {
	return p.spec.Pairs == pairs.BFloat16 && p.target.BFloat16Tiles() && p.spec.M >= leastTiled && p.spec.K > 0
}

// planTiled divides a product into groups of panels and units.
func (p *Plan) planTiled() {
	s := &p.spec
	total := Panels(s.N)
	count := (total + tiledPanels - 1) / tiledPanels
	p.groups = make([]group, count)
	for i := range p.groups {
		from, to := total*i/count, total*(i+1)/count
		p.groups[i] = group{col: Panel * from, cols: min(Panel*to, s.N) - Panel*from, panels: to - from, width: to - from, maxRows: tiledRows}
	}
	row := Panel * tiledPanels * s.K
	super := max(superBytes, p.target.SecondCache()/2)
	p.superRows = roundUp(max(1, super/(4*s.K)), tiledRows)
	p.subRows = evenly(min(p.superRows, s.M), tiledUnit/row, tiledRows)
	p.superRows = roundUp(p.superRows, p.subRows)
	p.subRows, p.superRows = min(p.subRows, s.M), min(p.superRows, s.M)
	for row := 0; row < s.M; row += p.superRows {
		p.units += len(p.groups) * p.subs(row)
	}
	p.perChunk = max(1, tiledUnit/3/(row*p.subRows))
}

// tiledUnit computes a unit.
func (p *Plan) tiledUnit(m *matrices, u *unit) {
	s := &p.spec
	var start [Panel * tiledPanels]float32
	if m.bias != nil {
		copy(start[:], unsafe.Slice((*float32)(forward(m.bias, 4*u.col)), u.cols))
	}
	t := tiledPart{Product: amx.Product{Kind: amx.BFloat16, LDA: 4 * s.LDA, LDC: 4 * s.LDC, Panels: u.panels, LDB: 4 * Panel * s.K},
		words: s.K, a: forward(m.a, 4*s.LDA*u.row), b: forward(m.b, 4*s.K*u.col), start: unsafe.Pointer(&start)}
	c := forward(m.c, 4*(u.row*s.LDC+u.col))
	if s.Residual || s.Clip || u.cols%Panel != 0 {
		p.finished(m, u, &t, c)
		return
	}
	for done := 0; done < u.rows; done += tiledPairs * tiledRows {
		t.rows(min(u.rows-done, tiledPairs*tiledRows), c)
		t.a, c = forward(t.a, tiledPairs*tiledRows*t.LDA), forward(c, tiledPairs*tiledRows*t.LDC)
	}
}

// finished computes a unit in scratch memory, and finishes it.
func (p *Plan) finished(m *matrices, u *unit, t *tiledPart, c unsafe.Pointer) {
	s := &p.spec
	var scratch [tiledPairs * tiledRows * Panel * tiledPanels / 2]float32
	const bytes = 4 * len(scratch)
	t.LDC = 4 * Panel * u.panels
	finish := amx.Finish{Panels: u.panels, LDS: t.LDC, LDR: 4 * s.LDR, LDC: 4 * s.LDC, PanelR: 4 * Panel, PanelC: 4 * Panel,
		Lo: float32(math.Inf(-1)), Hi: float32(math.Inf(1)), Sums: 1<<cmp.Or(u.cols%Panel, Panel) - 1}
	finish.Stored = finish.Sums
	if s.Clip {
		finish.Lo, finish.Hi = s.Lo, s.Hi
	}
	res := forward(m.res, 4*(u.row*s.LDR+u.col))
	most := bytes / t.LDC / tiledRows * tiledRows
	for done := 0; done < u.rows; done += most {
		finish.Rows = min(u.rows-done, most)
		t.rows(finish.Rows, unsafe.Pointer(&scratch))
		finish.Run(unsafe.Pointer(&scratch), res, c)
		t.a, res, c = forward(t.a, most*t.LDA), forward(res, most*finish.LDR), forward(c, most*finish.LDC)
	}
}

// tiledPart is some rows of a group of columns.
type tiledPart struct {
	amx.Product
	words       int // of k
	a, b, start unsafe.Pointer
}

// rows computes so many rows of sums at c, whole pairs of tiles and then what is left.
func (t *tiledPart) rows(n int, c unsafe.Pointer) {
	var list [2 * tiledPairs]amx.Pair
	whole := n / tiledRows
	for i := range whole {
		t.pair(&list[i], t.a, c, i*tiledRows)
	}
	t.multiply(amx.Rows, amx.Rows, list[:whole])
	if rest := n % tiledRows; rest > 0 {
		t.pair(&list[0], t.a, c, whole*tiledRows)
		t.multiply(min(rest, amx.Rows), max(0, rest-amx.Rows), list[:1])
	}
}

// pair sets where a pair of tiles lies that begins with a row.
func (t *tiledPart) pair(p *amx.Pair, a, c unsafe.Pointer, row int) {
	for i := range p.A {
		at := row + i*amx.Rows
		p.A[i], p.Start[i], p.C[i] = unsafe.Add(a, at*t.LDA), t.start, unsafe.Add(c, at*t.LDC)
	}
}

// multiply multiplies pairs of tiles of so many rows by all panels, some words of k after the other.
func (t *tiledPart) multiply(first, second int, list []amx.Pair) {
	if len(list) == 0 {
		return
	}
	var segment [1]int
	t.Segments, t.LDS = segment[:], 0
	for k := 0; k < t.words; k += tiledWords {
		if t.Words = min(tiledWords, t.words-k); k > 0 {
			t.LDS = t.LDC
			for i := range list {
				list[i].Start = list[i].C
			}
		}
		segment[0] = 4 * k
		t.Run(first, second, list, unsafe.Add(t.b, 4*Panel*k))
	}
}
