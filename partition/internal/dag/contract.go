package dag

// maxSweeps bounds how often the edges that could not be contracted are tried again after others were.
const maxSweeps = 3

// candidate is an edge of the quotient inside a colour.
type candidate struct {
	from, to int32
	tried    int32 // members of both ends when it was found illegal: groups only grow, so an equal number is the same pair
}

// candidates returns the edges that may be contracted, by head in topological order, then by tail
// against it: what is close to the head is merged before what is farther, so that no path is left between.
func (s *state) candidates(key []int32) []candidate {
	q := s.q
	n := 0
	for u := range q.n {
		if key[u] < 0 {
			continue
		}
		for _, v := range q.adj[q.ptr[u]:q.ptr[u+1]] {
			if key[u] == key[v] {
				n++
			}
		}
	}
	if n == 0 {
		return nil
	}
	s.reverse(q)
	if cap(s.list) < n {
		s.list = make([]candidate, 0, n)
	}
	list := s.list[:0]
	for v := range q.n {
		if key[v] < 0 {
			continue
		}
		for i := q.pptr[v+1] - 1; i >= q.pptr[v]; i-- {
			u := q.padj[i]
			if key[u] == key[v] {
				list = append(list, candidate{from: u, to: v})
			}
		}
	}
	if q.cut == nil {
		return list
	}
	return s.uncut(list)
}

// uncut returns the candidates that are not cut, in the list's memory.
func (s *state) uncut(list []candidate) []candidate {
	q := s.q
	slot := s.take(q.n) // slot of the edge from the current tail to each node
	cut := make([]bool, len(list))
	byTail := make([]int32, len(list))
	tails, ptr := s.take(int32(len(list))), s.take(q.n+1)
	for i, c := range list {
		tails[i] = c.from
	}
	bucket(tails, ptr, byTail)
	for u := range q.n {
		if ptr[u] == ptr[u+1] {
			continue
		}
		for i := q.ptr[u]; i < q.ptr[u+1]; i++ {
			slot[q.adj[i]] = i
		}
		for _, i := range byTail[ptr[u]:ptr[u+1]] {
			cut[i] = q.cut[slot[list[i].to]]
		}
	}
	s.give(slot, tails, ptr)
	kept := list[:0]
	for i, c := range list {
		if !cut[i] {
			kept = append(kept, c)
		}
	}
	return kept
}

// merge contracts edges inside colour c while that is legal. final says that nothing comes behind it.
func (s *state) merge(c int32, final bool) error {
	key, keyed := s.keys(c)
	defer func() { s.give(key) }()
	if keyed < 2 {
		return nil
	}
	list := s.candidates(key)
	if len(list) == 0 {
		return nil
	}
	m := s.newMerger(s.q)
	defer m.close()
	merged := false
	for sweep := range maxSweeps {
		var some bool
		var err error
		if list, some, err = s.sweep(m, list, sweep == 0); err != nil {
			return err
		}
		merged = merged || some
		if len(list) == 0 || sweep > 0 && !some {
			break
		}
	}
	for _, c := range list {
		s.short = s.short || c.tried == 0
	}
	if merged {
		to, n := m.number()
		if final {
			s.q = &quotient{n: n} // nobody looks at its edges any more
			s.follow(to)
		} else {
			s.apply(to, n)
		}
	}
	return nil
}

// sweep tries every candidate once and returns those that are worth another try.
func (s *state) sweep(m *merger, list []candidate, first bool) (left []candidate, merged bool, err error) {
	left = list[:0]
	for i, c := range list {
		if i&1023 == 0 {
			if err := s.ctx.Err(); err != nil {
				return nil, false, err
			}
		}
		g, h := find(m.parent, c.from), find(m.parent, c.to)
		if g == h {
			continue
		}
		members := m.count[g] + m.count[h]
		if c.tried != members {
			budget := int64(firstSteps)
			if !first {
				budget = max(leastSteps, s.steps>>4)
			}
			switch m.contract(g, h, budget) {
			case legal:
				merged = true
				continue
			case illegal:
				c.tried = members
			case unknown:
				c.tried = 0
			}
		}
		left = append(left, c)
	}
	return left, merged, nil
}
