package memplan

// choice says which section search branches at.
type choice int

const (
	fewestFirst choice = iota // fewest items to choose from
	weighted                  // fewest per contradiction seen there
	leastSlack                // least space to waste
)

// style is how a search branches. Any style finds a plan if there is one.
type style struct {
	choice choice
	walls  bool // prefer items whose top is level with a neighbouring floor
}

// A valley is a maximal run of sections with the same floor and higher floors
// (or nothing) on both sides. An unplaced item of a valley whose lowest offset
// is the floor lies inside the valley, and nothing can be put below it. So at
// any section of a valley, one of these items lies on the floor, or none does;
// then each of them rests on top of some other unplaced item. These are the
// branches. Valleys may be taken in any order, and taking the one with the
// fewest branches first, rather than the lowest as MiniMalloc does, is what
// makes the search fast.

// choose returns the section of [lo, hi) to branch at and its valley, or -1
// when nothing there is unplaced.
func (s *search) choose(lo, hi int32) (at, from, to int32) {
	at = -1
	var best, tie int64
	for a := lo; a < hi; {
		f := s.floor[a]
		z := a + 1
		for z < hi && s.floor[z] == f {
			z++
		}
		if f == noFloor || a > lo && s.floor[a-1] < f || z < hi && s.floor[z] < f {
			a = z
			continue
		}
		for q := a; q < z; q++ {
			score, second := int64(s.atFloor[q]), s.capacity-f-s.rest[q]
			switch s.style.choice {
			case weighted:
				score = score << 16 / (1 + s.weight[q])
			case leastSlack:
				score, second = second, f
			case fewestFirst:
			}
			if at < 0 || score < best || score == best && second < tie {
				at, from, to, best, tie = q, a, z, score, second
			}
		}
		a = z
	}
	return at, from, to
}

// offer appends the items that may lie on the floor of section q, in the
// valley [from, to) of the range [lo, hi): best first, and of items that may
// change places only one.
func (s *search) offer(q, from, to, lo, hi int32) {
	start := len(s.candidates)
	f := s.floor[q]
	left, right := int64(-1), int64(-1)
	if s.style.walls {
		if from > lo {
			left = s.floor[from-1]
		}
		if to < hi {
			right = s.floor[to]
		}
	}
	s.scores = s.scores[:0]
	at := s.memberAt[q]
	for _, b := range s.members[at : at+s.open[q]] {
		if s.low[b] != f || s.offered(start, b) {
			continue
		}
		score := s.rank[b]
		if end := f + s.size[b]; s.first[b] == from && end == left || s.last[b] == to && end == right {
			score -= s.n
		}
		s.candidates, s.scores = append(s.candidates, b), append(s.scores, score)
		list, scores := s.candidates[start:], s.scores
		j := len(list) - 1
		for ; j > 0 && scores[j-1] > score; j-- {
			list[j], scores[j] = list[j-1], scores[j-1]
		}
		list[j], scores[j] = b, score
	}
}

// offered reports whether an equal of b is among the candidates.
func (s *search) offered(start int, b int32) bool {
	for _, c := range s.candidates[start:] {
		if s.class[c] == s.class[b] {
			return true
		}
	}
	return false
}

// solve places all items of the sections [lo, hi). Parts that no unplaced item
// connects are solved one after the other.
func (s *search) solve(lo, hi int32) bool {
	for lo < hi {
		q := lo
		for q+1 < hi && s.cross[q] != 0 {
			q++
		}
		if !s.branch(lo, q+1) {
			return false
		}
		lo = q + 1
	}
	return true
}

// tick counts a node and reports whether search may go on.
func (s *search) tick() bool {
	s.nodes++
	if s.nodes > s.limit || s.nodes&15 == 0 && s.halt.stopped() {
		s.abort = true
	}
	return !s.abort
}

