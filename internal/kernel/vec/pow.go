package vec

import "math"

// Pow writes src^y for each element, with the special values of math.Pow. y = 2, 3, 1, -1, 0, ±1/2 run at the speed of a
// multiplication, square root or division; other exponents are Power's.
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
	case 0.5, -0.5:
		v.powHalf(dst[:n], src, y)
	default:
		for i, x := range src {
			dst[i] = Power(x, y)
		}
	}
}

// powHalf takes the root and then mends what differs: the powers of -Inf and of -0.
func (v Kernels) powHalf(dst, src []float32, y float32) {
	var least [1]float32
	for at := 0; at < len(src); at += blockElements {
		s, d := src[at:min(at+blockElements, len(src))], dst[at:min(at+blockElements, len(src))]
		v.ReduceRows(ReduceMin, least[:], s, len(s), 1, len(s))
		if least[0] > 0 {
			op := Sqrt
			if y < 0 {
				op = Rsqrt
			}
			v.Apply(op, d, s, Params{})
			continue
		}
		for i, x := range s {
			d[i] = float32(math.Pow(float64(x), float64(y)))
		}
	}
}
