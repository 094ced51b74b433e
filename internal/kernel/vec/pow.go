package vec

import (
	"math"

	"github.com/carve-dev/carve/internal/kernel/double"
	"github.com/carve-dev/carve/internal/kernel/isa"
)

// Pow writes src^y for each element, with the special values of math.Pow. y = 2, 3, 1, -1, 0, ±1/4, ±1/2, ±3/4 run at the speed of
// multiplications, square roots and divisions, other whole ones to ±8 at that of their products in float64; the rest is Powers'.
func (v Kernels) Pow(dst, src []float32, y float32) {
	n := len(src)
	if n == 0 {
		return
	}
	_ = dst[:n]
	switch y {
	case 2:
		v.Apply(Square, dst, src, Params{})
	case 3:
		v.Apply(Cube, dst, src, Params{})
	case 1:
		copy(dst, src)
	case -1:
		v.Apply(Reciprocal, dst, src, Params{})
	case 0:
		for i := range src {
			dst[i] = 1
		}
	case 0.25, -0.25, 0.5, -0.5, 0.75, -0.75:
		v.powRoot(dst[:n], src, y)
	default:
		if whole := int(max(min(y, mostFactors), -mostFactors)); float32(whole) == y {
			v.factors(dst, src, whole)
			return
		}
		v.Powers(dst, src, []float32{y}, 0)
	}
}

// mostFactors is the greatest whole exponent of which powers are products, in float64: they have the range, and the digits, for it.
const mostFactors = 8

// factors writes products of so many factors, or for a negative number their reciprocals.
func (v Kernels) factors(dst, src []float32, y int) {
	elements := double.For(isa.Target{Set: v.set})
	var base, product [1 << 8]float64
	one := [1]float64{1}
	for at := 0; at < len(src); at += len(base) {
		s := src[at:min(at+len(base), len(src))]
		b, p := base[:len(s)], product[:len(s)]
		for i, x := range s {
			b[i], p[i] = float64(x), 1
		}
		for n := max(y, -y); n > 0; n >>= 1 {
			if n&1 != 0 {
				elements.Binary(double.Mul, double.VV, p, p, b)
			}
			elements.Binary(double.Mul, double.VV, b, b, b)
		}
		if y < 0 {
			elements.Binary(double.Div, double.SV, p, one[:], p)
		}
		for i, x := range p {
			dst[at+i] = float32(x)
		}
	}
}

// powRoot takes roots where all numbers are above 0 and finite: the powers of others differ.
func (v Kernels) powRoot(dst, src []float32, y float32) {
	var least, most [1]float32
	for at := 0; at < len(src); at += blockElements {
		s, d := src[at:min(at+blockElements, len(src))], dst[at:min(at+blockElements, len(src))]
		v.ReduceRows(ReduceMin, least[:], s, len(s), 1, len(s))
		v.ReduceRows(ReduceMax, most[:], s, len(s), 1, len(s))
		if least[0] > 0 && most[0] <= math.MaxFloat32 {
			v.roots(d, s, y)
			continue
		}
		v.Powers(d, s, []float32{y}, 0)
	}
}

// roots writes src^y for quarters y.
func (v Kernels) roots(dst, src []float32, y float32) {
	last := Sqrt
	if y < 0 {
		last = Rsqrt
	}
	switch y {
	case 0.5, -0.5:
		v.Apply(last, dst, src, Params{})
	case 0.25, -0.25:
		v.Apply(Sqrt, dst, src, Params{})
		v.Apply(last, dst, dst, Params{})
	default: // x/√√x, or its reciprocal
		var fourth [256]float32
		for at := 0; at < len(src); at += len(fourth) {
			s := src[at:min(at+len(fourth), len(src))]
			f, d := fourth[:len(s)], dst[at:at+len(s)]
			v.Apply(Sqrt, f, s, Params{})
			v.Apply(Sqrt, f, f, Params{})
			if y < 0 {
				v.Binary(Div, d, f, s)
			} else {
				v.Binary(Div, d, s, f)
			}
		}
	}
}
