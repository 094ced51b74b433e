package gemm

import (
	"unsafe"

	"github.com/carve-dev/carve/internal/kernel/pairs"
)

// Args are the matrices of one run, Doubles those of one where Spec.Double is set.
type (
	Args    = Matrices[float32]
	Doubles = Matrices[float64]
)

// Matrices are the operands and the result of one run. Each slice starts at its first element and must reach at least to its last;
// more is ignored.
type Matrices[T float32 | float64] struct {
	A    []T // [M, K], row stride LDA; words of two numbers in the place of floats where Spec.Pairs says so, and so B
	B    []T // as Spec.B says; two float16 in the place of a float where Spec.Half is set
	Bias []T // [N]; not looked at unless Spec.Bias
	Res  []T // [M, N], row stride LDR; not looked at unless Spec.Residual. May be C itself, with LDR = LDC
	C    []T // [M, N], row stride LDC; overlaps neither A nor B
	// Next begins with packed B of the same size that the caller multiplies by next, for which there may be time to be fetched; nil: none.
	Next []T
}

// Run computes chunks lo to hi-1. Calls for disjoint ranges may run at the same time, in any order; when every chunk in
// [0, Chunks()) has been run once, C is complete. It allocates nothing. A slice that is too short, or a range outside of
// [0, Chunks()], is the caller's bug and panics before anything is written, as does a plan of float64.
func (p *Plan) Run(lo, hi int, x Args) {
	if p.spec.Double {
		panic("gemm: a plan of float64")
	}
	if lo >= hi {
		return
	}
	run(p, lo, hi, x, x.C)
}

// RunDouble is Run where Spec.Double is set, and panics elsewhere.
func (p *Plan) RunDouble(lo, hi int, x Doubles) {
	if !p.spec.Double {
		panic("gemm: a plan of float32")
	}
	if lo >= hi {
		return
	}
	run(p, lo, hi, x, nil)
}

