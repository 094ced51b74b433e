// Package fuse has what backends fuse alike: a kernel with what follows it (Chain), x·sigmoid(x) (Silu) and the shuffle of
// channels (Shuffle). Each is a property that finds the nodes, and a way to read them again from the body of the fused node.
//
// The package imports property and what is below it.
package fuse

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// Next returns the one reader of v, nil where it has several or is an output, or where the reader's first result is omitted: none of
// those that are fused behind others omits it.
func Next(v *graph.Value) *graph.Node {
	if v == nil || !v.HasOneUse() {
		return nil
	}
	n := v.Uses()[0].Node
	if len(n.Outputs) == 0 || n.Outputs[0] == nil {
		return nil
	}
	return n
}

// Other returns the operand of a two-operand node that is not v, nil where there is none.
func Other(n *graph.Node, v *graph.Value) *graph.Value {
	if len(n.Inputs) != 2 || n.Inputs[0] == nil || n.Inputs[1] == nil || n.Inputs[0] == n.Inputs[1] {
		return nil
	}
	if n.Inputs[0] == v {
		return n.Inputs[1]
	}
	return n.Inputs[0]
}

// Outer returns the operand of a fused node that stands for a value of its body, the value itself where there is none.
func Outer(fused *graph.Node, v *graph.Value) *graph.Value {
	if v == nil {
		return nil
	}
	for i, in := range fused.Regions[0].Graph.Inputs {
		if in == v {
			return fused.Inputs[i]
		}
	}
	return v
}

// Outers is Outer for a list.
func Outers(fused *graph.Node, vs []*graph.Value) []*graph.Value {
	out := make([]*graph.Value, len(vs))
	for i, v := range vs {
		out[i] = Outer(fused, v)
	}
	return out
}

// InBody reports whether v is a parameter of a fused node's body.
func InBody(v *graph.Value) bool {
	o := v.Graph().Owner()
	return v.IsInput() && o != nil && o.IsCarve(graph.OpFused)
}

// Behind returns the value that the fused node gets for a parameter of its body, v itself elsewhere: constants are operands
// of fused nodes.
func Behind(v *graph.Value) *graph.Value {
	if v == nil || !InBody(v) {
		return v
	}
	return Outer(v.Graph().Owner(), v)
}

// IsConst reports whether v is a constant, also through the body of a fused node.
func IsConst(v *graph.Value) bool { c := Behind(v); return c != nil && c.IsConst() }

// Scalar returns the number that a constant float32 of one element holds.
func Scalar(v *graph.Value) (float32, bool) {
	v = Behind(v)
	if v == nil || !v.IsConst() || v.Const.Len() != 1 {
		return 0, false
	}
	s := Floats(v.Const)
	if len(s) != 1 {
		return 0, false
	}
	return s[0], true
}

// Floats returns the elements of a constant, nil where they are no float32. They are a copy where the constant is not
// aligned.
func Floats(t *tensor.Tensor) []float32 {
	if t.DType != tensor.Float32 {
		return nil
	}
	if s := tensor.Of[float32](t); s != nil {
		return s
	}
	c, err := t.Clone()
	if err != nil {
		return nil
	}
	return tensor.Of[float32](c)
}

// Perm returns the permutation of a Transpose, nil where it is none of that rank.
func Perm(n *graph.Node, rank int) []int {
	out := make([]int, rank)
	v, ok := n.Ints("perm")
	if ok && len(v) != rank {
		return nil
	}
	seen := make([]bool, rank)
	for i := range out {
		out[i] = rank - 1 - i
		if ok {
			out[i] = int(v[i])
		}
		if out[i] < 0 || out[i] >= rank || seen[out[i]] {
			return nil
		}
		seen[out[i]] = true
	}
	return out
}
