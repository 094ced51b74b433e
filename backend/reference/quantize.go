package reference

import "math"

// saturate rounds x half to even, adds a zero point and bounds the sum. NaN becomes the zero point.
func saturate(x, zero float64, lo, hi int64) int64 {
	if x != x {
		x = 0
	}
	return int64(math.Min(math.Max(math.RoundToEven(x)+zero, float64(lo)), float64(hi)))
}
