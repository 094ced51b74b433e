package onnx

import (
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/wire"
)

// The numbers of AttributeProto.AttributeType.
const (
	attrUndefined = iota
	attrFloat
	attrInt
	attrString
	attrTensor
	attrGraph
	attrFloats
	attrInts
	attrStrings
	attrTensors
	attrGraphs
	attrSparse
	attrSparses
	attrType
	attrTypes
)

// isGraph reports whether the attribute holds graphs, which become regions.
func (a *attrProto) isGraph() bool {
	return a.kind == attrGraph || a.kind == attrGraphs || a.kind == attrUndefined && len(a.graphs) > 0
}

// value reads an attribute that holds no graph, once. Sparse tensors are made dense.
func (l *loader) value(a *attrProto, s *scope) (*graph.Attr, error) {
	if a.read != nil {
		return a.read, nil
	}
	v := graph.Attr{Name: a.name}
	var types []graph.Type
	kind := a.kind
	err := wire.Each(a.msg, func(f wire.Field) error {
		var b []byte
		switch f.Num {
		case 2, 3, 4, 5, 7, 8, 9, 10, 14, 15, 22, 23:
			if kind == attrUndefined { // models of version 1 do not say
				kind = kindOfField[f.Num]
			}
			if kindOfField[f.Num] != kind {
				return nil // a field that the attribute's type does not name has no meaning
			}
		}
		switch f.Num {
		case 2:
			v.Float = math.Float32frombits(uint32(f.Val))
		case 3:
			return f.Int(&v.Int)
		case 4:
			return f.Str(&v.Str)
		case 7:
			return f.Floats(&v.Floats)
		case 8:
			return f.Ints(&v.Ints)
		case 9:
			var e string
			err := f.Str(&e)
			v.Strs = append(v.Strs, e)
			return err
		case 5, 10, 22, 23:
			if err := f.Bytes(&b); err != nil {
				return err
			}
			t, err := l.tensor(b, f.Num >= 22)
			v.Tensor = t
			v.Tensors = append(v.Tensors, t)
			return err
		case 14, 15:
			if err := f.Bytes(&b); err != nil {
				return err
			}
			t, err := l.typ(b, s.dims, 0)
			types = append(types, t)
			return err
		}
		return nil
	})
	if err != nil {
		return nil, at(err, "", a.name)
	}
	if err := settle(&v, kind, types); err != nil {
		return nil, at(err, "", a.name)
	}
	if types == nil { // types hold symbols of their place
		a.read = &v
	}
	return &v, nil
}

// kindOfField is the attribute type of each field of AttributeProto.
var kindOfField = map[protowire.Number]int64{2: attrFloat, 3: attrInt, 4: attrString, 5: attrTensor, 7: attrFloats, 8: attrInts,
	9: attrStrings, 10: attrTensors, 14: attrType, 15: attrTypes, 22: attrSparse, 23: attrSparses}

// settle sets the kind and clears what belongs to others.
func settle(v *graph.Attr, kind int64, types []graph.Type) error {
	tensors := v.Tensors
	v.Tensors = nil
	switch kind {
	case attrFloat:
		v.Kind = graph.AttrFloat
	case attrInt:
		v.Kind = graph.AttrInt
	case attrString:
		v.Kind = graph.AttrString
	case attrTensor, attrSparse:
		v.Kind = graph.AttrTensor
		if len(tensors) != 1 {
			return fmt.Errorf("%w: %d tensors, 1 expected", ErrSyntax, len(tensors))
		}
	case attrFloats:
		v.Kind = graph.AttrFloats
	case attrInts:
		v.Kind = graph.AttrInts
	case attrStrings:
		v.Kind = graph.AttrStrings
	case attrTensors, attrSparses:
		v.Kind, v.Tensors, v.Tensor = graph.AttrTensors, tensors, nil
	case attrType:
		v.Kind = graph.AttrType
		if len(types) != 1 {
			return fmt.Errorf("%w: %d types, 1 expected", ErrSyntax, len(types))
		}
		v.Type = types[0]
	case attrTypes:
		return fmt.Errorf("%w: attribute that lists types", ErrUnsupported)
	default:
		return fmt.Errorf("%w: attribute of type %d", ErrSyntax, kind)
	}
	return nil
}

// tensor reads a tensor or sparse tensor, external data included.
func (l *loader) tensor(msg []byte, sparse bool) (*tensor.Tensor, error) {
	parse := tensor.ParseProto
	if sparse {
		parse = tensor.ParseSparseProto
	}
	l.parse.MaxDense = max(l.dense, 1)
	name, t, err := parse(msg, &l.parse)
	if err != nil {
		return nil, at(err, "", name)
	}
	if sparse {
		l.dense -= t.NumBytes() + 16*len(t.Strings)
	}
	return l.shared(t), nil
}

// normalConstant turns the attributes that Constant has for single numbers, lists and strings into a tensor under
// "value", so that constants have one spelling.
func normalConstant(attrs []graph.Attr) []graph.Attr {
	if len(attrs) != 1 {
		return attrs
	}
	var t *tensor.Tensor
	switch a := &attrs[0]; {
	case a.Name == "value_float" && a.Kind == graph.AttrFloat:
		t = tensor.Scalar(a.Float)
	case a.Name == "value_int" && a.Kind == graph.AttrInt:
		t = tensor.Scalar(a.Int)
	case a.Name == "value_string" && a.Kind == graph.AttrString:
		t = tensor.FromStrings([]string{a.Str}, []int{}...)
	case a.Name == "value_floats" && a.Kind == graph.AttrFloats:
		t = tensor.From(append([]float32{}, a.Floats...))
	case a.Name == "value_ints" && a.Kind == graph.AttrInts:
		t = tensor.From(append([]int64{}, a.Ints...))
	case a.Name == "value_strings" && a.Kind == graph.AttrStrings:
		t = tensor.FromStrings(append([]string{}, a.Strs...))
	case a.Name == "sparse_value" && a.Kind == graph.AttrTensor:
		t = a.Tensor
	default:
		return attrs
	}
	return []graph.Attr{graph.TensorAttr("value", t)}
}
