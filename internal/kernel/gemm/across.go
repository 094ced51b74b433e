package gemm

import "unsafe"

// A product whose sums are short is computed by rows of tiles, in a call each: those beside each other read the same rows of A from the first-level cache, and store to
// lines beside each other.

// planAcross decides whether that is so, and makes the parameters of the calls.
func (p *Plan) planAcross() {
	s, g, ph := &p.spec, &p.groups[0], &p.phases[0]
	inFirst := 3*g.panels*ph.full.bpanel <= 2*p.firstCache()
	if p.shortRows() && g.panels > 1 {
		p.below = nil
	} else if !p.acrossRows() && (!p.has.across || s.B != Packed || len(p.phases) != 1 || g.width != 1 || s.M <= g.maxRows || !inFirst && !p.acrossPanels()) {
		return
	}
	params := ph.full
	params.flags |= flagAcross
	p.across = &params
}

// acrossRows reports whether a product of one group whose B lies by rows is computed so: where these stay in the second-level cache, and A, which may lie behind
// that, is better gone through once. The first tile of each row of tiles has the rows of A below fetched; those that the last one has fetched are mostly
// the next product's of a batch. On an AMD Zen 3, of batches of 48, 128x128x64 takes 0.70 of its time so, 197x197x64 0.6, which by panels is 0.72 and 0.7; of
// shorter sums or more groups there is no gain.
func (p *Plan) acrossRows() bool {
	g := &p.groups[0]
	return p.far() && p.below != nil && p.spec.K >= acrossSum && len(p.groups) == 1 && g.panels > 1 && p.spec.K*p.panel()*p.size()*g.panels <= p.target.SecondCache()/4
}

// shortRows reports whether a product of very short sums is computed so, by groups of as many panels as half of the first-level cache holds: where rows of results
// are so long that tiles below each other would store to a page each. On an AMD Zen 3, MxKxN of rows of B, 32x7x24000 takes 0.41 of its time so, 64x3x24000 0.49,
// 256x7x6000 0.91; of 40 multiply-adds, or 1000 columns, there is no gain.
func (p *Plan) shortRows() bool {
	s := &p.spec
	return p.far() && p.has.across && s.B != Columns && s.K <= fewSum && s.N >= leastAcross && s.LDC >= longAcross && s.M > p.has.tileRows[1]
}

// acrossPanels reports whether a product of panels is computed so, however many a group has, by AVX2: where the first-level cache holds two panels, but not B, of which each tile reads
// another panel from the second. On an AMD Zen 2 (loaded), MxKxN, 3136x96x384 takes 0.94 of the time that tiles below each other take, 784x192x768 0.95, 12544x64x256 0.96; of longer sums there is no gain.
func (p *Plan) acrossPanels() bool {
	s := &p.spec
	return p.far() && s.B == Packed && s.M > p.has.tileRows[1] && p.sizeB()*s.K*s.N > p.firstCache() && 2*p.panel()*p.sizeB()*s.K <= p.firstCache()
}

// far reports whether AVX2's tiles multiply operands that mostly come from behind the first-level cache.
func (p *Plan) far() bool {
	s := &p.spec
	return p.avx2 && p.size()*(s.M*s.K+s.K*s.N+s.M*s.N) >= 4*p.firstCache()
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
		first := 0
		if p.below != nil {
			first = 1
			p.tile(n, 1, 1, p.below, a, b, bias, res, c, uintptr(a)+uintptr(4*n*p.spec.LDA))
		}
		if whole > first {
			p.tile(n, 1, whole-first, p.across, a, forward(b, first*last.bpanel), forward(bias, 64*first), forward(res, 64*first), forward(c, 64*first), next)
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
