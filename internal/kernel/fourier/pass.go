package fourier

func (a Complex[T]) plus(b Complex[T]) Complex[T]  { return Complex[T]{a.Re + b.Re, a.Im + b.Im} }
func (a Complex[T]) minus(b Complex[T]) Complex[T] { return Complex[T]{a.Re - b.Re, a.Im - b.Im} }

// times multiplies, rounding every product: a conversion keeps it from being fused with a sum.
func (a Complex[T]) times(b Complex[T]) Complex[T] {
	return Complex[T]{T(a.Re*b.Re) - T(a.Im*b.Im), T(a.Re*b.Im) + T(a.Im*b.Re)} //nolint:unconvert // see above
}

// scaled multiplies by a real number.
func (a Complex[T]) scaled(by T) Complex[T] { return Complex[T]{a.Re * by, a.Im * by} }

// crossed returns i·a·by.
func (a Complex[T]) crossed(by T) Complex[T] { return Complex[T]{-(by * a.Im), by * a.Re} }

// stride is how far apart what a loop reads, writes and turns results by lies.
type stride struct{ count, read, write, turn int }

// run reads factor rows of inner numbers in each of done places, and writes row u of place k to row k + done·u. The longer loop is inside.
func (p *pass[T]) run(x, y []Complex[T]) {
	f, in := p.factor, p.inner
	kernel := p.odd
	switch f {
	case 2:
		kernel = p.two
	case 3:
		kernel = p.three
	case 4:
		if kernel = p.four; p.twice {
			kernel = p.twoByTwo
		}
	case 5:
		kernel = p.five
	}
	if in >= p.done {
		for k := range p.done {
			kernel(x[k*f*in:], y[k*in:], p.turns, stride{in, 1, 1, f - 1})
		}
		return
	}
	for i := range in {
		kernel(x[i:], y[i:], p.turns[i*(f-1):], stride{p.done, f * in, in, 0})
	}
}

// row returns what results u of a loop are written to.
func (p *pass[T]) row(y []Complex[T], u int) []Complex[T] { return y[u*p.done*p.inner:] }

func (p *pass[T]) two(x, y, w []Complex[T], s stride) {
	x1, y1 := x[p.inner:], p.row(y, 1)
	at, to, by := 0, 0, 0
	for range s.count {
		a, b := x[at], x1[at]
		y[to] = a.plus(b)
		y1[to] = a.minus(b).times(w[by])
		at, to, by = at+s.read, to+s.write, by+s.turn
	}
}

func (p *pass[T]) three(x, y, w []Complex[T], s stride) {
	x1, x2, y1, y2, r := x[p.inner:], x[2*p.inner:], p.row(y, 1), p.row(y, 2), p.roots[1]
	at, to, by := 0, 0, 0
	for range s.count {
		a, b, c, w := x[at], x1[at], x2[at], w[by:by+2]
		sum, d := b.plus(c), b.minus(c).crossed(r.Im)
		y[to] = a.plus(sum)
		m := a.plus(sum.scaled(r.Re))
		y1[to] = m.plus(d).times(w[0])
		y2[to] = m.minus(d).times(w[1])
		at, to, by = at+s.read, to+s.write, by+s.turn
	}
}

// four has roots ±1 and ±i.
func (p *pass[T]) four(x, y, w []Complex[T], s stride) {
	x1, x2, x3 := x[p.inner:], x[2*p.inner:], x[3*p.inner:]
	y1, y2, y3, sign := p.row(y, 1), p.row(y, 2), p.row(y, 3), p.roots[1].Im
	at, to, by := 0, 0, 0
	for range s.count {
		a, b, c, d, w := x[at], x1[at], x2[at], x3[at], w[by:by+3]
		sum, difference := a.plus(c), a.minus(c)
		other, turned := b.plus(d), b.minus(d).crossed(sign)
		y[to] = sum.plus(other)
		y1[to] = difference.plus(turned).times(w[0])
		y2[to] = sum.minus(other).times(w[1])
		y3[to] = difference.minus(turned).times(w[2])
		at, to, by = at+s.read, to+s.write, by+s.turn
	}
}

// twoByTwo is a pass of two, and another over each half of its results.
func (p *pass[T]) twoByTwo(x, y, w []Complex[T], s stride) {
	x1, x2, x3 := x[p.inner:], x[2*p.inner:], x[3*p.inner:]
	y1, y2, y3 := p.row(y, 1), p.row(y, 2), p.row(y, 3)
	at, to, by := 0, 0, 0
	for range s.count {
		a, b, c, d, w := x[at], x1[at], x2[at], x3[at], w[by:by+3]
		e, f := a.plus(c), b.plus(d)
		g, h := a.minus(c).times(w[0]), b.minus(d).times(w[1])
		y[to] = e.plus(f)
		y1[to] = g.plus(h)
		y2[to] = e.minus(f).times(w[2])
		y3[to] = g.minus(h).times(w[2])
		at, to, by = at+s.read, to+s.write, by+s.turn
	}
}

func (p *pass[T]) five(x, y, w []Complex[T], s stride) {
	x1, x2, x3, x4 := x[p.inner:], x[2*p.inner:], x[3*p.inner:], x[4*p.inner:]
	y1, y2, y3, y4 := p.row(y, 1), p.row(y, 2), p.row(y, 3), p.row(y, 4)
	r1, r2, r4 := p.roots[1], p.roots[2], p.roots[4]
	at, to, by := 0, 0, 0
	for range s.count {
		a, w := x[at], w[by:by+4]
		s1, d1 := x1[at].plus(x4[at]), x1[at].minus(x4[at])
		s2, d2 := x2[at].plus(x3[at]), x2[at].minus(x3[at])
		y[to] = a.plus(s1).plus(s2)
		m, d := a.plus(s1.scaled(r1.Re)).plus(s2.scaled(r2.Re)), d1.crossed(r1.Im).plus(d2.crossed(r2.Im))
		y1[to], y4[to] = m.plus(d).times(w[0]), m.minus(d).times(w[3])
		m, d = a.plus(s1.scaled(r2.Re)).plus(s2.scaled(r4.Re)), d1.crossed(r2.Im).plus(d2.crossed(r4.Im))
		y2[to], y3[to] = m.plus(d).times(w[1]), m.minus(d).times(w[2])
		at, to, by = at+s.read, to+s.write, by+s.turn
	}
}

// odd sums operands that stand opposite first, as their factors are conjugates.
func (p *pass[T]) odd(x, y, w []Complex[T], s stride) {
	var sums, differences [longestPass / 2]Complex[T]
	n, f := p.inner, p.factor
	half := f / 2
	for c := range s.count {
		at, to, w := c*s.read, c*s.write, w[c*s.turn:][:f-1]
		first := x[at]
		all := first
		for j := range half {
			a, b := x[(j+1)*n+at], x[(f-j-1)*n+at]
			sums[j], differences[j] = a.plus(b), a.minus(b)
			all = all.plus(sums[j])
		}
		y[to] = all
		for u := 1; u <= half; u++ {
			m, d := first, Complex[T]{}
			k := 0
			for j := range half {
				if k += u; k >= f {
					k -= f
				}
				m, d = m.plus(sums[j].scaled(p.roots[k].Re)), d.plus(differences[j].crossed(p.roots[k].Im))
			}
			p.row(y, u)[to] = m.plus(d).times(w[u-1])
			p.row(y, f-u)[to] = m.minus(d).times(w[f-u-1])
		}
	}
}
