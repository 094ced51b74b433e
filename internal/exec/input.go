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
	bad := func(x *fault) error { return x.port(v.Name, ErrInput) }
	o := Operand{Tensor: t}
	if t != nil && !t.Device.IsHost() {
		return nil, bad(&fault{"not on the host", "host", t.Device.String()})
	}
	if x := checkTensor(v, &o); x != nil {
		return nil, bad(x)
	}
	if o.plain() {
		return t, nil
	}
	c, err := t.Clone()
	if err != nil {
		return nil, bad(&fault{problem: err.Error()})
	}
	return c, nil
}

// port returns the error of an input or output.
func (x *fault) port(name string, kind error) error {
	return &PortError{Name: name, Problem: x.problem, Expected: x.expected, Found: x.found, Kind: kind}
}

// checkInput validates input i.
func (s *Session) checkInput(i int) error { return s.m.checkInput(i, &s.ins[i]) }

func (m *Machine) checkInput(i int, o *Operand) error {
	v := m.main.Graph.Inputs[i]
	if x := m.checkOperand(v, o); x != nil {
		return x.port(v.Name, ErrInput)
	}
	return nil
}

func (s *Session) badOutput(i int, problem, expected, found string) error {
	return s.m.badOutput(i, problem, expected, found)
}

func (m *Machine) badOutput(i int, problem, expected, found string) error {
	return &PortError{Name: m.env.OutputNames[i], Problem: problem, Expected: expected, Found: found, Kind: ErrOutput}
}

// checkOutput validates output i before a run, as far as its shape is known: dims where it is not nil.
func (m *Machine) checkOutput(i int, dims []int, ins, outs []Operand) error {
	o := &outs[i]
	if o.Tensor == nil {
		return nil
	}
	v := m.main.Slots[m.main.Outputs[i]].Value
	if x := m.checkOperand(v, o); x != nil {
		return x.port(m.env.OutputNames[i], ErrOutput)
	}
	if dims != nil && !slices.Equal(dims, o.Shape) {
		return m.badOutput(i, "wrong shape", fmt.Sprint(dims), fmt.Sprint(o.Shape))
	}
	if o.DType == tensor.String && !o.IsCompact() {
		return m.badOutput(i, "strings have no strides", "none", fmt.Sprint(o.Strides))
	}
	if !disjoint(o.Tensor) {
		return m.badOutput(i, "its elements share memory", "a place for each", fmt.Sprintf("strides %v of %v", o.Strides, o.Shape))
	}
	if o.Device.IsHost() && !alignedTo(o.Tensor, 1) {
		size := min(o.DType.Size(), 8)
		at := uintptr(unsafe.Pointer(&o.Data[o.Offset])) % uintptr(size)
		return m.badOutput(i, "storage is not aligned for its dtype", fmt.Sprintf("a multiple of %d bytes", size), fmt.Sprintf("%d beyond one", at))
	}
	for k := range ins {
		if ins[k].Tensor != nil && m.overlap(o, &ins[k]) && !m.inPlace(i, k, o, &ins[k]) {
			return m.badOutput(i, "overlaps input "+m.main.Graph.Inputs[k].Name, "", "")
		}
	}
	for k := range outs[:i] {
		if outs[k].Tensor != nil && m.overlap(o, &outs[k]) {
			return m.badOutput(i, "overlaps output "+m.env.OutputNames[k], "", "")
		}
	}
	return nil
}
