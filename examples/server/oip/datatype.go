package oip

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"github.com/carve-dev/carve/graph/tensor"
)

// datatypes are the protocol's names of element types.
var datatypes = map[tensor.DType]string{
	tensor.Bool: "BOOL", tensor.Uint8: "UINT8", tensor.Uint16: "UINT16", tensor.Uint32: "UINT32", tensor.Uint64: "UINT64",
	tensor.Int8: "INT8", tensor.Int16: "INT16", tensor.Int32: "INT32", tensor.Int64: "INT64",
	tensor.Float16: "FP16", tensor.BFloat16: "BF16", tensor.Float32: "FP32", tensor.Float64: "FP64", tensor.String: "BYTES",
}

var dtypes = func() map[string]tensor.DType {
	out := map[string]tensor.DType{}
	for dt, name := range datatypes {
		out[name] = dt
	}
	return out
}()

// Datatype returns the protocol's name of an element type. It has none for those of 2 and 4 bits, floats of 8 bits and complex
// numbers.
func Datatype(dt tensor.DType) (name string, ok bool) {
	name, ok = datatypes[dt]
	return name, ok
}

// DType returns the element type of a name; the error is InvalidArgument.
func DType(datatype string) (tensor.DType, error) {
	dt, ok := dtypes[datatype]
	if !ok {
		return 0, Errorf(InvalidArgument, "datatype %.20q is none of the protocol's", datatype)
	}
	return dt, nil
}

// Shape returns dims as ints and their product. The error is InvalidArgument where one is negative, the rank is above MaxDims, or the
// elements would be more than limit.
func Shape(name string, dims []int64, limit int64) (shape []int, n int, err error) {
	if len(dims) > MaxDims {
		return nil, 0, Errorf(InvalidArgument, "input %q has more than %d dims", name, MaxDims)
	}
	product, empty := int64(1), false
	shape = make([]int, len(dims))
	for i, d := range dims {
		switch {
		case d < 0 || int64(int(d)) != d:
			return nil, 0, Errorf(InvalidArgument, "input %q has dim %d in its shape %v", name, d, dims)
		case d == 0:
			empty = true
		case product > limit/d:
			return nil, 0, Errorf(InvalidArgument, "input %q of shape %v has more than %d elements", name, dims, limit)
		default:
			product *= d
		}
		shape[i] = int(d)
	}
	if empty {
		return shape, 0, nil
	}
	return shape, int(product), nil
}

// Memory returns how many bytes n elements of a type take, strings without what they say.
func Memory(dt tensor.DType, n int) int64 {
	if dt == tensor.String {
		return int64(n) * int64(unsafe.Sizeof(""))
	}
	return int64(dt.Bytes(n))
}

// ParseStrings reads n elements of datatype BYTES in raw form: each is its length, 4 bytes, little-endian, and so many bytes.
func ParseStrings(name string, raw []byte, n int) ([]string, error) {
	if n > len(raw)/4 {
		return nil, Errorf(InvalidArgument, "input %q: %d bytes are too few for %d elements", name, len(raw), n)
	}
	out, rest := make([]string, n), string(raw) // one copy, of which the elements are parts
	for i := range out {
		if len(rest) < 4 {
			return nil, Errorf(InvalidArgument, "input %q: the data end before element %d of %d", name, i, n)
		}
		size := binary.LittleEndian.Uint32(raw[len(raw)-len(rest):])
		if rest = rest[4:]; uint64(size) > uint64(len(rest)) {
			return nil, Errorf(InvalidArgument, "input %q: element %d says that it has %d bytes, %d are left", name, i, size, len(rest))
		}
		out[i], rest = rest[:size], rest[size:]
	}
	if len(rest) > 0 {
		return nil, Errorf(InvalidArgument, "input %q: %d bytes follow the last element", name, len(rest))
	}
	return out, nil
}

// AppendStrings appends elements in the form that ParseStrings reads.
func AppendStrings(b []byte, elements []string) []byte {
	for _, s := range elements {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(s)))
		b = append(b, s...)
	}
	return b
}

// Raw returns a tensor's elements in raw form. Those of compact tensors are shared with it.
func Raw(t *tensor.Tensor) ([]byte, error) {
	if t.DType == tensor.String {
		if err := t.Check(); err != nil {
			return nil, err
		}
		size := 0
		for _, s := range t.Strings[:t.Len()] {
			size += 4 + len(s)
		}
		return AppendStrings(make([]byte, 0, size), t.Strings[:t.Len()]), nil
	}
	if !t.IsCompact() {
		c, err := t.Clone()
		if err != nil {
			return nil, err
		}
		t = c
	}
	b := t.Bytes()
	if b == nil {
		return nil, fmt.Errorf("the elements of %v are not on the host", t.Shape)
	}
	return b, nil
}
