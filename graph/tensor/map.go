package tensor

import (
	"fmt"
	"slices"
)

// Map holds keys (integers or strings, one of the two) with their values, in the order of the file. Values is a *Sequence
// of one value a key, or a *Tensor whose first axis runs over the keys.
type Map struct {
	IntKeys    []int64
	StringKeys []string
	Values     Value
}

// Len returns the number of keys.
func (m *Map) Len() int { return len(m.IntKeys) + len(m.StringKeys) }

// Items returns the values as one value a key. Items of a tensor are copies without its first axis. An error wraps
// ErrShape where there are not as many values as keys, or keys of both types.
func (m *Map) Items() ([]Value, error) {
	if len(m.IntKeys) > 0 && len(m.StringKeys) > 0 {
		return nil, fmt.Errorf("%w: map with keys of two types", ErrShape)
	}
	n := m.Len()
	switch v := m.Values.(type) {
	case *Sequence:
		if v != nil && len(v.Items) == n {
			return v.Items, nil
		}
	case *Tensor:
		if v != nil && len(v.Shape) > 0 && v.Shape[0] == n {
			return rows(v)
		}
	}
	return nil, fmt.Errorf("%w: map of %d keys whose values are no sequence or tensor of as many", ErrShape, n)
}

// rows returns copies of the rows of t along its first axis.
func rows(t *Tensor) ([]Value, error) {
	if t.DType.IsPacked() {
		return nil, fmt.Errorf("%w: map of %v", ErrUnsupported, t.DType)
	}
	c, err := t.Clone() // compact
	if err != nil {
		return nil, err
	}
	out := make([]Value, t.Shape[0])
	for i := range out {
		row, err := New(t.DType, t.Shape[1:]...)
		if err != nil {
			return nil, err
		}
		copy(row.Strings, c.Strings[min(i*row.Len(), len(c.Strings)):])
		copy(row.Data, c.Data[min(i*len(row.Data), len(c.Data)):])
		out[i] = row
	}
	return out, nil
}

// Dense returns the values as one tensor whose first axis runs over the keys: the map's own where it holds one, otherwise
// the tensors of its sequence joined; one of a single element counts as a scalar. An error wraps ErrShape or ErrDType
// where they do not fit together.
func (m *Map) Dense() (*Tensor, error) {
	items, err := m.Items()
	if err != nil {
		return nil, err
	}
	if t, ok := m.Values.(*Tensor); ok {
		return t, nil
	}
	if len(items) == 0 {
		return New(denseType(m.Values.(*Sequence).DType), 0)
	}
	first, ok := items[0].(*Tensor)
	if !ok || first == nil {
		return nil, fmt.Errorf("%w: a map of %vs where one of tensors is expected", ErrShape, KindOf(items[0]))
	}
	shape := []int{len(items)}
	if first.Len() != 1 {
		shape = append(shape, first.Shape...)
	}
	out, err := New(first.DType, shape...)
	if err != nil {
		return nil, err
	}
	for i, item := range items {
		t, ok := item.(*Tensor)
		if !ok || t == nil || t.DType != first.DType || !slices.Equal(t.Shape, first.Shape) {
			return nil, fmt.Errorf("%w: value %d of a map is not like the first, %v", ErrShape, i, first)
		}
		if t.DType.IsPacked() {
			return nil, fmt.Errorf("%w: map of %v", ErrUnsupported, t.DType)
		}
		data, err := hostBytes(t)
		if err != nil {
			return nil, err
		}
		n := first.Len()
		copy(out.Strings[min(i*n, len(out.Strings)):], t.Strings)
		copy(out.Data[min(i*len(data), len(out.Data)):], data)
	}
	return out, nil
}

// denseType is the element type of the tensor that an empty map's values make: float32 where its sequence has none.
func denseType(dt DType) DType {
	if dt.Valid() {
		return dt
	}
	return Float32
}
