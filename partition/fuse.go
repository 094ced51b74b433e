package partition

import (
	"errors"
	"fmt"
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/property"
)

// fuse makes an atomic claim of backend i one node where property, backend and take agree to that, and leaves the graph as it
// was otherwise. It reports whether it took nodes of the set.
func (s *State) fuse(i int32, p *property.Rule, cost property.Cost, set []*graph.Node, take func(*Candidate) bool) (bool, error) {
	if s.table.known(int(i), p, set) {
		return false, nil
	}
	if p.Adjust != nil {
		if err := p.Adjust(set); err != nil {
			return false, fmt.Errorf("property %s: %w", p.ID, err)
		}
		s.added()
		return true, nil
	}
	if p.Review == nil {
		return s.contract(i, p, cost, set, nil, take)
	}
	n, err := s.contracted(p, set)
	if n == nil || err != nil {
		return false, err
	}
	v := p.Review(n.Regions[0].Graph)
	inner, err := s.g.Inline(n)
	if err != nil {
		return false, err
	}
	s.grow()
	kept, dropped := divide(inner, v.Keep)
	why := v.Why
	if why == nil {
		why = property.Because(property.Veto, "the property kept %d of %d nodes", len(kept), len(inner))
	}
	for _, n := range dropped {
		s.rejected(n, i, named(why, p))
	}
	if len(kept) == 0 {
		return false, nil
	}
	if len(dropped) > 0 {
		v.Attrs = nil // they are about all of it
	}
	parts, err := s.g.ConvexParts(kept)
	if err != nil {
		return false, err
	}
	some := false
	for _, part := range parts {
		ok, err := s.contract(i, p, cost, part, v.Attrs, take)
		if err != nil {
			return false, err
		}
		some = some || ok
	}
	return some, nil
}

// divide separates the nodes whose indices are kept from the others. Indices that do not exist are ignored.
func divide(nodes []*graph.Node, keep []int) (kept, dropped []*graph.Node) {
	in := make([]bool, len(nodes))
	for _, k := range keep {
		if k >= 0 && k < len(in) {
			in[k] = true
		}
	}
	for k, n := range nodes {
		if in[k] {
			kept = append(kept, n)
		} else {
			dropped = append(dropped, n)
		}
	}
	return kept, dropped
}

// named returns a reason as the property's, unless it is somebody's already.
func named(why *property.Reason, p *property.Rule) *property.Reason {
	if why.Property != "" {
		return why
	}
	r := *why
	r.Property = p.ID
	return &r
}

// contracted puts a fused node in the place of a set; nil where the set is not convex.
func (s *State) contracted(p *property.Rule, set []*graph.Node) (*graph.Node, error) {
	n, err := s.g.Fuse(set, graph.NodeSpec{
		Op:    graph.Op{Domain: graph.CarveDomain, Name: graph.OpFused},
		Name:  set[len(set)-1].Name,
		Attrs: []graph.Attr{graph.StringAttr("pattern", p.ID)},
	})
	if errors.Is(err, graph.ErrNotConvex) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("property %s: %w", p.ID, err)
	}
	s.grow()
	return n, nil
}

// contract is fuse without a review, which gave these attributes.
func (s *State) contract(i int32, p *property.Rule, cost property.Cost, set []*graph.Node, attrs []graph.Attr, take func(*Candidate) bool) (bool, error) {
	n, err := s.contracted(p, set)
	if n == nil || err != nil {
		return false, err
	}
	undo := func(why *property.Reason) (bool, error) {
		if why != nil {
			s.rejected(n, i, named(why, p))
		}
		_, err := s.g.Inline(n)
		s.grow()
		return false, err
	}
	if err := describe(n, p, attrs); errors.Is(err, ErrPlan) {
		return false, fmt.Errorf("property %s: %w", p.ID, err)
	} else if err != nil {
		return undo(property.Because(property.Veto, "%v", err))
	}
	c := Candidate{Backend: int(i), Node: n, Claim: &Claim{Property: p, Nodes: slices.Clone(set), attrs: attrs}, Cost: cost}
	if p.Signatures != nil {
		c.Signatures = p.Signatures(n)
	} else {
		can := supports(s.o.Backends[i], n)
		if can.Reason != nil {
			return undo(can.Reason)
		}
		c.Signatures = can.Signatures
		if c.Cost == (property.Cost{}) {
			c.Cost = can.Cost
		}
	}
	if err := checkSignatures(n, c.Signatures); err != nil {
		return false, fmt.Errorf("backend %s, property %s: %w", s.names[i], p.ID, err)
	}
	c.Cost, c.Signatures = s.price(i, n, c.Cost, c.Signatures)
	if !s.table.offer(c, take) {
		return undo(nil)
	}
	return true, nil
}
