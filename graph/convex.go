package graph

import (
	"cmp"
	"fmt"
	"slices"
)

// Offender returns nil where a set of nodes of g is convex: no path leaves it and comes back. Otherwise it returns the node
// of the set, the last in a topological order, to which such a path comes back. No more than limit nodes outside of the set
// are looked at (0: no bound); where that is not enough the set counts as not convex and its last node is returned.
//
// The error wraps ErrNodeSet (an empty set, or a node that is not g's) or ErrCycle. The first call costs O(V+E), others
// O(set + what the set reaches before its last node in topological order), as with Extract.
func (g *Graph) Offender(nodes []*Node, limit int) (*Node, error) {
	var w window
	if err := w.find(g, nodes); err != nil {
		return nil, err
	}
	var worst *Node
	var one [1]*Node
	outside := w.enter(nil, w.members)
	for seen := 1; len(outside) > 0; seen++ {
		n := outside[len(outside)-1]
		outside = outside[:len(outside)-1]
		if limit > 0 && seen > limit {
			return w.last, nil
		}
		for _, v := range n.Outputs {
			if v == nil {
				continue
			}
			for _, u := range v.uses {
				if w.set.has(u.Node) && (worst == nil || w.r.rank(u.Node) > w.r.rank(worst)) {
					worst = u.Node
				}
			}
		}
		one[0] = n
		outside = w.enter(outside, one[:])
	}
	return worst, nil
}

// ConvexParts divides a set of nodes of g into parts that are convex and connected, and depend on each other in no circle,
// even if all of them are contracted: by the level of each node, which is how often a path to it leaves the set, and by
// connected components inside a level. The set itself comes back where it is convex and connected. Parts come in
// topological order of their first nodes, and so do the nodes of a part. Errors and cost are those of Offender without a
// limit.
func (g *Graph) ConvexParts(nodes []*Node) ([][]*Node, error) {
	var w window
	if err := w.find(g, nodes); err != nil {
		return nil, err
	}
	all := slices.Clone(w.members)
	for frontier := w.members; len(frontier) > 0; {
		frontier = w.enter(nil, frontier)
		all = append(all, frontier...)
	}
	slices.SortFunc(all, func(a, b *Node) int { return cmp.Compare(w.r.rank(a), w.r.rank(b)) })
	level := make(map[*Node]int, len(all))
	part := make(map[*Node]int, len(w.members))
	parent := make([]int, 0, len(w.members)) // union-find over parts
	find := func(p int) int {
		for parent[p] != p {
			parent[p] = parent[parent[p]]
			p = parent[p]
		}
		return p
	}
	for _, n := range all {
		most := 0
		for _, v := range n.Operands() {
			if l, reached := level[v.Producer]; reached {
				if w.set.has(v.Producer) && !w.set.has(n) {
					l++
				}
				most = max(most, l)
			}
		}
		level[n] = most
		if !w.set.has(n) {
			continue
		}
		part[n] = len(parent)
		parent = append(parent, len(parent))
		for _, v := range n.Operands() {
			if p := v.Producer; p != nil && w.set.has(p) && level[p] == level[n] {
				a, b := find(part[p]), find(part[n])
				parent[max(a, b)] = min(a, b)
			}
		}
	}
	at := make([]int, len(parent)) // index of a root's part, plus one
	var out [][]*Node
	for _, n := range all {
		if !w.set.has(n) {
			continue
		}
		p := find(part[n])
		if at[p] == 0 {
			out = append(out, nil)
			at[p] = len(out)
		}
		out[at[p]-1] = append(out[at[p]-1], n)
	}
	return out, nil
}

// window is what a set of nodes reaches before its last node in topological order.
type window struct {
	r       *ranks
	set     marks
	seen    marks
	members []*Node
	last    *Node
}

// find fills in a zero window.
func (w *window) find(g *Graph, nodes []*Node) error {
	w.set, w.seen, w.members = g.marks(len(nodes)), g.marks(len(nodes)), nodes
	twice := false
	for _, n := range nodes {
		if n == nil || n.graph != g {
			return fmt.Errorf("%w: %v is not of the graph", ErrNodeSet, n)
		}
		twice = twice || w.set.has(n)
		w.set.add(n)
	}
	if len(nodes) == 0 {
		return fmt.Errorf("%w: it is empty", ErrNodeSet)
	}
	if twice {
		w.members = nil
		had := g.marks(len(nodes))
		for _, n := range nodes {
			if !had.has(n) {
				had.add(n)
				w.members = append(w.members, n)
			}
		}
	}
	var err error
	if w.r, err = g.ranked(); err != nil {
		return err
	}
	for _, n := range nodes { // nodes without operands have no rank when they are new
		if w.r.rank(n) == 0 {
			g.order = nil
			if w.r, err = g.ranked(); err != nil {
				return err
			}
			break
		}
	}
	w.last = slices.MaxFunc(w.members, func(a, b *Node) int { return cmp.Compare(w.r.rank(a), w.r.rank(b)) })
	return nil
}

// enter appends to list the nodes outside of the set that read results of these nodes, come before the set's last node, and
// have not been seen.
func (w *window) enter(list, nodes []*Node) []*Node {
	hi := w.r.rank(w.last)
	for _, n := range nodes {
		for _, v := range n.Outputs {
			if v == nil {
				continue
			}
			for _, u := range v.uses {
				if m := u.Node; !w.set.has(m) && !w.seen.has(m) && w.r.rank(m) <= hi {
					w.seen.add(m)
					list = append(list, m)
				}
			}
		}
	}
	return list
}

// marks is a set of nodes of one graph: by id where it is about a large part of them. The zero marks is empty.
type marks struct {
	first [8]*Node // the first ones; sets of up to so many need no table
	count int      // how many of first are taken
	few   map[*Node]bool
	many  []bool
}

// marks returns an empty set for about n nodes.
func (g *Graph) marks(n int) marks {
	switch {
	case n > 256 && n > g.NodeIDs()/64:
		return marks{many: make([]bool, g.NodeIDs())}
	case n > len(marks{}.first):
		return marks{few: make(map[*Node]bool, min(n, 64))}
	}
	return marks{}
}

func (m *marks) has(n *Node) bool {
	switch {
	case m.many != nil:
		return m.many[n.ID]
	case m.few != nil:
		return m.few[n]
	}
	return slices.Contains(m.first[:m.count], n)
}

func (m *marks) add(n *Node) {
	switch {
	case m.many != nil:
		m.many[n.ID] = true
		return
	case m.few == nil && m.count < len(m.first):
		if !m.has(n) {
			m.first[m.count] = n
			m.count++
		}
		return
	case m.few == nil:
		m.few = make(map[*Node]bool, 4*len(m.first))
		for _, n := range m.first {
			m.few[n] = true
		}
	}
	m.few[n] = true
}
