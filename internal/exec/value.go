package exec

import (
	"slices"

	"github.com/carve-dev/carve/graph/tensor"
)

// copyValue returns v with storage of its own, so that it outlives the arena. Sequences, optionals and maps, and what they hold, are changed
// by nobody and lie outside of it already: they are shared.
func copyValue(v tensor.Value) (tensor.Value, error) {
	if t, ok := v.(*tensor.Tensor); ok {
		return t.Clone()
	}
	return v, nil
}

// ownValue returns v with all of its storage copied, for the caller to keep.
func ownValue(v tensor.Value) (tensor.Value, error) {
	var err error
	switch v := v.(type) {
	case *tensor.Sequence:
		if out, ok := ownMaps(v); ok {
			return out, nil
		}
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

// ownMaps is ownValue for a sequence of maps of vectors of numbers, as classifiers give them for each row: in a few pieces of memory for all.
// ok is false for any other one.
func ownMaps(v *tensor.Sequence) (out *tensor.Sequence, ok bool) {
	const worth = 8 // maps
	if len(v.Items) < worth {
		return nil, false
	}
	var ints, words, bytes int
	for _, item := range v.Items {
		m, ok := item.(*tensor.Map)
		if !ok || m == nil {
			return nil, false
		}
		t, ok := m.Values.(*tensor.Tensor)
		if !ok || t == nil || t.Check() != nil || len(t.Shape) != 1 || t.Bytes() == nil {
			return nil, false
		}
		ints, words, bytes = ints+len(m.IntKeys), words+len(m.StringKeys), bytes+room(t)
	}
	all, err := tensor.New(tensor.Uint8, bytes)
	if err != nil {
		return nil, false
	}
	var (
		maps    = make([]tensor.Map, len(v.Items))
		tensors = make([]tensor.Tensor, len(v.Items))
		shapes  = make([]int, len(v.Items))
		numbers = make([]int64, ints)
		strs    = make([]string, words)
	)
	out = &tensor.Sequence{DType: v.DType, Items: make([]tensor.Value, len(v.Items))}
	for i, item := range v.Items {
		m := item.(*tensor.Map)
		t := m.Values.(*tensor.Tensor)
		data := cut(&all.Data, room(t))
		data = data[:copy(data, t.Bytes())]
		shapes[i] = t.Shape[0]
		tensors[i] = tensor.Tensor{DType: t.DType, Shape: shapes[i : i+1 : i+1], Data: data}
		maps[i].Values = &tensors[i]
		if maps[i].IntKeys = cut(&numbers, len(m.IntKeys)); m.IntKeys == nil {
			maps[i].IntKeys = nil
		}
		if maps[i].StringKeys = cut(&strs, len(m.StringKeys)); m.StringKeys == nil {
			maps[i].StringKeys = nil
		}
		copy(maps[i].IntKeys, m.IntKeys)
		copy(maps[i].StringKeys, m.StringKeys)
		out.Items[i] = &maps[i]
	}
	return out, true
}

// room returns the bytes of a tensor, with those behind it up to where elements of any type may begin.
func room(t *tensor.Tensor) int {
	const align = 16
	return (t.NumBytes() + align - 1) / align * align
}

// cut takes the first n elements off a slice.
func cut[T any](s *[]T, n int) []T {
	part := (*s)[:n:n]
	*s = (*s)[n:]
	return part
}
