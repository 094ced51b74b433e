package memplan

// maxSums is how many items at the floor inference adds up. More have sums so
// close to one another that nothing follows.
const maxSums = 5

// infer draws conclusions from what may lie at the bottom of section q. The
// lowest of its items that cannot lie on the floor lies on some that can, with
// no more wasted below it than the section can spare. So its offset is a sum
// of their sizes or, by that much, above one; and all such items lie at the
// least one of these or higher. It reports whether no contradiction shows; if
// one does, cause is set.
func (s *search) infer(q int32) bool {
	f := s.floor[q]
	if f == noFloor || s.atFloor[q] > maxSums || s.atFloor[q] == s.open[q] {
		return true
	}
	next, spare := int64(noFloor), s.capacity-f-s.rest[q]
	at := s.memberAt[q]
	open := s.members[at : at+s.open[q]]
	var bottom [maxSums]int64 // sizes of the items that can lie on the floor
	n := 0
	for _, b := range open {
		if v := s.low[b]; v != f {
			next = min(next, v)
		} else {
			bottom[n] = s.size[b]
			n++
		}
	}
	d := next - f // from the floor to the others
	if spare >= d {
		return true
	}
	least := int64(noFloor) // least sum above d
	var sums [1 << maxSums]int64
	count := 1
	for _, size := range bottom[:n] {
		for _, t := range sums[:count] {
			switch t += size; {
			case t > d:
				least = min(least, t)
			case t >= d-spare:
				return true
			default:
				sums[count] = t
				count++
			}
		}
	}
	if least == noFloor {
		s.weight[q]++
		clear(s.cause)
		s.explain(s.cause, q)
		return false
	}
	why := s.sets.push()
	s.explain(s.sets.set(why), q)
	for _, b := range open {
		if v := s.low[b]; v != f && v < f+least {
			if !s.raise(b, f+least, why) {
				copy(s.cause, s.sets.set(why))
				return false
			}
		}
	}
	return true
}
