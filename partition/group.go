package partition

import (
	"context"
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/partition/internal/dag"
	"github.com/carve-dev/carve/property"
)

// groupInfo describes a finished group.
type groupInfo struct {
	backend int32
	dynamic bool
	attrs   []graph.Attr // that reviews gave its node
}

// Group merges the nodes of each backend into groups that together are acyclic, which is proven by a verifier that knows
// nothing of the method.
func (s *State) Group(ctx context.Context) (err error) {
	s.enter(stageGroup)
	if s.order, err = s.g.Topo(); err != nil {
		return err
	}
	s.groupOf, s.groups, err = s.group(ctx, s.order)
	return err
}

// Kinds of nodes that do not go into one group.
const (
	planned  int32 = iota // of shapes that follow from the inputs'
	late                  // of shapes that depend on data
	unranked              // with operands of unknown rank
	kinds
)

// group returns the group of each node by id, -1 for the host scheduler's nodes. order is a topological order of the graph.
//
// Colours are merged one after the other: in the order of backends, or, where cost decides, of their names, so that what groups cost
// does not depend on the order of the list. Nodes whose shapes depend on data and nodes whose shapes do not are two colours: the ones' memory is planned, the
// others' is not. Nodes with operands of unknown rank are a third: all that they wait for is known when a run comes to them.
func (s *State) group(ctx context.Context, order []*graph.Node) ([]int32, []groupInfo, error) {
	// The graph is walked through once: a large one does not stay in the caches.
	at, ids := make([]int32, s.g.NodeIDs()), make([]int32, len(order))
	from, to := make([]int32, 0, 2*len(order)), make([]int32, 0, 2*len(order))
	p := &dag.Problem{Color: make([]int32, len(order))}
	unplanned := make([]bool, s.g.ValueIDs()) // values whose shape depends on data
	ranked := func(v *graph.Value) bool { return !v.Type.IsTensor() || v.Type.Shape.Known() }
	for v := range s.g.Constants() {
		unplanned[v.ID] = !v.Type.Backed()
	}
	for _, v := range slices.Concat(s.g.Inputs, s.g.Captures) {
		unplanned[v.ID] = !v.Type.Backed()
	}
	for i, n := range order {
		at[n.ID], ids[i] = int32(i), int32(n.ID) // producers come before: they have their places
		dynamic := planned
		for k := range n.NumOperands() {
			v := n.Operand(k)
			if v == nil {
				continue
			}
			if v.Producer != nil {
				from, to = append(from, at[v.Producer.ID]), append(to, int32(i))
			}
			if unplanned[v.ID] {
				dynamic = max(dynamic, late)
			}
			if !ranked(v) {
				dynamic = unranked
			}
		}
		for _, v := range n.Outputs {
			if v != nil && !v.Type.Backed() {
				unplanned[v.ID], dynamic = true, max(dynamic, late)
			}
		}
		if s.o.Whole {
			dynamic = unranked
		}
		p.Color[i] = dag.Host
		if b := s.backend[n.ID]; b != hostScheduled {
			p.Color[i] = kinds*s.rank[b] + dynamic
		}
	}
	var err error
	if p.Graph, err = dag.New(len(order), from, to); err != nil {
		return nil, nil, err
	}
	if p.Bound, err = s.bounds(ctx, at, order); err != nil {
		return nil, nil, err
	}
	p.Cut = s.cuts(order, p, from, to)
	if s.o.Isolated {
		p.Alone = slices.Repeat([]bool{true}, len(order))
	}
	for range s.o.Backends {
		pol := dag.Policy{Disconnected: s.o.Disconnected || s.o.Whole || s.loose}
		p.Policy = append(p.Policy, pol, pol, pol)
	}
	r, err := dag.Group(ctx, p)
	if err != nil {
		return nil, nil, err
	}
	if err := dag.Verify(p, r); err != nil {
		return nil, nil, err
	}
	groupOf := make([]int32, s.g.NodeIDs())
	for i := range groupOf {
		groupOf[i] = -1
	}
	infos := make([]groupInfo, 0, r.Colored())
	number := make([]int32, r.Len())
	for i, c := range r.Color {
		number[i] = -1
		if c >= 0 {
			number[i] = int32(len(infos))
			infos = append(infos, groupInfo{backend: s.ranked[c/kinds], dynamic: c%kinds != planned})
		}
	}
	for i, id := range ids {
		groupOf[id] = number[r.Of[i]]
	}
	return groupOf, infos, nil
}

// bounds numbers the nodes, by place in the order, by the bounding claims that hold them, -1 for those that none does; nil
// where there are no such claims. The first claim that holds a node counts.
func (s *State) bounds(ctx context.Context, at []int32, order []*graph.Node) ([]int32, error) {
	if bound := s.planned(at, len(order)); bound != nil {
		return bound, nil
	}
	var bound []int32
	next := int32(0)
	add := func(set []*graph.Node) bool {
		for _, n := range set {
			bound[at[n.ID]] = next
		}
		next++
		return true
	}
	begin := func() {
		if bound == nil {
			bound = slices.Repeat([]int32{-1}, len(order))
		}
	}
	for _, b := range s.borders {
		begin()
		var set []*graph.Node
		for _, n := range b.nodes {
			for n.Graph() != s.g && n.Graph() != nil && n.Graph().Owner() != nil { // it was fused
				n = n.Graph().Owner()
			}
			if n.Graph() == s.g && s.backend[n.ID] == b.backend && bound[at[n.ID]] < 0 {
				set = append(set, n)
			}
		}
		add(set)
	}
	for i, ps := range s.props {
		for _, p := range ps {
			if p.Kind != property.Bounding {
				continue
			}
			begin()
			free := func(n *graph.Node) bool { return s.backend[n.ID] == int32(i) && bound[at[n.ID]] < 0 }
			if err := property.SetsIn(ctx, s.g, order, p, free, add, nil); err != nil {
				return nil, err
			}
		}
	}
	if next == 0 {
		return nil, nil
	}
	return bound, nil
}

// planned numbers the nodes by the groups that a Chooser gave them; nil where it gave none.
func (s *State) planned(at []int32, nodes int) []int32 {
	if s.table == nil || !s.table.numbered {
		return nil
	}
	var bound []int32
	dense := map[int32]int32{}
	for n := range s.g.Nodes() {
		c := s.table.taken(n)
		if c == nil || c.Group <= 0 {
			continue
		}
		if bound == nil {
			bound = slices.Repeat([]int32{-1}, nodes)
		}
		if _, known := dense[c.Group]; !known {
			dense[c.Group] = int32(len(dense))
		}
		bound[at[n.ID]] = dense[c.Group]
	}
	return bound
}

// cuts marks the edges that an edge predicate forbids inside a group, nil where no property has one.
func (s *State) cuts(order []*graph.Node, p *dag.Problem, from, to []int32) []bool {
	var filters [][]func(from, to *graph.Node) bool
	any := false
	for _, ps := range s.props {
		var fs []func(from, to *graph.Node) bool
		for _, p := range ps {
			if p.AllowEdge != nil {
				fs = append(fs, p.AllowEdge)
				any = true
			}
		}
		filters = append(filters, fs)
	}
	if !any {
		return nil
	}
	cut := make([]bool, len(from))
	for e, u := range from {
		if c := p.Color[u]; c >= 0 && c == p.Color[to[e]] {
			for _, f := range filters[s.ranked[c/kinds]] {
				cut[e] = cut[e] || !f(order[u], order[to[e]])
			}
		}
	}
	return cut
}
