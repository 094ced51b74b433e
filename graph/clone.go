package graph

import (
	"fmt"
	"maps"
	"slices"
)

// Clone returns a copy of g and of all graphs nested in it, which shares tensors, shapes and attributes but nothing that
// rewriting changes. Nodes and values of the copy have the ids of the originals, so that facts in tables by id hold for
// both; NodesByID and ValuesByID find counterparts. The copy of a region has no owner. Cost: O(V+E). Graphs that violate invariants 2 or 4, or nest deeper than MaxRegionDepth,
// give a *VerifyError.
func (g *Graph) Clone() (*Graph, error) { return g.clone(0) }

// TakeOver gives g the content of h, a clone of what g was at some time, say, for passes that begin anew; whoever holds g
// sees it changed. Nodes and values of h, ids included, become g's; what g held before is nobody's, and h is of no use
// afterwards. Cost: O(V).
func (g *Graph) TakeOver(h *Graph) {
	owner := g.owner
	*g = *h
	g.owner, g.order = owner, nil
	for _, n := range g.nodes {
		if n == nil {
			continue
		}
		n.graph = g
		for _, v := range n.Outputs {
			if v != nil {
				v.graph = g
			}
		}
	}
	for _, vs := range [][]*Value{g.Inputs, g.Captures, g.consts} {
		for _, v := range vs {
			if v != nil {
				v.graph = g
			}
		}
	}
	*h = Graph{}
}

func (g *Graph) clone(depth int) (*Graph, error) {
	if depth > MaxRegionDepth {
		return nil, &VerifyError{Invariant: InvRegions, Graph: g.Name, Reason: fmt.Sprintf("regions are nested deeper than %d", MaxRegionDepth)}
	}
	h := &Graph{Name: g.Name, Opsets: maps.Clone(g.Opsets), Doc: g.Doc, Meta: maps.Clone(g.Meta),
		live: g.live, values: g.values, nodeIDs: g.nodeIDs, freshDims: g.freshDims}
	c := &cloner{from: g, to: h, values: make([]*Value, g.values),
		store: cloneStore{moreNodes: g.live, moreValues: int(g.values)}}
	h.Inputs, h.Captures, h.consts = c.define(g.Inputs), c.define(g.Captures), c.define(g.consts)
	h.nodes = make([]*Node, len(g.nodes))
	for i, n := range g.nodes {
		if n == nil {
			continue
		}
		m, err := c.node(n, depth)
		if err != nil {
			return nil, err
		}
		h.nodes[i] = m
	}
	if c.bad != nil {
		return nil, c.bad
	}
	for i, n := range g.nodes {
		if n == nil {
			continue
		}
		m := h.nodes[i]
		m.Inputs, m.Captures = c.use(n.Inputs), c.use(n.Captures)
		if c.bad != nil {
			return nil, c.bad
		}
		for k, v := range m.Operands() {
			v.uses[m.slots[k]] = Use{m, k}
		}
	}
	h.nextOutput = slices.Clone(g.nextOutput)
	if h.Outputs = c.use(g.Outputs); c.bad != nil {
		return nil, c.bad
	}
	return h, nil
}

// cloner copies one graph. bad is the last fault that it met.
type cloner struct {
	from, to *Graph
	values   []*Value // copies, by id
	store    cloneStore
	bad      *VerifyError
}

// value copies a value where it is defined. Its uses follow.
func (c *cloner) value(v *Value) *Value {
	if v == nil {
		return nil
	}
	if v.graph != c.from || v.ID < 0 || v.ID >= len(c.values) {
		c.bad = &VerifyError{Invariant: InvValues, Graph: c.from.Name, Value: v.String(), Reason: "belongs to another graph"}
		return v
	}
	w := c.store.value()
	*w = *v
	w.graph, w.Producer, w.first = c.to, nil, [1]Use{}
	if w.uses = w.first[:]; len(v.uses) != 1 {
		w.uses = make([]Use, len(v.uses))
	}
	c.values[v.ID] = w
	return w
}

// define copies values where they are defined.
func (c *cloner) define(vs []*Value) []*Value {
	if vs == nil {
		return nil
	}
	out := c.store.list(len(vs))
	for i, v := range vs {
		out[i] = c.value(v)
	}
	return out
}

// node copies a node with its results and regions, but without its operands.
func (c *cloner) node(n *Node, depth int) (*Node, error) {
	m := c.store.node()
	*m = *n
	m.graph, m.Outputs = c.to, c.define(n.Outputs)
	for _, v := range m.Outputs {
		if v != nil {
			v.Producer = m
		}
	}
	m.slots, m.Origins = c.store.slots(n.slots), slices.Clone(n.Origins)
	m.Regions = slices.Clone(n.Regions)
	for k := range m.Regions {
		r, err := m.Regions[k].Graph.clone(depth + 1)
		if err != nil {
			return nil, err
		}
		r.owner = m
		m.Regions[k].Graph = r
	}
	return m, nil
}

// use returns the copies of values that are read.
func (c *cloner) use(vs []*Value) []*Value {
	if vs == nil {
		return nil
	}
	out := c.store.list(len(vs))
	for i, v := range vs {
		if v == nil {
			continue
		}
		if v.graph != c.from || v.ID < 0 || v.ID >= len(c.values) || c.values[v.ID] == nil {
			c.bad = &VerifyError{Invariant: InvOperands, Graph: c.from.Name, Value: v.String(), Reason: "is no value of the graph"}
			continue
		}
		out[i] = c.values[v.ID]
	}
	return out
}

// cloneStore hands out what a copy consists of, from pieces that are allocated for many at a time.
type cloneStore struct {
	nodes  []Node
	values []Value
	lists  []*Value
	ints   []int32

	moreNodes, moreValues int // how many are still to come, at most
}

// clonePiece is the number of things in a piece: enough to make allocation cheap, few enough that one survivor does not
// keep much alive.
const clonePiece = 128

func (s *cloneStore) node() *Node {
	if len(s.nodes) == 0 {
		s.nodes = make([]Node, max(1, min(clonePiece, s.moreNodes)))
		s.moreNodes -= len(s.nodes)
	}
	n := &s.nodes[0]
	s.nodes = s.nodes[1:]
	return n
}

func (s *cloneStore) value() *Value {
	if len(s.values) == 0 {
		s.values = make([]Value, max(1, min(clonePiece, s.moreValues)))
		s.moreValues -= len(s.values)
	}
	v := &s.values[0]
	s.values = s.values[1:]
	return v
}

// list returns a list of n values without room to grow.
func (s *cloneStore) list(n int) []*Value {
	if n > clonePiece {
		return make([]*Value, n)
	}
	if len(s.lists) < n {
		s.lists = make([]*Value, max(n, 4*min(clonePiece, s.moreValues)))
	}
	out := s.lists[:n:n]
	s.lists = s.lists[n:]
	return out
}

func (s *cloneStore) slots(of []int32) []int32 {
	if len(of) > clonePiece {
		return slices.Clone(of)
	}
	if len(s.ints) < len(of) {
		s.ints = make([]int32, max(len(of), 4*min(clonePiece, s.moreValues)))
	}
	out := s.ints[:len(of):len(of)]
	s.ints = s.ints[len(of):]
	copy(out, of)
	return out
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
