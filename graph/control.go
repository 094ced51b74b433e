package graph

import "slices"

// Control flow is run by whoever has the node: an If, Loop or Scan calls its regions with values that go in and out as they
// are. So a value and what stands for it inside of a region have one format.

// IsControl reports whether n is an If, a Loop, or a Scan of operator set 9 or later, whose regions' ports are known: see
// RegionOperand.
func (n *Node) IsControl() bool {
	return n.Is("If", "Loop") || n.Is("Scan") && n.Op.Since >= 9
}

// Carried returns how many values a Loop or Scan carries from one iteration to the next, and the number of the first of them
// among the node's inputs, its body's inputs and its body's outputs; among the node's outputs it is 0. The count is 0 for other
// nodes, and where the node does not have the ports for it.
func (n *Node) Carried() (count, input, param, result int) {
	body := n.Region("body")
	switch {
	case body == nil || !n.IsControl():
		return 0, 0, 0, 0
	case n.Is("Loop"):
		count, input, param, result = len(n.Inputs)-2, 2, 2, 1
	default:
		count = len(n.Inputs) - int(min(max(n.Int("num_scan_inputs", 0), 0), int64(len(n.Inputs))))
	}
	if count <= 0 || len(body.Inputs) < param+count || len(body.Outputs) < result+count || len(n.Outputs) < count {
		return 0, 0, 0, 0
	}
	return count, input, param, result
}

// RegionOperand returns what stands for operand k of a node of control flow in its first region: what a loop carries, or a capture.
// It is nil for an operand that no value of a region is the same as, such as a condition or what a Scan reads slice by slice.
func (n *Node) RegionOperand(k int) *Value {
	if !n.IsControl() && !n.Is("Scan", "SequenceMap") || len(n.Regions) == 0 {
		return nil
	}
	r := n.Regions[0].Graph
	if c := k - len(n.Inputs); c >= 0 {
		if c < len(r.Captures) {
			return r.Captures[c]
		}
		return nil
	}
	count, input, param, _ := n.Carried()
	if k < input || k >= input+count {
		return nil
	}
	return r.Inputs[param+k-input]
}

// Invariant reports whether v is the same in all iterations of a loop around its graph, which captures it: what is made of it
// alone can be made once, before the loop.
func (v *Value) Invariant() bool {
	for v != nil && v.IsCapture() {
		g, n := v.graph, v.graph.owner
		if n == nil {
			return false
		}
		if n.Is("Loop", "Scan", "SequenceMap") {
			return true
		}
		at := slices.Index(g.Captures, v)
		if at < 0 || at >= len(n.Captures) || !n.Is("If") {
			return false
		}
		v = n.Captures[at]
	}
	return false
}
