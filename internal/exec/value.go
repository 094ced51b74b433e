package exec

import (
	"slices"

	"github.com/carve-dev/carve/graph/tensor"
)

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
	case *tensor.Map:
		values, err := ownValue(v.Values)
		return &tensor.Map{IntKeys: slices.Clone(v.IntKeys), StringKeys: slices.Clone(v.StringKeys), Values: values}, err
	}
	return copyValue(v)
}
