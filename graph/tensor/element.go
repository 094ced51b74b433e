package tensor

import (
	"encoding/binary"
	"fmt"
	"math"
	"unsafe"
)

// hostBytes returns the compact elements of t, checked against its shape.
func hostBytes(t *Tensor) ([]byte, error) {
	if err := t.Check(); err != nil {
		return nil, err
	}
	if !t.Device.IsHost() {
		return nil, ErrNotHost
	}
	if !t.IsCompact() {
		c, err := t.Clone()
		if err != nil {
			return nil, err
		}
		t = c
	}
	return t.Bytes(), nil
}

// Float64At returns element i, counted in row-major order, as a float64. Int64 and uint64 elements are rounded, Bool is
// 0 or 1; String and complex elements are NaN. It panics where i is out of range.
func (t *Tensor) Float64At(i int) float64 {
	i = t.position(i)
	if t.DType == String || t.DType.IsComplex() {
		return math.NaN()
	}
	var d [1]float64
	decodeFloats(d[:], t.DType, t.Data[t.Offset:], i)
	return d[0]
}

// Int64At returns element i, counted in row-major order, as an int64: floats are truncated, uint64 elements wrap. It
// is 0 for String and complex elements. It panics where i is out of range.
func (t *Tensor) Int64At(i int) int64 {
	i = t.position(i)
	var d [1]int64
	switch {
	case t.DType == String || t.DType.IsComplex():
		return 0
	case t.DType.IsFloat():
		return truncInt64(t.Float64At(i))
	}
	decodeInts(d[:], t.DType, t.Data[t.Offset:], i)
	return d[0]
}

// position returns where element i lies, in elements.
func (t *Tensor) position(i int) int {
	if i < 0 || i >= t.Len() {
		panic(fmt.Sprintf("tensor: element %d of %v", i, t))
	}
	if t.Strides == nil {
		return i
	}
	p := 0
	for a := len(t.Shape) - 1; a >= 0; a-- {
		p += i % t.Shape[a] * t.Strides[a]
		i /= t.Shape[a]
	}
	return p
}

// Decode writes the elements of t, in row-major order, to dst, which must have the length of t. Int64 and uint64
// elements are rounded to float64. Errors wrap ErrShape, ErrDType (strings and complex numbers) or ErrNotHost.
func Decode(dst []float64, t *Tensor) error {
	b, err := hostBytes(t)
	if err != nil {
		return err
	}
	if len(dst) != t.Len() {
		return fmt.Errorf("%w: %v has %d elements, the slice %d", ErrShape, t, t.Len(), len(dst))
	}
	if t.DType == String || t.DType.IsComplex() {
		return fmt.Errorf("%w: %v read as float64", ErrDType, t.DType)
	}
	decodeFloats(dst, t.DType, b, 0)
	return nil
}

// DecodeInts writes the elements of t, in row-major order, to dst, which must have the length of t. Floats are
// truncated; uint64 elements wrap. Errors are those of Decode.
func DecodeInts(dst []int64, t *Tensor) error {
	b, err := hostBytes(t)
	if err != nil {
		return err
	}
	if len(dst) != t.Len() {
		return fmt.Errorf("%w: %v has %d elements, the slice %d", ErrShape, t, t.Len(), len(dst))
	}
	switch {
	case t.DType == String || t.DType.IsComplex():
		return fmt.Errorf("%w: %v read as int64", ErrDType, t.DType)
	case t.DType.IsFloat():
		var f [1]float64
		for i := range dst {
			decodeFloats(f[:], t.DType, b, i)
			dst[i] = truncInt64(f[0])
		}
	default:
		decodeInts(dst, t.DType, b, 0)
	}
	return nil
}

// Encode writes src to the elements of a compact host tensor of the same length. Floats are rounded to nearest, ties
// to even, and float8 saturates; integers are truncated towards zero and lose their higher bits. Errors are those of
// Decode, and ErrNotCompact.
func Encode(t *Tensor, src []float64) error {
	if err := t.writable(len(src)); err != nil {
		return err
	}
	if t.DType.IsComplex() || t.DType == String {
		return fmt.Errorf("%w: float64 written as %v", ErrDType, t.DType)
	}
	encodeFloats(t.Bytes(), t.DType, src, 0, nil)
	return nil
}

// EncodeInts writes src to the elements of a compact host tensor of the same length. Integers lose their higher bits.
func EncodeInts(t *Tensor, src []int64) error {
	if err := t.writable(len(src)); err != nil {
		return err
	}
	if t.DType.IsComplex() || t.DType == String {
		return fmt.Errorf("%w: int64 written as %v", ErrDType, t.DType)
	}
	encodeInts(t.Bytes(), t.DType, src, 0, false, nil)
	return nil
}

