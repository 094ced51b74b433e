package dag

// maxReviews bounds how often a colour is merged again after groups of it were turned down.
const maxReviews = 3

// review asks Accept for the finished groups of colour c and gives the nodes of those it turns down to the host. Replacing a
// group by its single nodes keeps the quotient acyclic and only loosens what kept other groups apart, so these may then be
// merged further; every group that comes out has been accepted as it is.
func (s *state) review(c int32, pol Policy) error {
	accepted := make([]bool, s.q.n)
	for round := 1; ; round++ {
		refused, some, err := s.ask(c, accepted)
		if err != nil || !some {
			return err
		}
		accepted = s.dissolve(refused, accepted)
		if round == maxReviews || pol.Disconnected {
			return nil
		}
		// A merged group gets a new number and is asked for again; what stays the same must be found again by its nodes.
		first := s.firsts(c, accepted)
		merged, err := s.merge(c, pol, false)
		if err != nil || !merged {
			return err
		}
		accepted = s.unchanged(first)
	}
}

// ask calls Accept for the groups of colour c that are not accepted yet.
func (s *state) ask(c int32, accepted []bool) (refused []bool, some bool, err error) {
	n := s.q.n
	ptr, list := s.take(n+1), s.take(s.base.n)
	defer func() { s.give(ptr, list) }()
	bucket(s.of, ptr, list)
	refused = make([]bool, n)
	for x := range n {
		nodes := list[ptr[x]:ptr[x+1]]
		if s.color[nodes[0]] != c || accepted[x] {
			continue
		}
		if err := s.ctx.Err(); err != nil {
			return nil, false, err
		}
		if s.p.Accept(c, nodes) {
			accepted[x] = true
		} else {
			refused[x], some = true, true
		}
	}
	return refused, some, nil
}

// dissolve replaces each refused group by its nodes, in topological order in its place, and returns accepted for the new
// quotient.
func (s *state) dissolve(refused, accepted []bool) []bool {
	if &s.color[0] == &s.p.Color[0] {
		s.color = append([]int32(nil), s.p.Color...)
	}
	if s.rank == nil {
		order, _ := s.order(s.base)
		s.rank = order
	}
	width := s.take(s.q.n + 1)
	clear(width)
	for _, x := range s.of {
		if refused[x] || width[x] == 0 {
			width[x]++
		}
	}
	sum := int32(0)
	next := s.take(s.q.n) // number for each group, or for its next node
	kept := make([]bool, 0, s.base.n)
	for x := range s.q.n {
		next[x] = sum
		sum += width[x]
		for range width[x] {
			kept = append(kept, accepted[x])
		}
	}
	for _, v := range s.rank {
		x := s.of[v]
		s.of[v] = next[x]
		if refused[x] {
			next[x]++
			s.color[v] = Host
		}
	}
	s.give(width, next)
	s.drop(s.q)
	s.q = s.contract(s.base, s.of, sum)
	return kept
}

// firsts returns for each node whether it is the lowest of an accepted group of colour c, with the size of that group.
func (s *state) firsts(c int32, accepted []bool) []int32 {
	ptr, list := s.take(s.q.n+1), s.take(s.base.n)
	bucket(s.of, ptr, list)
	first := s.take(s.base.n)
	clear(first)
	for x := range s.q.n {
		if v := list[ptr[x]]; s.color[v] == c && accepted[x] {
			first[v] = ptr[x+1] - ptr[x]
		}
	}
	s.give(ptr, list)
	return first
}

// unchanged returns which groups are accepted as they are: those with the first node and the size of one that was.
func (s *state) unchanged(first []int32) []bool {
	ptr, list := s.take(s.q.n+1), s.take(s.base.n)
	bucket(s.of, ptr, list)
	accepted := make([]bool, s.q.n)
	for x := range s.q.n {
		accepted[x] = first[list[ptr[x]]] == ptr[x+1]-ptr[x]
	}
	s.give(ptr, list, first)
	return accepted
}
