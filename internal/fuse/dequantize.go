package fuse

import (
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// HeadSelector is what selectors of a node alone have beside their Select. Where With is set, the node is selected with that one,
// among its operands, or not at all.
type HeadSelector struct{ With *graph.Node }

// SelectInput implements property.Selector.
func (s *HeadSelector) SelectInput(_, input *graph.Node) bool { return input == s.With }

// SelectOutput implements property.Selector.
func (*HeadSelector) SelectOutput(_, _ *graph.Node) bool { return false }

// Filter implements property.Selector.
func (s *HeadSelector) Filter(set []*graph.Node) []*graph.Node {
	if s.With != nil && !slices.Contains(set, s.With) {
		return nil
	}
	return set
}

// Reset implements property.Selector.
func (*HeadSelector) Reset() {}

// OwnDequantize doubles the DequantizeLinear that makes operand k of a node where others read its result. The new node stands for
// none of the model.
func OwnDequantize(n *graph.Node, k int) {
	v := n.Inputs[k]
	if !v.HasOneUse() {
		n.SetOperand(k, dequantizeAgain(v.Producer, v.Producer.Inputs...))
	}
}

// dequantizeAgain adds a node like one that is there, of other inputs, which stands for no node of the model.
func dequantizeAgain(like *graph.Node, inputs ...*graph.Value) *graph.Value {
	n := like.Graph().AddNode(graph.NodeSpec{Op: like.Op, Attrs: like.Attrs, Inputs: inputs, Outputs: []string{""}, Origins: []string{}})
	n.Outputs[0].Type, n.Outputs[0].Format = like.Outputs[0].Type, like.Outputs[0].Format
	return n.Outputs[0]
}

// dequantizeSince is the first version of DequantizeLinear with scales along an axis.
const dequantizeSince = 13

// OwnWeights makes a head read its weights, operand 1 with outputs along an axis, from a DequantizeLinear of the integers that nobody
// else reads.
func OwnWeights(head *graph.Node, w *Integers, axis int) {
	v, g := head.Inputs[1], head.Graph()
	if v.Producer != nil && w.Q == nil {
		OwnDequantize(head, 1)
		return
	}
	origins, old := []string{}, v.Producer
	if old != nil && v.HasOneUse() { // the new node takes its place
		origins = old.Provenance()
	} else {
		old = nil
	}
	n := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "DequantizeLinear", Since: dequantizeSince}, Outputs: []string{""}, Origins: origins,
		Attrs:  []graph.Attr{graph.IntAttr("axis", int64(axis))},
		Inputs: []*graph.Value{g.AddConst("", w.Q), g.AddConst("", tensor.From(w.Scales[:len(w.Scales):len(w.Scales)]))}})
	n.Outputs[0].Type, n.Outputs[0].Format = v.Type, v.Format
	ReplaceOperand(head, 1, n.Outputs[0])
	if old != nil {
		operands := slices.Clone(old.Inputs)
		g.Remove(old)
		for _, v := range operands {
			removeUnread(g, v)
		}
	}
}

// ReplaceOperand makes a node read another value, and lets go of the one before if that is a constant that nobody reads.
func ReplaceOperand(n *graph.Node, k int, v *graph.Value) {
	old := n.Inputs[k]
	n.SetOperand(k, v)
	removeUnread(n.Graph(), old)
}

// removeUnread lets go of a constant that nobody reads.
func removeUnread(g *graph.Graph, v *graph.Value) {
	if v != nil && v.IsConst() && v.NumUses() == 0 && !v.IsOutput() {
		g.RemoveConst(v)
	}
}
