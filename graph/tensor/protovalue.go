package tensor

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/carve-dev/carve/internal/wire"
)

// Kind is what a Value is. The numbers are those of ONNX's SequenceProto.DataType.
type Kind uint8

// The kinds of values, and that of the sparse tensors of files, which are made dense.
const (
	KindNone     Kind = 0
	KindTensor   Kind = 1
	KindSparse   Kind = 2
	KindSequence Kind = 3
	KindMap      Kind = 4
	KindOptional Kind = 5
)

// String returns "tensor", "sequence" and so on.
func (k Kind) String() string {
	switch k {
	case KindTensor:
		return "tensor"
	case KindSparse:
		return "sparse tensor"
	case KindSequence:
		return "sequence"
	case KindMap:
		return "map"
	case KindOptional:
		return "optional"
	case KindNone:
	}
	return "none"
}

// KindOf returns the kind of v; KindNone for nil.
func KindOf(v Value) Kind {
	switch v.(type) {
	case *Tensor:
		return KindTensor
	case *Sequence:
		return KindSequence
	case *Map:
		return KindMap
	case *Optional:
		return KindOptional
	}
	return KindNone
}

// maxNesting bounds how deep sequences, optionals and maps of a file contain one another.
const maxNesting = 32

// ParseValue reads a TensorProto, SparseTensorProto, SequenceProto, MapProto or OptionalProto, which are not told apart
// by their bytes: the kind comes from a model's type. Errors are those of ParseProto.
func ParseValue(b []byte, kind Kind, o *ProtoOptions) (name string, v Value, err error) {
	return parseValue(b, kind, o, 0)
}

func parseValue(b []byte, kind Kind, o *ProtoOptions, depth int) (name string, v Value, err error) {
	if depth > maxNesting {
		return "", nil, fmt.Errorf("%w: values nested deeper than %d", ErrTooLarge, maxNesting)
	}
	switch kind {
	case KindTensor, KindSparse:
		parse := ParseProto
		if kind == KindSparse {
			parse = ParseSparseProto
		}
		name, t, err := parse(b, o)
		if err != nil {
			return name, nil, err
		}
		return name, t, nil
	case KindSequence:
		return parseSequence(b, o, depth)
	case KindMap:
		return parseMap(b, o, depth)
	case KindOptional:
		return parseOptional(b, o, depth)
	case KindNone:
	}
	return "", nil, fmt.Errorf("%w: value of kind %v", ErrSyntax, kind)
}

// itemKind returns the kind of the values that field num of a SequenceProto or OptionalProto holds.
func itemKind(num protowire.Number) Kind {
	if num < 3 || num > 7 {
		return KindNone
	}
	return Kind(num - 2)
}

// parseItems reads the fields that SequenceProto and OptionalProto have in common.
func parseItems(b []byte, o *ProtoOptions, depth int) (name string, items []Value, err error) {
	err = wire.Each(b, func(f wire.Field) error {
		k := itemKind(f.Num)
		switch {
		case f.Num == 1:
			return f.Str(&name)
		case f.Num == 2:
			var v int64
			err := f.Int(&v)
			if v < 0 || v > int64(KindOptional) {
				return fmt.Errorf("%w: element kind %d", ErrSyntax, v)
			}
			return err
		case k != KindNone:
			var s []byte
			if err := f.Bytes(&s); err != nil {
				return err
			}
			_, v, err := parseValue(s, k, o, depth+1)
			if err == nil && len(items) > 0 && (KindOf(items[0]) != KindOf(v)) {
				err = fmt.Errorf("%w: %v beside %v in one value", ErrSyntax, KindOf(v), KindOf(items[0]))
			}
			items = append(items, v)
			return err
		}
		return nil
	})
	return name, items, err
}

func parseSequence(b []byte, o *ProtoOptions, depth int) (string, Value, error) {
	name, items, err := parseItems(b, o, depth)
	if err != nil {
		return name, nil, err
	}
	s := &Sequence{Items: items}
	for i, v := range items {
		t, ok := v.(*Tensor)
		if !ok {
			break
		}
		if i > 0 && t.DType != s.DType {
			return name, nil, fmt.Errorf("%w: %v and %v in one sequence", ErrDType, s.DType, t.DType)
		}
		s.DType = t.DType
	}
	return name, s, nil
}

