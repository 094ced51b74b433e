package dag

import (
	"cmp"
	"slices"
)

// maxSweeps bounds how often the edges that could not be contracted are tried again after others were.
const maxSweeps = 3

// candidate is an edge of the quotient inside a colour.
type candidate struct {
	from, to int32
	gain     float32
	tried    int32 // members of both ends when it was found illegal: groups only grow, so an equal number is the same pair
}

// candidates returns the edges that may be contracted, by falling benefit, then by head in topological order, then by tail
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
	if q.gain == nil && q.cut == nil {
		return list
	}
	s.weigh(list)
	kept := list[:0]
	for _, c := range list {
		if c.gain > 0 {
			kept = append(kept, c)
		}
	}
	if q.gain != nil {
		slices.SortStableFunc(kept, func(a, b candidate) int { return cmp.Compare(b.gain, a.gain) })
	}
	return kept
}

// weigh fills in what each candidate brings: nothing if it is cut.
func (s *state) weigh(list []candidate) {
	q := s.q
	slot := s.take(q.n) // slot of the edge from the current tail to each node
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
			c, at := &list[i], slot[list[i].to]
			c.gain = 1
			if q.gain != nil {
				c.gain = q.gain[at]
			}
			if q.cut != nil && q.cut[at] {
				c.gain = 0
			}
		}
	}
	s.give(slot, tails, ptr)
}

// merge contracts edges inside colour c while that is legal and reports whether it contracted any. final says that nothing
// comes behind it.
func (s *state) merge(c int32, pol Policy, final bool) (merged bool, err error) {
	key, keyed := s.keys(c)
	defer func() { s.give(key) }()
	if keyed < 2 {
		return false, nil
	}
	list := s.candidates(key)
	if len(list) == 0 {
		return false, nil
	}
	m := s.newMerger(s.q, s.sizes(pol))
	defer m.close()
	for sweep := range maxSweeps {
		var some bool
		if list, some, err = s.sweep(m, list, pol.MaxSize, sweep == 0); err != nil {
			return false, err
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
	return merged, nil
}

// sweep tries every candidate once and returns those that are worth another try.
func (s *state) sweep(m *merger, list []candidate, most int64, first bool) (left []candidate, merged bool, err error) {
	left = list[:0]
	for i, c := range list {
		if i&1023 == 0 {
			if err := s.ctx.Err(); err != nil {
				return nil, false, err
			}
		}
		g, h := find(m.parent, c.from), find(m.parent, c.to)
		if g == h || m.size != nil && m.size[g]+m.size[h] > most {
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
