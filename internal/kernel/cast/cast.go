package cast

import (
	"unsafe"

	"github.com/carve-dev/carve/internal/kernel/isa"
)

// Type is the type of elements.
type Type uint8

// The types that there are kernels for. A bool is a byte, 0 or 1.
const (
	Int8 Type = iota
	Uint8
	Int16
	Uint16
	Int32
	Uint32
	Int64
	Uint64
	Float32
	Bool
	Float64
	Float16  // that integers become
	BFloat16 // likewise
)

// Size returns the bytes of an element.
func (t Type) Size() int { return int([...]uint8{1, 1, 2, 2, 4, 4, 8, 8, 4, 1, 8, 2, 2}[t]) }

// group is how many elements kernels take at a time, and part how many lie in lanes between two kernels.
const (
	group = 16
	part  = 1024
)

// Elements converts n elements of src to dst, n·Size bytes each, which share no memory. Those of half precision are converted to from integers
// and bool alone.
func Elements(set isa.Set, dst []byte, to Type, src []byte, from Type, n int) {
	dst, src = dst[:n*to.Size()], src[:n*from.Size()]
	if n == 0 {
		return
	}
	switch {
	case to == from || to != Bool && !to.real() && !from.real() && to.Size() == from.Size():
		copy(dst, src)
	case to == Bool && from.Size() == 1:
		whole := n / 64 * 64
		for at := 0; at < whole; at += 16 * part { // no call takes long
			bits(set, &dst[at], &src[at], min(whole-at, 16*part)/64)
		}
		if n > whole {
			genericBits(&dst[whole], &src[whole], n-whole)
		}
	case !to.real() && !from.real() && to.Size()+from.Size() == 3:
		byWords(set, dst, src, changeOf(to, from), n)
	case to == Float32 && (from == Bool || from == Uint8) && n < group:
		floats[uint8](dst, src, n)
	case to == Float64 && from == Float32:
		Doubles(set, view[float64](dst, n), view[float32](src, n))
	case to == Float32 && from == Float64:
		Singles(set, view[float32](dst, n), view[float64](src, n))
	case to == Float64 && (from.Size() == 8 || from == Uint32), to == Bool && from == Float64:
		ofWide(set, dst, to, src, from, n)
	case !inLanes(to, from):
		direct(dst, to, src, from, n)
	default:
		whole := n / group * group
		if whole > 0 {
			parts(set, dst, to, src, from, whole)
		}
		if n > whole {
			var few [group]int32
			var from8, to8 [group]uint64 // the rest, behind which there is memory
			in, out := bytesOf(&from8), bytesOf(&to8)
			copy(in, src[whole*from.Size():])
			byLanes(set, out, to, in, from, group, few[:])
			copy(dst[whole*to.Size():], out)
		}
	}
}

// change is what makes integers of 8 bits of those of 16, or the other way round.
type change uint8

const (
	bytesToWords change = iota
	signedToWords
	wordsToBytes
	wordsToTruths
)

// changeOf returns what makes a type of another.
func changeOf(to, from Type) change {
	switch {
	case to == Bool:
		return wordsToTruths
	case to.Size() == 1:
		return wordsToBytes
	case from == Int8:
		return signedToWords
	}
	return bytesToWords
}

// byWords converts n elements between 8 and 16 bits.
func byWords(set isa.Set, dst, src []byte, c change, n int) {
	const together = 64
	to, from := len(dst)/n, len(src)/n
	whole := n / together * together
	for at := 0; at < whole; at += 16 * part { // no call takes long
		words(set, c, &dst[at*to], &src[at*from], min(whole-at, 16*part)/together)
	}
	if whole < n {
		genericWords(c, &dst[whole*to], &src[whole*from], n-whole)
	}
}

// ofWide makes float64 of integers that lanes do not hold, or truth values of float64.
func ofWide(set isa.Set, dst []byte, to Type, src []byte, from Type, n int) {
	for whole := n / group * group; n > 0; {
		d, s := &dst[len(dst)-n*to.Size()], &src[len(src)-n*from.Size()]
		some := min(whole, 16*part) // no call takes long
		switch {
		case whole > 0 && to == Bool:
			differ(set, d, (*float64)(unsafe.Pointer(s)), some/group)
		case whole > 0:
			wholes(set, from, (*float64)(unsafe.Pointer(d)), s, some/group)
		case to == Bool:
			genericDiffer(d, (*float64)(unsafe.Pointer(s)), n)
			return
		default:
			genericWholes(from, (*float64)(unsafe.Pointer(d)), s, n)
			return
		}
		whole, n = whole-some, n-some
	}
}

// Doubles writes src as float64.
func Doubles(set isa.Set, dst []float64, src []float32) {
	dst = dst[:len(src)]
	whole := len(src) / group * group
	for at := 0; at < whole; at += 16 * part { // no call takes long
		doubles(set, &dst[at], &src[at], min(whole-at, 16*part)/group)
	}
	for i, x := range src[whole:] {
		dst[whole+i] = float64(x)
	}
}

// Singles rounds src to float32, half to even.
func Singles(set isa.Set, dst []float32, src []float64) {
	dst = dst[:len(src)]
	whole := len(src) / group * group
	for at := 0; at < whole; at += 16 * part {
		singles(set, &dst[at], &src[at], min(whole-at, 16*part)/group)
	}
	for i, x := range src[whole:] {
		dst[whole+i] = float32(x)
	}
}

