package pairwise

import "unsafe"

// genericTile is the portable version of tile, of one row.
func genericTile(distances bool, dst, a, w *float64, stride, k, panels int) {
	row, out := unsafe.Slice(a, k), unsafe.Slice(dst, panels*Lanes)
	all := unsafe.Slice(w, (panels-1)*stride+k*Lanes)
	for p := range panels {
		var sums [Lanes]float64
		for i, x := range row {
			v := (*[Lanes]float64)(all[p*stride+i*Lanes:])
			for l := range sums {
				if distances {
					d := v[l] - x
					sums[l] += d * d
				} else {
					sums[l] += v[l] * x
				}
			}
		}
		copy(out[p*Lanes:], sums[:])
	}
}

func genericWiden(dst *float64, src *float32, n int) {
	out := unsafe.Slice(dst, n)
	for i, v := range unsafe.Slice(src, n) {
		out[i] = float64(v)
	}
}

func genericNarrow(dst *float32, src *float64, n int) {
	out := unsafe.Slice(dst, n)
	for i, v := range unsafe.Slice(src, n) {
		out[i] = float32(v)
	}
}

func genericStandardize(dst, src *float32, offset, scale *float64, n int) {
	out, o, s := unsafe.Slice(dst, n), unsafe.Slice(offset, n), unsafe.Slice(scale, n)
	for i, v := range unsafe.Slice(src, n) {
		out[i] = float32((float64(v) - o[i]) * s[i])
	}
}

func genericScore(dst *float64, best *int64, x, bias *float64, n, rows int) {
	add := unsafe.Slice(bias, n)
	for r := range rows {
		from := unsafe.Slice((*float64)(unsafe.Add(unsafe.Pointer(x), 8*r*Width(n))), n)
		to := unsafe.Slice((*float64)(unsafe.Add(unsafe.Pointer(dst), 8*r*n)), n)
		for i, b := range add {
			to[i] = from[i] + b
		}
		if best != nil {
			*(*int64)(unsafe.Add(unsafe.Pointer(best), 8*r)) = int64(Largest(to))
		}
	}
}

// manyNumbers is from how many numbers on a branch where a larger one follows, which in random data are few, costs less than to do without.
const manyNumbers = 64

// Largest returns the first place of the largest number, of a few without a branch, which data would mislead.
func Largest(row []float64) int {
	best, i := 0, 0
	if len(row) >= manyNumbers {
		most := row[0]
		for i, x := range row {
			if x > most {
				best, most = i, x
			}
		}
		return best
	}
	if quarter := len(row) / 4; quarter >= 4 { // which do not wait for each other
		var of [4]int
		for ; i < quarter; i++ {
			for q := range of {
				of[q] = larger(row, of[q], i+q*quarter)
			}
		}
		for _, k := range of {
			best = larger(row, best, k)
		}
		i = 4 * quarter
	}
	for ; i < len(row); i++ {
		best = larger(row, best, i)
	}
	return best
}

// larger returns i where it has more than best, else best.
func larger(row []float64, best, i int) int {
	above := 0
	if row[i] > row[best] {
		above = 1
	}
	return best + (i-best)*above
}

func genericDots(dst *float64, x *float32, ldx int, w *float64, k, rows int, bias float64) {
	all, out := unsafe.Slice(x, (rows-1)*ldx+k), unsafe.Slice(dst, rows)
	for r := range out {
		s := 0.0
		for i, v := range unsafe.Slice(w, k) {
			s += float64(all[r*ldx+i]) * v
		}
		out[r] = s + bias
	}
}

func genericPowers(x *float64, n int, shift float64, degree int) {
	all := unsafe.Slice(x, n)
	for i := range all {
		factor := all[i] + shift
		all[i] = factor
		for range degree - 1 {
			all[i] *= factor
		}
	}
}

func genericDot(dst, x, y *float64, n int) {
	var sums [Lanes]float64
	a, b := unsafe.Slice(x, n), unsafe.Slice(y, n)
	for i := range a {
		sums[i%Lanes] += a[i] * b[i]
	}
	*dst = 0
	for _, s := range sums {
		*dst += s
	}
}
