package fourier

// Real is the forward transform of an even number of real numbers: one of half as many complex ones.
type Real[T Float] struct {
	Half  *Transform[T]
	turns []Complex[T] // exp(-2πik/n)/2 by k
}

// NewReal prepares transforms of n real numbers; n is even.
func NewReal[T Float](n int) *Real[T] {
	r := &Real[T]{Half: New[T](n/2, false), turns: make([]Complex[T], n/2)}
	for k := range r.turns {
		r.turns[k] = turn[T](k, n, false).scaled(0.5)
	}
	return r
}

// Run writes bins 0 to n/2 to bins, given in z pairs of neighbours as complex numbers. Bin n-k is the conjugate of bin k. z and scratch are lost.
func (r *Real[T]) Run(bins, z, scratch []Complex[T]) {
	m := r.Half.n
	r.Half.Run(z, scratch)
	bins[0], bins[m] = Complex[T]{Re: z[0].Re + z[0].Im}, Complex[T]{Re: z[0].Re - z[0].Im}
	for k := 1; k < m; k++ {
		a, b := z[k], z[m-k]
		b.Im = -b.Im
		odd := a.minus(b).times(r.turns[k]) // of i times what the second numbers of pairs have
		bins[k] = Complex[T]{(a.Re+b.Re)/2 + odd.Im, (a.Im+b.Im)/2 - odd.Re}
	}
}
