package forest

import (
	"cmp"
	"math"
	"slices"
)

// search is a chain of comparisons for equality with one feature, as what categories become: x = a ? p : x = b ? q : …, as ways for
// ranges of x, which are found by halves. A chain of n members takes the logarithm of 2n+1 in visits.
type search[T float32 | float64] struct {
	feature int
	upper   []T   // the greatest number of each range, ascending, the last one +Inf
	way     []int // the node where a range leads to
	nan     int   // the node for NaN
}

// equality says whether a node compares for equality, and the branch that it takes where none of its members is equal.
func (n *Node) equality() (rest int, ok bool) {
	switch n.Mode {
	case EQ, Member:
		return n.No, true
	case NEQ:
		return n.Yes, true
	case LEQ, LT, GTE, GT, Leaf:
	}
	return 0, false
}

// searchOf returns the chain that begins with a node that compares for equality. It ends in front of a node that other ways lead to, too, so
// that no node belongs to two chains.
func searchOf[T float32 | float64](nodes []Node, head int, parents []int32) search[T] {
	type member struct {
		x  T
		to int
	}
	s, members := search[T]{feature: nodes[head].Feature, nan: -1}, []member{}
	rest := head
	for i := head; ; i = rest {
		n := &nodes[i]
		next, ok := n.equality()
		if !ok || n.Feature != s.feature || i != head && parents[i] > 1 {
			break
		}
		hit, list := n.Yes, n.Members
		if n.Mode != Member {
			list = []float64{n.Split}
		}
		if n.Mode == NEQ {
			hit = n.No
		} else if n.Missing && s.nan < 0 {
			s.nan = hit
		}
		for _, x := range list {
			if x == x {
				members = append(members, member{T(x), hit})
			}
		}
		rest = next
	}
	if s.nan < 0 {
		s.nan = rest
	}
	slices.SortStableFunc(members, func(a, b member) int { return cmp.Compare(a.x, b.x) })
	members = slices.CompactFunc(members, func(a, b member) bool { return a.x == b.x }) // the first one counts
	for _, m := range members {
		if low := before(m.x); low == low && (len(s.upper) == 0 || s.upper[len(s.upper)-1] < low) {
			s.add(low, rest)
		}
		s.add(m.x, m.to)
	}
	if inf := T(math.Inf(1)); len(s.upper) == 0 || s.upper[len(s.upper)-1] < inf {
		s.add(inf, rest)
	}
	return s
}

// add adds a range, or lengthens the last one where it leads to the same node.
func (s *search[T]) add(upper T, way int) {
	if last := len(s.way) - 1; last >= 0 && s.way[last] == way {
		s.upper[last] = upper
		return
	}
	s.upper, s.way = append(s.upper, upper), append(s.way, way)
}

// apart says whether NaN needs a node of its own, since no range leads where it goes to, or there is but one range.
func (s *search[T]) apart() bool { return len(s.way) == 1 || !slices.Contains(s.way, s.nan) }

// entries returns how many nodes of the layout the search takes.
func (s *search[T]) entries() int {
	if s.apart() {
		return len(s.way)
	}
	return len(s.way) - 1
}

// lay fills the entries from a place on; place is where nodes are in the layout.
func (s *search[T]) lay(nodes []flat[T], at int32, place []int32) {
	if !s.apart() {
		s.half(nodes, at, place, 0, len(s.way), slices.Index(s.way, s.nan))
		return
	}
	first := at + 1
	if len(s.way) == 1 {
		first = place[s.way[0]]
	} else {
		s.half(nodes, first, place, 0, len(s.way), 0)
	}
	nodes[at].set(s.feature, T(math.Inf(1)), first, place[s.nan], false)
}

// half fills the entries from a place on with a search among ranges [lo, hi), at least two, and returns the place behind them. NaN goes to
// the range of that number.
func (s *search[T]) half(nodes []flat[T], at int32, place []int32, lo, hi, nan int) int32 {
	mid, next := (lo+hi)/2, at+1
	side := func(lo, hi int) int32 {
		if hi-lo == 1 {
			return place[s.way[lo]]
		}
		begin := next
		next = s.half(nodes, begin, place, lo, hi, nan)
		return begin
	}
	yes := side(lo, mid)
	no := side(mid, hi)
	nodes[at].set(s.feature, s.upper[mid-1], yes, no, nan < mid)
	return next
}
