package exec

import (
	"fmt"
	"slices"
	"unsafe"

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
		return nil, &PortError{Name: v.Name, Problem: "wrong type", Expected: v.Type.String(), Found: found, Kind: ErrInput}
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
		return hostMap(v, elem, x, depth)
	}
	return bad(fmt.Sprintf("%T", x))
}

// hostMap checks a map's keys and values, and returns it with one value a key.
func hostMap(v *graph.Value, elem graph.Type, m *tensor.Map, depth int) (tensor.Value, error) {
	items, err := m.Items()
	if err != nil {
		return nil, &PortError{Name: v.Name, Problem: err.Error(), Expected: v.Type.String(), Found: "a map", Kind: ErrInput}
	}
	elem.Shape = nil // files hold one number as [1] too
	s := &tensor.Sequence{DType: elem.DType, Items: make([]tensor.Value, len(items))}
	for i, item := range items {
		if s.Items[i], err = hostParts(v, elem, item, depth+1); err != nil {
			return nil, err
		}
	}
	return &tensor.Map{IntKeys: m.IntKeys, StringKeys: m.StringKeys, Values: s}, nil
}

// hostInput checks an input tensor against its port and returns it compact, on the host, aligned for its dtype.
func hostInput(v *graph.Value, t *tensor.Tensor) (*tensor.Tensor, error) {
	bad := func(problem, expected, found string) error {
		return &PortError{Name: v.Name, Problem: problem, Expected: expected, Found: found, Kind: ErrInput}
	}
	if t == nil {
		return nil, bad("missing", v.Type.String(), "nothing")
	}
	if t.DType != v.Type.DType && v.Type.DType != tensor.Invalid {
		return nil, bad("wrong dtype", v.Type.DType.Name(), t.DType.Name())
	}
	if err := t.Check(); err != nil {
		return nil, bad(err.Error(), v.Type.String(), t.String())
	}
	if !t.Device.IsHost() {
		return nil, bad("not on the host", "host", t.Device.String())
	}
	if s := v.Type.Shape; s.Known() {
		ok := len(s) == len(t.Shape)
		for k := 0; ok && k < len(s); k++ {
			c, isConst := s[k].Const()
			ok = !isConst || int(c) == t.Shape[k]
		}
		if !ok {
			return nil, bad("wrong shape", s.String(), fmt.Sprint(t.Shape))
		}
	}
	if t.DType != tensor.String && (!t.IsCompact() || Misaligned(t)) {
		c, err := t.Clone()
		if err != nil {
			return nil, bad(err.Error(), "", "")
		}
		return c, nil
	}
	return t, nil
}

// Misaligned reports whether a host tensor lies at an address that is unfit for its dtype.
func Misaligned(t *tensor.Tensor) bool {
	b, size := t.Bytes(), t.DType.Size()
	return size > 1 && len(b) > 0 && uintptr(unsafe.Pointer(unsafe.SliceData(b)))%uintptr(min(size, 8)) != 0
}

func (s *Session) badOutput(i int, problem, expected, found string) error {
	return &PortError{Name: s.m.env.OutputNames[i], Problem: problem, Expected: expected, Found: found, Kind: ErrOutput}
}

// checkOutput validates output i before the run, as far as its shape is known.
func (s *Session) checkOutput(f *frame, i, slot int, inputs, outputs []*tensor.Tensor) error {
	o := outputs[i]
	if o == nil {
		return nil
	}
	if err := o.Check(); err != nil {
		return s.badOutput(i, err.Error(), "", "")
	}
	v := s.m.main.Slots[slot].Value
	if o.DType != v.Type.DType || !o.IsCompact() || !o.Device.IsHost() {
		return s.badOutput(i, "must be a compact host tensor of the right dtype", v.Type.String(), o.String())
	}
	if d := f.s.dims[slot]; d != nil && !slices.Equal(d, o.Shape) {
		return s.badOutput(i, "wrong shape", fmt.Sprint(d), fmt.Sprint(o.Shape))
	}
	if Misaligned(o) {
		return s.badOutput(i, "storage is not aligned for its dtype", "", "")
	}
	b := o.Bytes()
	for k, in := range inputs {
		if in != nil && overlaps(b, in.Bytes()) {
			return s.badOutput(i, "overlaps input "+s.m.main.Graph.Inputs[k].Name, "", "")
		}
	}
	for k, other := range outputs[:i] {
		if other != nil && overlaps(b, other.Bytes()) {
			return s.badOutput(i, "overlaps output "+s.m.env.OutputNames[k], "", "")
		}
	}
	return nil
}

// overlaps reports whether two host storages share a byte.
func overlaps(a, b []byte) bool {
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	a0, b0 := uintptr(unsafe.Pointer(unsafe.SliceData(a))), uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return a0 < b0+uintptr(len(b)) && b0 < a0+uintptr(len(a))
}
