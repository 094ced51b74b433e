package carve

import (
	"fmt"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// hostValue checks an input against its port, in depth, and returns it with its tensors compact, on the host and aligned.
// A tensor that needs no change is returned as it is.
func hostValue(v *graph.Value, x tensor.Value) (tensor.Value, error) {
	if t, ok := x.(*tensor.Tensor); ok && (v.Type.IsTensor() || v.Type.Kind == graph.KindUnknown) {
		return hostInput(v, t)
	}
	return hostParts(v, v.Type, x, 0)
}

// maxValueDepth bounds how deep sequences, optionals and maps may nest in each other.
const maxValueDepth = 16

func hostParts(v *graph.Value, t graph.Type, x tensor.Value, depth int) (tensor.Value, error) {
	bad := func(found string) (tensor.Value, error) {
		return nil, &InputError{Name: v.Name, Problem: "wrong type", Expected: v.Type.String(), Found: found, kind: ErrInput}
	}
	elem := graph.Type{}
	if t.Elem != nil {
		elem = *t.Elem
	}
	known := t.Kind != graph.KindUnknown
	switch x := x.(type) {
	case *tensor.Tensor:
		if known && t.Kind != graph.KindTensor || x == nil {
			return bad(fmt.Sprint(x))
		}
		return hostInput(&graph.Value{Name: v.Name, Type: t}, x)
	case *tensor.Sequence:
		if x == nil || known && t.Kind != graph.KindSequence || depth == maxValueDepth {
			return bad("a sequence")
		}
		out := &tensor.Sequence{DType: x.DType, Items: make([]tensor.Value, len(x.Items))}
		for i, item := range x.Items {
			var err error
			if out.Items[i], err = hostParts(v, elem, item, depth+1); err != nil {
				return nil, err
			}
		}
		return out, nil
	case *tensor.Optional:
		if x == nil || known && t.Kind != graph.KindOptional || depth == maxValueDepth {
			return bad("an optional")
		}
		if x.Item == nil {
			return x, nil
		}
		item, err := hostParts(v, elem, x.Item, depth+1)
		return &tensor.Optional{Item: item}, err
	case *tensor.Map:
		if x == nil || known && t.Kind != graph.KindMap || depth == maxValueDepth {
			return bad("a map")
		}
		return x, nil
	}
	return bad(fmt.Sprintf("%T", x))
}

// copyValue returns v with storage of its own, so that it outlives the arena. Items of sequences, and what optionals and
// maps hold, lie outside of it already and are shared.
func copyValue(v tensor.Value) (tensor.Value, error) {
	switch v := v.(type) {
	case *tensor.Tensor:
		return v.Clone()
	case *tensor.Sequence:
		out := &tensor.Sequence{DType: v.DType, Items: make([]tensor.Value, len(v.Items))}
		copy(out.Items, v.Items)
		return out, nil
	}
	return v, nil
}

// ownValue returns v with all of its storage copied, for the caller to keep.
func ownValue(v tensor.Value) (tensor.Value, error) {
	var err error
	switch v := v.(type) {
	case *tensor.Sequence:
		out := &tensor.Sequence{DType: v.DType, Items: make([]tensor.Value, len(v.Items))}
		for i, item := range v.Items {
			if out.Items[i], err = ownValue(item); err != nil {
				return nil, err
			}
		}
		return out, nil
	case *tensor.Optional:
		if v.Item == nil {
			return &tensor.Optional{}, nil
		}
		item, err := ownValue(v.Item)
		return &tensor.Optional{Item: item}, err
	}
	return copyValue(v)
}
