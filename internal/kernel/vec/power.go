package vec

import (
	"math"

	"github.com/carve-dev/carve/internal/kernel/double"
	"github.com/carve-dev/carve/internal/kernel/isa"
)

// Powers writes the powers of src, of which one stands for all where dst has more, by exponents that are by apart, 1, or 0 for one of all, as
// Power does: to within an ulp. Those of negative numbers by whole exponents are those of their magnitudes, with a sign.
func (v Kernels) Powers(dst, src, exponents []float32, by int) {
	const most = 1 << 24 // of which all whole numbers are float32
	elements := double.For(isa.Target{Set: v.set})
	var logarithms [1 << 8]float64
	step := min(len(src)-1, 1) // from base to base
	var one [1]float64
	if step == 0 {
		one[0] = math.Abs(float64(src[0]))
		elements.Apply(double.Log, one[:], one[:])
	}
	for at := 0; at < len(dst); at += len(logarithms) {
		d, y := dst[at:min(at+len(logarithms), len(dst))], exponents[at*by:]
		s, t := src[at*step:], logarithms[:len(d)]
		if step == 0 {
			for i := range t {
				t[i] = one[0] * float64(y[i*by])
			}
		} else {
			for i, x := range s[:len(t)] {
				t[i] = math.Abs(float64(x))
			}
			elements.Apply(double.Log, t, t)
			for i := range t {
				t[i] *= float64(y[i*by])
			}
		}
		elements.Apply(double.Exp, t, t)
		for i, r := range t {
			x, e := s[i*step], y[i*by]
			switch {
			case !(r >= 0x1p-126 && r <= math.MaxFloat32):
				d[i] = Power(x, e)
			case x > 0 && x <= math.MaxFloat32:
				d[i] = float32(r)
			case x < 0 && x >= -math.MaxFloat32 && e >= -most && e <= most && float32(int32(e)) == e:
				d[i] = math.Float32frombits(math.Float32bits(float32(r)) | uint32(int32(e))<<31)
			default:
				d[i] = Power(x, e)
			}
		}
	}
}

// Power returns x^y to within an ulp, with the special values of math.Pow. It takes a few nanoseconds where x is positive and the
// result is a normal number: math.Pow is exact in float64, which float32 does not show.
func Power(x, y float32) float32 {
	if !(x > 0 && x <= math.MaxFloat32) {
		return float32(math.Pow(float64(x), float64(y)))
	}
	t := float64(y) * Logarithm(float64(x)) * math.Log2E
	if !(t > -126 && t < 127.9) {
		return float32(math.Pow(float64(x), float64(y)))
	}
	return float32(exponential2(t))
}

// Logarithm returns ln x of a positive normal number, within a few units in the last place, by the series of artanh, and NaN of others.
func Logarithm(x float64) float64 {
	if !(x >= 0x1p-1022 && x <= math.MaxFloat64) {
		return math.NaN()
	}
	const halfRoot = 0x3fe6a09e667f3bcd // √½
	b := math.Float64bits(x)
	e := int64(b-halfRoot) >> 52
	m := math.Float64frombits(b - uint64(e)<<52) // in [√½, √2)
	s := (m - 1) / (m + 1)
	z := s * s
	sum := z * (1./3 + z*(1./5+z*(1./7+z*(1./9+z*(1./11+z*(1./13+z*(1./15+z*(1./17+z*(1./19+z*(1./21))))))))))
	return float64(e)*math.Ln2 + 2*(s+s*sum)
}

// exponential2 returns 2^t for t between -1022 and 1023, with a relative error below 2^-32, by the series of the exponential function.
func exponential2(t float64) float64 {
	const shift = 3 << 51 // adding it rounds to an integer
	n := (t + shift) - shift
	f := (t - n) * math.Ln2 // in [-ln 2 / 2, ln 2 / 2]
	sum := 1 + f*(1+f*(1./2+f*(1./6+f*(1./24+f*(1./120+f*(1./720+f*(1./5040+f*(1./40320))))))))
	return sum * math.Float64frombits(uint64(int64(n)+1023)<<52)
}
