package dlpack

import "github.com/carve-dev/carve/graph/tensor"

// Codes of DLDataTypeCode.
const (
	codeInt         = 0
	codeUint        = 1
	codeFloat       = 2
	codeBFloat      = 4
	codeComplex     = 5
	codeBool        = 6
	codeFloat8E4M3N = 10 // e4m3fn
	codeFloat8E4M3Z = 11 // e4m3fnuz
	codeFloat8E5M2  = 12
	codeFloat8E5M2Z = 13 // e5m2fnuz
	codeFloat8E8M0  = 14 // e8m0fnu
	codeFloat4      = 17 // e2m1fn
)

// dataTypes are the element types that both sides have.
var dataTypes = map[tensor.DType]DataType{
	tensor.Int2: {codeInt, 2, 1}, tensor.Int4: {codeInt, 4, 1}, tensor.Int8: {codeInt, 8, 1},
	tensor.Int16: {codeInt, 16, 1}, tensor.Int32: {codeInt, 32, 1}, tensor.Int64: {codeInt, 64, 1},
	tensor.Uint2: {codeUint, 2, 1}, tensor.Uint4: {codeUint, 4, 1}, tensor.Uint8: {codeUint, 8, 1},
	tensor.Uint16: {codeUint, 16, 1}, tensor.Uint32: {codeUint, 32, 1}, tensor.Uint64: {codeUint, 64, 1},
	tensor.Float16: {codeFloat, 16, 1}, tensor.Float32: {codeFloat, 32, 1}, tensor.Float64: {codeFloat, 64, 1},
	tensor.BFloat16: {codeBFloat, 16, 1}, tensor.Bool: {codeBool, 8, 1},
	tensor.Complex64: {codeComplex, 64, 1}, tensor.Complex128: {codeComplex, 128, 1},
	tensor.Float8E4M3FN: {codeFloat8E4M3N, 8, 1}, tensor.Float8E4M3FNUZ: {codeFloat8E4M3Z, 8, 1},
	tensor.Float8E5M2: {codeFloat8E5M2, 8, 1}, tensor.Float8E5M2FNUZ: {codeFloat8E5M2Z, 8, 1},
	tensor.Float8E8M0: {codeFloat8E8M0, 8, 1}, tensor.Float4E2M1: {codeFloat4, 4, 1},
}

// dtypes is the inverse.
var dtypes = func() map[DataType]tensor.DType {
	m := map[DataType]tensor.DType{}
	for dt, d := range dataTypes {
		m[d] = dt
	}
	return m
}()

// TypeOf returns DLPack's name of an element type; false for strings, which it has none for.
func TypeOf(dt tensor.DType) (DataType, bool) {
	d, ok := dataTypes[dt]
	return d, ok
}
