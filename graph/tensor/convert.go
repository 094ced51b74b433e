package tensor

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// ConvertOptions settles what ONNX Cast leaves to attributes. nil means the defaults.
type ConvertOptions struct {
	NoSaturate bool      // float8: what is too large becomes infinite or NaN, not the largest number; default false
	Round      RoundMode // rounding to float8e8m0; default RoundUp
}

func (o *ConvertOptions) noSaturate() bool { return o != nil && o.NoSaturate }

func (o *ConvertOptions) round() RoundMode {
	if o == nil {
		return RoundUp
	}
	return o.Round
}

// Convert returns a compact copy of t with another element type, by the rules of ONNX Cast (version 25): floats are
// rounded to nearest, ties to even; floats become integers by truncation, integers lose their higher bits; 0 is false
// and everything else true; numbers are written as NumPy writes them, and read from plain or scientific notation, INF
// and NaN in any case. What Cast leaves undefined is defined here: a float that int64 cannot hold becomes its nearest
// end before higher bits go, NaN becomes the integer 0, a complex number loses its imaginary part.
//
// Errors wrap ErrDType for an invalid type, ErrSyntax for a string that is no number, ErrNotHost, or those of Check.
func Convert(t *Tensor, dt DType, o *ConvertOptions) (*Tensor, error) {
	src, err := hostBytes(t)
	if err != nil {
		return nil, err
	}
	out, err := New(dt, t.Shape...)
	if err != nil {
		return nil, err
	}
	if dt == t.DType {
		c, err := t.Clone()
		return c, err
	}
	n := t.Len()
	if t.DType == String {
		s := t
		if !t.IsCompact() {
			if s, err = t.Clone(); err != nil {
				return nil, err
			}
		}
		return out, parseStrings(out, s.Strings[:n], o)
	}
	if convertDirect(out, t.DType, src) {
		return out, nil
	}
	const block = 1 << 10
	switch {
	case dt == String:
		for i := range out.Strings {
			out.Strings[i] = formatElement(t.DType, src, i)
		}
	case t.DType.IsComplex() || dt.IsComplex():
		convertComplex(out, t.DType, src, o)
	case t.DType.IsFloat():
		var f [block]float64
		for i := 0; i < n; i += block {
			k := min(block, n-i)
			decodeFloats(f[:k], t.DType, src, i)
			encodeFloats(out.Data, dt, f[:k], i, o)
		}
	default:
		var v [block]int64
		for i := 0; i < n; i += block {
			k := min(block, n-i)
			decodeInts(v[:k], t.DType, src, i)
			encodeInts(out.Data, dt, v[:k], i, t.DType == Uint64, o)
		}
	}
	return out, nil
}

// convertDirect converts between the most frequent pairs in one loop.
func convertDirect(out *Tensor, from DType, src []byte) bool {
	le := binary.LittleEndian
	dst := out.Data
	switch {
	case from == Float32 && out.DType == Float16:
		for i := 0; i < len(dst); i += 2 {
			le.PutUint16(dst[i:], Float32ToFloat16(math.Float32frombits(le.Uint32(src[2*i:]))))
		}
	case from == Float16 && out.DType == Float32:
		for i := 0; i < len(dst); i += 4 {
			le.PutUint32(dst[i:], math.Float32bits(Float16ToFloat32(le.Uint16(src[i/2:]))))
		}
	case from == Float32 && out.DType == BFloat16:
		for i := 0; i < len(dst); i += 2 {
			le.PutUint16(dst[i:], Float32ToBFloat16(math.Float32frombits(le.Uint32(src[2*i:]))))
		}
	case from == BFloat16 && out.DType == Float32:
		for i := 0; i < len(dst); i += 4 {
			le.PutUint32(dst[i:], uint32(le.Uint16(src[i/2:]))<<16)
		}
	case from == Int64 && out.DType == Float32:
		for i := 0; i < len(dst); i += 4 {
			le.PutUint32(dst[i:], math.Float32bits(float32(int64(le.Uint64(src[2*i:])))))
		}
	case from == Uint64 && out.DType == Float32:
		for i := 0; i < len(dst); i += 4 {
			le.PutUint32(dst[i:], math.Float32bits(float32(le.Uint64(src[2*i:]))))
		}
	default:
		return false
	}
	return true
}

