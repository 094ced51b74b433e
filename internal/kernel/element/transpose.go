package element

import (
	bits "encoding/binary"
	"unsafe"

	"github.com/carve-dev/carve/internal/kernel/isa"
)

// fewLines is up to how many rows or columns TransposeFew takes less than blocks of a kernel.
const fewLines = 4

// Transpose writes column c of src, of rows rows of cols elements that lie lds apart, to row c of dst, whose rows lie ldd apart. The operands share no memory.
func Transpose[T uint16 | uint64](set isa.Set, dst, src []T, rows, cols, lds, ldd int) {
	if rows == 0 || cols == 0 {
		return
	}
	dst, src = dst[:(cols-1)*ldd+rows], src[:(rows-1)*lds+cols]
	if min(rows, cols) <= fewLines {
		TransposeFew(dst, src, rows, cols, lds, ldd)
		return
	}
	size := int(unsafe.Sizeof(dst[0]))
	const high = 8
	wide := min(high, width/size)
	if rows < high || cols < wide || !hasKernels(set) {
		for c := range cols {
			for r := range rows {
				dst[c*ldd+r] = src[r*lds+c]
			}
		}
		return
	}
	block := func(r, c, n int) {
		turn(set, size == 8, bytesAt(dst, c*ldd+r), bytesAt(src, r*lds+c), size*ldd, size*lds, n)
	}
	const most = most / high
	for r := 0; r < rows; r += high {
		r = min(r, rows-high) // the last blocks overlap those before
		whole := cols / wide
		for at := 0; at < whole; at += most {
			block(r, wide*at, min(whole-at, most))
		}
		if cols%wide != 0 {
			block(r, cols-wide, 1)
		}
	}
}

// TransposeFew is Transpose of elements of any size, with loops of their own for two, three and four columns, or rows: pixels whose channels are taken apart, or put beside each
// other, and blocks of pixels. The operands share no memory.
func TransposeFew[T Bits](dst, src []T, rows, cols, lds, ldd int) {
	switch {
	case rows == 0 || cols == 0:
	case cols == 2:
		takeTwo(dst[:rows], dst[ldd:], src, lds)
	case cols == 3:
		takeThree(dst[:rows], dst[ldd:], dst[2*ldd:], src, lds)
	case cols == 4:
		takeTwo(dst[:rows], dst[ldd:], src, lds)
		takeTwo(dst[2*ldd:][:rows], dst[3*ldd:], src[2:], lds)
	case rows == 2:
		putTwo(dst, src[:cols], src[lds:], ldd)
	case rows == 3:
		putThree(dst, src[:cols], src[lds:], src[2*lds:], ldd)
	case rows == 4:
		putTwo(dst, src[:cols], src[lds:], ldd)
		putTwo(dst[2:], src[2*lds:][:cols], src[3*lds:], ldd)
	default:
		for c := range cols {
			for r := range rows {
				dst[c*ldd+r] = src[r*lds+c]
			}
		}
	}
}

// takeTwo takes pairs apart that lie ld elements apart: short ones side by side some at a time, as parts of a word.
func takeTwo[T Bits](a, b, from []T, ld int) {
	n := len(a)
	b = b[:n]
	i := 0
	if ld == 2 {
		switch unsafe.Sizeof(from[0]) {
		case 1:
			x, y, pairs := allBytes(a), allBytes(b), allBytes(from)
			for ; i+4 <= n; i += 4 {
				w := bits.LittleEndian.Uint64(pairs[2*i:])
				bits.LittleEndian.PutUint32(x[i:], evenBytes(w))
				bits.LittleEndian.PutUint32(y[i:], evenBytes(w>>8))
			}
		case 2:
			x, y, pairs := allBytes(a), allBytes(b), allBytes(from)
			for ; i+2 <= n; i += 2 {
				w := bits.LittleEndian.Uint64(pairs[4*i:])
				bits.LittleEndian.PutUint32(x[2*i:], uint32(w)&0xffff|uint32(w>>16)&0xffff0000)
				bits.LittleEndian.PutUint32(y[2*i:], uint32(w>>16)&0xffff|uint32(w>>32)&0xffff0000)
			}
		default:
		}
		for ; i < n; i++ {
			x := (*[2]T)(from[2*i:])
			a[i], b[i] = x[0], x[1]
		}
		return
	}
	for ; i < n; i++ {
		x := (*[2]T)(from[i*ld:])
		a[i], b[i] = x[0], x[1]
	}
}

// evenBytes returns bytes 0, 2, 4 and 6 of a word.
func evenBytes(w uint64) uint32 {
	w &= 0x00ff00ff00ff00ff
	w = (w | w>>8) & 0x0000ffff0000ffff
	return uint32(w | w>>16)
}

// withGaps is the inverse of evenBytes, the other bytes 0.
func withGaps(x uint32) uint64 {
	w := uint64(x)
	w = (w | w<<16) & 0x0000ffff0000ffff
	return (w | w<<8) & 0x00ff00ff00ff00ff
}

func takeThree[T Bits](a, b, c, from []T, ld int) {
	b, c = b[:len(a)], c[:len(a)]
	for i := range a {
		x := (*[3]T)(from[i*ld:])
		a[i], b[i], c[i] = x[0], x[1], x[2]
	}
}

// putTwo is the inverse of takeTwo.
func putTwo[T Bits](to, a, b []T, ld int) {
	n := len(a)
	b = b[:n]
	i := 0
	if ld == 2 {
		switch unsafe.Sizeof(to[0]) {
		case 1:
			x, y, pairs := allBytes(a), allBytes(b), allBytes(to)
			for ; i+4 <= n; i += 4 {
				bits.LittleEndian.PutUint64(pairs[2*i:], withGaps(bits.LittleEndian.Uint32(x[i:]))|withGaps(bits.LittleEndian.Uint32(y[i:]))<<8)
			}
		case 2:
			x, y, pairs := allBytes(a), allBytes(b), allBytes(to)
			for ; i+2 <= n; i += 2 {
				v, w := uint64(bits.LittleEndian.Uint32(x[2*i:])), uint64(bits.LittleEndian.Uint32(y[2*i:]))
				bits.LittleEndian.PutUint64(pairs[4*i:], v&0xffff|w&0xffff<<16|v>>16<<32|w>>16<<48)
			}
		default:
		}
		for ; i < n; i++ {
			x := (*[2]T)(to[2*i:])
			x[0], x[1] = a[i], b[i]
		}
		return
	}
	for ; i < n; i++ {
		x := (*[2]T)(to[i*ld:])
		x[0], x[1] = a[i], b[i]
	}
}

func putThree[T Bits](to, a, b, c []T, ld int) {
	b, c = b[:len(a)], c[:len(a)]
	for i := range a {
		x := (*[3]T)(to[i*ld:])
		x[0], x[1], x[2] = a[i], b[i], c[i]
	}
}
