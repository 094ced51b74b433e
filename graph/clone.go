package graph

import (
	"maps"
	"slices"
)

// Clone returns a copy of g and of all graphs nested in it, which shares tensors, shapes and attributes but nothing that
// rewriting changes. Nodes and values of the copy have the ids of the originals, so that facts in tables by id hold for
// both; NodesByID and ValuesByID find counterparts. The copy of a region has no owner. Cost: O(V+E).
func (g *Graph) Clone() *Graph {
	h := &Graph{Name: g.Name, Opsets: maps.Clone(g.Opsets), Doc: g.Doc, Meta: maps.Clone(g.Meta),
		live: g.live, values: g.values, nodeIDs: g.nodeIDs, freshDims: g.freshDims}
	values := make([]*Value, g.values)
	clone := func(v *Value) *Value {
		if v == nil {
			return nil
		}
		c := new(Value)
		*c = *v
		c.graph, c.Producer, c.uses = h, nil, make([]Use, len(v.uses))
		values[v.ID] = c
		return c
	}
	cloneAll := func(vs []*Value) []*Value {
		if vs == nil {
			return nil
		}
		out := make([]*Value, len(vs))
		for i, v := range vs {
			out[i] = clone(v)
		}
		return out
	}
	h.Inputs, h.Captures, h.consts = cloneAll(g.Inputs), cloneAll(g.Captures), cloneAll(g.consts)
	h.nodes = make([]*Node, len(g.nodes))
	for i, n := range g.nodes {
		if n == nil {
			continue
		}
		m := new(Node)
		*m = *n
		m.graph, m.Outputs = h, cloneAll(n.Outputs)
		for _, v := range m.Outputs {
			if v != nil {
				v.Producer = m
			}
		}
		m.slots, m.Origins = slices.Clone(n.slots), slices.Clone(n.Origins)
		m.Regions = slices.Clone(n.Regions)
		for k := range m.Regions {
			r := m.Regions[k].Graph.Clone()
			r.owner = m
			m.Regions[k].Graph = r
		}
		h.nodes[i] = m
	}
	look := func(vs []*Value) []*Value {
		if vs == nil {
			return nil
		}
		out := make([]*Value, len(vs))
		for i, v := range vs {
			if v != nil {
				out[i] = values[v.ID]
			}
		}
		return out
	}
	for i, n := range g.nodes {
		if n == nil {
			continue
		}
		m := h.nodes[i]
		m.Inputs, m.Captures = look(n.Inputs), look(n.Captures)
		for k, v := range m.Operands() {
			v.uses[m.slots[k]] = Use{m, k}
		}
	}
	h.Outputs = look(g.Outputs)
	return h
}

// NodesByID returns the nodes of g in a table by id, nil where no node has the id.
func (g *Graph) NodesByID() []*Node {
	out := make([]*Node, g.NodeIDs())
	for n := range g.Nodes() {
		out[n.ID] = n
	}
	return out
}

// ValuesByID returns the values of g in a table by id, nil where no value has the id.
func (g *Graph) ValuesByID() []*Value {
	out := make([]*Value, g.ValueIDs())
	for v := range g.definitions() {
		out[v.ID] = v
	}
	return out
}