func parseOptional(b []byte, o *ProtoOptions, depth int) (string, Value, error) {
	name, items, err := parseItems(b, o, depth)
	if err != nil {
		return name, nil, err
	}
	if len(items) > 1 {
		return name, nil, fmt.Errorf("%w: optional with %d values", ErrSyntax, len(items))
	}
	v := &Optional{}
	if len(items) == 1 {
		v.Item = items[0]
	}
	return name, v, nil
}

func parseMap(b []byte, o *ProtoOptions, depth int) (name string, v Value, err error) {
	m := &Map{}
	keyType := Invalid
	n := -1
	err = wire.Each(b, func(f wire.Field) error {
		var s []byte
		var err error
		switch f.Num {
		case 1:
			err = f.Str(&name)
		case 2:
			var k int64
			if err = f.Int(&k); k < 0 || k >= numDTypes || DType(k) != String && !DType(k).IsInt() {
				return fmt.Errorf("%w: key type %d of a map", ErrDType, k)
			}
			keyType = DType(k)
		case 3:
			err = f.Ints(&m.IntKeys)
		case 4:
			var k string
			err = f.Str(&k)
			m.StringKeys = append(m.StringKeys, k)
		case 5:
			if err = f.Bytes(&s); err == nil {
				_, m.Values, err = parseValue(s, KindSequence, o, depth+1)
			}
			if err == nil {
				n = len(m.Values.(*Sequence).Items)
			}
		}
		return err
	})
	if err != nil {
		return name, nil, err
	}
	if m.Values == nil {
		m.Values, n = &Sequence{}, 0
	}
	others := len(m.StringKeys)
	if keyType == String {
		others = len(m.IntKeys)
	}
	if m.Len() != n || keyType == Invalid || others > 0 {
		return name, nil, fmt.Errorf("%w: map of %d integer and %d string keys of type %v, and %d values", ErrSyntax, len(m.IntKeys),
			len(m.StringKeys), keyType, n)
	}
	return name, m, nil
}

// AppendValue appends v to b as the message of its kind. Tensors in it must be on the host.
func AppendValue(b []byte, name string, v Value) ([]byte, error) {
	switch v := v.(type) {
	case *Tensor:
		return AppendProto(b, name, v)
	case *Sequence:
		elem := KindTensor
		if len(v.Items) > 0 {
			elem = KindOf(v.Items[0])
		}
		return appendItems(appendName(b, 1, name), elem, v.Items)
	case *Optional:
		if v.Item == nil {
			return appendItems(appendName(b, 1, name), KindNone, nil)
		}
		return appendItems(appendName(b, 1, name), KindOf(v.Item), []Value{v.Item})
	case *Map:
		return appendMap(appendName(b, 1, name), v)
	}
	return b, fmt.Errorf("%w: value of kind %v", ErrUnsupported, KindOf(v))
}

func appendItems(b []byte, elem Kind, items []Value) ([]byte, error) {
	b = protowire.AppendTag(b, 2, protowire.VarintType)
	b = protowire.AppendVarint(b, uint64(elem))
	for _, v := range items {
		if KindOf(v) != elem {
			return b, fmt.Errorf("%w: %v beside %v in one value", ErrSyntax, KindOf(v), elem)
		}
		item, err := AppendValue(nil, "", v)
		if err != nil {
			return b, err
		}
		b = protowire.AppendTag(b, protowire.Number(elem)+2, protowire.BytesType)
		b = protowire.AppendBytes(b, item)
	}
	return b, nil
}

func appendMap(b []byte, m *Map) ([]byte, error) {
	key := Int64
	if len(m.StringKeys) > 0 {
		key = String
	}
	b = protowire.AppendTag(b, 2, protowire.VarintType)
	b = protowire.AppendVarint(b, uint64(key))
	for _, k := range m.IntKeys {
		b = protowire.AppendTag(b, 3, protowire.VarintType)
		b = protowire.AppendVarint(b, uint64(k))
	}
	for _, k := range m.StringKeys {
		b = protowire.AppendTag(b, 4, protowire.BytesType)
		b = protowire.AppendString(b, k)
	}
	items, err := m.Items()
	if err != nil {
		return b, err
	}
	values, err := AppendValue(nil, "", &Sequence{Items: items})
	if err != nil {
		return b, err
	}
	b = protowire.AppendTag(b, 5, protowire.BytesType)
	return protowire.AppendBytes(b, values), nil
}