func (t *Tensor) writable(n int) error {
	if err := t.Check(); err != nil {
		return err
	}
	switch {
	case !t.Device.IsHost():
		return ErrNotHost
	case !t.IsCompact():
		return ErrNotCompact
	case t.Len() != n:
		return fmt.Errorf("%w: %v has %d elements, the slice %d", ErrShape, t, t.Len(), n)
	}
	return nil
}

// Elements returns the elements of t as a slice of T: shared where Of can share them, else a compact, aligned copy, as
// for tensors of files, whose data may lie anywhere. It returns nil where T does not store the dtype or the tensor is
// malformed or not on the host.
func Elements[T Element](t *Tensor) []T {
	if s := Of[T](t); s != nil {
		return s
	}
	var z T
	if int(unsafe.Sizeof(z)) != t.DType.Size() {
		return nil
	}
	c, err := t.Clone()
	if err != nil {
		return nil
	}
	return Of[T](c)
}

// IsAligned reports whether element 0 of a host tensor lies at a multiple of n bytes, n a power of two.
func (t *Tensor) IsAligned(n int) bool {
	if len(t.Data) == 0 {
		return true
	}
	return (uintptr(unsafe.Pointer(unsafe.SliceData(t.Data)))+uintptr(t.Offset))&uintptr(n-1) == 0
}

// truncInt64 truncates towards zero; what int64 cannot hold becomes its nearest end, NaN 0, on every processor alike.
func truncInt64(f float64) int64 {
	switch {
	case f != f:
		return 0
	case f >= 1<<63:
		return math.MaxInt64
	case f < -1<<63:
		return math.MinInt64
	}
	return int64(f)
}

// truncUint64 is truncInt64 for uint64, in its bits; negative numbers wrap as those of int64 do.
func truncUint64(f float64) int64 {
	if f >= 1<<63 {
		if f >= 1<<64 {
			return -1
		}
		return int64(uint64(f))
	}
	return truncInt64(f)
}

// decodeFloats writes the elements from start on to dst.
func decodeFloats(dst []float64, dt DType, b []byte, start int) {
	le := binary.LittleEndian
	if !dt.IsPacked() {
		b = b[start*dt.Size():]
	}
	switch dt {
	case Float32:
		for i := range dst {
			dst[i] = float64(math.Float32frombits(le.Uint32(b[4*i:])))
		}
	case Float64:
		for i := range dst {
			dst[i] = math.Float64frombits(le.Uint64(b[8*i:]))
		}
	case Float16:
		for i := range dst {
			dst[i] = float64(Float16ToFloat32(le.Uint16(b[2*i:])))
		}
	case BFloat16:
		for i := range dst {
			dst[i] = float64(BFloat16ToFloat32(le.Uint16(b[2*i:])))
		}
	case Float8E4M3FN, Float8E4M3FNUZ, Float8E5M2, Float8E5M2FNUZ, Float8E8M0:
		table := &float8Tables[dt-Float8E4M3FN]
		for i := range dst {
			dst[i] = float64(table[b[i]])
		}
	case Float4E2M1:
		for i := range dst {
			dst[i] = float64(float4Values[nibble(b, start+i)])
		}
	case Uint64:
		for i := range dst {
			dst[i] = float64(le.Uint64(b[8*i:]))
		}
	default:
		if dt.IsPacked() {
			b = b[start*dt.Bits()/8:]
			start = start * dt.Bits() % 8 / dt.Bits()
		} else {
			start = 0
		}
		var block [256]int64
		for len(dst) > 0 {
			n := min(len(dst), len(block))
			decodeInts(block[:n], dt, b, start)
			for i, v := range block[:n] {
				dst[i] = float64(v)
			}
			dst, start = dst[n:], start+n
		}
	}
}

func nibble(b []byte, i int) byte { return b[i>>1] >> (i & 1 * 4) & 15 }

// decodeInts writes the elements of an integer or Bool type from start on to dst; uint64 in its bits.
func decodeInts(dst []int64, dt DType, b []byte, start int) {
	le := binary.LittleEndian
	if !dt.IsPacked() {
		b = b[start*dt.Size():]
	}
	switch dt {
	case Int64, Uint64:
		for i := range dst {
			dst[i] = int64(le.Uint64(b[8*i:]))
		}
	case Int32:
		for i := range dst {
			dst[i] = int64(int32(le.Uint32(b[4*i:])))
		}
	case Uint32:
		for i := range dst {
			dst[i] = int64(le.Uint32(b[4*i:]))
		}
	case Int16:
		for i := range dst {
			dst[i] = int64(int16(le.Uint16(b[2*i:])))
		}
	case Uint16:
		for i := range dst {
			dst[i] = int64(le.Uint16(b[2*i:]))
		}
	case Int8:
		for i := range dst {
			dst[i] = int64(int8(b[i]))
		}
	case Uint8:
		for i := range dst {
			dst[i] = int64(b[i])
		}
	case Bool:
		for i := range dst {
			dst[i] = 0
			if b[i] != 0 {
				dst[i] = 1
			}
		}
	case Uint4:
		for i := range dst {
			dst[i] = int64(nibble(b, start+i))
		}
	case Int4:
		for i := range dst {
			dst[i] = int64(int8(nibble(b, start+i)<<4) >> 4)
		}
	case Uint2:
		for i := range dst {
			dst[i] = int64(pair(b, start+i))
		}
	case Int2:
		for i := range dst {
			dst[i] = int64(int8(pair(b, start+i)<<6) >> 6)
		}
	}
}

