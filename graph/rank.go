package graph

import (
	"cmp"
	"slices"
)

// ranks is a topological numbering of a graph's nodes, kept up while sets of nodes are contracted one after another, so
// that each contraction looks only at what lies between in rank. It is made at the first contraction, and given up where
// an edge is added that runs against it. The upkeep is that of Pearce and Kelly's dynamic topological sort
// (doi:10.1145/1187436.1210590).
type ranks struct {
	of   []int64 // by node id; 0 for a node that has none yet
	next int64   // above every rank
}

// ranked returns the numbering of g, made anew where there is none. It costs O(V+E) then.
func (g *Graph) ranked() (*ranks, error) {
	if g.order != nil {
		return g.order, nil
	}
	order, err := g.Topo()
	if err != nil {
		return nil, err
	}
	r := &ranks{of: make([]int64, g.NodeIDs())}
	for i, n := range order {
		r.of[n.ID] = int64(i) + 1
	}
	r.next = int64(len(order)) + 1
	g.order = r
	return r, nil
}

// rank returns the rank of n, 0 where it has none.
func (r *ranks) rank(n *Node) int64 {
	if n.ID < len(r.of) {
		return r.of[n.ID]
	}
	return 0
}

func (r *ranks) grow(id int) {
	for id >= len(r.of) {
		r.of = append(r.of, 0)
	}
}

// edge takes note that n reads v. A node without a rank is a new one, and comes after everything.
func (g *Graph) edge(v *Value, n *Node) {
	r := g.order
	r.grow(n.ID)
	if r.of[n.ID] == 0 {
		if len(n.Outputs) > 0 {
			g.order = nil // it has results, which may be read already
			return
		}
		r.of[n.ID] = r.next
		r.next++
	}
	if p := v.Producer; p != nil && (r.rank(p) == 0 || r.rank(p) >= r.of[n.ID]) {
		g.order = nil
	}
}

// region finds the nodes that stand between members of a set in rank: those that need a member (after) and those that a
// member needs (before), the latter only where there are any of the former. ok is false where a node is both: the set is
// not convex.
func (r *ranks) region(set *marks, members []*Node) (before, after []*Node, ok bool) {
	lo, hi := r.of[members[0].ID], r.of[members[0].ID]
	for _, n := range members {
		lo, hi = min(lo, r.of[n.ID]), max(hi, r.of[n.ID])
	}
	var seen, back marks
	forward := func(n *Node) bool {
		for _, v := range n.Outputs {
			if v == nil {
				continue
			}
			for _, u := range v.uses {
				m := u.Node
				if r.rank(m) > hi {
					continue
				}
				if set.has(m) {
					if set.has(n) {
						continue
					}
					return false
				}
				if !seen.has(m) {
					seen.add(m)
					after = append(after, m)
				}
			}
		}
		return true
	}
	for _, n := range members {
		if !forward(n) {
			return nil, nil, false
		}
	}
	for i := 0; i < len(after); i++ {
		if !forward(after[i]) {
			return nil, nil, false
		}
	}
	if len(after) == 0 {
		return nil, nil, true
	}
	backward := func(n *Node) {
		for k := range n.NumOperands() {
			v := n.Operand(k)
			if v == nil {
				continue
			}
			if m := v.Producer; m != nil && r.rank(m) >= lo && !back.has(m) && !set.has(m) {
				back.add(m)
				before = append(before, m)
			}
		}
	}
	for _, n := range members {
		backward(n)
	}
	for i := 0; i < len(before); i++ {
		backward(before[i])
	}
	return before, after, true
}

// contract gives the node that takes the place of the members its rank, and moves what region found around it. It
// reports whether nothing had to be moved, so that the other ranks of the members stay free.
func (r *ranks) contract(n *Node, members []int64, before, after []*Node) bool {
	r.grow(n.ID)
	if len(after) == 0 {
		r.of[n.ID] = slices.Max(members)
		return true
	}
	byRank := func(a, b *Node) int { return cmp.Compare(r.of[a.ID], r.of[b.ID]) }
	slices.SortFunc(before, byRank)
	slices.SortFunc(after, byRank)
	pool := slices.Clone(members)
	for _, m := range before {
		pool = append(pool, r.of[m.ID])
	}
	for _, m := range after {
		pool = append(pool, r.of[m.ID])
	}
	slices.Sort(pool)
	for i, m := range before {
		r.of[m.ID] = pool[i]
	}
	r.of[n.ID] = pool[len(before)]
	for i, m := range after {
		r.of[m.ID] = pool[len(pool)-len(after)+i]
	}
	return false
}

// expand gives nodes that took the place of n, in topological order, the ranks that they had before n took theirs. It
// reports whether the numbering is one still.
func (r *ranks) expand(n *Node, nodes []*Node, members []int64) bool {
	if len(members) != len(nodes) || len(nodes) == 0 || r.rank(n) != members[len(members)-1] {
		return false
	}
	r.of[n.ID] = 0
	for i, m := range nodes {
		r.grow(m.ID)
		r.of[m.ID] = members[i]
	}
	for _, m := range nodes {
		for _, v := range m.Operands() {
			if p := v.Producer; p != nil && (r.rank(p) == 0 || r.rank(p) >= r.rank(m)) {
				return false
			}
		}
		for _, v := range m.Outputs {
			if v == nil {
				continue
			}
			for _, u := range v.uses {
				if r.rank(u.Node) <= r.rank(m) {
					return false
				}
			}
		}
	}
	return true
}
