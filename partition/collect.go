package partition

import (
	"context"
	"fmt"
	"slices"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/property"
)

// collect is Candidates.Collect.
func (s *State) collect(ctx context.Context, i int32, take func(*Candidate) bool) error {
	shut, err := s.admit(ctx, i)
	if err != nil {
		return err
	}
	free := func(n *graph.Node) bool { return s.table.Free(n) && shut[n] == nil && s.allowed(n, i) == nil }
	if err := s.ownClaims(ctx, i, free, take); err != nil {
		return err
	}
	var order []*graph.Node // of the graph as it is; nil where it has to be found
	for _, p := range s.props[i] {
		if p.Kind != property.Atomic {
			continue // bounding claims take part in grouping
		}
		if order == nil {
			if order, err = s.g.Topo(); err != nil {
				return err
			}
		}
		fuse := func(set []*graph.Node) (bool, error) {
			order = nil // a set that is turned down may have been a node for a while, and is in another place
			return s.fuse(i, p, property.Cost{}, set, take)
		}
		if err := s.sets(ctx, i, p, order, free, fuse); err != nil {
			return err
		}
	}
	return s.singles(ctx, i, shut, take)
}

// sets drives a property over the nodes in topological order, and carries the first error of accept out. Reasons are recorded.
func (s *State) sets(ctx context.Context, i int32, p *property.Rule, order []*graph.Node, free func(*graph.Node) bool,
	accept func(set []*graph.Node) (bool, error)) error {
	var fail error
	err := property.SetsIn(ctx, s.g, order, p, free, func(set []*graph.Node) bool {
		if fail != nil {
			return false
		}
		ok, err := accept(set)
		fail = err
		return ok
	}, func(n *graph.Node, why *property.Reason) { s.rejected(n, i, why) })
	if fail != nil {
		return fail
	}
	return err
}

// admit returns the nodes that backend i may not take because one of its admitting properties did not choose them.
func (s *State) admit(ctx context.Context, i int32) (map[*graph.Node]*property.Reason, error) {
	var shut map[*graph.Node]*property.Reason
	for _, p := range s.props[i] {
		if p.Kind != property.Admitting {
			continue
		}
		free := func(n *graph.Node) bool {
			return s.backend[n.ID] == unassigned && shut[n] == nil && s.allowed(n, i) == nil
		}
		in := make([]bool, s.g.NodeIDs())
		why := map[*graph.Node]*property.Reason{}
		err := property.Sets(ctx, s.g, p, func(n *graph.Node) bool { return !in[n.ID] && free(n) }, func(set []*graph.Node) bool {
			for _, n := range set {
				in[n.ID] = true
			}
			return true
		}, func(n *graph.Node, r *property.Reason) { why[n] = r })
		if err != nil {
			return nil, err
		}
		if shut == nil {
			shut = map[*graph.Node]*property.Reason{}
		}
		for n := range s.g.Nodes() {
			if in[n.ID] || !free(n) {
				continue
			}
			r := why[n]
			if r == nil {
				r = property.Because(property.NotSelected, "it is in none of its sets")
				r.Property = p.Name()
			}
			shut[n] = r
		}
	}
	return shut, nil
}

// ownClaims takes what backend i claims by means of its own. Sets that are not convex are divided.
func (s *State) ownClaims(ctx context.Context, i int32, free func(*graph.Node) bool, take func(*Candidate) bool) error {
	c, ok := s.o.Backends[i].(backend.Claimer)
	if !ok {
		return nil
	}
	claims, err := c.Claims(ctx, s.g)
	if err != nil {
		return fmt.Errorf("backend %s: %w", s.names[i], err)
	}
	for _, cl := range claims {
		var nodes []*graph.Node
		for _, n := range cl.Nodes {
			if n != nil && n.Graph() == s.g && free(n) && !slices.Contains(nodes, n) {
				nodes = append(nodes, n)
			}
		}
		if len(nodes) == 0 {
			continue
		}
		if cl.Kind == property.Bounding {
			s.borders = append(s.borders, border{i, nodes})
			continue
		}
		parts, err := s.g.ConvexParts(nodes)
		if err != nil {
			return err
		}
		for _, part := range parts {
			if _, err := s.fuse(i, &property.Rule{ID: cl.Name}, cl.Cost, part, take); err != nil {
				return err
			}
		}
	}
	return nil
}

// singles offers backend i's every node that it supports and nobody has.
func (s *State) singles(ctx context.Context, i int32, shut map[*graph.Node]*property.Reason, take func(*Candidate) bool) error {
	s.grow()
	b := s.o.Backends[i]
	for n := range s.g.Nodes() {
		if s.backend[n.ID] != unassigned {
			continue
		}
		if n.ID%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		why := shut[n]
		if why == nil {
			why = s.allowed(n, i)
		}
		if why != nil {
			s.rejected(n, i, why)
			continue
		}
		can := supports(b, n)
		if can.Reason != nil {
			s.rejected(n, i, can.Reason)
			continue
		}
		if err := checkSignatures(n, can.Signatures); err != nil {
			return fmt.Errorf("backend %s, node %v: %w", s.names[i], n, err)
		}
		can.Cost, can.Signatures = s.price(i, n, can.Cost, can.Signatures)
		s.table.offer(Candidate{Backend: int(i), Node: n, Signatures: can.Signatures, Cost: can.Cost}, take)
	}
	return nil
}
