package shortrow

import (
	"math"
	"unsafe"
)

// each hands out rows.
func each(dst, src *float32, n, rows int, fn func(r int, to, from []float32)) {
	to, from := unsafe.Slice(dst, n*rows), unsafe.Slice(src, n*rows)
	for r := range rows {
		fn(r, to[r*n:][:n], from[r*n:][:n])
	}
}

// orderOf returns an integer of a number, in the order of numbers; that of -0 is below that of 0.
func orderOf(x float32) int32 {
	bits := int32(math.Float32bits(x))
	return bits ^ int32(uint32(bits>>31)>>1)
}

// genericMark has no branch that data would mislead: it compares keys of numbers, in their order, above their places.
func genericMark(dst, src *float32, n, rows int) {
	each(dst, src, n, rows, func(_ int, to, from []float32) {
		best := int64(math.MinInt64)
		if from[0] != from[0] {
			best = math.MaxInt64 &^ math.MaxUint32
			best |= int64(^uint32(0))
		}
		for i, v := range from {
			key := int64(orderOf(v + 0)) // of no -0
			if v != v {
				key = math.MinInt32
			}
			best = max(best, key<<32|int64(^uint32(i)))
			to[i] = 0
		}
		to[^uint32(best)] = 1
	})
}

// normOf returns the norm of a row, which is not empty.
func normOf[T float32 | float64](n Norm, row []T) float64 {
	switch n {
	case L1:
		s := 0.0
		for _, x := range row {
			s += math.Abs(float64(x))
		}
		return s
	case L2:
		s := 0.0
		for _, x := range row {
			s += float64(x) * float64(x)
		}
		return math.Sqrt(s)
	case Max:
	}
	s := float64(-math.MaxFloat32)
	for _, x := range row {
		if v := float64(x); v == v {
			s = max(s, v)
		}
	}
	return s
}

// genericDivide multiplies with the inverse: norms of float32 are normal numbers of float64, so that this is as near.
func genericDivide[T float32 | float64](norm Norm, dst *float32, src *T, n, rows int) {
	to, from := unsafe.Slice(dst, n*rows), unsafe.Slice(src, n*rows)
	for ; len(from) >= n; to, from = to[n:], from[n:] {
		row, out := from[:n], to[:n]
		inverse := 1.0
		if s := normOf(norm, row); s != 0 {
			inverse = 1 / s
		}
		for i, x := range row {
			out[i] = float32(float64(x) * inverse)
		}
	}
}

func genericNormalise(dst, src, scale, bias *float32, n, rows int, epsilon float32) {
	scales, biases := unsafe.Slice(scale, rows), unsafe.Slice(bias, rows)
	each(dst, src, n, rows, func(r int, to, from []float32) {
		sum, squares := float32(0), float32(0)
		for _, x := range from {
			sum += x
		}
		mean := sum / float32(n)
		for _, x := range from {
			squares += (x - mean) * (x - mean)
		}
		by := scales[r] / float32(math.Sqrt(float64(squares/float32(n)+epsilon)))
		for i, x := range from {
			to[i] = (x-mean)*by + biases[r]
		}
	})
}

func genericTake(dst *float32, ldd int, src *float32, lds int, places *int32, count, rows int) {
	list := unsafe.Slice(places, count)
	for r := range rows {
		to := unsafe.Slice((*float32)(unsafe.Add(unsafe.Pointer(dst), 4*r*ldd)), count)
		from := unsafe.Add(unsafe.Pointer(src), 4*r*lds)
		for i, at := range list {
			to[i] = *(*float32)(unsafe.Add(from, 4*int(at)))
		}
	}
}
