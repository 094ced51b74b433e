package reference

import (
	"math"
	"math/bits"
)

// fourier computes discrete Fourier transforms of one length.
type fourier struct {
	c       *Call
	n       int
	inverse bool
	single  *passes[float32] // where numbers of 32 bits are multiplied as such
	double  *passes[float64] // else; of Bluestein's length where chirp is set
	chirp   []pair[float64]
}

type pair[T float32 | float64] struct{ re, im T }

// longestPass is the largest prime factor of a length that has a pass of its own, at a cost of its square.
const longestPass = 50

// newFourier prepares transforms of n numbers. They are made by a pass for each prime factor of n (doi:10.2307/2003354), or as a
// convolution where one is large (Bluestein, doi:10.1109/TAU.1970.1162132), at O(n log n). With single they are made in
// float32, in the order of NumPy's, which makes inverse transforms of that type so and forward ones in float64: ONNX's cases hold its
// roundings.
func (c *Call) newFourier(n int, inverse, single bool) *fourier {
	f := &fourier{c: c, n: n, inverse: inverse}
	factors := factorsOf(n)
	switch {
	case len(factors) > 0 && factors[len(factors)-1] > longestPass:
		f.bluestein()
	case single:
		f.single = newPasses[float32](n, factors, inverse)
	default:
		f.double = newPasses[float64](n, factors, inverse)
	}
	return f
}

// factorsOf returns the prime factors of n in ascending order; passes to large ones are not told apart.
func factorsOf(n int) []int {
	var out []int
	for p := 2; n > 1; p++ {
		if p > longestPass {
			return append(out, n)
		}
		for ; n%p == 0; n /= p {
			out = append(out, p)
		}
	}
	return out
}

// run transforms x in its place, and returns it.
func (f *fourier) run(x []complex128) []complex128 {
	switch {
	case f.chirp != nil:
		f.convolve(x)
	case f.single != nil:
		transform(f.c, f.single, x)
	default:
		transform(f.c, f.double, x)
	}
	return x
}

func transform[T float32 | float64](c *Call, p *passes[T], x []complex128) {
	for i, v := range x {
		p.x[i] = pair[T]{T(real(v)), T(imag(v))}
	}
	p.run(c)
	scale := T(1)
	if p.inverse && p.n > 0 {
		scale /= T(p.n)
	}
	for i, v := range p.x {
		x[i] = complex(float64(v.re*scale), float64(v.im*scale))
	}
}

// bluestein prepares the convolution with a chirp, in passes of two.
func (f *fourier) bluestein() {
	m := 1 << bits.Len(uint(2*f.n-2))
	f.c.count("", []int{m}, 64)
	f.chirp = make([]pair[float64], f.n)
	for i := range f.chirp {
		// i*i modulo 2n keeps the angle exact.
		hi, lo := bits.Mul64(uint64(i), uint64(i))
		_, r := bits.Div64(hi%uint64(2*f.n), lo, uint64(2*f.n))
		f.chirp[i] = turn[float64](int(r), 2*f.n, f.inverse)
	}
	f.double = newPasses[float64](m, factorsOf(m), false)
}

func (f *fourier) convolve(x []complex128) {
	p := f.double
	m := p.n
	clear(p.x)
	for i, v := range f.chirp {
		v.im = -v.im
		p.x[i], p.x[(m-i)%m] = v, v
	}
	p.run(f.c)
	kernel := append([]pair[float64]{}, p.x...)
	clear(p.x)
	for i, v := range x {
		p.x[i] = pair[float64]{real(v), imag(v)}.times(f.chirp[i])
	}
	p.run(f.c)
	for i, v := range p.x {
		v = v.times(kernel[i])
		p.x[i] = pair[float64]{v.im, v.re} // the forward transform of numbers with their parts exchanged is the inverse one
	}
	p.run(f.c)
	scale := 1 / float64(m)
	if f.inverse {
		scale /= float64(f.n)
	}
	for i := range x {
		v := pair[float64]{p.x[i].im, p.x[i].re}.times(f.chirp[i])
		x[i] = complex(v.re*scale, v.im*scale)
	}
}

