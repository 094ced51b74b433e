package partition

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/property"
)

// ErrReview is wrapped by the error about properties that turn down groups without end.
var ErrReview = errors.New("reviews do not come to an end")

// maxReviews bounds how often groups are formed anew after some were turned down. Each time at least one node moves to a
// backend further down the list.
const maxReviews = 64

// review shows finished groups to the properties that review them, and gives the nodes of those that are turned down, or are
// smaller than Options.MinNodes, to backends further down the list, which then claim anew. It reports whether anything
// changed. A group that is merely too small stays where it is if there is a node in it that nobody else takes.
func (a *assignment) review(ctx context.Context, order []*graph.Node, groupOf []int32, groups []groupInfo) (bool, error) {
	reviewers := make([][]property.SubgraphProperty, len(a.names))
	wanted, shown := false, false
	for i, ps := range a.props {
		for _, p := range ps {
			if _, ok := property.As[property.Reviewer](p); ok && property.KindOf(p) != property.Atomic {
				reviewers[i] = append(reviewers[i], p)
				shown = true
			}
		}
		wanted = wanted || shown || a.o.MinNodes > 1 && i < len(a.names)-1
	}
	if !wanted {
		return false, nil
	}
	members := make([][]*graph.Node, len(groups))
	for _, n := range order {
		if k := groupOf[n.ID]; k >= 0 {
			members[k] = append(members[k], n)
		}
	}
	var twin *graph.Graph
	var nodes []*graph.Node
	if shown {
		var err error
		if twin, err = a.g.Clone(); err != nil {
			return false, err
		}
		nodes = twin.NodesByID()
	}
	first := int32(len(a.names))
	for k, info := range groups {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		i := info.backend
		dropped, why := a.tooSmall(i, members[k])
		for _, p := range reviewers[i] {
			if dropped != nil {
				break
			}
			var err error
			if dropped, why, err = reviewGroup(twin, nodes, p, members[k]); err != nil {
				return false, err
			}
			if why != nil && why.Code == property.TooSmall && !a.elsewhere(i, dropped) {
				dropped = nil
			}
		}
		for _, n := range dropped {
			if err := a.dismiss(n, i, why); err != nil {
				return false, err
			}
			first = min(first, i)
		}
	}
	if int(first) == len(a.names) {
		return false, nil
	}
	return true, a.again(ctx, first)
}

// tooSmall returns the nodes of a group that is smaller than Options.MinNodes, and that others take.
func (a *assignment) tooSmall(i int32, nodes []*graph.Node) ([]*graph.Node, *property.Reason) {
	size := 0
	for _, n := range nodes {
		if size++; n.IsCarve(graph.OpFused) {
			size += n.Regions[0].Graph.NumNodes() - 1
		}
	}
	if size >= a.o.MinNodes || !a.elsewhere(i, nodes) {
		return nil, nil
	}
	return nodes, property.Because(property.TooSmall, "its group has %d nodes, of at least %d", size, a.o.MinNodes)
}

// reviewGroup shows one group, as a graph of its own made from a copy of the graph, and returns the nodes that p drops.
func reviewGroup(twin *graph.Graph, nodes []*graph.Node, p property.SubgraphProperty, group []*graph.Node) ([]*graph.Node, *property.Reason, error) {
	rev, _ := property.As[property.Reviewer](p)
	copies := make([]*graph.Node, len(group))
	for k, n := range group {
		copies[k] = nodes[n.ID]
	}
	sub, err := twin.Extract(copies, graph.NodeSpec{Op: graph.Op{Domain: graph.CarveDomain, Name: graph.OpSubgraph}})
	if err != nil {
		return nil, nil, err
	}
	keep, why := rev.Review(sub.Regions[0].Graph)
	_, dropped := divide(group, keep)
	if why == nil {
		why = property.Because(property.Veto, "the property kept %d of %d nodes", len(group)-len(dropped), len(group))
	}
	if _, err := twin.Inline(sub); err != nil {
		return nil, nil, err
	}
	return dropped, named(why, p), nil
}

// elsewhere reports whether every node has a backend behind i that takes it.
func (a *assignment) elsewhere(i int32, nodes []*graph.Node) bool {
	for _, n := range nodes {
		if n.IsCarve(graph.OpFused) {
			for m := range n.Regions[0].Graph.Nodes() {
				if !a.taken(i, m) {
					return false
				}
			}
		} else if !a.taken(i, n) {
			return false
		}
	}
	return true
}

func (a *assignment) taken(i int32, n *graph.Node) bool {
	for j := int(i) + 1; j < len(a.names); j++ {
		if a.allowed(n, int32(j)) == nil && a.o.Backends[j].Supports(n).Reason == nil {
			return true
		}
	}
	return false
}

// dismiss takes a node, or what a fused node stands for, from backend i for good.
func (a *assignment) dismiss(n *graph.Node, i int32, why *property.Reason) error {
	a.rejected(n, i, why)
	freed, err := a.release(n)
	for _, m := range freed {
		a.banned[m] = append(a.banned[m], ban{i, why})
	}
	return err
}

// release makes a node, or what a fused node stands for, nobody's.
func (a *assignment) release(n *graph.Node) ([]*graph.Node, error) {
	n.Backend = ""
	a.backend[n.ID], a.options[n.ID] = unassigned, nil
	if !n.IsCarve(graph.OpFused) {
		return []*graph.Node{n}, nil
	}
	inner, err := a.g.Inline(n)
	a.grow()
	return inner, err
}

// again lets the backends behind the first one that lost nodes claim anew.
func (a *assignment) again(ctx context.Context, first int32) error {
	var behind []*graph.Node
	for n := range a.g.Nodes() {
		if a.backend[n.ID] > first {
			behind = append(behind, n)
		}
	}
	for _, n := range behind {
		if _, err := a.release(n); err != nil {
			return err
		}
	}
	a.borders = slices.DeleteFunc(a.borders, func(b border) bool { return b.backend > first })
	for i := first + 1; int(i) < len(a.names); i++ {
		if err := a.claim(ctx, i); err != nil {
			return err
		}
	}
	return a.complete()
}

// grouped forms groups until nobody turns one down.
func grouped(ctx context.Context, a *assignment) (order []*graph.Node, groupOf []int32, groups []groupInfo, err error) {
	for range maxReviews {
		if order, err = a.g.Topo(); err != nil {
			return nil, nil, nil, err
		}
		if groupOf, groups, err = group(ctx, a, order); err != nil {
			return nil, nil, nil, err
		}
		changed, err := a.review(ctx, order, groupOf, groups)
		if err != nil || !changed {
			return order, groupOf, groups, err
		}
	}
	return nil, nil, nil, fmt.Errorf("%w: %d rounds", ErrReview, maxReviews)
}
