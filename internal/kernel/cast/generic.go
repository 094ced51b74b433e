package cast

import (
	"math"
	mathbits "math/bits"
	"unsafe"
)

// kind is what lanes become.
type kind uint8

const (
	bits8 kind = iota
	bits16
	bits64
	single // float32
	double // float64
	half   // float16
	brain  // bfloat16
)

type integer interface {
	int8 | uint8 | int16 | uint16 | int32 | uint32 | int64 | uint64
}

func genericLoad(from Type, fold bool, lanes *int32, src *byte, n int) int {
	d := unsafe.Slice(lanes, n)
	switch {
	case from == Int8:
		copyAs[int8](d, src)
	case from == Int16:
		copyAs[int16](d, src)
	case from == Uint16:
		copyAs[uint16](d, src)
	case from == Float32:
		for i, x := range unsafe.Slice((*float32)(unsafe.Pointer(src)), n) {
			if !(x > -1<<31 && x < 1<<31) {
				return i
			}
			d[i] = int32(x)
		}
	case from == Float64:
		for i, x := range unsafe.Slice((*float64)(unsafe.Pointer(src)), n) {
			if !(x > -1<<31 && x < 1<<31) {
				return i
			}
			d[i] = int32(x)
		}
	case from.Size() == 1:
		copyAs[uint8](d, src)
	case fold:
		for i, x := range unsafe.Slice((*uint64)(unsafe.Pointer(src)), n) {
			d[i] = int32(x | x>>32)
		}
	default:
		copyAs[int64](d, src)
	}
	return n
}

// copyAs converts as many elements of S as there are lanes.
func copyAs[S integer](lanes []int32, src *byte) {
	for i, x := range unsafe.Slice((*S)(unsafe.Pointer(src)), len(lanes)) {
		lanes[i] = int32(x)
	}
}

func genericStore(to kind, unsigned bool, dst *byte, lanes *int32, n int) {
	s := unsafe.Slice(lanes, n)
	switch {
	case to == bits8:
		keep[int8](dst, s)
	case to == bits16:
		keep[int16](dst, s)
	case to == single:
		keep[float32](dst, s)
	case to == double:
		keep[float64](dst, s)
	case to == half || to == brain:
		halved(unsafe.Slice((*uint16)(unsafe.Pointer(dst)), n), s, to)
	case unsigned:
		d := unsafe.Slice((*uint64)(unsafe.Pointer(dst)), n)
		for i, x := range s {
			d[i] = uint64(uint32(x))
		}
	default:
		keep[int64](dst, s)
	}
}

// keep converts lanes, in their place or elsewhere.
func keep[D integer | float32 | float64](dst *byte, lanes []int32) {
	d := unsafe.Slice((*D)(unsafe.Pointer(dst)), len(lanes))
	for i, x := range lanes {
		d[i] = D(x)
	}
}

func genericBits(dst, src *byte, n int) {
	d := unsafe.Slice(dst, n)
	for i, x := range unsafe.Slice(src, n) {
		d[i] = min(x, 1)
	}
}

func genericWords(c change, dst, src *byte, n int) {
	if c == wordsToBytes || c == wordsToTruths {
		d := unsafe.Slice(dst, n)
		for i, x := range unsafe.Slice((*uint16)(unsafe.Pointer(src)), n) {
			if d[i] = byte(x); c == wordsToTruths {
				d[i] = byte(min(x, 1))
			}
		}
		return
	}
	d := unsafe.Slice((*uint16)(unsafe.Pointer(dst)), n)
	for i, x := range unsafe.Slice(src, n) {
		if d[i] = uint16(x); c == signedToWords {
			d[i] = uint16(int8(x)) // by its sign
		}
	}
}

func genericTruths(shift bool, dst *byte, lanes *int32, n int) {
	mask := int32(-1)
	if shift {
		mask = math.MaxInt32
	}
	d := unsafe.Slice((*bool)(unsafe.Pointer(dst)), n)
	for i, x := range unsafe.Slice(lanes, n) {
		d[i] = x&mask != 0
	}
}

// halved rounds integers once.
func halved[S integer](dst []uint16, src []S, to kind) {
	digits, bias, most := 11, 15, uint64(0x7c00)
	if to == brain {
		digits, bias, most = 8, 127, 0x7f80
	}
	for i, x := range src {
		sign, u := uint16(0), uint64(x)
		if x < 0 {
			sign, u = 1<<15, -u
		}
		dst[i] = sign | uint16(min(nearest(u, digits, bias), most))
	}
}

// nearest returns the bits of the number of so many binary digits that is nearest to u, of two the even one, with an exponent that has a bias
// and is not bounded.
func nearest(u uint64, digits, bias int) uint64 {
	n := mathbits.Len64(u)
	if n == 0 {
		return 0
	}
	kept := u << max(digits-n, 0)
	if drop := n - digits; drop > 0 {
		kept = u >> drop
		if rest := u << (64 - drop); rest > 1<<63 || rest == 1<<63 && kept&1 == 1 {
			kept++
		}
	}
	return uint64(n-2+bias)<<(digits-1) + kept // whose first digit counts as one of the exponent
}

