package dag

// quotient is a graph of contracted nodes in compressed rows without parallel edges. But for the one that stands for the
// problem's own graph, its nodes are numbered in a topological order: every edge leads to a higher number.
type quotient struct {
	n   int32
	ptr []int32
	adj []int32
	cut []bool // by slot of adj, nil if there are none

	// Filled by reverse.
	pptr, padj []int32
	pslot      []int32 // slot in adj of each slot in padj, nil if cut is
}

// base returns the problem's graph as a quotient of single nodes.
func (w *work) base(p *Problem) *quotient {
	g := p.Graph
	q := &quotient{n: g.n, ptr: g.succPtr, adj: g.succ, pptr: g.predPtr, padj: g.pred}
	if p.Cut != nil {
		q.cut = make([]bool, len(g.succ))
		for s, e := range g.succEdge {
			q.cut[s] = p.Cut[e]
		}
	}
	return q
}

// barred reports whether the edge in a slot keeps the level method from joining its ends.
func (q *quotient) barred(slot int32) bool {
	return q.cut != nil && q.cut[slot]
}

// contract returns the quotient with m nodes in which node v of q has become node to[v]. Edges inside a node vanish;
// parallel ones become one, which is cut if one of them is. The cost is linear.
func (w *work) contract(q *quotient, to []int32, m int32) *quotient {
	start, members := w.take(m+1), w.take(q.n)
	bucket(to[:q.n], start, members)
	r := &quotient{n: m, ptr: w.take(m + 1), adj: w.take(int32(len(q.adj)))}
	if q.cut != nil {
		r.cut = make([]bool, len(q.adj))
	}
	last := w.take(m) // slot of the latest edge to each node
	for i := range last {
		last[i] = -1
	}
	end := int32(0)
	if q.cut == nil {
		for a := range m {
			row := end
			r.ptr[a] = row
			for _, u := range members[start[a]:start[a+1]] {
				for _, v := range q.adj[q.ptr[u]:q.ptr[u+1]] {
					if b := to[v]; b != a && last[b] < row {
						last[b], r.adj[end] = end, b
						end++
					}
				}
			}
		}
		r.ptr[m], r.adj = end, r.adj[:end]
		w.give(start, members, last)
		return r
	}
	for a := range m {
		row := end
		r.ptr[a] = row
		for _, u := range members[start[a]:start[a+1]] {
			for s := q.ptr[u]; s < q.ptr[u+1]; s++ {
				b := to[q.adj[s]]
				if b == a {
					continue
				}
				at := last[b]
				if at < row {
					at = end
					last[b], r.adj[at] = at, b
					end++
				}
				r.cut[at] = r.cut[at] || q.cut[s]
			}
		}
	}
	r.ptr[m] = end
	r.adj = r.adj[:end]
	w.give(start, members, last)
	return r
}

// reverse fills the predecessor rows, in ascending order of predecessors.
func (w *work) reverse(q *quotient) {
	if q.pptr != nil {
		return
	}
	q.pptr, q.padj = w.take(q.n+1), w.take(int32(len(q.adj)))
	if q.cut != nil {
		q.pslot = w.take(int32(len(q.adj)))
	}
	clear(q.pptr)
	for _, v := range q.adj {
		q.pptr[v]++
	}
	sum := int32(0)
	for v := range q.pptr {
		sum += q.pptr[v]
		q.pptr[v] = sum
	}
	for u := q.n - 1; u >= 0; u-- {
		for s := q.ptr[u+1] - 1; s >= q.ptr[u]; s-- {
			v := q.adj[s]
			q.pptr[v]--
			q.padj[q.pptr[v]] = u
			if q.pslot != nil {
				q.pslot[q.pptr[v]] = s
			}
		}
	}
}

// drop gives a quotient's memory back. It must not be a base.
func (w *work) drop(q *quotient) {
	w.give(q.ptr, q.adj, q.pptr, q.padj, q.pslot)
	*q = quotient{}
}

// order returns the nodes of q in a topological order, wave by wave (by length of the longest path from a source), and how
// many could be ordered; the rest lie on cycles or behind them.
func (w *work) order(q *quotient) (order []int32, n int32) {
	missing := w.take(q.n) // predecessors that are not ordered yet
	clear(missing)
	for _, v := range q.adj {
		missing[v]++
	}
	order = w.take(q.n)
	for v := range q.n {
		if missing[v] == 0 {
			order[n] = v
			n++
		}
	}
	for i := int32(0); i < n; i++ {
		u := order[i]
		for s := q.ptr[u]; s < q.ptr[u+1]; s++ {
			v := q.adj[s]
			if missing[v]--; missing[v] == 0 {
				order[n] = v
				n++
			}
		}
	}
	w.give(missing)
	return order, n
}