// Oddly rounds src so that it may be rounded again: to the neighbour with an odd last digit, where float32 does not hold a number. What is halfway between two numbers of
// fewer digits is of those that it holds. Boldo and Melquiond, https://doi.org/10.1109/TC.2007.70819.
func Oddly(set isa.Set, dst []float32, src []float64) {
	dst = dst[:len(src)]
	whole := len(src) / group * group
	for at := 0; at < whole; at += 16 * part {
		odds(set, &dst[at], &src[at], min(whole-at, 16*part)/group)
	}
	if n := len(src); whole < n {
		genericOdds(&dst[whole], &src[whole], n-whole)
	}
}

// rowsTogether is how many rows are added to totals on the way through these, at most: so many streams of memory.
const rowsTogether = 8

// together returns how many rows of float32, by elements apart, are added to totals at once: few where they meet in the same lines of a first-level cache, whose ways are pages.
func together(by int) int {
	const page = 4096
	apart := 4 * by & -(4 * by) // the largest power of two that divides the distance
	return max(2, min(rowsTogether, 2*page/max(apart, 1)))
}

// Totals adds rows of src to totals, or multiplies these by them, and rounds them to rows of dst, before that where exclusive is set. There are so many rows, by elements
// apart in either slice, the first of them at first; each has an element for every total. dst may be src.
func Totals(set isa.Set, multiplies, exclusive bool, dst, src []float32, first, by, rows int, totals []float64) {
	n := len(totals)
	if n == 0 || rows == 0 {
		return
	}
	for _, at := range [2]int{first, first + (rows-1)*by} {
		_, _ = dst[at:at+n], src[at:at+n]
	}
	whole := n / 4 * 4
	for some := together(by); rows > 0; first, rows = first+some*by, rows-some {
		together := min(rows, some)
		for at := 0; at < whole; at += part { // no call takes long
			columns := min(whole-at, part)
			accumulate(set, multiplies, exclusive, &dst[first+at], &src[first+at], &totals[at], columns/group, columns%group/4, together, by)
		}
		if n > whole {
			genericTotals(multiplies, exclusive, &dst[first+whole], &src[first+whole], &totals[whole], n-whole, together, by)
		}
	}
}

// real reports whether elements are of floating point.
func (t Type) real() bool { return t == Float32 || t >= Float64 }

// inLanes reports whether elements of a type that become those of another pass lanes of 32 bits unharmed.
func inLanes(to, from Type) bool {
	return to != Float32 || from != Uint32 && from != Int64 && from != Uint64
}

// parts converts n elements, groups of them.
func parts(set isa.Set, dst []byte, to Type, src []byte, from Type, n int) {
	switch {
	case from.Size() == 4 && from != Float32: // which are lanes
		byLanes(set, dst, to, src, from, n, view[int32](src, min(n, part)))
	case to.Size() == 4:
		byLanes(set, dst, to, src, from, n, view[int32](dst, min(n, part)))
	default:
		var between [part]int32 // not elsewhere: it is cleared
		byLanes(set, dst, to, src, from, n, between[:])
	}
}

// byLanes converts n elements, groups of them, with room for some in lanes.
func byLanes(set isa.Set, dst []byte, to Type, src []byte, from Type, n int, between []int32) {
	for at := 0; at < n; {
		m := min(n-at, len(between))
		s, d := src[at*from.Size():], dst[at*to.Size():]
		lanes := between[:m]
		if to >= Float16 && !fit(s, from, m) {
			direct(d, to, s, from, m)
			at += m
			continue
		}
		switch {
		case from.Size() == 4 && from != Float32:
			lanes = view[int32](s, m)
		case from == Float32 && to == Bool: // a sign is no number: it is pushed out
			lanes = view[int32](s, m)
			truths(set, true, &d[0], &lanes[0], m/group)
			at += m
			continue
		default:
			if to.Size() == 4 {
				lanes = view[int32](d, m)
			}
			if m = group * load(set, from, to == Bool, &lanes[0], &s[0], m/group); m == 0 {
				direct(d, to, s, from, group)
				at += group
				continue
			}
		}
		if to == Bool {
			truths(set, false, &d[0], &lanes[0], m/group)
		} else if to != Int32 && to != Uint32 {
			store(set, kindOf(to), from == Uint32, &d[0], &lanes[0], m/group)
		}
		at += m
	}
}

// kindOf returns what lanes become to be of a type that is neither of 32 bits nor bool, or float32.
func kindOf(t Type) kind {
	switch {
	case t == Float32:
		return single
	case t == Float64:
		return double
	case t == Float16:
		return half
	case t == BFloat16:
		return brain
	case t.Size() == 1:
		return bits8
	case t.Size() == 2:
		return bits16
	}
	return bits64
}

// fit reports whether n integers are those of 32 bits with a sign.
func fit(src []byte, from Type, n int) bool {
	var beyond uint64
	switch {
	case from == Uint32:
		for _, x := range view[uint32](src, n) {
			beyond |= uint64(x) >> 31
		}
	case from == Int64:
		for _, x := range view[int64](src, n) {
			beyond |= uint64(x>>31 ^ x>>63)
		}
	case from == Uint64:
		for _, x := range view[uint64](src, n) {
			beyond |= x >> 31
		}
	}
	return beyond == 0
}

func bytesOf(x *[group]uint64) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(x)), 8*group) }

// view returns n elements of T in b, which is aligned for them as a rule: no kernel counts on it.
func view[T any](b []byte, n int) []T {
	_ = b[n*int(unsafe.Sizeof(*new(T)))-1]
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), n)
}
