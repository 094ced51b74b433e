package graph

import "fmt"

// Inline undoes Extract: it moves the nodes of n's region "body" into g in place of n, and returns them. Body inputs and
// captures give way to n's operands, n's results to the body's outputs, which keep names, types and formats of their own
// but for values that n's operands or constants are. Constants that Extract cloned from ones that are still there give
// way to these; others move. The nodes get ids of g. n must have a body with as many inputs and outputs as it has itself;
// otherwise the error wraps ErrNoBody. It costs O(size of the body + uses of the results).
func (g *Graph) Inline(n *Node) ([]*Node, error) {
	if n == nil {
		return nil, fmt.Errorf("%w: node %w", ErrNodeSet, ErrNil)
	}
	body := n.Region("body")
	switch {
	case n.graph != g:
		return nil, fmt.Errorf("%w: %v is not of the graph", ErrNodeSet, n)
	case body == nil || len(n.Regions) != 1 || len(body.Inputs) != len(n.Inputs) || len(body.Outputs) != len(n.Outputs) ||
		len(body.Captures) != len(n.Captures):
		return nil, fmt.Errorf("%w: %v", ErrNoBody, n)
	}
	for i, v := range n.Inputs {
		if v == nil && (len(body.Inputs[i].uses) > 0 || body.Inputs[i].output > 0) {
			return nil, fmt.Errorf("%w: input %d of %v is omitted but read", ErrNoBody, i, n)
		}
	}
	return g.inline(n, body, n.Inputs), nil
}

// inline replaces n by the content of its region, whose inputs stand for args, and removes n with its other regions.
func (g *Graph) inline(n *Node, body *Graph, args []*Value) []*Node {
	order, members := g.order, body.members
	g.order = nil
	outer := make(map[*Value]*Value, len(body.Inputs)+len(body.Captures)+len(body.consts))
	for i, p := range body.Inputs {
		outer[p] = args[i]
	}
	for i, p := range body.Captures {
		outer[p] = n.Captures[i]
	}
	sources := make(map[*Value]*Value, len(body.sources))
	for _, s := range body.sources {
		sources[s.own] = s.outer
	}
	for _, v := range body.consts {
		if v == nil {
			continue
		}
		if src := sources[v]; src != nil && src.graph == g && src.kind == v.kind && src.Const == v.Const && src.Format == v.Format {
			outer[v] = src
			continue
		}
		g.adoptValue(v)
		v.pos = int32(len(g.consts))
		g.consts = append(g.consts, v)
	}
	results := make([]*Value, len(body.Outputs))
	for i, v := range body.Outputs {
		v.output = 0
		results[i] = v
		if o, ok := outer[v]; ok {
			results[i] = o
		}
	}
	moved := make([]*Node, 0, body.live)
	for _, m := range body.nodes {
		if m != nil {
			g.adopt(m)
			moved = append(moved, m)
		}
	}
	for _, m := range moved {
		for k, v := range m.Operands() {
			o, ok := outer[v]
			if !ok {
				continue
			}
			v.removeUse(m, k)
			if k < len(m.Inputs) {
				m.Inputs[k] = o
			} else {
				m.Captures[k-len(m.Inputs)] = o
			}
			if o != nil {
				o.addUse(m, k)
			}
		}
	}
	for i, v := range n.Outputs {
		if v != nil && (len(v.uses) > 0 || v.output > 0) {
			g.ReplaceUses(v, results[i])
		}
	}
	body.nodes, body.consts, body.live = nil, nil, 0
	body.Outputs, body.nextOutput = nil, nil
	g.Remove(n)
	if order != nil && order.expand(n, moved, members) {
		g.order = order
	}
	return moved
}
