package partition

import (
	"errors"
	"fmt"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/property"
)

// fuse makes an atomic claim of backend i one node where property and backend agree to that, and leaves the graph as it was
// otherwise. It reports whether it took nodes of the set.
func (a *assignment) fuse(i int32, p property.SubgraphProperty, set []*graph.Node) (bool, error) {
	if adj, ok := property.As[property.Adjuster](p); ok {
		if err := adj.Adjust(set); err != nil {
			return false, fmt.Errorf("property %s: %w", p.Name(), err)
		}
		a.added()
		return true, nil
	}
	rev, ok := property.As[property.Reviewer](p)
	if !ok {
		return a.contract(i, p, set)
	}
	n, err := a.contracted(p, set)
	if n == nil || err != nil {
		return false, err
	}
	keep, why := rev.Review(n.Regions[0].Graph)
	inner, err := a.g.Inline(n)
	if err != nil {
		return false, err
	}
	a.grow()
	kept, dropped := divide(inner, keep)
	if why == nil {
		why = property.Because(property.Veto, "the property kept %d of %d nodes", len(kept), len(inner))
	}
	for _, n := range dropped {
		a.rejected(n, i, named(why, p))
	}
	if len(kept) == 0 {
		return false, nil
	}
	parts, err := a.g.ConvexParts(kept)
	if err != nil {
		return false, err
	}
	some := false
	for _, part := range parts {
		ok, err := a.contract(i, p, part)
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
func named(why *property.Reason, p property.SubgraphProperty) *property.Reason {
	if why.Property != "" {
		return why
	}
	r := *why
	r.Property = p.Name()
	return &r
}

// contracted puts a fused node in the place of a set; nil where the set is not convex.
func (a *assignment) contracted(p property.SubgraphProperty, set []*graph.Node) (*graph.Node, error) {
	n, err := a.g.Fuse(set, graph.NodeSpec{
		Op:    graph.Op{Domain: graph.CarveDomain, Name: graph.OpFused},
		Name:  set[len(set)-1].Name,
		Attrs: []graph.Attr{graph.StringAttr("pattern", p.Name())},
	})
	if errors.Is(err, graph.ErrNotConvex) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("property %s: %w", p.Name(), err)
	}
	a.grow()
	return n, nil
}

// contract is fuse without a review.
func (a *assignment) contract(i int32, p property.SubgraphProperty, set []*graph.Node) (bool, error) {
	n, err := a.contracted(p, set)
	if n == nil || err != nil {
		return false, err
	}
	undo := func(why *property.Reason) (bool, error) {
		a.rejected(n, i, named(why, p))
		_, err := a.g.Inline(n)
		a.grow()
		return false, err
	}
	if c, ok := property.As[property.NodeCreator](p); ok {
		spec, err := c.CreateSubgraphNode(n.Regions[0].Graph)
		if err != nil {
			return undo(property.Because(property.Veto, "%v", err))
		}
		if spec != nil {
			for _, at := range spec.Attrs {
				n.Attrs = n.Attrs.With(at)
			}
			n.Attrs = n.Attrs.With(graph.StringAttr("pattern", p.Name())) // backends know it by that
			if spec.Name != "" {
				n.Name = spec.Name
			}
		}
	}
	var sigs []graph.Signature
	if s, ok := property.As[property.Signer](p); ok {
		sigs = s.Signatures(n)
	} else {
		s := a.o.Backends[i].Supports(n)
		if s.Reason != nil {
			return undo(s.Reason)
		}
		sigs = s.Signatures
	}
	if err := checkSignatures(n, sigs); err != nil {
		return false, fmt.Errorf("backend %s, property %s: %w", a.names[i], p.Name(), err)
	}
	a.backend[n.ID], a.options[n.ID] = i, sigs
	n.Backend = a.names[i]
	return true, nil
}
