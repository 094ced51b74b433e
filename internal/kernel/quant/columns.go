package quant

import (
	"math"
	"unsafe"
)

// Integers are integers of 8 or of 16 bits.
type Integers struct{ Words, Signed bool }

// size returns the bytes of an integer.
func (i Integers) size() int {
	if i.Words {
		return 2
	}
	return 1
}

// limits returns the smallest and the largest integer.
func (i Integers) limits() (least, most int32) {
	most = math.MaxUint8
	if i.Words {
		most = math.MaxUint16
	}
	if i.Signed {
		least = -(most + 1) / 2
	}
	return least, least + most
}

// Group is how many elements kernels of columns take at a time.
const Group = 16

// columnLimit bounds quotients before they are rounded: beyond it zero points leave none within 16 bits.
const columnLimit = 1 << 18

// columns checks scales and zero points of n elements, one for each, or Group that are alike, and returns how far they move from one element
// to the next.
func columns(n int, scales []float32, zeros []int32) (step int) {
	if len(scales) == Group && len(zeros) == Group {
		return 0
	}
	first(scales, n)
	first(zeros, n)
	return 1
}

// QuantizeColumns writes the integers of src to as many bytes as they have: round(x/scale) + zero, rounded half to even and bounded. Every
// element has a scale and a zero point, or there are Group of them that are alike. NaN becomes the zero point.
func (k Kernels) QuantizeColumns(dst []byte, src, scales []float32, zeros []int32, to Integers) {
	if len(src) == 0 {
		return
	}
	step, size, groups := columns(len(src), scales, zeros), to.size(), len(src)/Group
	least, most := to.limits()
	d := first(dst, len(src)*size)
	for at := 0; at < groups; at += callElements / Group {
		i := Group * at
		quantizeColumns(k.set, to.Words, advance(d, i*size), &src[i], &scales[i*step], &zeros[i*step], int(least), int(most), 4*Group*step, min(groups-at, callElements/Group))
	}
	if i := Group * groups; i < len(src) {
		genericQuantizeColumns(to.Words, advance(d, i*size), &src[i], &scales[i*step], &zeros[i*step], int(least), int(most), 1, len(src)-i)
	}
}

// genericQuantizeColumns quantises n elements, whose scales and zero points repeat behind Group where step is 0.
func genericQuantizeColumns(words bool, dst *byte, src, scale *float32, zero *int32, least, most, step, n int) {
	x, c := view(src, n), n
	if step == 0 {
		c = Group
	}
	s, z := view(scale, c), view(zero, c)
	for i, v := range x {
		q := v / s[i%c]
		if q != q {
			q = 0
		}
		q = min(max(q, -columnLimit), columnLimit)
		r := min(max(int(math.RoundToEven(float64(q)))+int(z[i%c]), least), most)
		if words {
			*(*uint16)(unsafe.Pointer(advance(dst, 2*i))) = uint16(r) //nolint:gosec // bounded
		} else {
			*advance(dst, i) = byte(r)
		}
	}
}

// DequantizeColumns writes (q - zero)·scale of the integers in src. Every element has a scale and a zero point, or there are Group of them
// that are alike.
func (k Kernels) DequantizeColumns(dst []float32, src []byte, scales []float32, zeros []int32, of Integers) {
	if len(dst) == 0 {
		return
	}
	step, size, groups := columns(len(dst), scales, zeros), of.size(), len(dst)/Group
	s := first(src, len(dst)*size)
	for at := 0; at < groups; at += callElements / Group {
		i := Group * at
		dequantizeColumns(k.set, of.Words, of.Signed, &dst[i], advance(s, i*size), &scales[i*step], &zeros[i*step], 4*Group*step, min(groups-at, callElements/Group))
	}
	if i := Group * groups; i < len(dst) {
		genericDequantizeColumns(of.Words, of.Signed, &dst[i], advance(s, i*size), &scales[i*step], &zeros[i*step], 1, len(dst)-i)
	}
}

// genericDequantizeColumns is genericQuantizeColumns the other way round.
func genericDequantizeColumns(words, signed bool, dst *float32, src *byte, scale *float32, zero *int32, step, n int) {
	d, c := view(dst, n), n
	if step == 0 {
		c = Group
	}
	s, z := view(scale, c), view(zero, c)
	for i := range d {
		var q int32
		switch {
		case words && signed:
			q = int32(*(*int16)(unsafe.Pointer(advance(src, 2*i))))
		case words:
			q = int32(*(*uint16)(unsafe.Pointer(advance(src, 2*i))))
		default:
			q = number(*advance(src, i), signed)
		}
		d[i] = float32(q-z[i%c]) * s[i%c]
	}
}