func convertComplex(out *Tensor, from DType, src []byte, o *ConvertOptions) {
	le := binary.LittleEndian
	for i, n := 0, out.Len(); i < n; i++ {
		var v complex128
		var re [1]float64
		switch from {
		case Complex64:
			v = complex(float64(math.Float32frombits(le.Uint32(src[8*i:]))), float64(math.Float32frombits(le.Uint32(src[8*i+4:]))))
		case Complex128:
			v = complex(math.Float64frombits(le.Uint64(src[16*i:])), math.Float64frombits(le.Uint64(src[16*i+8:])))
		default:
			decodeFloats(re[:], from, src, i)
			v = complex(re[0], 0)
		}
		switch out.DType {
		case Complex64:
			le.PutUint32(out.Data[8*i:], math.Float32bits(float32(real(v))))
			le.PutUint32(out.Data[8*i+4:], math.Float32bits(float32(imag(v))))
		case Complex128:
			le.PutUint64(out.Data[16*i:], math.Float64bits(real(v)))
			le.PutUint64(out.Data[16*i+8:], math.Float64bits(imag(v)))
		case Bool:
			out.Data[i] = 0
			if v != 0 {
				out.Data[i] = 1
			}
		default:
			re[0] = real(v)
			if out.DType.IsPacked() {
				putPacked(out, i, re[0], o)
				continue
			}
			encodeFloats(out.Data, out.DType, re[:], i, o)
		}
	}
}

// putPacked writes element i of a packed tensor, elements before it being written already.
func putPacked(out *Tensor, i int, v float64, o *ConvertOptions) {
	var b [1]byte
	encodeFloats(b[:], out.DType, []float64{v}, 0, o)
	put(out.Data, i, out.DType.Bits(), b[0])
}

// formatElement writes one number as NumPy's str does.
func formatElement(dt DType, b []byte, i int) string {
	if dt.IsComplex() {
		return formatComplex(dt, b, i)
	}
	if dt.IsFloat() {
		var f [1]float64
		decodeFloats(f[:], dt, b, i)
		bits := 32
		if dt == Float64 {
			bits = 64
		}
		return formatFloat(f[0], bits, dt)
	}
	var v [1]int64
	decodeInts(v[:], dt, b, i)
	switch dt {
	case Uint64:
		return strconv.FormatUint(uint64(v[0]), 10)
	case Bool:
		if v[0] != 0 {
			return "True"
		}
		return "False"
	}
	return strconv.FormatInt(v[0], 10)
}

func formatComplex(dt DType, b []byte, i int) string {
	part := Float32
	if dt == Complex128 {
		part = Float64
	}
	re, im := formatElement(part, b, 2*i), formatElement(part, b, 2*i+1)
	if im[0] != '-' {
		im = "+" + im
	}
	return "(" + re + im + "j)"
}

// formatFloat writes the shortest digits that are read back as the same number of that type: plain from 1e-4 to 1e16,
// in scientific notation outside.
func formatFloat(v float64, bits int, dt DType) string {
	switch {
	case math.IsInf(v, 1):
		return "inf"
	case math.IsInf(v, -1):
		return "-inf"
	case v != v:
		return "nan"
	}
	if s := &smallFloats[dt]; s.sign != 0 { // as few digits as the small format needs
		digits := 1
		for ; digits < 17; digits++ {
			r, err := strconv.ParseFloat(strconv.FormatFloat(v, 'e', digits-1, 64), 64)
			if err == nil && s.decode(s.encode(r, false)) == v {
				break
			}
		}
		digits--
		v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'e', digits, 64), 64)
		bits = 64
	}
	a := math.Abs(v)
	if a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(v, 'e', -1, bits)
	}
	s := strconv.FormatFloat(v, 'f', -1, bits)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// parseStrings reads every string as a number of out's type.
