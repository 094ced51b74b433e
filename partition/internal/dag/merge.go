package dag

import (
	"cmp"
	"slices"
)

// merger contracts edges of a quotient one at a time and keeps a topological order of what comes out.
type merger struct {
	w      *work
	q      *quotient
	order  list    // the roots, in a topological order
	parent []int32 // union-find over the nodes of q
	ring   []int32 // next member of the same group, in a circle
	count  []int32 // members, by root

	fore, back search
}

// search is a depth-first search over roots, one edge a step. Marks are numbers of the search, so that they need no
// clearing.
type search struct {
	mark  []int32
	stamp int32
	stack []frame
	found []int32 // roots that were reached, but for the one it began at
}

// frame is a root whose edges are being looked at: from slot on, those of member and of the members behind it.
type frame struct{ root, member, slot int32 }

// verdict is how a search ended.
type verdict int

const (
	legal verdict = iota
	illegal
	unknown // the steps ran out
)

// Bounds of one search, in steps. The first sweep over the candidates makes the easy merges; later ones may also spend a
// sixteenth of what is left on a search, so that a few large searches cannot take all.
const (
	firstSteps = 64
	leastSteps = 256
)

// newMerger begins with every node of q a root, in the order of their numbers, which must be topological.
func (w *work) newMerger(q *quotient) *merger {
	w.reverse(q)
	m := &merger{w: w, q: q, parent: w.take(q.n), ring: w.take(q.n), count: w.take(q.n)}
	m.order.reset(w, q.n)
	m.fore.mark, m.back.mark = w.take(q.n), w.take(q.n)
	clear(m.fore.mark)
	clear(m.back.mark)
	singletons(m.parent)
	singletons(m.ring)
	for i := range m.count {
		m.count[i] = 1
	}
	return m
}

// close gives the merger's memory back.
func (m *merger) close() {
	m.w.give(m.parent, m.ring, m.count, m.fore.mark, m.back.mark, m.order.next, m.order.before)
}

// number returns the group of each node of q, numbered in the order that was kept, and how many there are.
func (m *merger) number() (to []int32, n int32) {
	to = m.w.take(m.q.n)
	for r := m.order.first; r >= 0; r = m.order.next[r] {
		to[r] = n
		n++
	}
	for v := range m.q.n {
		if r := find(m.parent, v); r != v {
			to[v] = to[r]
		}
	}
	return to, n
}

// contract merges the roots g and h, which an edge connects from g to h, unless another path does or a cut edge does, or it
// would take more than budget steps to find out.
func (m *merger) contract(g, h int32, budget int64) verdict {
	if m.order.next[g] == h && m.q.cut == nil { // nothing stands between them
		m.fore.found = m.fore.found[:0]
		m.joinAtHead(g, h)
		return legal
	}
	m.fore.begin(g, m.q.ptr)
	m.back.begin(h, m.q.pptr)
	budget = min(budget, m.w.steps)
	spent := int64(0)
	for {
		if spent >= budget {
			m.w.steps -= spent
			return unknown
		}
		spent += 2
		done, ok := m.forward(g, h)
		if !done && ok {
			if done, ok = m.backward(g, h); done && ok {
				m.w.steps -= spent
				m.joinAtTail(g, h)
				return legal
			}
		} else if ok {
			m.w.steps -= spent
			m.joinAtHead(g, h)
			return legal
		}
		if !ok {
			m.w.steps -= spent
			return illegal
		}
	}
}

// begin restarts the search at a root.
func (s *search) begin(root int32, ptr []int32) {
	s.stamp++
	s.stack = append(s.stack[:0], frame{root, root, ptr[root]})
	s.found = s.found[:0]
	s.mark[root] = s.stamp
}

// push goes on with a root that was reached.
func (s *search) push(root int32, ptr []int32) {
	s.mark[root] = s.stamp
	s.found = append(s.found, root)
	s.stack = append(s.stack, frame{root, root, ptr[root]})
}

// advance takes one step along the rows of ptr. It returns the slot of the edge to look at, whose start is the root on top
// of the stack, or -1 if the step was one to the next member or back; done says that there is nothing left.
func (s *search) advance(ptr, ring []int32) (slot int32, done bool) {
	f := &s.stack[len(s.stack)-1]
	if f.slot < ptr[f.member+1] {
		f.slot++
		return f.slot - 1, false
	}
	if f.member = ring[f.member]; f.member != f.root {
		f.slot = ptr[f.member]
		return -1, false
	}
	s.stack = s.stack[:len(s.stack)-1]
	return -1, len(s.stack) == 0
}

// forward looks at one more edge on the way from g to h. done means that all that g reaches before h has been seen, not ok
// that there is a second path or a cut edge.
func (m *merger) forward(g, h int32) (done, ok bool) {
	s := &m.fore
	slot, done := s.advance(m.q.ptr, m.ring)
	if slot < 0 {
		return done, true
	}
	y := find(m.parent, m.q.adj[slot])
	if y == h {
		return false, s.stack[len(s.stack)-1].root == g && (m.q.cut == nil || !m.q.cut[slot])
	}
	if s.mark[y] != s.stamp && m.order.label[y] < m.order.label[h] {
		s.push(y, m.q.ptr)
	}
	return false, true
}

// backward is forward from h against the edges.
func (m *merger) backward(g, h int32) (done, ok bool) {
	s := &m.back
	slot, done := s.advance(m.q.pptr, m.ring)
	if slot < 0 {
		return done, true
	}
	y := find(m.parent, m.q.padj[slot])
	if y == g {
		return false, s.stack[len(s.stack)-1].root == h && (m.q.cut == nil || !m.q.cut[m.q.pslot[slot]])
	}
	if s.mark[y] != s.stamp && m.order.label[y] > m.order.label[g] {
		s.push(y, m.q.pptr)
	}
	return false, true
}

// joinAtHead merges g into the place of h; what g reaches before h moves behind it.
func (m *merger) joinAtHead(g, h int32) {
	r := m.unite(g, h)
	if r == h {
		m.order.remove(g)
	} else {
		m.order.replace(h, g)
	}
	m.moveBehind(r, m.fore.found)
}

// joinAtTail merges h into the place of g; what reaches h behind g moves before it.
func (m *merger) joinAtTail(g, h int32) {
	r := m.unite(g, h)
	if r == g {
		m.order.remove(h)
	} else {
		m.order.replace(g, h)
	}
	m.moveBehind(m.order.before[r], m.back.found)
}

// moveBehind moves nodes behind at (-1: to the beginning) and keeps their order. Forward, at is the merged node and comes
// before them all; backward, it is what stands before the merged node.
func (m *merger) moveBehind(at int32, nodes []int32) {
	label := m.order.label
	slices.SortFunc(nodes, func(a, b int32) int { return cmp.Compare(label[a], label[b]) })
	for _, x := range nodes {
		m.order.remove(x)
	}
	for _, x := range nodes {
		m.order.insertAfter(at, x)
		at = x
	}
}

// unite joins the groups of two roots and returns the root of both, that of the larger.
func (m *merger) unite(g, h int32) int32 {
	r, s := g, h
	if m.count[h] > m.count[g] {
		r, s = h, g
	}
	m.parent[s] = r
	m.count[r] += m.count[s]
	m.ring[r], m.ring[s] = m.ring[s], m.ring[r]
	return r
}