// direct converts what lanes do not hold: to floats, or from those to integers.
func direct(dst []byte, to Type, src []byte, from Type, n int) {
	switch {
	case to >= Float16 && from == Uint32:
		halved(view[uint16](dst, n), view[uint32](src, n), kindOf(to))
	case to >= Float16 && from == Uint64:
		halved(view[uint16](dst, n), view[uint64](src, n), kindOf(to))
	case to >= Float16:
		halved(view[uint16](dst, n), view[int64](src, n), kindOf(to))
	case from == Float32:
		truncated(dst, to, view[float32](src, n))
	case from == Float64:
		truncated(dst, to, view[float64](src, n))
	case from == Uint32:
		floats[uint32](dst, src, n)
	case from == Uint64:
		floats[uint64](dst, src, n)
	default:
		floats[int64](dst, src, n)
	}
}

// truncated converts floats to integers of any size.
func truncated[F float32 | float64](dst []byte, to Type, src []F) {
	for i, x := range src {
		w := uint64(Whole(x))
		if to == Uint64 {
			w = Bits(x)
		}
		switch to.Size() {
		case 1:
			dst[i] = byte(w)
		case 2:
			view[uint16](dst, len(src))[i] = uint16(w)
		case 4:
			view[uint32](dst, len(src))[i] = uint32(w)
		default:
			view[uint64](dst, len(src))[i] = w
		}
	}
}

func floats[S integer](dst, src []byte, n int) {
	d := view[float32](dst, n)
	for i, x := range view[S](src, n) {
		d[i] = float32(x)
	}
}

// Whole truncates: NaN becomes 0, and what int64 cannot hold its nearest end. Go leaves both to the processor.
func Whole[F float32 | float64](x F) int64 {
	switch {
	case x != x:
		return 0
	case x >= 1<<63:
		return math.MaxInt64
	case x < -1<<63:
		return math.MinInt64
	}
	return int64(x)
}

// Bits is Whole for uint64: what only that can hold it does, and negative numbers wrap around as those of int64 do.
func Bits[F float32 | float64](x F) uint64 {
	switch {
	case x >= 1<<64:
		return math.MaxUint64
	case x >= 1<<63:
		return uint64(x)
	}
	return uint64(Whole(x))
}

// genericConvert converts between float32 and float64.
func genericConvert[D, S float32 | float64](dst *D, src *S, n int) {
	d := unsafe.Slice(dst, n)
	for i, x := range unsafe.Slice(src, n) {
		d[i] = D(x)
	}
}

func genericTotals(multiplies, exclusive bool, dst, src *float32, totals *float64, n, rows, by int) {
	t := unsafe.Slice(totals, n)
	for row := range rows {
		d := unsafe.Slice((*float32)(unsafe.Add(unsafe.Pointer(dst), 4*row*by)), n)
		for i, x := range unsafe.Slice((*float32)(unsafe.Add(unsafe.Pointer(src), 4*row*by)), n) {
			before := t[i]
			after := before + float64(x)
			if multiplies {
				after = before * float64(x)
			}
			if t[i] = after; exclusive {
				after = before
			}
			d[i] = float32(after)
		}
	}
}

// genericWholes makes float64 of integers.
func genericWholes(from Type, dst *float64, src *byte, n int) {
	d := unsafe.Slice(dst, n)
	switch {
	case from == Uint32:
		doublesFrom(d, unsafe.Slice((*uint32)(unsafe.Pointer(src)), n))
	case from == Uint64:
		doublesFrom(d, unsafe.Slice((*uint64)(unsafe.Pointer(src)), n))
	default:
		doublesFrom(d, unsafe.Slice((*int64)(unsafe.Pointer(src)), n))
	}
}

func doublesFrom[S integer](dst []float64, src []S) {
	for i, x := range src {
		dst[i] = float64(x)
	}
}

func genericDiffer(dst *byte, src *float64, n int) {
	d := unsafe.Slice((*bool)(unsafe.Pointer(dst)), n)
	for i, x := range unsafe.Slice(src, n) {
		d[i] = x != 0
	}
}

// genericOdds is the portable version of odds. Most numbers are cut by their bits.
func genericOdds(dst *float32, src *float64, n int) {
	const least, most, bias, dropped = 0x1p-126, 1 << 128, (1023 - 127) << 23, 1<<29 - 1
	d := unsafe.Slice(dst, n)
	for i, x := range unsafe.Slice(src, n) {
		bits := math.Float64bits(x)
		if a := math.Abs(x); a >= least && a < most {
			cut := uint32(bits>>63)<<31 | uint32(bits<<1>>30-bias)
			d[i] = math.Float32frombits(cut | uint32((bits&dropped+dropped)>>29))
			continue
		}
		y := float32(x)
		if back := float64(y); x == x && back != x {
			cut := math.Float32bits(y)
			if math.Abs(back) > math.Abs(x) {
				cut--
			}
			y = math.Float32frombits(cut | 1)
		}
		d[i] = y
	}
}
