package tensor

import "math"

// Float16ToFloat32 returns the value of an IEEE 754 binary16 bit pattern. It is exact.
func Float16ToFloat32(h uint16) float32 {
	const expMask, rebias = 0x0f800000, 112 << 23
	sign := uint32(h&0x8000) << 16
	m := uint32(h&0x7fff) << 13
	e := m & expMask
	m += rebias
	switch e {
	case expMask: // infinities and NaNs keep a full exponent
		m += rebias
	case 0: // subnormal: let the subtraction normalise it
		m += 1 << 23
		m = math.Float32bits(math.Float32frombits(m) - math.Float32frombits(113<<23))
	}
	return math.Float32frombits(sign | m)
}

// Float32ToFloat16 returns the binary16 bit pattern nearest to f, ties to even; what is too large becomes infinite.
func Float32ToFloat16(f float32) uint16 {
	b := math.Float32bits(f)
	sign := uint16(b >> 16 & 0x8000)
	b &= 0x7fffffff
	switch {
	case b > 0x7f800000:
		return sign | 0x7e00
	case b >= 0x47800000: // 65536 and above
		return sign | 0x7c00
	case b < 0x38800000: // below 2^-14: the addition rounds to multiples of 2^-24
		return sign | uint16(math.Float32bits(math.Float32frombits(b)+0.5)-0x3f000000)
	}
	odd := b >> 13 & 1
	b -= 112 << 23
	return sign | uint16((b+0xfff+odd)>>13)
}

