package pairwise

import (
	"github.com/carve-dev/carve/internal/kernel/double"
	"github.com/carve-dev/carve/internal/kernel/isa"
)

// Lanes is how many vectors a panel holds.
const Lanes = 8

// Kernels are the functions of this package for one target: see package isa. The zero value is those in portable Go. Safe for concurrent
// use.
type Kernels struct{ set isa.Set }

// For returns the kernels of a target.
func For(t isa.Target) Kernels { return Kernels{t.Set} }

// rows returns how many rows a tile has.
func (k Kernels) rows() int {
	switch k.set {
	case isa.AVX512:
		return 8
	case isa.AVX2, isa.NEON:
		return 4
	case isa.Portable:
	}
	return 1
}

// Panels are vectors of a length, in panels of eight: number i of vector v stands at (v/8*Length + i)*8 + v%8. Vectors that are not there
// are zeros.
type Panels struct {
	Numbers     []float64
	Length, Len int // of a vector; how many there are
}

// Pack brings n vectors of a length, one after the other, into panels.
func Pack(vectors []float64, n, length int) *Panels {
	p := &Panels{Numbers: make([]float64, Width(n)*length), Length: length, Len: n}
	for v := range n {
		for i, x := range vectors[v*length:][:length] {
			p.Numbers[(v/Lanes*length+i)*Lanes+v%Lanes] = x
		}
	}
	return p
}

// Width returns how many numbers a row of products with n vectors takes: n, rounded up to whole panels.
func Width(n int) int { return (n + Lanes - 1) / Lanes * Lanes }

// Products writes the products of rows of x, ldx apart, with the numbers [first, first+count) of all vectors: rows of Width(p.Len) numbers, ldd
// apart. x has count numbers in each row. Those of lanes without a vector are written too.
func (k Kernels) Products(dst []float64, ldd int, x []float64, ldx, rows int, p *Panels, first, count int) {
	k.tiles(false, dst, ldd, x, ldx, rows, p, first, count)
}

// Distances writes the squares of the distances of rows of x, ldx apart, and all vectors, as Products does.
func (k Kernels) Distances(dst []float64, ldd int, x []float64, ldx, rows int, p *Panels) {
	k.tiles(true, dst, ldd, x, ldx, rows, p, 0, p.Length)
}

func (k Kernels) tiles(distances bool, dst []float64, ldd int, x []float64, ldx, rows int, p *Panels, first, count int) {
	width := Width(p.Len)
	if rows <= 0 || width == 0 {
		return
	}
	if ldd < width || ldx < count || first < 0 || count < 0 || first+count > p.Length || len(dst) < (rows-1)*ldd+width || len(x) < (rows-1)*ldx+count ||
		len(p.Numbers) < width*p.Length {
		panic("pairwise: memory is too short for products")
	}
	if count == 0 {
		for r := range rows {
			clear(dst[r*ldd:][:width])
		}
		return
	}
	stride, r := p.Length*Lanes, 0
	if most := k.rows(); rows >= most {
		for panel := range width / Lanes { // stays in the nearest cache for all rows
			w := &p.Numbers[panel*stride+first*Lanes]
			for r = 0; r+most <= rows; r += most {
				tile(k.set, distances, most > 1, &dst[r*ldd+panel*Lanes], ldd, &x[r*ldx], ldx, w, stride, count, 1)
			}
		}
	}
	for ; r < rows; r++ {
		tile(k.set, distances, false, &dst[r*ldd], ldd, &x[r*ldx], ldx, &p.Numbers[first*Lanes], stride, count, width/Lanes)
	}
}

// Dots writes the product of each row of len(w) numbers, ldx apart, with w, plus bias, to dst, which has a number for each row.
func (k Kernels) Dots(dst []float64, x []float32, ldx int, w []float64, bias float64) {
	switch {
	case len(dst) == 0:
	case len(w) == 0:
		for i := range dst {
			dst[i] = bias
		}
	case ldx < len(w) || len(x) < (len(dst)-1)*ldx+len(w):
		panic("pairwise: memory is too short for products")
	default:
		dots(k.set, &dst[0], &x[0], ldx, &w[0], len(w), len(dst), bias)
	}
}

