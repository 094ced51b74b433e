// Package fourier has discrete Fourier transforms of any length, in float64 and float32.
//
// A length is transformed by a pass for each of its factors (Stockham's order of Cooley and Tukey, doi:10.2307/2003354): 4 in float64, and
// primes. Where a prime is large the transform is a convolution with a chirp (Bluestein, doi:10.1109/TAU.1970.1162132), of a length that is a power of two.
// All take O(n log n). In float32 the roundings are those of passes of primes alone, in ascending order, with every product rounded: so are NumPy's,
// which results of ONNX's own cases have.
package fourier

import (
	"math"
	"math/bits"
)

// Float is a type that transforms compute in.
type Float interface{ float32 | float64 }

// Complex is a complex number.
type Complex[T Float] struct{ Re, Im T }

// longestPass is the largest prime factor that has a pass of its own, at a cost of its square.
const longestPass = 50

// Transform is a transform of one length, forward or inverse; the inverse one divides by the length. It is immutable.
type Transform[T Float] struct {
	n      int
	scale  T
	passes []pass[T]
	// Of lengths with a large prime factor: exp(∓πik²/n) by k, and the transform of the chirp that numbers are convolved with by inner.
	chirp, kernel []Complex[T]
	inner         *Transform[T]
}

// pass is one of a factor: of done rows of factor·inner numbers.
type pass[T Float] struct {
	factor, done, inner int
	twice               bool         // two passes of two, of which the factor is the product
	roots               []Complex[T] // exp(∓2πik/factor)
	turns               []Complex[T] // factor-1 a position: what the next pass wants results turned by
}

// Single reports whether a length has no large prime factor, so that transforms in float32 are as exact as its numbers are.
func Single(n int) bool {
	f := factors(n)
	return len(f) == 0 || f[len(f)-1] <= longestPass
}

// factors returns factors of n: fours, then primes in ascending order; the last may be what large primes multiply to.
func factors(n int) (out []int) {
	for ; n > 0 && n%4 == 0; n /= 4 {
		out = append(out, 4)
	}
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

// New prepares transforms of n numbers, n at least 1. It takes O(n log n) where a prime factor is large, else O(n).
func New[T Float](n int, inverse bool) *Transform[T] {
	var zero T
	_, wide := any(zero).(float64)
	t := &Transform[T]{n: n, scale: 1}
	if inverse {
		t.scale = 1 / T(n)
	}
	list := factors(n)
	if len(list) > 0 && list[len(list)-1] > longestPass {
		t.bluestein(inverse)
		return t
	}
	done := 1
	for _, f := range list {
		p := pass[T]{factor: f, done: done, inner: n / done / f, twice: f == 4 && !wide}
		for k := range f {
			p.roots = append(p.roots, turn[T](k, f, inverse))
		}
		for i := range p.inner {
			for u := 1; u < f; u++ {
				by := u * i
				if p.twice {
					by = [...]int{i, i + p.inner, 2 * i}[u-1]
				}
				p.turns = append(p.turns, turn[T](by*done, n, inverse))
			}
		}
		t.passes = append(t.passes, p)
		done *= f
	}
	return t
}

// turn returns exp(∓2πik/n), the upper sign for transforms that are not inverse.
func turn[T Float](k, n int, inverse bool) Complex[T] {
	sin, cos := math.Sincos(2 * math.Pi * float64(k) / float64(n))
	if !inverse {
		sin = -sin
	}
	return Complex[T]{T(cos), T(sin)}
}

// Scratch returns how many numbers of scratch Run needs.
func (t *Transform[T]) Scratch() int {
	if t.inner != nil {
		return 2 * t.inner.n
	}
	return t.n
}

// Run transforms x in its place. x and scratch do not overlap; what is in scratch is lost.
func (t *Transform[T]) Run(x, scratch []Complex[T]) {
	x = x[:t.n]
	if t.inner != nil {
		t.convolve(x, scratch)
		return
	}
	from, to := x, scratch[:t.n]
	for i := range t.passes {
		t.passes[i].run(from, to)
		from, to = to, from
	}
	if len(t.passes)%2 == 1 {
		copy(x, from)
	}
	if t.scale != 1 {
		for i, v := range x {
			x[i] = Complex[T]{v.Re * t.scale, v.Im * t.scale}
		}
	}
}

// bluestein prepares the convolution with a chirp.
func (t *Transform[T]) bluestein(inverse bool) {
	n, m := t.n, 1<<bits.Len(uint(2*t.n-2))
	t.inner = New[T](m, false)
	t.chirp = make([]Complex[T], n)
	t.kernel = make([]Complex[T], m)
	for i := range n {
		// i² modulo 2n keeps the angle exact.
		hi, lo := bits.Mul64(uint64(i), uint64(i))
		_, r := bits.Div64(hi%uint64(2*n), lo, uint64(2*n))
		v := turn[T](int(r), 2*n, inverse)
		t.chirp[i] = v
		v.Im = -v.Im
		t.kernel[i], t.kernel[(m-i)%m] = v, v
	}
	t.inner.Run(t.kernel, make([]Complex[T], m))
	for i, v := range t.kernel { // the inverse transform's factor
		t.kernel[i] = Complex[T]{v.Re / T(m), v.Im / T(m)}
	}
}

func (t *Transform[T]) convolve(x, scratch []Complex[T]) {
	m := t.inner.n
	a, rest := scratch[:m], scratch[m:2*m]
	for i, v := range x {
		a[i] = v.times(t.chirp[i])
	}
	clear(a[len(x):])
	t.inner.Run(a, rest)
	for i, v := range a {
		v = v.times(t.kernel[i])
		a[i] = Complex[T]{v.Im, v.Re} // the forward transform of numbers with their parts exchanged is the inverse one
	}
	t.inner.Run(a, rest)
	for i := range x {
		v := Complex[T]{a[i].Im, a[i].Re}.times(t.chirp[i])
		x[i] = Complex[T]{v.Re * t.scale, v.Im * t.scale}
	}
}
