package graph

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"math"
	"strconv"

	"github.com/carve-dev/carve/graph/tensor"
)

// appendTensor appends `f32[2]{1, 2}`: dtype, shape and elements in row-major order. Tensors of more than most elements
// (no limit where it is negative), and those that are not on the host, are elided to `f32[64,3]{... 768 bytes
// #0123456789abcdef}`: the size of the elements and a checksum of them, 0 and none where there is no storage.
func appendTensor(b []byte, t *tensor.Tensor, most int) []byte {
	if t == nil {
		return append(b, "none"...)
	}
	b = append(b, t.String()...)
	b = append(b, '{')
	if t.Check() != nil { // no storage yet, as for weights that are to be packed
		return append(b, "... 0 bytes #}"...)
	}
	n := t.Len()
	if !t.Device.IsHost() || most >= 0 && n > most {
		size, sum := Checksum(t)
		b = fmt.Appendf(b, "... %d bytes #", size)
		if t.Device.IsHost() {
			b = fmt.Appendf(b, "%016x", sum)
		}
		return append(b, '}')
	}
	if !t.IsCompact() {
		c, err := t.Clone()
		if err != nil {
			return append(b, "... 0 bytes #}"...)
		}
		t = c
	}
	for i := range n {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = appendElement(b, t, i)
	}
	return append(b, '}')
}

// Checksum returns the bytes of a tensor's elements and a checksum of them in row-major order (CRC-32 and CRC-32C side by
// side, which processors compute): the text form tells elided tensors by it. Tensors that are nil or not on the host have 0.
func Checksum(t *tensor.Tensor) (size int, sum uint64) {
	if t == nil {
		return 0, 0
	}
	if t.DType == tensor.String {
		var all bytes.Buffer
		for _, s := range t.Strings[:t.Len()] {
			all.WriteString(s)
			all.WriteByte(0)
		}
		return all.Len(), checksum(all.Bytes())
	}
	size = t.NumBytes()
	if !t.Device.IsHost() {
		return size, 0
	}
	if !t.IsCompact() {
		c, err := t.Clone()
		if err != nil {
			return size, 0
		}
		t = c
	}
	return size, checksum(t.Bytes())
}

func checksum(b []byte) uint64 {
	return uint64(crc32.ChecksumIEEE(b))<<32 | uint64(crc32.Checksum(b, castagnoli))
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendElement appends element i of a compact host tensor.
func appendElement(b []byte, t *tensor.Tensor, i int) []byte {
	switch dt := t.DType; {
	case dt == tensor.String:
		return appendQuoted(b, t.Strings[i])
	case dt == tensor.Bool:
		return strconv.AppendBool(b, t.Int64At(i) != 0)
	case dt == tensor.Uint64:
		return strconv.AppendUint(b, uint64(t.Int64At(i)), 10)
	case dt.IsComplex():
		raw, half := t.Bytes(), dt.Size()/2
		b = append(b, '(')
		b = appendFloatBits(b, raw[i*2*half:], half)
		b = append(b, ',')
		b = appendFloatBits(b, raw[(i*2+1)*half:], half)
		return append(b, ')')
	case dt == tensor.Float32 || dt == tensor.Float64:
		return appendFloatBits(b, t.Bytes()[i*dt.Size():], dt.Size())
	case dt.IsFloat():
		f := t.Float64At(i)
		// NaNs come in several patterns, and conversion to float8 saturates.
		if dt.Size() > 0 && f != f || dt.Size() == 1 && math.IsInf(f, 0) {
			raw := t.Bytes()[i*dt.Size():]
			return fmt.Appendf(b, "0x%x", rawBits(raw[:dt.Size()]))
		}
		return strconv.AppendFloat(b, f, 'g', -1, 32)
	default:
		return strconv.AppendInt(b, t.Int64At(i), 10)
	}
}

// rawBits reads a little-endian number.
func rawBits(b []byte) uint64 {
	var x uint64
	for i, c := range b {
		x |= uint64(c) << (8 * i)
	}
	return x
}

// appendFloatBits appends the number that the first size bytes hold, 4 or 8; a NaN by its bits.
func appendFloatBits(b, raw []byte, size int) []byte {
	x := rawBits(raw[:size])
	f, bits := math.Float64frombits(x), 64
	if size == 4 {
		f, bits = float64(math.Float32frombits(uint32(x))), 32
	}
	if f != f {
		return fmt.Appendf(b, "0x%x", x)
	}
	return strconv.AppendFloat(b, f, 'g', -1, bits)
}

// appendAttrFloat appends a float that cannot be mistaken for an integer.
func appendAttrFloat(b []byte, f float32) []byte {
	if f != f {
		return fmt.Appendf(b, "nan:0x%08x", math.Float32bits(f))
	}
	if math.IsInf(float64(f), 0) {
		return strconv.AppendFloat(b, float64(f), 'g', -1, 32)
	}
	start := len(b)
	b = strconv.AppendFloat(b, float64(f), 'g', -1, 32)
	if !bytes.ContainsAny(b[start:], ".e") {
		b = append(b, ".0"...)
	}
	return b
}
