package gemm

import "unsafe"

// A product whose sums are so short that the panels of a group take two thirds of the first-level cache at most is computed by rows of tiles, in a call each: those
// beside each other read the same rows of A from that cache, and store to lines beside each other.

// planAcross decides whether that is so, and makes the parameters of the calls.
func (p *Plan) planAcross() {
	s, g, ph := &p.spec, &p.groups[0], &p.phases[0]
	if !p.has.across || s.B != Packed || len(p.phases) != 1 || g.width != 1 || s.M <= g.maxRows || 3*g.panels*ph.full.bpanel > 2*max(leastFirst, p.target.Caches[0].Bytes) {
		return
	}
	params := ph.full
	params.flags |= flagAcross
	p.across = &params
}

// rowsOfTiles computes a unit so. Of what is to be fetched each tile has one piece, and those beside it the pieces behind that.
func (p *Plan) rowsOfTiles(u *unit, a, b, bias, res, c unsafe.Pointer, ahead *ahead) {
	tiles := (u.rows + u.maxRows - 1) / u.maxRows
	high, more := u.rows/tiles, u.rows%tiles
	whole, last := u.cols/p.panel(), &p.phases[0].tail
	for t := range tiles {
		n := high
		if t < more {
			n++
		}
		var next uintptr
		if p.fetches {
			next, _ = ahead.fetch(n, 1, b)
		}
		if whole > 0 {
			p.tile(n, 1, whole, p.across, a, b, bias, res, c, next)
		}
		if whole < u.panels {
			p.tile(n, 1, 1, last, a, forward(b, whole*last.bpanel), forward(bias, 64*whole), forward(res, 64*whole), forward(c, 64*whole), 0)
		}
		if t < tiles-1 {
			rows := p.size() * n
			a, c, res = forward(a, rows*p.spec.LDA), forward(c, rows*p.spec.LDC), forward(res, rows*p.spec.LDR)
		}
	}
}
