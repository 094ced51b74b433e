package element

import (
	bits "encoding/binary"
	"unsafe"
)

// loop is Binary in Go.
func loop[T Integer](op Op, dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	switch op {
	case Add:
		for i := range dst {
			dst[i] = a[i] + b[i]
		}
	case Sub:
		for i := range dst {
			dst[i] = a[i] - b[i]
		}
	case Mul:
		for i := range dst {
			dst[i] = a[i] * b[i]
		}
	case Max:
		for i := range dst {
			dst[i] = max(a[i], b[i])
		}
	case Min:
		for i := range dst {
			dst[i] = min(a[i], b[i])
		}
	case Div:
		for i, by := range b {
			if by == 0 {
				dst[i] = 0
			} else {
				dst[i] = a[i] / by
			}
		}
	case Apart:
		for i := range dst {
			dst[i] = max(a[i]-b[i], b[i]-a[i])
		}
	case And, Or, Xor:
		bitLoop(op, allBytes(dst), allBytes(a), allBytes(b))
	}
}

// foldLoop is Fold in Go, of v and a row.
func foldLoop[T Integer](op Op, v T, row []T) T {
	switch op {
	case Mul:
		for _, x := range row {
			v *= x
		}
	case Max:
		for _, x := range row {
			v = max(v, x)
		}
	case Min:
		for _, x := range row {
			v = min(v, x)
		}
	case Add:
		for _, x := range row {
			v += x
		}
	case Sub, And, Or, Xor, Div, Apart:
		panic("element: no fold")
	}
	return v
}

// allBytes returns the bytes of elements.
func allBytes[T any](x []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), len(x)*int(unsafe.Sizeof(*new(T))))
}

// bitLoop is loop for bits, eight bytes at a time.
func bitLoop(op Op, dst, a, b []byte) {
	switch op {
	case And:
		for ; len(dst) >= 8; dst, a, b = dst[8:], a[8:], b[8:] {
			bits.NativeEndian.PutUint64(dst, bits.NativeEndian.Uint64(a)&bits.NativeEndian.Uint64(b))
		}
		for i := range dst {
			dst[i] = a[i] & b[i]
		}
	case Or:
		for ; len(dst) >= 8; dst, a, b = dst[8:], a[8:], b[8:] {
			bits.NativeEndian.PutUint64(dst, bits.NativeEndian.Uint64(a)|bits.NativeEndian.Uint64(b))
		}
		for i := range dst {
			dst[i] = a[i] | b[i]
		}
	case Add, Sub, Mul, Max, Min, Div, Apart, Xor:
		for ; len(dst) >= 8; dst, a, b = dst[8:], a[8:], b[8:] {
			bits.NativeEndian.PutUint64(dst, bits.NativeEndian.Uint64(a)^bits.NativeEndian.Uint64(b))
		}
		for i := range dst {
			dst[i] = a[i] ^ b[i]
		}
	}
}

// loopPart is how many elements loops go over at a time where one stands for all.
const loopPart = 64

// spread has the elements of a part of an operand of which one stands for all.
type spread[T any] [loopPart]T

// fill prepares for an operand, where one element of it stands for all.
func (s *spread[T]) fill(x []T, one bool) {
	if one {
		for k := range s {
			s[k] = x[0]
		}
	}
}

// of returns elements lo to hi of an operand, loopPart at most where one stands for all.
func (s *spread[T]) of(x []T, lo, hi int, one bool) []T {
	if one {
		return s[:hi-lo]
	}
	return x[lo:hi]
}

// pieces calls body for parts of elements done to n, from one to the one behind another: all at once where no operand's one element stands for all.
func pieces(done, n int, parted bool, body func(lo, hi int)) {
	size := n
	if parted {
		size = loopPart
	}
	for lo := done; lo < n; lo += size {
		body(lo, min(lo+size, n))
	}
}

// compareLoop is Compare in Go.
func compareLoop[T Ordered](c Comparison, dst []bool, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	switch c {
	case Equal:
		for i := range dst {
			dst[i] = a[i] == b[i]
		}
	case Less:
		for i := range dst {
			dst[i] = a[i] < b[i]
		}
	case AtMost:
		for i := range dst {
			dst[i] = a[i] <= b[i]
		}
	case Greater:
		for i := range dst {
			dst[i] = a[i] > b[i]
		}
	case AtLeast:
		for i := range dst {
			dst[i] = a[i] >= b[i]
		}
	}
}

// chooseLoop is Choose in Go: without a branch, which data would mislead.
func chooseLoop[T Bits](dst []T, c []uint8, a, b []T) {
	c, a, b = c[:len(dst)], a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = b[i] ^ (a[i]^b[i])&-T(c[i])
	}
}

// maxScaledLoop is MaxScaled in Go. Of a 0 and a -0 it takes the one that the kernel takes.
func maxScaledLoop[T float32 | float64](dst, src []T, low, high T) {
	for i, v := range src[:len(dst)] {
		p, q, d := v*high, v*low, dst[i]
		if !(p > q) {
			p = q
		}
		if d == d && !(d > p) {
			dst[i] = p
		}
	}
}

// productsLoop adds a row of a product: what is summed is read and written once for four rows of the right operand.
func productsLoop[T int32 | int64 | float32](dst, left, right []T, ld int) {
	if len(dst) == 0 {
		return
	}
	for ; len(left) >= 4 && len(right) >= 4*ld; left, right = left[4:], right[4*ld:] {
		p, q, r, s := left[0], left[1], left[2], left[3]
		second, third, fourth := right[ld:][:len(dst)], right[2*ld:][:len(dst)], right[3*ld:][:len(dst)]
		for c, w := range right[:len(dst)] {
			dst[c] += p*w + q*second[c] + r*third[c] + s*fourth[c]
		}
	}
	for j, v := range left {
		for c, w := range right[j*ld:][:len(dst)] {
			dst[c] += v * w
		}
	}
}