func parseStrings(out *Tensor, src []string, o *ConvertOptions) error {
	dt := out.DType
	if dt.IsInt() {
		return parseInts(out, src, o)
	}
	for i, s := range src {
		text := strings.TrimSpace(s)
		var err error
		var f float64
		switch {
		case dt == Bool:
			f, err = parseBool(text)
		case dt.IsComplex():
			var c complex128
			if c, err = strconv.ParseComplex(strings.Replace(text, "j", "i", 1), 128); err == nil {
				if dt == Complex64 {
					binary.LittleEndian.PutUint32(out.Data[8*i:], math.Float32bits(float32(real(c))))
					binary.LittleEndian.PutUint32(out.Data[8*i+4:], math.Float32bits(float32(imag(c))))
				} else {
					binary.LittleEndian.PutUint64(out.Data[16*i:], math.Float64bits(real(c)))
					binary.LittleEndian.PutUint64(out.Data[16*i+8:], math.Float64bits(imag(c)))
				}
				continue
			}
		case dt == Float32: // rounded once
			f, err = strconv.ParseFloat(text, 32)
			err = ignoreRange(err)
		default:
			f, err = strconv.ParseFloat(text, 64)
			err = ignoreRange(err)
		}
		if err != nil {
			return noNumber(s, i, dt)
		}
		if dt.IsPacked() {
			putPacked(out, i, f, o)
		} else {
			encodeFloats(out.Data, dt, []float64{f}, i, o)
		}
	}
	return nil
}

// noNumber is the error about element i, which is no number of a type.
func noNumber(s string, i int, dt DType) error {
	if len(s) > 40 {
		s = s[:40] + "…"
	}
	return fmt.Errorf("%w: element %d, %q, read as %v", ErrSyntax, i, s, dt)
}

// parseInts is parseStrings for integers.
func parseInts(out *Tensor, src []string, o *ConvertOptions) error {
	dt := out.DType
	var block [64]int64
	for from := 0; from < len(src); from += len(block) {
		part := src[from:min(from+len(block), len(src))]
		for i, s := range part {
			v, ok := decimal(s)
			if !ok {
				var err error
				if v, err = parseInt(strings.TrimSpace(s), dt); err != nil {
					return noNumber(s, from+i, dt)
				}
			}
			block[i] = v
		}
		if !dt.IsPacked() {
			encodeInts(out.Data, dt, block[:len(part)], from, false, o)
			continue
		}
		for i, v := range block[:len(part)] {
			put(out.Data, from+i, dt.Bits(), byte(v))
		}
	}
	return nil
}

// decimal reads an integer as almost all are written: up to 18 digits, which no sign but a minus precedes.
func decimal(s string) (v int64, ok bool) {
	minus := len(s) > 0 && s[0] == '-'
	if minus {
		s = s[1:]
	}
	if len(s) == 0 || len(s) > 18 {
		return 0, false
	}
	for i := range len(s) {
		d := s[i] - '0'
		if d > 9 {
			return 0, false
		}
		v = 10*v + int64(d)
	}
	if minus {
		v = -v
	}
	return v, true
}

func parseBool(s string) (float64, error) {
	switch strings.ToLower(s) {
	case "true":
		return 1, nil
	case "false", "":
		return 0, nil
	}
	return strconv.ParseFloat(s, 64)
}

// parseInt reads an integer, or a float, which is truncated.
func parseInt(s string, dt DType) (int64, error) {
	if v, err := strconv.ParseInt(s, 10, 64); err == nil {
		return v, nil
	}
	if dt == Uint64 {
		if v, err := strconv.ParseUint(s, 10, 64); err == nil {
			return int64(v), nil
		}
	}
	f, err := strconv.ParseFloat(s, 64)
	return truncInt64(f), err
}

// ignoreRange keeps the infinity or zero that strconv returns for a number out of range.
func ignoreRange(err error) error {
	if errors.Is(err, strconv.ErrRange) {
		return nil
	}
	return err
}
