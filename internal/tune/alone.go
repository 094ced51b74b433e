package tune

import (
	"fmt"
	"maps"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// NodeName is the name of the only node of the graphs that are measured.
const NodeName = "measured"

// alone returns a graph of one node like n, whose inputs are n's operands with these values of the symbols, and whose outputs are
// its results. Constants are shared. The error wraps graph.ErrUnbound where a shape is not known.
func alone(n *graph.Node, at graph.Bindings) (*graph.Graph, error) {
	g := graph.New("")
	outer := n.Graph()
	for outer.Owner() != nil {
		outer = outer.Owner().Graph()
	}
	g.Opsets = maps.Clone(outer.Opsets)
	known := map[*graph.Value]*graph.Value{}
	spec := graph.NodeSpec{Op: n.Op, Name: NodeName, Attrs: n.Attrs, Origins: []string{NodeName}}
	for i, v := range n.Inputs {
		if v != nil && known[v] == nil {
			in, err := operand(g, v, fmt.Sprintf("x%d", i), at)
			if err != nil {
				return nil, err
			}
			known[v] = in
		}
		spec.Inputs = append(spec.Inputs, known[v])
	}
	for i, v := range n.Outputs {
		name := ""
		if v != nil {
			name = fmt.Sprintf("y%d", i)
		}
		spec.Outputs = append(spec.Outputs, name)
	}
	for _, r := range n.Regions {
		body, err := r.Graph.Clone()
		if err != nil {
			return nil, err
		}
		if err := bind(body, at); err != nil {
			return nil, err
		}
		spec.Regions = append(spec.Regions, graph.Region{Name: r.Name, Graph: body})
	}
	m := g.AddNode(spec)
	var outputs []*graph.Value
	for i, v := range n.Outputs {
		if v == nil {
			continue
		}
		out := m.Outputs[i]
		out.Type, out.Dims = v.Type, v.Dims
		if err := settle(out, at); err != nil {
			return nil, err
		}
		outputs = append(outputs, out)
	}
	g.SetOutputs(outputs...)
	return g, nil
}

// operand adds what a node reads: a constant, also of what is known of a shape, or an input.
func operand(g *graph.Graph, v *graph.Value, name string, at graph.Bindings) (*graph.Value, error) {
	if v.IsConst() {
		c := g.AddConst(name, v.Const)
		c.Type = v.Type
		return c, nil
	}
	if v.Dims != nil && !v.HasUnknown() && v.Type.Shape.Known() && (v.Type.DType == tensor.Int64 || v.Type.DType == tensor.Int32) {
		shape, err := v.Type.Shape.Eval(at, nil)
		if err != nil {
			return nil, err
		}
		t, err := tensor.New(v.Type.DType, shape...)
		if err != nil {
			return nil, err
		}
		for i, d := range v.Dims {
			n, err := d.Eval(at)
			if err != nil {
				return nil, err
			}
			if v.Type.DType == tensor.Int64 {
				tensor.Of[int64](t)[i] = n
			} else {
				tensor.Of[int32](t)[i] = int32(n)
			}
		}
		return g.AddConst(name, t), nil
	}
	in := g.AddInput(name, v.Type)
	return in, settle(in, at)
}

// bind gives the types of a region's values these values of the symbols.
func bind(g *graph.Graph, at graph.Bindings) error {
	for _, vs := range [][]*graph.Value{g.Inputs, g.Captures} {
		for _, v := range vs {
			if err := settle(v, at); err != nil {
				return err
			}
		}
	}
	for n := range g.Nodes() {
		for _, v := range n.Outputs {
			if v == nil {
				continue
			}
			if err := settle(v, at); err != nil {
				return err
			}
		}
		for _, r := range n.Regions {
			if err := bind(r.Graph, at); err != nil {
				return err
			}
		}
	}
	return nil
}

// settle gives a value's shape and known content these values of the symbols.
func settle(v *graph.Value, at graph.Bindings) error {
	for _, list := range []*[]graph.Dim{(*[]graph.Dim)(&v.Type.Shape), &v.Dims} {
		if *list == nil {
			continue
		}
		out := make([]graph.Dim, len(*list))
		for i, d := range *list {
			n, err := d.Eval(at)
			if err != nil {
				return err
			}
			out[i] = graph.D(int(n))
		}
		*list = out
	}
	return nil
}
