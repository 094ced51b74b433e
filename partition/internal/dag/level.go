package dag

// Keys of the nodes of a quotient in one pass. Two nodes may share a group if their keys are equal and not negative.
const (
	outside = int32(-1) // another colour or the host
	alone   = int32(-2) // of the colour, but never joined
)

// levels fills level with the length of each node's worst path from a source, or from a sink if backward, counting the
// steps that leave a keyed node other than by an edge along which it may be joined. Keyed nodes of equal key and level are
// then connected by no path that leaves their set: such a path would have counted one more. It returns the highest level.
func levels(q *quotient, key, level []int32, backward bool) int32 {
	clear(level)
	top := int32(0)
	if q.cut == nil {
		return plainLevels(q, key, level, backward)
	}
	if !backward {
		for u := range q.n {
			at, k := level[u], key[u]
			for s := q.ptr[u]; s < q.ptr[u+1]; s++ {
				v := q.adj[s]
				l := at
				if k != outside && (k < 0 || k != key[v] || q.barred(s)) {
					l++
				}
				if l > level[v] {
					level[v] = l
				}
			}
			top = max(top, at)
		}
		return top
	}
	for u := q.n - 1; u >= 0; u-- {
		at, k := int32(0), key[u]
		for s := q.ptr[u]; s < q.ptr[u+1]; s++ {
			v := q.adj[s]
			l, kv := level[v], key[v]
			if kv != outside && (k < 0 || k != kv || q.barred(s)) {
				l++
			}
			at = max(at, l)
		}
		level[u] = at
		top = max(top, at)
	}
	return top
}

// plainLevels is levels where no edge is barred.
func plainLevels(q *quotient, key, level []int32, backward bool) int32 {
	top := int32(0)
	level = level[:len(key)]
	if !backward {
		for u, k := range key {
			at := level[u]
			out := at + 1 // behind an edge that leaves the keyed set
			for _, v := range q.adj[q.ptr[u]:q.ptr[u+1]] {
				l := out
				if k == outside || k >= 0 && k == key[v] {
					l = at
				}
				level[v] = max(level[v], l)
			}
			top = max(top, at)
		}
		return top
	}
	for u := len(key) - 1; u >= 0; u-- {
		at, k := int32(0), key[u]
		for _, v := range q.adj[q.ptr[u]:q.ptr[u+1]] {
			l, kv := level[v], key[v]
			if kv != outside && (k < 0 || k != kv) {
				l++
			}
			at = max(at, l)
		}
		level[u] = at
		top = max(top, at)
	}
	return top
}

// components makes parent the connected components of keyed nodes inside each level and returns how many nodes they save.
func components(q *quotient, key, level, parent []int32) int32 {
	singletons(parent)
	saved := int32(0)
	for u := range q.n {
		k := key[u]
		if k < 0 {
			continue
		}
		for s := q.ptr[u]; s < q.ptr[u+1]; s++ {
			v := q.adj[s]
			if k == key[v] && level[u] == level[v] && !q.barred(s) && unite(parent, u, v) {
				saved++
			}
		}
	}
	return saved
}

// classes makes parent the sets of keyed nodes of equal level and key, connected or not, and returns how many nodes they
// save. The keys must be below keys.
func (w *work) classes(q *quotient, key, level, parent []int32, top, keys int32) int32 {
	singletons(parent)
	ptr, list, first := w.take(top+2), w.take(q.n), w.take(keys)
	bucket(level, ptr, list)
	saved := int32(0)
	for l := range top + 1 {
		row := list[ptr[l]:ptr[l+1]]
		for _, v := range row {
			if k := key[v]; k >= 0 {
				first[k] = -1
			}
		}
		for _, v := range row {
			k := key[v]
			if k < 0 {
				continue
			}
			if first[k] < 0 {
				first[k] = v
				continue
			}
			parent[v] = first[k]
			saved++
		}
	}
	w.give(ptr, list, first)
	return saved
}

// number gives the sets of parent numbers in a topological order of their quotient: by level, and inside a level first the
// nodes without a key, because an edge that leaves a keyed set raises the level. Backward, everything is the other way
// round. It returns the number of each node and how many there are.
func (w *work) number(q *quotient, key, level, parent []int32, top int32, backward bool) (to []int32, m int32) {
	rank := w.take(q.n) // bucket of each root, in order
	roots := w.take(q.n)
	for v := range q.n {
		if find(parent, v) != v {
			continue
		}
		b := 2 * level[v]
		if key[v] != outside {
			b++
		}
		if backward {
			b = 2*top + 1 - b
		}
		rank[m], roots[m] = b, v
		m++
	}
	ptr, list := w.take(2*top+3), w.take(m)
	bucket(rank[:m], ptr, list)
	to = w.take(q.n)
	for i, r := range list {
		to[roots[r]] = int32(i)
	}
	for v := range q.n { // a root is the lowest of its set, so it is numbered and left alone
		if r := find(parent, v); r != v {
			to[v] = to[r]
		}
	}
	w.give(rank, roots, ptr, list)
	return to, m
}
