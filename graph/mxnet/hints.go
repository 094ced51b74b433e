package mxnet

import (
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// hint is what the readers of a variable say about it.
type hint struct {
	shape     graph.Shape // nil where they say nothing
	dtype     tensor.DType
	parameter bool // it is a weight, and nothing has its data
}

// inputHints looks at the readers of every variable that has no data: a convolution's weight tells the rank and the channels
// of what it is applied to, a fully connected layer's the columns. Element-wise operators on the way are looked through.
func (s *scope) inputHints(need []bool) []hint {
	out := make([]hint, len(s.sym.Nodes))
	source := make([]int, len(s.sym.Nodes)) // the variable whose shape a node has, itself for a variable, -1 for none
	for i := range s.sym.Nodes {
		n := &s.sym.Nodes[i]
		source[i] = -1
		if !need[i] {
			continue
		}
		if n.IsVariable() {
			source[i] = i
			continue
		}
		args := argumentsOf(n)
		for k, e := range n.Inputs {
			v := &s.sym.Nodes[e.Node]
			if k > 0 && k < len(args) && v.IsVariable() && args[k] != "label" && s.lacks(v) {
				out[e.Node].parameter = true
			}
		}
		if len(n.Inputs) == 0 || source[n.Inputs[0].Node] < 0 {
			continue
		}
		from := source[n.Inputs[0].Node]
		if slices.Contains(sameShape, n.Op) {
			source[i] = from
		}
		if h := &out[from]; h.shape == nil {
			h.shape, h.dtype = s.hintOf(n, s.sym.Nodes[from].Name)
		}
	}
	return out
}

// sameShape are operators whose result has the shape of their input, which hints look through.
var sameShape = []string{"Activation", "Cast", "Dropout", "_copy", "identity", "amp_cast", "BatchNorm", "BatchNorm_v1", "_mul_scalar",
	"_plus_scalar", "_minus_scalar", "_div_scalar", "_contrib_quantize_v2", "BlockGrad", "relu", "sigmoid", "tanh", "clip", "LeakyReLU"}

// lacks reports a variable with neither data nor a shape given.
func (s *scope) lacks(v *Node) bool {
	if _, ok := s.t.params[v.Name]; ok {
		return false
	}
	_, ok := s.t.o.Shapes[v.Name]
	return !ok
}

// hintOf returns what a reader says of its first input.
func (s *scope) hintOf(n *Node, name string) (graph.Shape, tensor.DType) {
	if len(n.Inputs) < 2 {
		return nil, 0
	}
	w := s.t.params[s.sym.Nodes[n.Inputs[1].Node].Name]
	if w == nil || !s.sym.Nodes[n.Inputs[1].Node].IsVariable() {
		return nil, 0
	}
	groups := int64(1)
	if v, ok := n.Attr("num_group"); ok {
		groups, _ = parseInt(v)
	}
	layout, _ := n.Attr("layout")
	last := layout == "NHWC" || layout == "NDHWC" || layout == "NWC"
	switch n.Op {
	case "Convolution", "Convolution_v1", "Deconvolution":
		if len(w.Shape) < 3 || len(w.Shape) > 5 || groups < 1 || groups > 1<<20 {
			return nil, 0
		}
		shape := make(graph.Shape, len(w.Shape))
		for i := range shape {
			shape[i] = symbolFor(name, i)
		}
		switch {
		case n.Op == "Deconvolution":
			shape[1] = graph.D(w.Shape[0])
		case last:
			shape[len(shape)-1] = graph.D(w.Shape[len(w.Shape)-1] * int(groups))
		default:
			shape[1] = graph.D(w.Shape[1] * int(groups))
		}
		return shape, w.DType
	case "FullyConnected":
		if flat, _ := n.Attr("flatten"); len(w.Shape) == 2 && flat != "False" && flat != "0" && flat != "false" {
			return graph.Shape{graph.Sym("batch"), graph.D(w.Shape[1])}, w.DType
		}
	}
	return nil, 0
}