func pair(b []byte, i int) byte { return b[i>>2] >> (i & 3 * 2) & 3 }

// put stores the low bits of v as element i of a packed type; elements must be written in order from a byte boundary.
func put(b []byte, i, bits int, v byte) {
	per := 8 / bits
	shift := i % per * bits
	if shift == 0 {
		b[i/per] = 0
	}
	b[i/per] |= v & (1<<bits - 1) << shift
}

// encodeFloats writes src to the elements from start on; for packed types start lies at a byte boundary.
func encodeFloats(b []byte, dt DType, src []float64, start int, o *ConvertOptions) {
	le := binary.LittleEndian
	if !dt.IsPacked() {
		b = b[start*dt.Size():]
	}
	saturate := !o.noSaturate()
	switch dt {
	case Float32:
		for i, v := range src {
			le.PutUint32(b[4*i:], math.Float32bits(float32(v)))
		}
	case Float64:
		for i, v := range src {
			le.PutUint64(b[8*i:], math.Float64bits(v))
		}
	case Float16, BFloat16:
		s := &smallFloats[dt]
		for i, v := range src {
			le.PutUint16(b[2*i:], uint16(s.encode(v, false)))
		}
	case Float8E4M3FN, Float8E4M3FNUZ, Float8E5M2, Float8E5M2FNUZ:
		s := &smallFloats[dt]
		for i, v := range src {
			b[i] = byte(s.encode(v, saturate))
		}
	case Float8E8M0:
		for i, v := range src {
			b[i] = encodeE8M0(v, o.round(), saturate)
		}
	case Float4E2M1:
		s := &smallFloats[dt]
		for i, v := range src {
			put(b, start+i, 4, byte(s.encode(v, true)))
		}
	case Bool:
		for i, v := range src {
			b[i] = 0
			if v != 0 {
				b[i] = 1
			}
		}
	default:
		if !dt.IsPacked() {
			start = 0
		}
		var block [256]int64
		for len(src) > 0 {
			n := min(len(src), len(block))
			for i, v := range src[:n] {
				if dt == Uint64 {
					block[i] = truncUint64(v)
				} else {
					block[i] = truncInt64(v)
				}
			}
			encodeInts(b, dt, block[:n], start, false, o)
			src, start = src[n:], start+n
		}
	}
}

// joinDigits returns an integer that float64 holds and that rounds to types of fewer digits as v does: of one with more than 53 digits the last
// eleven are joined in the one before them.
func joinDigits(v int64, unsigned bool) int64 {
	const most, last = 1 << 53, 1<<11 - 1
	if -most <= v && v <= most && !(unsigned && v < 0) || v&last == 0 {
		return v
	}
	return v&^last | (last + 1)
}

// encodeInts writes src to the elements from start on; for packed types start lies at a byte boundary. With unsigned,
// src holds uint64 in their bits.
func encodeInts(b []byte, dt DType, src []int64, start int, unsigned bool, o *ConvertOptions) {
	le := binary.LittleEndian
	if dt.IsFloat() {
		var block [256]float64
		for len(src) > 0 {
			n := min(len(src), len(block))
			for i, v := range src[:n] {
				if dt != Float64 {
					v = joinDigits(v, unsigned)
				}
				block[i] = float64(v)
				if unsigned {
					block[i] = float64(uint64(v))
				}
			}
			encodeFloats(b, dt, block[:n], start, o)
			src, start = src[n:], start+n
		}
		return
	}
	if !dt.IsPacked() {
		b = b[start*dt.Size():]
	}
	switch dt {
	case Int64, Uint64:
		for i, v := range src {
			le.PutUint64(b[8*i:], uint64(v))
		}
	case Int32, Uint32:
		for i, v := range src {
			le.PutUint32(b[4*i:], uint32(v))
		}
	case Int16, Uint16:
		for i, v := range src {
			le.PutUint16(b[2*i:], uint16(v))
		}
	case Int8, Uint8:
		for i, v := range src {
			b[i] = byte(v)
		}
	case Bool:
		for i, v := range src {
			b[i] = 0
			if v != 0 {
				b[i] = 1
			}
		}
	case Int4, Uint4:
		for i, v := range src {
			put(b, start+i, 4, byte(v))
		}
	case Int2, Uint2:
		for i, v := range src {
			put(b, start+i, 2, byte(v))
		}
	}
}