// branch solves a connected range. When it fails without abort, cause is a set
// of placements that the failure follows from: while they stand, nothing else
// helps.
func (s *search) branch(lo, hi int32) bool {
	q, from, to := s.choose(lo, hi)
	if q < 0 {
		return true
	}
	if !s.tick() {
		return false
	}
	if from == lo && to == hi && !s.aligned {
		if b := s.spanning(q, lo, hi); b >= 0 {
			return s.sink(b, lo, hi)
		}
	}
	start, base := len(s.candidates), s.sets.size()
	s.offer(q, from, to, lo, hi)
	end := len(s.candidates)
	why := s.sets.push() // what keeps the candidates off the floor
	back := s.mark()
	for i := start; i < end; i++ {
		b := s.candidates[i]
		if s.place(b) && s.solve(lo, hi) {
			return true
		}
		s.unwind(back)
		if s.abort {
			return false
		}
		if !hasItem(s.cause, b) {
			// The failure has nothing to do with b.
			s.candidates = s.candidates[:start]
			s.sets.drop(base)
			return false
		}
		w := s.sets.set(why)
		union(w, s.cause)
		removeItem(w, b)
	}
	s.candidates = s.candidates[:start]
	if s.capacity-s.floor[q]-s.rest[q] > 0 {
		if s.lift(q, why) && s.branch(lo, hi) {
			return true
		}
		s.unwind(back)
	} else {
		copy(s.cause, s.sets.set(why))
		s.explain(s.cause, q)
	}
	s.sets.drop(base)
	return false
}

// spanning returns an item at the floor of q that lies in all sections of the
// range [lo, hi) and whose size is not rounded up, or -1.
func (s *search) spanning(q, lo, hi int32) int32 {
	at := s.memberAt[q]
	for _, b := range s.members[at : at+s.open[q]] {
		if s.first[b] == lo && s.last[b] == hi && s.low[b] == s.floor[q] && s.bytes[b]&(s.grain-1) == 0 {
			return b
		}
	}
	return -1
}

// sink solves a range with an even floor by putting b, which lies in all of
// its sections, on the floor. That is no choice: in any plan all else lies
// above or below b, and what lies below can be shifted up by b's size.
func (s *search) sink(b, lo, hi int32) bool {
	back := s.mark()
	if s.place(b) && s.solve(lo, hi) {
		return true
	}
	s.unwind(back)
	if !s.abort && hasItem(s.cause, b) {
		removeItem(s.cause, b)
		for q := lo; q < hi; q++ {
			s.explain(s.cause, q)
		}
	}
	return false
}

// lift raises all items at the floor of q, which the placements in why keep
// off the floor, to where they can rest on others. It adds to why what that
// follows from, and reports whether no contradiction shows; if one does, cause
// is set.
func (s *search) lift(q, why int32) bool {
	s.stamp++
	f := s.floor[q]
	at := s.memberAt[q]
	start := len(s.candidates)
	for _, b := range s.members[at : at+s.open[q]] {
		if s.low[b] == f {
			s.candidates = append(s.candidates, b)
		}
	}
	lifted := s.candidates[start:]
	s.candidates = s.candidates[:start]
	w := s.sets.set(why)
	s.goals = s.goals[:0]
	s.sets.begin()
	for _, b := range lifted {
		s.sets.unite(w, s.reason[b])
		v := s.support(b, w)
		if v > s.top[b] {
			copy(s.cause, w)
			return false
		}
		s.goals = append(s.goals, v)
	}
	for i, b := range lifted {
		if !s.raise(b, s.goals[i], why) {
			copy(s.cause, w)
			s.forget()
			return false
		}
	}
	return s.settle()
}

// support returns the lowest offset at which b may rest on an unplaced item,
// and adds to w what that follows from.
func (s *search) support(b int32, w []uint64) int64 {
	v := int64(noFloor)
	conflicts := s.conflict[s.conflictAt[b]:s.conflictAt[b+1]]
	for _, c := range conflicts {
		if !s.placed[c] {
			v = min(v, s.low[c]+s.size[c])
		}
	}
	for _, c := range conflicts {
		if s.size[c] >= v {
			continue // whatever holds of c, resting on it is no lower
		}
		s.sets.unite(w, s.reason[c])
		if s.placed[c] {
			addItem(w, c)
		}
	}
	return v
}
