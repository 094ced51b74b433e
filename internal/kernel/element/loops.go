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
	each := func(x, y uint64) uint64 { return x ^ y }
	switch op {
	case And:
		each = func(x, y uint64) uint64 { return x & y }
	case Or:
		each = func(x, y uint64) uint64 { return x | y }
	case Add, Sub, Mul, Max, Min, Xor:
	}
	for ; len(dst) >= 8; dst, a, b = dst[8:], a[8:], b[8:] {
		bits.NativeEndian.PutUint64(dst, each(bits.NativeEndian.Uint64(a), bits.NativeEndian.Uint64(b)))
	}
	for i := range dst {
		dst[i] = byte(each(uint64(a[i]), uint64(b[i])))
	}
}

// scalarLoop is loop for one b.
func scalarLoop[T Integer](op Op, dst, a []T, b T) {
	var same [64]T
	for i := range same {
		same[i] = b
	}
	for len(dst) > 0 {
		n := min(len(dst), len(same))
		loop(op, dst[:n], a[:n], same[:n])
		dst, a = dst[n:], a[n:]
	}
}

// compareLoop is Compare in Go, for one b or several.
func compareLoop[T Ordered](c Comparison, dst []bool, a, b []T, one bool) {
	a = a[:len(dst)]
	step := 1
	if one {
		step = 0
	}
	switch c {
	case Equal:
		for i, x := range a {
			dst[i] = x == b[i*step]
		}
	case Less:
		for i, x := range a {
			dst[i] = x < b[i*step]
		}
	case AtMost:
		for i, x := range a {
			dst[i] = x <= b[i*step]
		}
	case Greater:
		for i, x := range a {
			dst[i] = x > b[i*step]
		}
	case AtLeast:
		for i, x := range a {
			dst[i] = x >= b[i*step]
		}
	}
}
