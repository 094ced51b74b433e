package partition

import (
	"context"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/property"
)

// Review shows finished groups to the properties that review them, and bans the nodes of those that are turned down, or are
// smaller than Options.MinNodes, from their backend. A group that is merely too small stays where it is if there is a node in
// it that nobody else takes.
func (s *State) Review(ctx context.Context) error {
	s.enter(stageReview)
	reviewers, shown := s.reviewers()
	if !shown && s.o.MinNodes <= 1 {
		return nil
	}
	var twin *graph.Graph
	var nodes []*graph.Node
	if shown {
		var err error
		if twin, err = s.g.Clone(); err != nil {
			return err
		}
		nodes = twin.NodesByID()
	}
	for k, members := range s.members() {
		if err := ctx.Err(); err != nil {
			return err
		}
		i := s.groups[k].backend
		dropped, why := s.tooSmall(i, members)
		for _, p := range reviewers[i] {
			if dropped != nil {
				break
			}
			var err error
			var attrs []graph.Attr
			if dropped, why, attrs, err = reviewGroup(twin, nodes, p, members); err != nil {
				return err
			}
			if len(dropped) == 0 {
				s.groups[k].attrs = append(s.groups[k].attrs, attrs...)
			}
			if why.Code == property.TooSmall && !s.elsewhere(i, dropped) {
				dropped = nil
			}
		}
		for _, n := range dropped {
			s.ban(n, i, stageReview, why)
		}
	}
	return nil
}

// reviewers returns the properties of each backend that are shown groups, and whether there are any.
func (s *State) reviewers() (list [][]*property.Rule, some bool) {
	list = make([][]*property.Rule, len(s.names))
	for i, ps := range s.props {
		for _, p := range ps {
			if p.Review != nil && p.Kind != property.Atomic {
				list[i], some = append(list[i], p), true
			}
		}
	}
	return list, some
}

// tooSmall returns the nodes of a group that is smaller than Options.MinNodes, and that others take.
func (s *State) tooSmall(i int32, nodes []*graph.Node) ([]*graph.Node, *property.Reason) {
	size := 0
	for _, n := range nodes {
		if size++; n.IsCarve(graph.OpFused) {
			size += n.Regions[0].Graph.NumNodes() - 1
		}
	}
	if size >= s.o.MinNodes || !s.elsewhere(i, nodes) {
		return nil, nil
	}
	return nodes, property.Because(property.TooSmall, "its group has %d nodes, of at least %d", size, s.o.MinNodes)
}

// reviewGroup shows one group, as a graph of its own made from a copy of the graph, and returns the nodes that p drops, and the
// attributes that it gives.
func reviewGroup(twin *graph.Graph, nodes []*graph.Node, p *property.Rule, group []*graph.Node) ([]*graph.Node, *property.Reason, []graph.Attr, error) {
	copies := make([]*graph.Node, len(group))
	for k, n := range group {
		copies[k] = nodes[n.ID]
	}
	sub, err := twin.Extract(copies, graph.NodeSpec{Op: graph.Op{Domain: graph.CarveDomain, Name: graph.OpSubgraph}})
	if err != nil {
		return nil, nil, nil, err
	}
	v := p.Review(sub.Regions[0].Graph)
	_, dropped := divide(group, v.Keep)
	why := v.Why
	if why == nil {
		why = property.Because(property.Veto, "the property kept %d of %d nodes", len(group)-len(dropped), len(group))
	}
	if _, err := twin.Inline(sub); err != nil {
		return nil, nil, nil, err
	}
	return dropped, named(why, p), v.Attrs, nil
}

// elsewhere reports whether every node has a backend behind i that takes it.
func (s *State) elsewhere(i int32, nodes []*graph.Node) bool {
	for _, n := range nodes {
		if n.IsCarve(graph.OpFused) {
			for m := range n.Regions[0].Graph.Nodes() {
				if !s.taken(i, m) {
					return false
				}
			}
		} else if !s.taken(i, n) {
			return false
		}
	}
	return true
}

func (s *State) taken(i int32, n *graph.Node) bool {
	for j := int(i) + 1; j < len(s.names); j++ {
		if s.allowed(n, int32(j)) == nil && supports(s.o.Backends[j], n).Reason == nil {
			return true
		}
	}
	return false
}
