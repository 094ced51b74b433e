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
	case And, Or, Xor:
		bitLoop(op, allBytes(dst), allBytes(a), allBytes(b))
	}
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
	case Add, Sub, Mul, Max, Min, Xor:
		for ; len(dst) >= 8; dst, a, b = dst[8:], a[8:], b[8:] {
			bits.NativeEndian.PutUint64(dst, bits.NativeEndian.Uint64(a)^bits.NativeEndian.Uint64(b))
		}
		for i := range dst {
			dst[i] = a[i] ^ b[i]
		}
	}
}

// operand is an operand of loops, of which one element may stand for all.
type operand[T any] struct {
	rest []T
	one  bool
	same [loopPart]T
}

// loopPart is how many elements loops go over at a time where one stands for all.
const loopPart = 64

// begin prepares for the operand's elements from number i on.
func (o *operand[T]) begin(x []T, i int, one bool) {
	if o.one = one; !one {
		o.rest = x[i:]
		return
	}
	for k := range o.same {
		o.same[k] = x[0]
	}
}

// next returns the next n elements, loopPart at most where one stands for all.
func (o *operand[T]) next(n int) []T {
	if o.one {
		return o.same[:n]
	}
	part := o.rest[:n]
	o.rest = o.rest[n:]
	return part
}

// pieces calls body for parts of n elements, from one to the one behind another: all at once where no operand's one element stands for all.
func pieces(n int, parted bool, body func(lo, hi int)) {
	size := n
	if parted {
		size = loopPart
	}
	for lo := 0; lo < n; lo += size {
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
func maxScaledLoop(dst, src []float32, low, high float32) {
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
