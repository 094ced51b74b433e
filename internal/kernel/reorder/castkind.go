package reorder

import (
	"math"
	"unsafe"
)

// Element is a type of elements.
type Element uint8

// The types that casts know: one of two is Float32.
const (
	Float32 Element = iota
	Float16
	BFloat16
	Uint8
	Int8
)

// Size returns the bytes of an element.
func (e Element) Size() int { return [...]int{4, 2, 2, 1, 1}[e] }

// castKind is a change of type. Integers lose their higher bits, so that both have one.
type castKind uint8

const (
	fromF16 castKind = iota
	fromBF16
	fromU8
	fromS8
	toF16
	toBF16
	toByte
	widen16  // words of 16 bits to the lower halves of floats
	narrow16 // and back
	move16   // none: of words of 16 bits, and of bytes
	move8
)

// kindOf returns the change between two types; ok is false where there is no kernel.
func kindOf(from, to Element) (k castKind, ok bool) {
	switch {
	case from > Int8 || to > Int8 || from != to && from != Float32 && to != Float32 || from == Float32 && to == Float32:
		return 0, false
	case from == to && from.Size() == 2:
		return move16, true
	case from == to:
		return move8, true
	case to == Float32:
		return castKind(from) - castKind(Float16) + fromF16, true
	case to == Float16:
		return toF16, true
	case to == BFloat16:
		return toBF16, true
	}
	return toByte, true
}

// sizes returns the bytes of elements before and behind.
func (k castKind) sizes() (from, to int) {
	return [...]int{2, 2, 1, 1, 4, 4, 4, 2, 4, 2, 1}[k], [...]int{4, 4, 4, 4, 2, 2, 1, 4, 2, 2, 1}[k]
}

// halves returns what changes elements to floats, or to what is moved in their place, and these to the result's elements: which are
// there where elements are shorter.
func (k castKind) halves() (in, out castKind) {
	if k == move16 {
		return widen16, narrow16
	}
	if k == move8 {
		return fromU8, toByte // exact
	}
	return k, k
}

// portableCast does what the kernels do.
func portableCast(k castKind, dst unsafe.Pointer, dstStride int, src unsafe.Pointer, srcStride, lanes, n int) {
	for i := range n {
		d, s := unsafe.Add(dst, i*dstStride), unsafe.Add(src, i*srcStride)
		switch k {
		case fromF16:
			castRow(d, s, lanes, halfToFloat)
		case fromBF16:
			castRow(d, s, lanes, func(x uint16) float32 { return math.Float32frombits(uint32(x) << 16) })
		case fromU8:
			castRow(d, s, lanes, func(x uint8) float32 { return float32(x) })
		case fromS8:
			castRow(d, s, lanes, func(x int8) float32 { return float32(x) })
		case toF16:
			castRow(d, s, lanes, floatToHalf)
		case toBF16:
			castRow(d, s, lanes, floatToBrain)
		case toByte:
			castRow(d, s, lanes, floatToByte)
		case widen16:
			castRow(d, s, lanes, func(x uint16) uint32 { return uint32(x) })
		case narrow16:
			castRow(d, s, lanes, func(x uint32) uint16 { return uint16(x) })
		case move16, move8: // of tiles alone
		}
	}
}

func castRow[S, D any](dst, src unsafe.Pointer, lanes int, f func(S) D) {
	to, from := unsafe.Slice((*D)(dst), lanes), unsafe.Slice((*S)(src), lanes)
	for i, x := range from {
		to[i] = f(x)
	}
}

// halfToFloat decodes IEEE binary16. Signalling NaNs become quiet, as in the kernels.
func halfToFloat(h uint16) float32 {
	sign, exp, frac := uint32(h&0x8000)<<16, uint32(h>>10&31), uint32(h&0x3ff)
	switch {
	case exp == 31 && frac != 0:
		return math.Float32frombits(sign | 0x7fc00000 | frac<<13)
	case exp == 31:
		return math.Float32frombits(sign | 0x7f800000)
	case exp == 0:
		return math.Float32frombits(sign | math.Float32bits(float32(frac)*(1.0/(1<<24))))
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}

// floatToHalf encodes IEEE binary16, to nearest, ties to even.
func floatToHalf(x float32) uint16 {
	b := math.Float32bits(x)
	sign := uint16(b >> 16 & 0x8000)
	switch b &= 0x7fffffff; {
	case b > 0x7f800000:
		return sign | 0x7e00
	case b >= 0x47800000:
		return sign | 0x7c00
	case b < 0x38800000: // the sum's last bit is worth 2⁻²⁴
		return sign | uint16(math.Float32bits(math.Float32frombits(b)+0.5)-0x3f000000)
	}
	return sign | uint16((b-112<<23+0xfff+b>>13&1)>>13)
}

// floatToBrain encodes bfloat16, to nearest, ties to even.
func floatToBrain(x float32) uint16 {
	b := math.Float32bits(x)
	if x != x {
		return uint16(b>>16&0x8000) | 0x7fc0
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// floatToByte truncates to int64, NaN to 0 and what has none to the nearest, and keeps the lowest eight bits.
func floatToByte(x float32) uint8 {
	switch {
	case x >= 1<<63:
		return 0xff
	case !(x > -1<<63):
		return 0
	}
	return uint8(int64(x))
}
