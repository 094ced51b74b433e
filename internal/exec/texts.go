package exec

import (
	"slices"
	"unsafe"

	"github.com/carve-dev/carve/graph/tensor"
)

// callers returns the caller's output that a slot's strings may be written to, nil where there is none: one of this shape, which is no
// other output and has no string in common with an operand.
func (f *frame) callers(slot int, dt tensor.DType, shape []int) *tensor.Tensor {
	b := f.s.block
	if f.texts == nil || dt != tensor.String || !b.Slots[slot].own {
		return nil
	}
	i := slices.Index(b.Outputs, slot)
	if i < 0 || f.texts[i].Tensor == nil || !slices.Equal(f.texts[i].Shape, shape) {
		return nil
	}
	o := f.texts[i].Tensor
	for k := range f.session.ins {
		if shareTexts(o, f.session.ins[k].Tensor) {
			return nil
		}
	}
	for k := range f.texts {
		if k != i && shareTexts(o, f.texts[k].Tensor) {
			return nil
		}
	}
	return o
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

// letTextsGo ends a run that may have written strings to the caller's outputs, which are not kept.
func (f *frame) letTextsGo() {
	for i := range f.texts {
		slot := f.s.block.Outputs[i]
		if t := &f.tensors[slot]; f.texts[i].Tensor != nil && t.DType == tensor.String && f.s.block.Slots[slot].own {
			t.Shape, t.Strings, f.values[slot] = f.s.dims[slot], nil, nil
		}
	}
	f.texts = nil
}
