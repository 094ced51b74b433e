package main

// #include "table.h"
import "C"

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// described is a graph of the host's as one of carve.
type described struct {
	g       *graph.Graph
	nodes   []*graph.Node // by the host's index
	outputs [][]uint32    // the symbols of each output's open dims
	sizes   []int         // constants that are told at a session alone, sizes of operands: the last inputs of g
}

// read rebuilds a graph, with its types.
func (u *unit) read(g *C.carve_graph) (*described, error) {
	d := &described{g: graph.New("group")}
	cs := unsafe.Slice(g.values, int(g.n_values))
	values := make([]*graph.Value, len(cs))
	name := valueName
	input := func(i uint32) {
		values[i] = d.g.AddInput(name(i), typeOf(cs[i]))
	}
	for _, i := range indices(g.inputs, g.n_inputs) {
		input(i)
	}
	for k, i := range indices(g.constants, g.n_constants) {
		if cs[i].constant == nil {
			d.sizes = append(d.sizes, k)
			input(i)
			continue
		}
		t, err := u.constant(cs[i].constant)
		if err != nil {
			return nil, err
		}
		values[i] = d.g.AddConst(name(i), t)
	}
	for _, n := range unsafe.Slice(g.nodes, int(g.n_nodes)) {
		spec := graph.NodeSpec{Op: graph.Op{Domain: text(n.domain), Name: text(n.op), Since: int(n.since)}, Name: text(n.name)}
		for _, i := range indices(n.inputs, n.n_inputs) {
			if i == C.CARVE_NO_VALUE {
				spec.Inputs = append(spec.Inputs, nil)
				continue
			}
			if values[i] == nil {
				return nil, fmt.Errorf("%w: node %q reads value %d before it is made", errArgument, spec.Name, i)
			}
			spec.Inputs = append(spec.Inputs, values[i])
		}
		outputs := indices(n.outputs, n.n_outputs)
		for _, i := range outputs {
			if i == C.CARVE_NO_VALUE {
				spec.Outputs = append(spec.Outputs, "")
				continue
			}
			spec.Outputs = append(spec.Outputs, name(i))
		}
		for _, a := range unsafe.Slice(n.attrs, int(n.n_attrs)) {
			x, err := attr(a)
			if err != nil {
				return nil, err
			}
			spec.Attrs = append(spec.Attrs, x)
		}
		node := d.g.AddNode(spec)
		d.nodes = append(d.nodes, node)
		for k, i := range outputs {
			if i != C.CARVE_NO_VALUE {
				values[i] = node.Outputs[k]
			}
		}
	}
	var outputs []*graph.Value
	for _, i := range indices(g.outputs, g.n_outputs) {
		outputs = append(outputs, values[i])
		var symbols []uint32
		if c := cs[i]; c.symbols != nil {
			symbols = slices.Clone(unsafe.Slice((*uint32)(unsafe.Pointer(c.symbols)), int(c.ndim)))
		}
		d.outputs = append(d.outputs, symbols)
	}
	d.g.SetOutputs(outputs...)
	return d, graph.InferGraph(d.g)
}

func indices(p *C.uint32_t, n C.uint32_t) []uint32 {
	return unsafe.Slice((*uint32)(unsafe.Pointer(p)), int(n))
}

// typeOf is the type of a value. Open dims go by the numbers of their symbols.
func typeOf(v *C.carve_value) graph.Type {
	t := graph.TensorType(tensor.DType(v._type), nil)
	if v.ndim < 0 {
		return t
	}
	t.Shape = graph.Shape{}
	for k, n := range unsafe.Slice(v.dims, int(v.ndim)) {
		if n >= 0 {
			t.Shape = append(t.Shape, graph.D(int(n)))
			continue
		}
		t.Shape = append(t.Shape, graph.Sym(fmt.Sprintf("s%d", unsafe.Slice(v.symbols, int(v.ndim))[k])))
	}
	return t
}

// constant is a constant, where it lies.
func (u *unit) constant(c *C.carve_tensor) (*tensor.Tensor, error) {
	t := &tensor.Tensor{DType: tensor.DType(c._type), Shape: dims(c)}
	var err error
	t.Data, err = u.storage(c, t.NumBytes())
	return t, err
}

func dims(c *C.carve_tensor) []int {
	out := make([]int, int(c.ndim))
	for i, n := range unsafe.Slice(c.shape, int(c.ndim)) {
		out[i] = int(n)
	}
	return out
}

// attr copies an attribute.
func attr(a *C.carve_attr) (graph.Attr, error) {
	x := graph.Attr{Name: text(a.name)}
	n := int(a.n)
	switch a._type {
	case C.CARVE_ATTR_FLOAT:
		x.Kind, x.Float = graph.AttrFloat, float32(a.f)
	case C.CARVE_ATTR_INT:
		x.Kind, x.Int = graph.AttrInt, int64(a.i)
	case C.CARVE_ATTR_STRING:
		x.Kind, x.Str = graph.AttrString, text(a.s)
	case C.CARVE_ATTR_TENSOR:
		c := a.tensor
		t, err := (*unit)(nil).constant(c)
		if err == nil {
			x.Kind = graph.AttrTensor
			x.Tensor, err = t.Clone()
		}
		return x, err
	case C.CARVE_ATTR_FLOATS:
		x.Kind, x.Floats = graph.AttrFloats, append([]float32{}, unsafe.Slice((*float32)(unsafe.Pointer(a.floats)), n)...)
	case C.CARVE_ATTR_INTS:
		x.Kind, x.Ints = graph.AttrInts, append([]int64{}, unsafe.Slice((*int64)(unsafe.Pointer(a.ints)), n)...)
	case C.CARVE_ATTR_STRINGS:
		x.Kind = graph.AttrStrings
		for _, s := range unsafe.Slice(a.strings, n) {
			x.Strs = append(x.Strs, text(s))
		}
	default:
		return x, fmt.Errorf("%w: attribute %q of kind %d", errArgument, x.Name, a._type)
	}
	return x, nil
}

// valueName is the name of the host's value i.
func valueName(i uint32) string { return fmt.Sprintf("v%d", i) }
