package tensor

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// field is one field of a protobuf message: v holds a varint, fixed32 or fixed64, b the bytes of the rest.
type field struct {
	num protowire.Number
	typ protowire.Type
	v   uint64
	b   []byte
}

// eachField calls f for every field of a message, in order. Groups are skipped.
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
	if n == -1 { // what protowire.ParseError turns into io.ErrUnexpectedEOF
		return fmt.Errorf("%w: protobuf message", ErrTruncated)
	}
	return fmt.Errorf("%w: protobuf: %v", ErrSyntax, protowire.ParseError(n))
}

// fault reports a field of the wrong wire type.
func (f field) fault() error {
	return fmt.Errorf("%w: protobuf field %d has wire type %d", ErrSyntax, f.num, f.typ)
}

// bytes returns the content of a length-delimited field.
func (f field) bytes() ([]byte, error) {
	if f.typ != protowire.BytesType {
		return nil, f.fault()
	}
	return f.b, nil
}

// int returns the content of a varint field.
func (f field) int() (int64, error) {
	if f.typ != protowire.VarintType {
		return 0, f.fault()
	}
	return int64(f.v), nil
}

// count returns how many numbers a repeated field of that element type holds, packed or not.
func (f field) count(elem protowire.Type) (int, error) {
	if f.typ == elem {
		return 1, nil
	}
	if f.typ != protowire.BytesType {
		return 0, f.fault()
	}
	n := 0
	switch elem {
	case protowire.VarintType:
		for _, c := range f.b {
			if c < 0x80 {
				n++
			}
		}
	case protowire.Fixed32Type:
		n = len(f.b) / 4
	case protowire.Fixed64Type:
		n = len(f.b) / 8
	}
	return n, nil
}

// each calls g for every number of a repeated field, packed or not.
func (f field) each(elem protowire.Type, g func(uint64)) error {
	if f.typ == elem {
		g(f.v)
		return nil
	}
	if f.typ != protowire.BytesType {
		return f.fault()
	}
	for b := f.b; len(b) > 0; {
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
			return wireError(n)
		}
		g(v)
		b = b[n:]
	}
	return nil
}