// BFloat16ToFloat32 returns the value of a bfloat16 bit pattern. It is exact.
func BFloat16ToFloat32(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// Float32ToBFloat16 returns the bfloat16 bit pattern nearest to f, ties to even; what is too large becomes infinite.
func Float32ToBFloat16(f float32) uint16 {
	b := math.Float32bits(f)
	if b&0x7fffffff > 0x7f800000 {
		return uint16(b>>16&0x8000) | 0x7fc0
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// smallFloat describes a floating-point format of at most 16 bits with a sign bit.
type smallFloat struct {
	man, bias int
	max       uint32 // the largest finite magnitude
	inf       uint32 // infinity; 0 where the format has none
	nan       uint32 // canonical NaN; 0 where the format has none
	sign      uint32 // the sign bit
	uz        bool   // one unsigned zero, NaN where -0 would be
}

var smallFloats = [numDTypes]smallFloat{
	Float16:        {man: 10, bias: 15, max: 0x7bff, inf: 0x7c00, nan: 0x7e00, sign: 0x8000},
	BFloat16:       {man: 7, bias: 127, max: 0x7f7f, inf: 0x7f80, nan: 0x7fc0, sign: 0x8000},
	Float8E4M3FN:   {man: 3, bias: 7, max: 0x7e, nan: 0x7f, sign: 0x80},
	Float8E4M3FNUZ: {man: 3, bias: 8, max: 0x7f, nan: 0x80, sign: 0x80, uz: true},
	Float8E5M2:     {man: 2, bias: 15, max: 0x7b, inf: 0x7c, nan: 0x7e, sign: 0x80},
	Float8E5M2FNUZ: {man: 2, bias: 16, max: 0x7f, nan: 0x80, sign: 0x80, uz: true},
	Float4E2M1:     {man: 1, bias: 1, max: 0x7, sign: 0x8},
}

// encode returns the bit pattern nearest to x, ties to even. What is too large becomes the largest finite number where
// saturate is set or the format has neither infinity nor NaN, else infinity, else NaN. ONNX's table for Cast makes
// infinities the largest finite number too where saturate is set.
func (s *smallFloat) encode(x float64, saturate bool) uint32 {
	var sign uint32
	if math.Signbit(x) {
		sign = s.sign
	}
	switch {
	case x != x:
		if s.nan == 0 { // float4e2m1 has no NaN
			return sign
		}
		if s.uz {
			return s.nan
		}
		return sign | s.nan
	case math.IsInf(x, 0):
		return s.overflow(sign, saturate)
	case x == 0:
		if s.uz {
			return 0
		}
		return sign
	}
	_, e := math.Frexp(x)
	minE := 1 - s.bias
	e = max(e-1, minE)
	q := math.RoundToEven(math.Ldexp(math.Abs(x), s.man-e))
	if e-minE > 1<<8 {
		return s.overflow(sign, saturate)
	}
	bits := uint32(e-minE)<<s.man + uint32(q)
	if bits > s.max {
		return s.overflow(sign, saturate)
	}
	if s.uz && bits == 0 {
		return 0
	}
	return sign | bits
}

func (s *smallFloat) overflow(sign uint32, saturate bool) uint32 {
	switch {
	case saturate || s.inf == 0 && s.nan == 0:
		return sign | s.max
	case s.inf != 0:
		return sign | s.inf
	case s.uz:
		return s.nan
	}
	return sign | s.nan
}

// decode returns the value of a bit pattern. It is exact.
func (s *smallFloat) decode(b uint32) float64 {
	mag := b &^ s.sign
	if s.uz && b == s.nan || !s.uz && s.nan != 0 && mag > s.max && mag != s.inf {
		return math.NaN()
	}
	var v float64
	switch e := int(mag >> s.man); {
	case s.inf != 0 && mag == s.inf:
		v = math.Inf(1)
	case e == 0:
		v = math.Ldexp(float64(mag), 1-s.bias-s.man)
	default:
		v = math.Ldexp(float64(mag&(1<<s.man-1)|1<<s.man), e-s.bias-s.man)
	}
	if b&s.sign != 0 {
		v = -v
	}
	return v
}

// float8Tables holds the value of every bit pattern of the 8-bit floats; written once, before main.
var float8Tables = func() (t [Float8E8M0 - Float8E4M3FN + 1][256]float32) {
	for dt := Float8E4M3FN; dt <= Float8E5M2FNUZ; dt++ {
		for b := range 256 {
			t[dt-Float8E4M3FN][b] = float32(smallFloats[dt].decode(uint32(b)))
		}
	}
	for b := range 256 {
		t[Float8E8M0-Float8E4M3FN][b] = float32(math.Ldexp(1, b-127))
	}
	t[Float8E8M0-Float8E4M3FN][255] = float32(math.NaN())
	return t
}()

// float4Values are the values of float4e2m1 by bit pattern.
var float4Values = [16]float32{0, .5, 1, 1.5, 2, 3, 4, 6, float32(math.Copysign(0, -1)), -.5, -1, -1.5, -2, -3, -4, -6}

// RoundMode says how a number becomes a power of two in float8e8m0.
type RoundMode uint8

// The rounding modes of ONNX Cast for float8e8m0.
const (
	RoundUp      RoundMode = iota // to the next power of two; the default
	RoundDown                     // to the power of two below
	RoundNearest                  // to the nearer one, ties up
)

// encodeE8M0 returns the exponent byte of |x|: float8e8m0 has neither sign nor zero, and 0xFF is its only NaN. What is
// below the smallest power becomes that, infinities become NaN, and what is above the largest becomes the largest, or
// NaN without saturate.
func encodeE8M0(x float64, mode RoundMode, saturate bool) byte {
	x = math.Abs(x)
	if x != x || math.IsInf(x, 0) {
		return 0xff
	}
	if x == 0 {
		return 0
	}
	frac, e := math.Frexp(x) // x = frac * 2^e, frac in [0.5, 1)
	e--
	if e < -127 {
		return 0
	}
	if mode == RoundUp && frac > 0.5 || mode == RoundNearest && frac >= 0.75 {
		e++
	}
	if e > 127 {
		if saturate {
			return 0xfe
		}
		return 0xff
	}
	return byte(e + 127)
}
