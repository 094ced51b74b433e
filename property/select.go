package property

import (
	"context"
	"slices"

	"github.com/carve-dev/carve/graph"
)

// Sets drives a property over g: every node of the topological order that is still free is offered as a seed, and each
// set that grows, passes Filter and is convex in the current graph goes to accept, which may contract it; sets that it
// turns down leave their nodes free for other seeds. A set that Filter tears apart is offered piece by piece; one that is
// not convex loses its topologically latest offending node and grows again, as often as needed. Declined nodes, those
// that a selector took first and convexity took away, are reported to declined, which may be nil.
//
// It is deterministic: nodes are visited in topological order and consumers by id.
func Sets(ctx context.Context, g *graph.Graph, p SubgraphProperty, free func(*graph.Node) bool,
	accept func(set []*graph.Node) bool, declined func(*graph.Node, *Reason)) error {
	order, err := g.Topo()
	if err != nil {
		return err
	}
	s := setFinder{rank: make(map[*graph.Node]int, len(order)), free: free}
	for i, n := range order {
		s.rank[n] = i
	}
	for i, seed := range order {
		if i%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if seed.Graph() != g || !free(seed) {
			continue
		}
		sel := p.NewSelector(g)
		excluded := map[*graph.Node]bool{}
		for {
			set := s.grow(sel, seed, excluded)
			if set == nil {
				break
			}
			bad := s.offender(set)
			if bad == nil {
				for _, piece := range s.pieces(set, sel) {
					if s.offender(piece) != nil {
						for _, n := range piece {
							tell(declined, n, Because(Cycle, "the piece that %s keeps is not convex", p.Name()))
						}
						continue
					}
					accept(piece)
				}
				break
			}
			tell(declined, bad, Because(Cycle, "with it the set of %s would depend on itself", p.Name()))
			if bad == seed || len(set) == 1 {
				break
			}
			excluded[bad] = true
			sel.Reset()
		}
	}
	return nil
}

func tell(declined func(*graph.Node, *Reason), n *graph.Node, why *Reason) {
	if declined != nil {
		declined(n, why)
	}
}

type setFinder struct {
	rank map[*graph.Node]int // of the nodes that existed at the start
	free func(*graph.Node) bool
}

// grow returns the set around seed in topological order, nil where the selector turns the seed down.
func (s *setFinder) grow(sel Selector, seed *graph.Node, excluded map[*graph.Node]bool) []*graph.Node {
	if !sel.Select(seed) {
		return nil
	}
	in := map[*graph.Node]bool{seed: true}
	queue := []*graph.Node{seed}
	usable := func(n *graph.Node) bool { return !in[n] && !excluded[n] && s.free(n) }
	for len(queue) > 0 {
		cur := queue[0]
		queue = queue[1:]
		for _, v := range cur.Operands() {
			if p := v.Producer; p != nil && usable(p) && sel.SelectInput(cur, p) {
				in[p] = true
				queue = append(queue, p)
			}
		}
		for _, o := range cur.Outputs {
			if o == nil {
				continue
			}
			for _, c := range o.Consumers() {
				if usable(c) && sel.SelectOutput(cur, c) {
					in[c] = true
					queue = append(queue, c)
				}
			}
		}
	}
	return s.sorted(in)
}

func (s *setFinder) sorted(in map[*graph.Node]bool) []*graph.Node {
	set := make([]*graph.Node, 0, len(in))
	for n := range in {
		set = append(set, n)
	}
	slices.SortFunc(set, func(a, b *graph.Node) int { return s.rank[a] - s.rank[b] })
	return set
}

// pieces filters a set and returns its connected components, in topological order of their first nodes.
func (s *setFinder) pieces(set []*graph.Node, sel Selector) [][]*graph.Node {
	kept := sel.Filter(set)
	in := map[*graph.Node]bool{}
	for _, n := range kept {
		if slices.Contains(set, n) {
			in[n] = true
		}
	}
	var out [][]*graph.Node
	for _, n := range s.sorted(in) {
		if !in[n] {
			continue
		}
		part := map[*graph.Node]bool{}
		stack := []*graph.Node{n}
		delete(in, n)
		for len(stack) > 0 {
			cur := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			part[cur] = true
			visit := func(m *graph.Node) {
				if in[m] {
					delete(in, m)
					stack = append(stack, m)
				}
			}
			for _, v := range cur.Operands() {
				if v.Producer != nil {
					visit(v.Producer)
				}
			}
			for _, o := range cur.Outputs {
				if o != nil {
					for _, u := range o.Uses() {
						visit(u.Node)
					}
				}
			}
		}
		out = append(out, s.sorted(part))
	}
	return out
}

// searchLimit bounds the nodes that one test of convexity visits. A set whose test would need more counts as not convex,
// which is safe.
const searchLimit = 1 << 16

// offender returns nil where set is convex: no path leaves it and comes back. Otherwise it returns the latest node of the
// set to which such a path comes back.
func (s *setFinder) offender(set []*graph.Node) *graph.Node {
	in := make(map[*graph.Node]bool, len(set))
	for _, n := range set {
		in[n] = true
	}
	var frontier []*graph.Node
	seen := map[*graph.Node]bool{}
	leaving := 0
	for _, n := range set {
		leaves := false
		for _, o := range n.Outputs {
			if o == nil {
				continue
			}
			for _, u := range o.Uses() {
				if !in[u.Node] {
					leaves = true
					if !seen[u.Node] {
						seen[u.Node] = true
						frontier = append(frontier, u.Node)
					}
				}
			}
		}
		if leaves {
			leaving++
		}
	}
	// A path can only leave through the last node, and nothing of the set comes after it.
	if leaving == 0 || (leaving == 1 && s.leavesOnlyThroughSink(set, in)) {
		return nil
	}
	var worst *graph.Node
	for visits := 0; len(frontier) > 0; visits++ {
		if visits > searchLimit {
			return set[len(set)-1]
		}
		n := frontier[len(frontier)-1]
		frontier = frontier[:len(frontier)-1]
		for _, o := range n.Outputs {
			if o == nil {
				continue
			}
			for _, u := range o.Uses() {
				switch {
				case in[u.Node]:
					if worst == nil || s.rank[u.Node] > s.rank[worst] {
						worst = u.Node
					}
				case !seen[u.Node]:
					seen[u.Node] = true
					frontier = append(frontier, u.Node)
				}
			}
		}
	}
	return worst
}

// leavesOnlyThroughSink reports whether every node of the set reaches the one node that has outside readers, so that a
// path that left and came back would close a cycle.
func (s *setFinder) leavesOnlyThroughSink(set []*graph.Node, in map[*graph.Node]bool) bool {
	sinks := 0
	for _, n := range set {
		out, inside := false, false
		for _, o := range n.Outputs {
			if o == nil {
				continue
			}
			for _, u := range o.Uses() {
				if in[u.Node] {
					inside = true
				} else {
					out = true
				}
			}
		}
		if out && inside {
			return false
		}
		if !inside {
			sinks++
		}
	}
	return sinks == 1
}
