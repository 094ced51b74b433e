package gemm

import "unsafe"

// Args are the matrices of one run. Each slice starts at its first element and must reach at least to its last; more is ignored.
type Args struct {
	A    []float32 // [M, K], row stride LDA
	B    []float32 // as Spec.B says
	Bias []float32 // [N]; not looked at unless Spec.Bias
	Res  []float32 // [M, N], row stride LDR; not looked at unless Spec.Residual. May be C itself, with LDR = LDC
	C    []float32 // [M, N], row stride LDC; overlaps neither A nor B
}

// Run computes chunks lo to hi-1. Calls for disjoint ranges may run at the same time, in any order; when every chunk in
// [0, Chunks()) has been run once, C is complete. It allocates nothing. A slice that is too short, or a range outside of
// [0, Chunks()], is the caller's bug and panics before anything is written.
func (p *Plan) Run(lo, hi int, x Args) {
	if lo >= hi {
		return
	}
	s := &p.spec
	if lo < 0 || hi > p.Chunks() {
		panic("gemm: chunk range outside of the plan")
	}
	var t matrices
	t.c = at(x.C, extent(s.M, s.N, s.LDC))
	if s.K > 0 {
		t.a = at(x.A, extent(s.M, s.K, s.LDA))
		switch s.B {
		case Packed:
			t.b = at(x.B, PackedLen(s.K, s.N))
		case Rows:
			t.b = at(x.B, extent(s.K, s.N, s.LDB))
		case Columns:
			t.b = at(x.B, extent(s.N, s.K, s.LDB))
		}
	}
	if s.Bias {
		t.bias = at(x.Bias, s.N)
	}
	if s.Residual {
		t.res = at(x.Res, extent(s.M, s.N, s.LDR))
	}
	hi = min(hi*p.perChunk, p.units)
	lo *= p.perChunk
	// Find the super of unit lo; the rest is a walk.
	row := 0
	for row < s.M {
		n := len(p.groups) * p.subs(row)
		if lo < n {
			break
		}
		lo, hi, row = lo-n, hi-n, row+p.superRows
	}
	for ; hi > 0; row += p.superRows {
		subs := p.subs(row)
		n := len(p.groups) * subs
		for u := lo; u < min(hi, n); u++ {
			r := row + u%subs*p.subRows
			p.unit(&t, &p.groups[u/subs], r, min(p.subRows, min(row+p.superRows, s.M)-r), x.C)
		}
		lo, hi = 0, hi-n
	}
}

// matrices are the first elements of Args.
type matrices struct{ a, b, bias, res, c *float32 }

// at returns the first of n elements, having checked that they are there.
func at(x []float32, n int) *float32 {
	_ = x[:n:n][n-1]
	return unsafe.SliceData(x)
}

// advance moves a pointer by n elements; nil stays nil.
func advance(x *float32, n int) *float32 {
	if x == nil {
		return nil
	}
	return (*float32)(unsafe.Add(unsafe.Pointer(x), 4*n))
}

// unit computes rows row to row+rows-1 of one group of columns.
func (p *Plan) unit(m *matrices, g *group, row, rows int, c []float32) {
	s := &p.spec
	if s.B == Columns {
		p.dotUnit(m, g, row, rows)
	} else {
		p.tileUnit(m, g, row, rows)
	}
	if s.Post != nil {
		s.Post(c[row*s.LDC+g.col:], s.LDC, rows, g.cols)
	}
}

// tileUnit divides the rows into tiles whose heights differ by at most one, so that no kernel has few rows unless there are.
func (p *Plan) tileUnit(m *matrices, g *group, row, rows int) {
	s := &p.spec
	tiles := (rows + g.maxRows - 1) / g.maxRows
	high, more := rows/tiles, rows%tiles
	bcol := g.col * s.K
	if s.B == Rows {
		bcol = g.col
	}
	bias := advance(m.bias, g.col)
	for i := range p.phases {
		ph := &p.phases[i]
		last := &ph.full
		if g.cols%16 != 0 {
			last = &ph.tail
		}
		b := advance(m.b, bcol+ph.k0*ph.full.bstep/4)
		a := advance(m.a, row*s.LDA+ph.k0)
		c := advance(m.c, row*s.LDC+g.col)
		var res *float32
		if ph.k0 == 0 { // before C is written for the first time: the residual may be C itself
			res = advance(m.res, row*s.LDR+g.col)
		}
		for t := range tiles {
			n := high
			if t < more {
				n++
			}
			if g.width == g.panels {
				callTile(p.target.Set, n, g.width, last, a, b, bias, res, c)
			} else {
				params := &ph.full
				for q := 0; q < g.panels; q += g.width {
					if q+g.width == g.panels {
						params = last
					}
					callTile(p.target.Set, n, g.width, params, a, advance(b, q*params.bpanel/4), advance(bias, 16*q), advance(res, 16*q), advance(c, 16*q))
				}
			}
			if t+1 < tiles {
				a, c, res = advance(a, n*s.LDA), advance(c, n*s.LDC), advance(res, n*s.LDR)
			}
		}
	}
}

// dotUnit is tileUnit for B given by columns.
func (p *Plan) dotUnit(m *matrices, g *group, row, rows int) {
	s := &p.spec
	params := &p.phases[0].full
	for done := 0; done < rows; done += g.maxRows {
		n := min(g.maxRows, rows-done)
		r := row + done
		wide := g.cols / 4
		if wide > 0 {
			callDot(p.target.Set, n, 4, params, advance(m.a, r*s.LDA), advance(m.b, g.col*s.LDB), advance(m.bias, g.col),
				advance(m.res, r*s.LDR+g.col), advance(m.c, r*s.LDC+g.col), wide)
		}
		if col := g.col + 4*wide; col < g.col+g.cols {
			callDot(p.target.Set, n, 1, params, advance(m.a, r*s.LDA), advance(m.b, col*s.LDB), advance(m.bias, col),
				advance(m.res, r*s.LDR+col), advance(m.c, r*s.LDC+col), g.cols%4)
		}
	}
}
