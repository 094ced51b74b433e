package onnx

import (
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/carve-dev/carve/graph"
)

func fieldNumber(n int) protowire.Number { return protowire.Number(n) }

// attrMessage writes an AttributeProto.
func attrMessage(a *graph.Attr) (*rope, error) {
	r := &rope{}
	r.str(1, a.Name)
	var kind int
	switch a.Kind {
	case graph.AttrFloat:
		kind = attrFloat
		r.fixed32(2, math.Float32bits(a.Float))
	case graph.AttrInt:
		kind = attrInt
		r.int(3, a.Int)
	case graph.AttrString:
		kind = attrString
		r.always(4, a.Str)
	case graph.AttrTensor:
		kind = attrTensor
		if err := tensorMessage(r, 5, "", a.Tensor); err != nil {
			return nil, err
		}
	case graph.AttrFloats:
		kind = attrFloats
		var b []byte
		for _, f := range a.Floats {
			b = protowire.AppendFixed32(b, math.Float32bits(f))
		}
		r.bytes(7, b)
	case graph.AttrInts:
		kind = attrInts
		writeInts(r, a.Ints)
	case graph.AttrStrings:
		kind = attrStrings
		for _, s := range a.Strs {
			r.always(9, s)
		}
	case graph.AttrTensors:
		kind = attrTensors
		for _, t := range a.Tensors {
			if err := tensorMessage(r, 10, "", t); err != nil {
				return nil, err
			}
		}
	case graph.AttrType:
		kind = attrType
		r.message(14, typeMessage(a.Type))
	case graph.AttrDims:
		kind = attrInts
		ints := make([]int64, len(a.Dims))
		for i, d := range a.Dims {
			n, ok := d.Const()
			if !ok {
				return nil, fmt.Errorf("%w: dims %v of symbols", ErrUnsupported, a.Dims)
			}
			ints[i] = n
		}
		writeInts(r, ints)
	default:
		return nil, fmt.Errorf("%w: attribute of kind %v", ErrUnsupported, a.Kind)
	}
	r.int(20, int64(kind))
	return r, nil
}

func writeInts(r *rope, vs []int64) {
	var b []byte
	for _, v := range vs {
		b = protowire.AppendVarint(b, uint64(v))
	}
	r.bytes(8, b)
}

// valueInfoMessage writes a ValueInfoProto.
func valueInfoMessage(name string, t graph.Type) *rope {
	r := &rope{}
	r.str(1, name)
	if t.Kind != graph.KindUnknown {
		r.message(2, typeMessage(t))
	}
	return r
}

// typeMessage writes a TypeProto.
func typeMessage(t graph.Type) *rope {
	r, inner := &rope{}, &rope{}
	elem := func(num protowire.Number) {
		e := graph.Type{}
		if t.Elem != nil {
			e = *t.Elem
		}
		inner.message(num, typeMessage(e))
	}
	switch t.Kind {
	case graph.KindTensor:
		inner.int(1, int64(t.DType))
		if t.Shape != nil {
			inner.message(2, shapeMessage(t.Shape))
		}
		r.message(1, inner)
	case graph.KindSequence:
		elem(1)
		r.message(4, inner)
	case graph.KindMap:
		inner.int(1, int64(t.DType))
		elem(2)
		r.message(5, inner)
	case graph.KindOptional:
		elem(1)
		r.message(9, inner)
	case graph.KindUnknown: // an empty TypeProto
	}
	return r
}

// shapeMessage writes a TensorShapeProto; expressions stand as names, which are read back.
func shapeMessage(s graph.Shape) *rope {
	r := &rope{}
	for _, d := range s {
		dim := &rope{}
		if n, ok := d.Const(); ok {
			dim.int(1, n)
		} else {
			dim.str(2, d.String())
		}
		r.message(1, dim)
	}
	return r
}
