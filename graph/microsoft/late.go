package microsoft

import (
	"errors"
	"maps"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// untold is what ends an expansion that needs a rank, or a number for a dim, that the model leaves to a run.
type untold struct {
	err error
	dim graph.Dim // the number 0 for a rank
}

func (u *untold) Error() string { return u.err.Error() }

func (u *untold) Unwrap() error { return u.err }

// waits reports whether a node stays until a run tells what its expansion needs.
func (x *operator) waits(err error) bool {
	var u *untold
	return x.graphs == nil && errors.As(err, &u)
}

// Waits reports whether a node is of an operator that Expand leaves where it needs ranks or sizes that only a run tells, and for which there is no other
// kernel: ExpandFor says it then.
func Waits(n *graph.Node) bool {
	x := known[n.Schema]
	return x != nil && x.expand != nil && x.eval == nil && x.graphs == nil
}

// ExpandFor returns a graph of standard operators without inputs that computes the results of a node, for which Waits is true, of these operands; nil is for one that
// is omitted. Operands are constants of the graph, and results are as many outputs, without those that the node omits. The errors are those of Expand.
func ExpandFor(n *graph.Node, operands []*tensor.Tensor) (*graph.Graph, error) {
	g := graph.New(n.Name)
	outer := n.Graph()
	for outer.Owner() != nil {
		outer = outer.Owner().Graph()
	}
	g.Opsets = maps.Clone(outer.Opsets)
	spec := graph.NodeSpec{Name: n.Name, Op: n.Op, Attrs: n.Attrs, Origins: n.Provenance(), Inputs: make([]*graph.Value, len(operands)), Outputs: make([]string, len(n.Outputs))}
	for i, t := range operands {
		if t != nil {
			spec.Inputs[i] = g.AddConst(n.Inputs[i].Name, t)
		}
	}
	for i, v := range n.Outputs {
		if v != nil {
			spec.Outputs[i] = v.Name
		}
	}
	var outputs []*graph.Value
	for _, v := range g.AddNode(spec).Outputs {
		if v != nil {
			outputs = append(outputs, v)
		}
	}
	g.SetOutputs(outputs...)
	if err := graph.InferGraph(g); err != nil {
		return nil, err
	}
	for m := range g.Nodes() {
		if err := expandNode(m); err != nil {
			return nil, err
		}
		break
	}
	g.Compact()
	return g, g.Sort()
}

// OpenDims returns dims of operands that have to be numbers for other operators to say a node: those of an Attention of the standard, numbers of heads and their
// sizes, or what an operator of this package needs next. Of other nodes there are none.
func OpenDims(n *graph.Node) []graph.Dim {
	if n.Is("Attention") {
		return headDims(n)
	}
	var u *untold
	if !Waits(n) {
		return nil
	}
	c := &op{n: n, g: graph.New(""), in: make([]*graph.Value, len(n.Inputs)), out: make([]*graph.Value, len(n.Outputs))}
	for i, v := range n.Inputs {
		switch {
		case v == nil:
		case v.Const != nil:
			c.in[i] = c.g.AddConst(v.Name, v.Const)
		default:
			c.in[i] = c.g.AddInput(v.Name, v.Type)
		}
	}
	if !errors.As(c.run(known[n.Schema].expand), &u) {
		return nil
	}
	return []graph.Dim{u.dim}
}