// run computes chunks; c is C where blocks of it are handed to Post.
func run[T element](p *Plan, lo, hi int, x Matrices[T], c []float32) {
	s := &p.spec
	if lo < 0 || hi > p.Chunks() {
		panic("gemm: chunk range outside of the plan")
	}
	t := matrices{next: uintptr(unsafe.Pointer(unsafe.SliceData(x.Next)))}
	t.c = at(x.C, extent(s.M, s.N, s.LDC))
	if s.K > 0 {
		t.a = at(x.A, extent(s.M, s.K, s.LDA))
		switch s.B {
		case Packed:
			t.b = at(x.B, roundUp(s.N, p.panel())*s.K*p.sizeB()/p.size())
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
		rows := min(p.superRows, s.M-row)
		subs := p.subs(row)
		n := len(p.groups) * subs
		for u := lo; u < min(hi, n); {
			g, r := u/subs, row+u%subs*p.subRows
			count := 1
			if p.joins {
				count = min(hi, n, (g+1)*subs) - u
			}
			x := unit{group: &p.groups[g], row: r, rows: min(count*p.subRows, row+rows-r)}
			u += count
			if p.fetches {
				x.super, x.superRows = row, rows
				if g+1 < len(p.groups) {
					x.next = &p.groups[g+1]
				}
			}
			p.unit(&t, &x, c)
		}
		lo, hi = 0, hi-n
	}
}

// matrices are the first elements of Args.
type matrices struct {
	a, b, bias, res, c unsafe.Pointer
	next               uintptr // see ahead.block
}

// at returns the first of n elements, having checked that they are there.
func at[T element](x []T, n int) unsafe.Pointer {
	_ = &x[:n:n][n-1] // an address: other workers may be writing the element
	return unsafe.Pointer(unsafe.SliceData(x))
}

// advance moves a pointer by n elements; nil stays nil.
func advance[T element](x *T, n int) *T {
	return (*T)(forward(unsafe.Pointer(x), n*sizeOf[T]()))
}

// forward moves a pointer by n bytes; nil stays nil.
func forward(x unsafe.Pointer, n int) unsafe.Pointer {
	if x == nil {
		return nil
	}
	return unsafe.Add(x, n)
}

// unit is some rows of a group of columns.
type unit struct {
	*group
	row, rows int
	// The rest is for plans that fetch: the rows that the unit is part of, and what is computed behind them, nil for nothing.
	super, superRows int
	next             *group
}

// unit computes a unit.
func (p *Plan) unit(m *matrices, u *unit, c []float32) {
	s := &p.spec
	switch {
	case p.tiles:
		p.tiledUnit(m, u)
	case s.B == Columns:
		p.dotUnit(m, u.group, u.row, u.rows)
	default:
		p.tileUnit(m, u)
	}
	if s.Post != nil {
		s.Post(c[u.row*s.LDC+u.col:], s.LDC, u.rows, u.cols)
	}
}

// tileUnit computes the phases of a unit, and of each its columns of tiles.
func (p *Plan) tileUnit(m *matrices, u *unit) {
	s, size, panel := &p.spec, p.size(), p.panel()
	bcol := u.col * s.K
	if s.B == Rows {
		bcol = u.col
	}
	bias := forward(m.bias, size*u.col)
	var ahead ahead
	for i := range p.phases {
		ph := &p.phases[i]
		b := forward(m.b, p.sizeB()*bcol+ph.k0*ph.full.bstep)
		a := forward(m.a, size*(u.row*s.LDA+ph.k0))
		c := forward(m.c, size*(u.row*s.LDC+u.col))
		var res unsafe.Pointer
		if ph.k0 == 0 { // before C is written for the first time: the residual may be C itself
			res = forward(m.res, size*(u.row*s.LDR+u.col))
		}
		if p.fetches {
			ahead = p.ahead(m, u, i)
		}
		if p.across != nil {
			p.rowsOfTiles(u, a, b, bias, res, c, &ahead)
			continue
		}
		for q := 0; q < u.panels; q += u.width {
			params := &ph.full
			if q+u.width == u.panels && u.cols%panel != 0 {
				params = &ph.tail
			}
			if pb, pbias, pres, pc := forward(b, q*params.bpanel), forward(bias, 64*q), forward(res, 64*q), forward(c, 64*q); p.packs() {
				p.packedColumn(m, u, params, a, pb, pbias, pres, pc)
			} else {
				p.column(m, u, params, a, pb, pbias, pres, pc, &ahead)
			}
		}
	}
}

// column computes the tiles of a unit that read the same panels. Their heights differ by at most one, so that no kernel has few rows unless
// there are.
func (p *Plan) column(m *matrices, u *unit, params *tileParams, a, b, bias, res, c unsafe.Pointer, ahead *ahead) {
	tiles := (u.rows + u.maxRows - 1) / u.maxRows
	high, more := u.rows/tiles, u.rows%tiles
	below := p.below != nil && b == m.b // rows of A are read for the first time
	most := 1
	if p.has.repeat {
		most = max(1, callNs*flopsPerNs/(2*u.maxRows*u.width*p.panel()*max(1, params.k)))
	}
	for t := 0; t < tiles; {
		n, together := high, tiles-t
		if t < more {
			n, together = high+1, more-t
		}
		together = min(together, most)
		var next uintptr
		switch {
		case p.fetches:
			next, together = ahead.fetch(n, together, b)
		case t == 0 && u.width == 1 && p.spec.B == Rows && !p.spec.Double: // the panel beside it: rows of B may end anywhere in a line
			next = uintptr(b) + 127
			if below {
				together = 1
			}
		case below:
			next, params = uintptr(a)+uintptr(4*n*p.spec.LDA), p.below
		}
		p.tile(n, u.width, together, params, a, b, bias, res, c, next)
		if t += together; t < tiles {
			rows := p.size() * n * together
			a, c, res = forward(a, rows*p.spec.LDA), forward(c, rows*p.spec.LDC), forward(res, rows*p.spec.LDR)
		}
	}
}

// tile calls the kernel of so many tiles below each other, of so many rows and panels. Those of float64 have nothing fetched.
func (p *Plan) tile(rows, panels, tiles int, params *tileParams, a, b, bias, res, c unsafe.Pointer, next uintptr) {
	if p.spec.Double {
		callDouble(p.target.Set, rows, panels, tiles, params, (*float64)(a), (*float64)(b), (*float64)(bias), (*float64)(res), (*float64)(c))
		return
	}
	switch p.spec.Pairs {
	case pairs.Float32:
	case pairs.BFloat16:
		callPairs(p.target.Set, rows, panels, tiles, params, (*float32)(a), (*float32)(b), (*float32)(bias), (*float32)(res), (*float32)(c), next)
		return
	case pairs.Float16:
		callFloat16(p.target.Set, rows, panels, tiles, params, (*float32)(a), (*float32)(b), (*float32)(bias), (*float32)(res), (*float32)(c), next)
		return
	}
	if p.spec.Half {
		callHalf(p.target.Set, rows, panels, tiles, params, (*float32)(a), (*float32)(b), (*float32)(bias), (*float32)(res), (*float32)(c), next)
		return
	}
	callTile(p.target.Set, rows, panels, tiles, params, (*float32)(a), (*float32)(b), (*float32)(bias), (*float32)(res), (*float32)(c), next)
}

// dotUnit is tileUnit for B given by columns.
func (p *Plan) dotUnit(m *matrices, g *group, row, rows int) {
	s := &p.spec
	params := &p.phases[0].full
	at := func(x unsafe.Pointer, n int) *float32 { return (*float32)(forward(x, 4*n)) }
	for done := 0; done < rows; done += g.maxRows {
		n := min(g.maxRows, rows-done)
		r := row + done
		wide := g.cols / 4
		if wide > 0 {
			callDot(p.target.Set, n, 4, params, at(m.a, r*s.LDA), at(m.b, g.col*s.LDB), at(m.bias, g.col),
				at(m.res, r*s.LDR+g.col), at(m.c, r*s.LDC+g.col), wide)
		}
		if col := g.col + 4*wide; col < g.col+g.cols {
			callDot(p.target.Set, n, 1, params, at(m.a, r*s.LDA), at(m.b, col*s.LDB), at(m.bias, col),
				at(m.res, r*s.LDR+col), at(m.c, r*s.LDC+col), g.cols%4)
		}
	}
}
