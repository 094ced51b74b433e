package exec

import (
	"context"
	"slices"
	"unsafe"

	"github.com/carve-dev/carve/graph/tensor"
)

// callers returns the caller's output that a group writes a result to whose shape depends on data, nil where there is none: one of this
// dtype and shape, which lies as results made for the run do. Strings have no place in common with another operand's; of other
// operands checkOutput has seen to that.
func (f *frame) callers(slot int, dt tensor.DType, shape []int) *tensor.Tensor {
	b := f.s.block
	if f.into == nil || !b.Slots[slot].own {
		return nil
	}
	i := slices.Index(b.Outputs, slot)
	if i < 0 || f.special(i) || f.into[i].Tensor == nil {
		return nil
	}
	o := f.into[i].Tensor
	if o.DType != dt || !slices.Equal(o.Shape, shape) || !f.into[i].plain() || o.Strings == nil && !pageLike(o) || f.session.reaches(i) || f.sharesTexts(i) {
		return nil
	}
	return o
}

// Provide returns a tensor of this type and shape for output i, which overlaps no operand and begins as those do that runs make, or nil.
type Provide func(i int, dt tensor.DType, shape []int) (*tensor.Tensor, error)

// RunProvided is RunNamed with outputs, of shapes that depend on data, where provide says.
func (s *Session) RunProvided(ctx context.Context, values []tensor.Value, provide Provide) (map[string]tensor.Value, error) {
	s.provide = provide
	defer func() { s.provide = nil }()
	return s.RunNamed(ctx, values)
}

// provided returns what the session's Provide says for the output in a slot, nil where it says nothing.
func (f *frame) provided(slot int, dt tensor.DType, shape []int) (*tensor.Tensor, error) {
	b := f.s.block
	if f.session.provide == nil || !b.callers(slot) || dt == tensor.String {
		return nil, nil
	}
	i := slices.Index(b.Outputs, slot)
	if i < 0 {
		return nil, nil
	}
	t, err := f.session.provide(i, dt, shape)
	if t == nil || err != nil || t.DType != dt || !slices.Equal(t.Shape, shape) || !pageLike(t) {
		return nil, err
	}
	return t, nil
}

// pageLike reports whether a tensor that has elements begins at a multiple of tensor.Alignment, as those that runs make.
func pageLike(t *tensor.Tensor) bool {
	return t.Offset < len(t.Data) && uintptr(unsafe.Pointer(&t.Data[t.Offset]))%tensor.Alignment == 0
}

// sharesTexts reports whether the caller's output i has a place of a string in common with an input or another output.
func (f *frame) sharesTexts(i int) bool {
	o := f.into[i].Tensor
	for k := range f.session.ins {
		if shareTexts(o, f.session.ins[k].Tensor) {
			return true
		}
	}
	for k := range f.into {
		if k != i && shareTexts(o, f.into[k].Tensor) {
			return true
		}
	}
	return false
}

// shareTexts reports whether two tensors have a place of a string in common.
func shareTexts(a, b *tensor.Tensor) bool {
	if b == nil || len(a.Strings) == 0 || len(b.Strings) == 0 {
		return false
	}
	size := unsafe.Sizeof(a.Strings[0])
	x, y := uintptr(unsafe.Pointer(&a.Strings[0])), uintptr(unsafe.Pointer(&b.Strings[0]))
	return x < y+uintptr(len(b.Strings))*size && y < x+uintptr(len(a.Strings))*size
}

// letCallersGo ends a run that may have written to the caller's outputs, which are not kept.
func (f *frame) letCallersGo() {
	for i := range f.into {
		slot := f.s.block.Outputs[i]
		if f.into[i].Tensor != nil && f.s.block.Slots[slot].own {
			t := &f.tensors[slot]
			t.Shape, t.Data, t.Offset, t.Strings, f.values[slot] = f.s.dims[slot], nil, 0, nil, nil
		}
	}
	f.into = nil
}
