package onnx

import (
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// field is one field of a message: v holds a number's bits, b the bytes of the rest.
type field struct {
	num protowire.Number
	typ protowire.Type
	v   uint64
	b   []byte
}

// eachField calls f for every field of a message, in order; groups are skipped.
func eachField(msg []byte, f func(field) error) error {
	for len(msg) > 0 {
		num, typ, n := protowire.ConsumeTag(msg)
		if n < 0 {
			return wireError(n)
		}
		msg = msg[n:]
		fl := field{num: num, typ: typ}
		switch typ {
		case protowire.VarintType:
			fl.v, n = protowire.ConsumeVarint(msg)
		case protowire.Fixed32Type:
			var v uint32
			v, n = protowire.ConsumeFixed32(msg)
			fl.v = uint64(v)
		case protowire.Fixed64Type:
			fl.v, n = protowire.ConsumeFixed64(msg)
		case protowire.BytesType:
			fl.b, n = protowire.ConsumeBytes(msg)
		default:
			n = protowire.ConsumeFieldValue(num, typ, msg)
		}
		if n < 0 {
			return wireError(n)
		}
		msg = msg[n:]
		if typ == protowire.StartGroupType {
			continue
		}
		if err := f(fl); err != nil {
			return err
		}
	}
	return nil
}

func wireError(n int) error {
	if n == -1 { // a message that ends inside a field
		return fmt.Errorf("%w: protobuf message", ErrTruncated)
	}
	return fmt.Errorf("%w: protobuf: %v", ErrSyntax, protowire.ParseError(n))
}

func (f field) fault() error {
	return fmt.Errorf("%w: protobuf field %d has wire type %d", ErrSyntax, f.num, f.typ)
}

func (f field) bytes(dst *[]byte) error {
	if f.typ != protowire.BytesType {
		return f.fault()
	}
	*dst = f.b
	return nil
}

func (f field) str(dst *string) error {
	if f.typ != protowire.BytesType {
		return f.fault()
	}
	*dst = string(f.b)
	return nil
}

func (f field) int(dst *int64) error {
	if f.typ != protowire.VarintType {
		return f.fault()
	}
	*dst = int64(f.v)
	return nil
}

// ints appends the numbers of a repeated int64 field, packed or not.
func (f field) ints(dst *[]int64) error {
	if f.typ == protowire.VarintType {
		*dst = append(*dst, int64(f.v))
		return nil
	}
	if f.typ != protowire.BytesType {
		return f.fault()
	}
	for b := f.b; len(b) > 0; {
		v, n := protowire.ConsumeVarint(b)
		if n < 0 {
			return wireError(n)
		}
		*dst = append(*dst, int64(v))
		b = b[n:]
	}
	return nil
}

// floats appends the numbers of a repeated float field, packed or not.
func (f field) floats(dst *[]float32) error {
	if f.typ == protowire.Fixed32Type {
		*dst = append(*dst, math.Float32frombits(uint32(f.v)))
		return nil
	}
	if f.typ != protowire.BytesType {
		return f.fault()
	}
	for b := f.b; len(b) > 0; {
		v, n := protowire.ConsumeFixed32(b)
		if n < 0 {
			return wireError(n)
		}
		*dst = append(*dst, math.Float32frombits(v))
		b = b[n:]
	}
	return nil
}
