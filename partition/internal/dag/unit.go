package dag

import "slices"

// divide copies the units, takes host nodes out of them, and divides units that differ inside in colour or bound, or have
// lost nodes to the host, into connected parts that do not differ. Those units are reported as split.
func (s *state) divide() {
	p, n := s.p, s.base.n
	s.unit = append([]int32(nil), p.Unit...)
	s.units = n
	first, torn := s.take(n), make([]bool, n) // by unit: its first node
	for i := range first {
		first[i] = -1
	}
	alike := func(u, v int32) bool {
		return p.Color[u] == p.Color[v] && (p.Bound == nil || p.Bound[u] == p.Bound[v])
	}
	some := false
	for v := range n {
		u := p.Unit[v]
		if p.Color[v] < 0 {
			s.unit[v] = -1
		}
		if u < 0 {
			continue
		}
		if first[u] < 0 {
			first[u] = v
		} else if !alike(first[u], v) && (p.Color[v] >= 0 || p.Color[first[u]] >= 0) {
			torn[u], some = true, true
		}
	}
	if some {
		s.parts(torn, alike)
	}
	for u, t := range torn {
		if t {
			s.split = append(s.split, int32(u))
		}
	}
	s.give(first)
}

// parts makes a unit of each connected part, alike throughout, of the torn units.
func (s *state) parts(torn []bool, alike func(u, v int32) bool) {
	g, n := s.p.Graph, s.base.n
	parent := s.take(n)
	singletons(parent)
	inTorn := func(v int32) bool { return s.unit[v] >= 0 && torn[s.p.Unit[v]] }
	for u := range n {
		if !inTorn(u) {
			continue
		}
		for _, v := range g.Succ(u) {
			if s.unit[u] == s.unit[v] && alike(u, v) {
				unite(parent, u, v)
			}
		}
	}
	number := s.take(n)
	for v := range n { // roots are the lowest of their sets
		if inTorn(v) && find(parent, v) == v {
			number[v] = s.units
			s.units++
		}
	}
	for v := range n {
		if inTorn(v) {
			s.unit[v] = number[find(parent, v)]
		}
	}
	s.give(parent, number)
}

// unite maps the nodes of each unit for which whole says so to one number, all others to one of their own, ascending by
// first node. It returns how many numbers there are.
func (s *state) unite(whole func(unit int32) bool) (m int32) {
	number := s.take(s.units)
	for i := range number {
		number[i] = -1
	}
	for v := range s.base.n {
		u := s.unit[v]
		if u < 0 || !whole(u) {
			s.of[v] = m
			m++
			continue
		}
		if number[u] < 0 {
			number[u] = m
			m++
		}
		s.of[v] = number[u]
	}
	s.give(number)
	return m
}

// repair makes the first quotient when the units cannot all be contracted. Units that lie on no cycle are whole. The others
// are contracted one after another, in the order of their numbers, unless a path leaves one and comes back; what is left is
// split by the level and component rule, all at once.
func (s *state) repair() error {
	suspect := s.suspects()
	s.drop(s.q)
	m := s.unite(func(u int32) bool { return !suspect[u] })
	s.q = s.contract(s.base, s.of, m)
	order, _ := s.order(s.q)
	s.renumber(order)
	if err := s.ctx.Err(); err != nil {
		return err
	}

	s.steps = 4 * s.budget()
	bad, err := s.contractUnits(suspect)
	if err != nil {
		return err
	}
	key := s.take(s.q.n)
	for i := range key {
		key[i] = outside
	}
	for v, x := range s.of {
		if u := s.unit[v]; u >= 0 && bad[u] {
			key[x] = u
			s.split = append(s.split, s.p.Unit[v])
		}
	}
	slices.Sort(s.split)
	s.split = slices.Compact(s.split)
	// Units ignore cuts and benefits, so the rule runs on the bare graph.
	bare := &quotient{n: s.q.n, ptr: s.q.ptr, adj: s.q.adj}
	level, parent := s.take(bare.n), s.take(bare.n)
	top := levels(bare, key, level, false)
	components(bare, key, level, parent)
	to, m := s.number(bare, key, level, parent, top, false)
	s.apply(to, m)
	s.give(key, level, parent)
	return s.ctx.Err()
}

// suspects returns the units that lie on a cycle of the quotient, or between two. Contracting only the other units gives no
// cycle: it would be one of the quotient, too.
func (s *state) suspects() []bool {
	q := s.q
	order, n := s.order(q)
	s.reverse(q)
	back, nb := s.order(&quotient{n: q.n, ptr: q.pptr, adj: q.padj})
	clean := make([]bool, q.n)
	for _, x := range order[:n] {
		clean[x] = true
	}
	for _, x := range back[:nb] {
		clean[x] = true
	}
	s.give(order, back)
	suspect := make([]bool, s.units)
	for v, x := range s.of {
		if u := s.unit[v]; u >= 0 && !clean[x] {
			suspect[u] = true
		}
	}
	return suspect
}

// contractUnits contracts the suspect units that can be and returns those that cannot.
func (s *state) contractUnits(suspect []bool) (bad []bool, err error) {
	of := s.take(s.base.n)
	for v, u := range s.unit {
		of[v] = s.units
		if u >= 0 && suspect[u] {
			of[v] = u
		}
	}
	ptr, list := s.take(s.units+2), s.take(s.base.n)
	bucket(of, ptr, list)
	bad = make([]bool, s.units)
	m := s.newMerger(s.q, nil)
	var set []int32
	for u := range s.units {
		if ptr[u+1]-ptr[u] < 2 {
			continue
		}
		if err := s.ctx.Err(); err != nil {
			return nil, err
		}
		set = set[:0]
		for _, v := range list[ptr[u]:ptr[u+1]] {
			set = append(set, s.of[v])
		}
		bad[u] = m.contractSet(set) != legal
	}
	to, n := m.number()
	m.close()
	s.give(of, ptr, list)
	s.apply(to, n)
	return bad, nil
}
