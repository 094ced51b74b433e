package tensor

import "fmt"

// DType is the element type of a tensor. The numbers are those of ONNX's TensorProto.DataType, so that they can be
// stored and compared with model files directly.
type DType uint8

// The element types. Names follow ONNX; the packed types hold 2 or 4 elements in a byte, lowest bits first.
const (
	Invalid        DType = 0
	Float32        DType = 1
	Uint8          DType = 2
	Int8           DType = 3
	Uint16         DType = 4
	Int16          DType = 5
	Int32          DType = 6
	Int64          DType = 7
	String         DType = 8
	Bool           DType = 9
	Float16        DType = 10
	Float64        DType = 11
	Uint32         DType = 12
	Uint64         DType = 13
	Complex64      DType = 14
	Complex128     DType = 15
	BFloat16       DType = 16
	Float8E4M3FN   DType = 17
	Float8E4M3FNUZ DType = 18
	Float8E5M2     DType = 19
	Float8E5M2FNUZ DType = 20
	Uint4          DType = 21
	Int4           DType = 22
	Float4E2M1     DType = 23
	Float8E8M0     DType = 24
	Uint2          DType = 25
	Int2           DType = 26

	numDTypes = 27
)

type dtypeClass uint8

const (
	classNone dtypeClass = iota
	classFloat
	classInt
	classUint
	classBool
	classComplex
	classString
)

var dtypes = [numDTypes]struct {
	short, name string
	bits        uint8
	class       dtypeClass
}{
	Invalid:        {"invalid", "undefined", 0, classNone},
	Float32:        {"f32", "float32", 32, classFloat},
	Uint8:          {"u8", "uint8", 8, classUint},
	Int8:           {"i8", "int8", 8, classInt},
	Uint16:         {"u16", "uint16", 16, classUint},
	Int16:          {"i16", "int16", 16, classInt},
	Int32:          {"i32", "int32", 32, classInt},
	Int64:          {"i64", "int64", 64, classInt},
	String:         {"str", "string", 0, classString},
	Bool:           {"bool", "bool", 8, classBool},
	Float16:        {"f16", "float16", 16, classFloat},
	Float64:        {"f64", "float64", 64, classFloat},
	Uint32:         {"u32", "uint32", 32, classUint},
	Uint64:         {"u64", "uint64", 64, classUint},
	Complex64:      {"c64", "complex64", 64, classComplex},
	Complex128:     {"c128", "complex128", 128, classComplex},
	BFloat16:       {"bf16", "bfloat16", 16, classFloat},
	Float8E4M3FN:   {"f8e4m3fn", "float8e4m3fn", 8, classFloat},
	Float8E4M3FNUZ: {"f8e4m3fnuz", "float8e4m3fnuz", 8, classFloat},
	Float8E5M2:     {"f8e5m2", "float8e5m2", 8, classFloat},
	Float8E5M2FNUZ: {"f8e5m2fnuz", "float8e5m2fnuz", 8, classFloat},
	Uint4:          {"u4", "uint4", 4, classUint},
	Int4:           {"i4", "int4", 4, classInt},
	Float4E2M1:     {"f4e2m1", "float4e2m1", 4, classFloat},
	Float8E8M0:     {"f8e8m0", "float8e8m0", 8, classFloat},
	Uint2:          {"u2", "uint2", 2, classUint},
	Int2:           {"i2", "int2", 2, classInt},
}

// Valid reports whether d is one of the declared element types.
func (d DType) Valid() bool { return d > Invalid && d < numDTypes }

// String returns the short name that the text form of a graph uses, such as "f32".
func (d DType) String() string {
	if d < numDTypes {
		return dtypes[d].short
	}
	return fmt.Sprintf("dtype(%d)", uint8(d))
}

// Name returns the long name, such as "float32".
func (d DType) Name() string {
	if d < numDTypes {
		return dtypes[d].name
	}
	return d.String()
}

// ParseDType returns the type of a short or long name.
func ParseDType(s string) (DType, bool) {
	for d := DType(1); d < numDTypes; d++ {
		if dtypes[d].short == s || dtypes[d].name == s {
			return d, true
		}
	}
	return Invalid, false
}

// Bits returns the size of one element in bits; 0 for String and for invalid types.
func (d DType) Bits() int {
	if d < numDTypes {
		return int(dtypes[d].bits)
	}
	return 0
}

// Size returns the size of one element in bytes; 0 for packed types, String and invalid types.
func (d DType) Size() int { return d.Bits() / 8 }

// Bytes returns the number of bytes that n elements occupy, the last byte of a packed type counted whole. It returns
// 0 for String, whose elements are Go strings, and -1 where the size overflows.
func (d DType) Bytes(n int) int {
	b := d.Bits()
	if b == 0 || n <= 0 {
		return 0
	}
	if n > (1<<62)/b {
		return -1
	}
	return (n*b + 7) / 8
}

// IsPacked reports whether several elements share a byte.
func (d DType) IsPacked() bool { b := d.Bits(); return b > 0 && b < 8 }

// IsFloat reports whether d is a real floating-point type of any width.
func (d DType) IsFloat() bool { return d < numDTypes && dtypes[d].class == classFloat }

// IsInt reports whether d is an integer type, signed or not; Bool is none.
func (d DType) IsInt() bool {
	return d < numDTypes && (dtypes[d].class == classInt || dtypes[d].class == classUint)
}

// IsUnsigned reports whether d is an unsigned integer type.
func (d DType) IsUnsigned() bool { return d < numDTypes && dtypes[d].class == classUint }

// IsComplex reports whether d is a complex type.
func (d DType) IsComplex() bool { return d < numDTypes && dtypes[d].class == classComplex }
