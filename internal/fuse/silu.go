package fuse

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/property"
)

// SiluName is the name of the property Silu.
const SiluName = "silu"

// Silu returns the property of v·sigmoid(v) in float32, also where v has other readers.
func Silu() property.SubgraphProperty {
	return property.Found(SiluName, 2, func(n *graph.Node) []*graph.Node {
		if !n.Is("Sigmoid") || n.Inputs[0].Type.DType != tensor.Float32 || !n.Inputs[0].Type.Backed() {
			return nil
		}
		m := Next(n.Outputs[0])
		if m == nil || !m.Is("Mul") || Other(m, n.Outputs[0]) != n.Inputs[0] {
			return nil
		}
		return []*graph.Node{n, m}
	})
}

// siluOf returns the Sigmoid and Mul of v·sigmoid(v) where nothing else reads v.
func siluOf(v *graph.Value) (sigmoid, mul *graph.Node) {
	if v.IsOutput() || v.NumUses() != 2 {
		return nil, nil
	}
	for _, u := range v.Uses() {
		switch {
		case u.Node.Is("Sigmoid"):
			sigmoid = u.Node
		case u.Node.Is("Mul"):
			mul = u.Node
		}
	}
	if sigmoid == nil || mul == nil || Next(sigmoid.Outputs[0]) != mul {
		return nil, nil
	}
	return sigmoid, mul
}
