package gemm

import (
	"cmp"
	"math"
	"unsafe"

	"github.com/carve-dev/carve/internal/kernel/amx"
	"github.com/carve-dev/carve/internal/kernel/pairs"
)

// Products of bfloat16 by tiles (package amx), where the target has them. Sums begin with the bias, and go straight to C, or, where there is more
// to be done with them or columns fill no panels, to scratch memory first. Within a plan all elements of C are made so, which
// adds in another order than other kernels.

const (
	leastTiled  = 4 // rows: fewer wait for B whatever multiplies them
	tiledPanels = amx.MatrixPanels
	tiledRows   = amx.MatrixRows
	tiledWork   = 6 << 20 // products of words in a unit, some 20 µs
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
	p.subRows = evenly(min(p.superRows, s.M), tiledWork/row, tiledRows)
	p.superRows = roundUp(p.superRows, p.subRows)
	p.subRows, p.superRows = min(p.subRows, s.M), min(p.superRows, s.M)
	for row := 0; row < s.M; row += p.superRows {
		p.units += len(p.groups) * p.subs(row)
	}
	p.perChunk = max(1, tiledWork/3/(row*p.subRows))
}

// tiledUnit computes a unit.
func (p *Plan) tiledUnit(m *matrices, u *unit) {
	s := &p.spec
	var bias []float32
	if m.bias != nil {
		bias = unsafe.Slice((*float32)(forward(m.bias, 4*u.col)), u.cols)
	}
	w := amx.Borrow(bias)
	defer w.Return()
	t := amx.Matrix{LDA: 4 * s.LDA, LDC: 4 * s.LDC, Words: s.K, Panels: u.panels, Work: w}
	a, b := forward(m.a, t.LDA*u.row), forward(m.b, 4*s.K*u.col)
	if s.Residual || s.Clip || u.cols%Panel != 0 {
		p.finished(m, u, &t, a, b)
		return
	}
	t.Multiply(u.rows, a, b, forward(m.c, 4*(u.row*s.LDC+u.col)))
}

// finished computes a unit in scratch memory, and finishes it.
func (p *Plan) finished(m *matrices, u *unit, t *amx.Matrix, a, b unsafe.Pointer) {
	s := &p.spec
	sums := unsafe.Pointer(&t.Work.Sums)
	t.LDC = 4 * Panel * u.panels
	finish := amx.Finish{Panels: u.panels, LDS: t.LDC, LDR: 4 * s.LDR, LDC: 4 * s.LDC, PanelR: 4 * Panel, PanelC: 4 * Panel,
		Lo: float32(math.Inf(-1)), Hi: float32(math.Inf(1)), Sums: 1<<cmp.Or(u.cols%Panel, Panel) - 1}
	finish.Stored = finish.Sums
	if s.Clip {
		finish.Lo, finish.Hi = s.Lo, s.Hi
	}
	for done := 0; done < u.rows; done += amx.WorkRows {
		row := u.row + done
		finish.Rows = min(u.rows-done, amx.WorkRows)
		t.Multiply(finish.Rows, forward(a, done*t.LDA), b, sums)
		finish.Run(sums, forward(m.res, 4*(row*s.LDR+u.col)), forward(m.c, 4*(row*s.LDC+u.col)))
	}
}