// Dot returns the product of two vectors of one length.
func (k Kernels) Dot(x, y []float64) float64 {
	y = y[:len(x)]
	n, sum := len(x)&^(Lanes-1), [1]float64{}
	if n > 0 {
		dot(k.set, &sum[0], &x[0], &y[0], n)
	}
	for i := n; i < len(x); i++ {
		sum[0] += x[i] * y[i]
	}
	return sum[0]
}

// Exp replaces each number by e^(x*scale), with an error of two units in the last place at most beside that of the product.
func (k Kernels) Exp(x []float64, scale float64) {
	elements := double.For(isa.Target{Set: k.set})
	for len(x) > 0 {
		part := x[:min(len(x), 1<<10)] // stays in the nearest cache
		if scale != 1 {
			elements.Scale(part, part, scale)
		}
		elements.Apply(double.Exp, part, part)
		x = x[len(part):]
	}
}

// Logistic replaces each number x by 1 / (1 + e^-x).
func (k Kernels) Logistic(x []float64) {
	double.For(isa.Target{Set: k.set}).Apply(double.Sigmoid, x, x)
}

// Powers replaces each number x by (x + shift)^degree, as a product of degree factors; degree is at least 1.
func (k Kernels) Powers(x []float64, shift float64, degree int) {
	n := len(x) &^ (Lanes - 1)
	if n > 0 {
		powers(k.set, &x[0], n, shift, degree)
	}
	for i := n; i < len(x); i++ {
		factor := x[i] + shift
		x[i] = factor
		for range degree - 1 {
			x[i] *= factor
		}
	}
}

// Tangents replaces each number x by the hyperbolic tangent of x + shift.
func (k Kernels) Tangents(x []float64, shift float64) {
	elements := double.For(isa.Target{Set: k.set})
	for len(x) > 0 {
		part := x[:min(len(x), 1<<10)]
		if by := [1]float64{shift}; shift != 0 {
			elements.Binary(double.Add, double.VS, part, part, by[:])
		}
		elements.Apply(double.Tanh, part, part)
		x = x[len(part):]
	}
}

// Widen converts numbers. dst is as long as src.
func (k Kernels) Widen(dst []float64, src []float32) {
	dst = dst[:len(src)]
	n := len(src) &^ (Lanes - 1)
	if n > 0 {
		widen(k.set, &dst[0], &src[0], n)
	}
	for i := n; i < len(src); i++ {
		dst[i] = float64(src[i])
	}
}

// Narrow converts numbers. dst is as long as src.
func (k Kernels) Narrow(dst []float32, src []float64) {
	dst = dst[:len(src)]
	n := len(src) &^ (Lanes - 1)
	if n > 0 {
		narrow(k.set, &dst[0], &src[0], n)
	}
	for i := n; i < len(src); i++ {
		dst[i] = float32(src[i])
	}
}

// Scores writes the sums of rows of Width(len(bias)) numbers and bias, next to each other, and to best, where it is not nil, the first place of
// the greatest of each row. A NaN in front is passed by none, others are passed over. There is a number of bias at least.
func (k Kernels) Scores(dst []float64, best []int64, x, bias []float64, rows int) {
	if rows == 0 {
		return
	}
	n := len(bias)
	_, _ = dst[rows*n-1], x[rows*Width(n)-1]
	var first *int64
	if best != nil {
		first = &best[:rows][0]
	}
	if n > Lanes {
		genericScore(&dst[0], first, &x[0], &bias[0], n, rows)
		return
	}
	score(k.set, &dst[0], first, &x[0], &bias[0], n, rows)
}

// Standardize writes (src - offset)*scale, computed in float64; all are as long as src. dst may be src.
func (k Kernels) Standardize(dst, src []float32, offset, scale []float64) {
	dst, offset, scale = dst[:len(src)], offset[:len(src)], scale[:len(src)]
	n := len(src) &^ (Lanes - 1)
	if n > 0 {
		standardize(k.set, &dst[0], &src[0], &offset[0], &scale[0], n)
	}
	for i := n; i < len(src); i++ {
		dst[i] = float32((float64(src[i]) - offset[i]) * scale[i])
	}
}