// turn returns exp(∓2πik/n), the upper sign for transforms that are not inverse.
func turn[T float32 | float64](k, n int, inverse bool) pair[T] {
	sin, cos := math.Sincos(2 * math.Pi * float64(k) / float64(n))
	if !inverse {
		sin = -sin
	}
	return pair[T]{T(cos), T(sin)}
}

func (a pair[T]) plus(b pair[T]) pair[T]  { return pair[T]{a.re + b.re, a.im + b.im} }
func (a pair[T]) minus(b pair[T]) pair[T] { return pair[T]{a.re - b.re, a.im - b.im} }

// times multiplies, rounding every product.
func (a pair[T]) times(b pair[T]) pair[T] {
	return pair[T]{T(a.re*b.re) - T(a.im*b.im), T(a.re*b.im) + T(a.im*b.re)} //nolint:unconvert // a conversion keeps a product from being fused with a sum
}

// passes transform x in place, one for each prime factor of its length, between x and y.
type passes[T float32 | float64] struct {
	n       int
	inverse bool
	factors []int
	turns   []pair[T] // by k of exp(∓2πik/n)
	x, y    []pair[T]
	sums    []pair[T] // of a pass: sums and differences of opposite operands
}

func newPasses[T float32 | float64](n int, factors []int, inverse bool) *passes[T] {
	p := &passes[T]{n: n, inverse: inverse, factors: factors, turns: make([]pair[T], n), x: make([]pair[T], n), y: make([]pair[T], n),
		sums: make([]pair[T], longestPass)}
	for k := range p.turns {
		p.turns[k] = turn[T](k, n, inverse)
	}
	return p
}

func (p *passes[T]) run(c *Call) {
	done := 1
	for _, f := range p.factors {
		inner := p.n / done / f
		for k := range done {
			for i := range inner {
				if f == 2 {
					p.two(i, k, inner, done)
				} else {
					p.odd(f, i, k, inner, done)
				}
			}
			c.spend(inner * f)
		}
		p.x, p.y = p.y, p.x
		done *= f
	}
}

func (p *passes[T]) two(i, k, inner, done int) {
	a, b := p.x[i+inner*2*k], p.x[i+inner*(2*k+1)]
	p.y[i+inner*k] = a.plus(b)
	p.put(a.minus(b), 1, i, k, inner, done)
}

// odd sums operands that stand opposite first, as their factors are conjugates.
func (p *passes[T]) odd(f, i, k, inner, done int) {
	first := p.x[i+inner*f*k]
	half := f / 2
	sums, differences := p.sums[:half], p.sums[half:]
	all := first
	for j := 1; j <= half; j++ {
		a, b := p.x[i+inner*(f*k+j)], p.x[i+inner*(f*k+f-j)]
		sums[j-1], differences[j-1] = a.plus(b), a.minus(b)
		all = all.plus(sums[j-1])
	}
	p.y[i+inner*k] = all
	for u := 1; u <= half; u++ {
		a, b := first, pair[T]{}
		for j := 1; j <= half; j++ {
			w, s, d := p.turns[u*j%f*(p.n/f)], sums[j-1], differences[j-1]
			a = pair[T]{a.re + T(w.re*s.re), a.im + T(w.re*s.im)} //nolint:unconvert // likewise
			b = pair[T]{b.re - T(w.im*d.im), b.im + T(w.im*d.re)} //nolint:unconvert // likewise
		}
		p.put(a.plus(b), u, i, k, inner, done)
		p.put(a.minus(b), f-u, i, k, inner, done)
	}
}

// put writes result u of a pass, turned for the next one.
func (p *passes[T]) put(v pair[T], u, i, k, inner, done int) {
	if i > 0 {
		v = v.times(p.turns[u*done*i])
	}
	p.y[i+inner*(k+done*u)] = v
}
