// Package wire reads protobuf messages field by field, as the wire has them, without generated code. Content stays where
// it is: the bytes of a field refer to the message. Nothing is allocated, whatever a message claims of its size.
//
// The package is a leaf: it imports nothing of carve.
package wire

import (
	"errors"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// Causes of faults, for errors.Is.
var (
	ErrSyntax    = errors.New("malformed")
	ErrTruncated = errors.New("truncated")
)

// Field is one field of a message. Val holds the bits of a varint, fixed32 or fixed64, Buf the bytes of the rest.
type Field struct {
	Num  protowire.Number
	Type protowire.Type
	Val  uint64
	Buf  []byte
}

// Each calls f for every field of a message, in order; groups are skipped. It returns f's error, or one that wraps
// ErrSyntax or ErrTruncated.
func Each(msg []byte, f func(Field) error) error {
	for len(msg) > 0 {
		num, typ, n := protowire.ConsumeTag(msg)
		if n < 0 {
			return fault(n)
		}
		msg = msg[n:]
		fl := Field{Num: num, Type: typ}
		switch typ {
		case protowire.VarintType:
			fl.Val, n = protowire.ConsumeVarint(msg)
		case protowire.Fixed32Type:
			var v uint32
			v, n = protowire.ConsumeFixed32(msg)
			fl.Val = uint64(v)
		case protowire.Fixed64Type:
			fl.Val, n = protowire.ConsumeFixed64(msg)
		case protowire.BytesType:
			fl.Buf, n = protowire.ConsumeBytes(msg)
		default:
			n = protowire.ConsumeFieldValue(num, typ, msg)
		}
		if n < 0 {
			return fault(n)
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

func fault(n int) error {
	if n == -1 { // what protowire.ParseError turns into io.ErrUnexpectedEOF
		return fmt.Errorf("%w: protobuf message", ErrTruncated)
	}
	return fmt.Errorf("%w: protobuf: %w", ErrSyntax, protowire.ParseError(n))
}

// wrong reports a field of the wrong wire type.
func (f Field) wrong() error {
	return fmt.Errorf("%w: protobuf field %d has wire type %d", ErrSyntax, f.Num, f.Type)
}

// Bytes sets dst to the content of a length-delimited field, which refers to the message.
func (f Field) Bytes(dst *[]byte) error {
	if f.Type != protowire.BytesType {
		return f.wrong()
	}
	*dst = f.Buf
	return nil
}

// Str sets dst to a copy of the content of a length-delimited field.
func (f Field) Str(dst *string) error {
	if f.Type != protowire.BytesType {
		return f.wrong()
	}
	*dst = string(f.Buf)
	return nil
}

// Int sets dst to the content of a varint field.
func (f Field) Int(dst *int64) error {
	if f.Type != protowire.VarintType {
		return f.wrong()
	}
	*dst = int64(f.Val)
	return nil
}

// Ints appends the numbers of a repeated int64 field, packed or not.
func (f Field) Ints(dst *[]int64) error {
	return f.Numbers(protowire.VarintType, func(v uint64) { *dst = append(*dst, int64(v)) })
}

// Floats appends the numbers of a repeated float field, packed or not.
func (f Field) Floats(dst *[]float32) error {
	return f.Numbers(protowire.Fixed32Type, func(v uint64) { *dst = append(*dst, math.Float32frombits(uint32(v))) })
}

// Count returns how many numbers a repeated field of that element type holds, packed or not. Of malformed varints it
// counts those that end.
func (f Field) Count(elem protowire.Type) (int, error) {
	if f.Type == elem {
		return 1, nil
	}
	if f.Type != protowire.BytesType {
		return 0, f.wrong()
	}
	n := 0
	switch elem {
	case protowire.VarintType:
		for _, c := range f.Buf {
			if c < 0x80 {
				n++
			}
		}
	case protowire.Fixed32Type:
		n = len(f.Buf) / 4
	case protowire.Fixed64Type:
		n = len(f.Buf) / 8
	}
	return n, nil
}

// Numbers calls g for every number of a repeated field of that element type, packed or not.
func (f Field) Numbers(elem protowire.Type, g func(uint64)) error {
	if f.Type == elem {
		g(f.Val)
		return nil
	}
	if f.Type != protowire.BytesType {
		return f.wrong()
	}
	for b := f.Buf; len(b) > 0; {
		var v uint64
		var n int
		switch elem {
		case protowire.VarintType:
			v, n = protowire.ConsumeVarint(b)
		case protowire.Fixed32Type:
			var w uint32
			w, n = protowire.ConsumeFixed32(b)
			v = uint64(w)
		default:
			v, n = protowire.ConsumeFixed64(b)
		}
		if n < 0 {
			return fault(n)
		}
		g(v)
		b = b[n:]
	}
	return nil
}
