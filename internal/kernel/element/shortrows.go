package element

import "unsafe"

// LongestShort is how many bytes a row of ShortRows has at most.
const LongestShort = 32

// ShortRows copies so many rows of n bytes, at most LongestShort, that lie ldd bytes apart in dst and lds in src, for which a call of copy takes longer than what it does. The operands
// share no memory.
func ShortRows(dst, src []byte, n, rows, ldd, lds int) {
	if rows <= 0 || n <= 0 {
		return
	}
	_, _ = dst[(rows-1)*ldd+n-1], src[(rows-1)*lds+n-1]
	d, s := unsafe.Pointer(unsafe.SliceData(dst)), unsafe.Pointer(unsafe.SliceData(src))
	switch { // words that overlap in the middle
	case n > 16:
		for i := range rows {
			copyEnds[[2]uint64](unsafe.Add(d, i*ldd), unsafe.Add(s, i*lds), n)
		}
	case n >= 8:
		for i := range rows {
			copyEnds[uint64](unsafe.Add(d, i*ldd), unsafe.Add(s, i*lds), n)
		}
	case n >= 4:
		for i := range rows {
			copyEnds[uint32](unsafe.Add(d, i*ldd), unsafe.Add(s, i*lds), n)
		}
	case n >= 2:
		for i := range rows {
			copyEnds[uint16](unsafe.Add(d, i*ldd), unsafe.Add(s, i*lds), n)
		}
	default:
		for i := range rows {
			*(*byte)(unsafe.Add(d, i*ldd)) = *(*byte)(unsafe.Add(s, i*lds))
		}
	}
}

// copyEnds copies the first and the last T of n bytes, at most as many as two of them.
func copyEnds[T uint16 | uint32 | uint64 | [2]uint64](d, s unsafe.Pointer, n int) {
	var x T
	last := n - int(unsafe.Sizeof(x))
	x, y := *(*T)(s), *(*T)(unsafe.Add(s, last))
	*(*T)(d), *(*T)(unsafe.Add(d, last)) = x, y
}
