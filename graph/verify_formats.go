package graph

// formats checks invariant 13 of one node: which formats its operands and results may have.
func (c *verifier) formats(n *Node) {
	switch {
	case n.IsCarve(OpConvert):
		if len(n.Inputs) == 1 && n.Inputs[0] != nil && len(n.Outputs) == 1 && n.Outputs[0] != nil {
			in, out := n.Inputs[0].Type, n.Outputs[0].Type
			if in.Kind != KindUnknown && out.Kind != KindUnknown && !in.Equal(out) {
				c.fail(InvFormats, n, n.Outputs[0], "is of type %v, converted from %v", out, in)
			}
		}
	case n.carveName() != "" && len(n.Regions) > 0:
		c.boundary(n)
	case n.Ports != nil:
		c.ports(n)
	case n.IsControl():
		c.control(n)
	default:
		c.uniform(n)
	}
}

// ports checks a node whose signature is chosen: every present port carries the signature's format.
func (c *verifier) ports(n *Node) {
	if len(n.Ports.Inputs) != len(n.Inputs) || len(n.Ports.Outputs) != len(n.Outputs) {
		c.fail(InvFormats, n, nil, "its signature has %d inputs and %d outputs, the node %d and %d",
			len(n.Ports.Inputs), len(n.Ports.Outputs), len(n.Inputs), len(n.Outputs))
		return
	}
	port := func(word string, i int, p Port, v *Value) {
		switch {
		case p.Var != 0:
			c.fail(InvFormats, n, v, "%s %d of the chosen signature is a variable", word, i)
		case v != nil && v.Format != p.Format:
			c.fail(InvFormats, n, v, "is in %v where %s %d is in %v", v.Format, word, i, p.Format)
		}
	}
	for i, v := range n.Inputs {
		port("input", i, n.Ports.Inputs[i], v)
	}
	for i, v := range n.Outputs {
		port("output", i, n.Ports.Outputs[i], v)
	}
}

// boundary checks a fused or subgraph node. Values keep their formats across the border of a subgraph, which is part of
// the schedule. The body of a fused node that has its ports only says what the node computes, in formats of its own.
func (c *verifier) boundary(n *Node) {
	body := n.Region("body")
	if body == nil || len(body.Inputs) != len(n.Inputs) || len(body.Outputs) != len(n.Outputs) {
		c.fail(InvRegions, n, nil, "its body does not have its inputs and outputs")
		return
	}
	pair := func(outer, inner *Value) {
		if outer != nil && inner != nil && outer.Format != inner.Format {
			c.fail(InvFormats, n, outer, "is in %v outside of the body and in %v inside", outer.Format, inner.Format)
		}
	}
	if n.IsCarve(OpSubgraph) || n.Ports == nil {
		for i, v := range n.Inputs {
			pair(v, body.Inputs[i])
		}
		for i, v := range n.Outputs {
			pair(v, body.Outputs[i])
		}
		for i, v := range n.Captures {
			if i < len(body.Captures) {
				pair(v, body.Captures[i])
			}
		}
	}
	if n.Ports != nil {
		c.ports(n)
	}
}

// uniform checks a node without a signature: its operands that are not constants, and its results, share one format.
func (c *verifier) uniform(n *Node) {
	var first *Value
	check := func(v *Value) {
		switch {
		case v == nil || v.kind == kindConst || v.kind == kindDims:
		case first == nil:
			first = v
		case v.Format != first.Format:
			c.fail(InvFormats, n, v, "is in %v beside %v in %v, and no Convert stands between", v.Format, first, first.Format)
		}
	}
	for _, v := range n.Inputs {
		check(v)
	}
	for _, v := range n.Outputs {
		check(v)
	}
}

// control checks that values have the same format outside and inside of the regions of control flow, and all others the
// host's.
func (c *verifier) control(n *Node) {
	same := func(v, w *Value) {
		var f Format
		if w != nil {
			f = w.Format
		}
		if v != nil && v.kind != kindConst && v.kind != kindDims && v.Format != f {
			c.fail(InvFormats, n, v, "is in %v where a region of the node has %v", v.Format, f)
		}
	}
	for k, v := range n.Operands() {
		same(v, n.RegionOperand(k))
	}
	for _, r := range n.Regions {
		for i, v := range n.Captures {
			if i < len(r.Graph.Captures) {
				same(v, r.Graph.Captures[i])
			}
		}
		for i, v := range n.Outputs {
			if n.Is("If") && i < len(r.Graph.Outputs) {
				same(v, r.Graph.Outputs[i])
			}
		}
	}
	if n.Is("If") {
		return
	}
	count, _, param, result := n.Carried()
	for i, v := range n.Outputs {
		if i >= count {
			same(v, nil)
			continue
		}
		body := n.Region("body")
		same(v, body.Inputs[param+i])
		same(body.Outputs[result+i], body.Inputs[param+i])
	}
}
