package schedule

import (
	"slices"
)

// segment is a range of the default order between two nodes that everything else comes before or after: its nodes can be
// ordered apart from all others.
type segment struct {
	lo, hi int   // positions, half open
	peak   int64 // in the default order
}

// maxSegment is the largest segment that is searched by itself.
const maxSegment = 2048

// solveSegments finds better orders of the segments that hold the peak, in place. It reports whether no order of the graph
// has a lower peak.
func (s *orderer) solveSegments(order []int) (exact bool, err error) {
	s.usage = make([]int64, len(order))
	s.evaluate(order)
	usage := s.usage
	s.usage = nil
	segments, floor := s.segments(usage)
	slices.SortStableFunc(segments, func(a, b segment) int {
		switch {
		case a.peak > b.peak:
			return -1
		case a.peak < b.peak:
			return 1
		}
		return 0
	})
	exact = true
	for _, g := range segments {
		if g.peak <= floor {
			break
		}
		if err := s.ctx.Err(); err != nil {
			return false, err
		}
		if g.hi-g.lo > maxSegment || s.steps >= s.budget {
			return false, nil
		}
		found, peak, all := s.searchSegment(order, g, floor)
		if found != nil {
			copy(order[g.lo:g.hi], found)
		}
		exact = exact && all
		floor = max(floor, peak)
		if peak == g.peak {
			break // no other segment's order lowers the peak of the whole
		}
	}
	return exact, nil
}

// segments returns the ranges that can be reordered, and the peak of the nodes between them, which every order has.
func (s *orderer) segments(usage []int64) (list []segment, floor int64) {
	n := len(s.g.Nodes)
	next, prev := make([]int, n), make([]int, n) // first reader and last maker of a node's values
	for i := range n {
		next[i], prev[i] = n, -1
	}
	for i := range s.g.Nodes {
		for _, x := range s.g.Nodes[i].Inputs {
			if m := s.maker[x]; m >= 0 {
				prev[i], next[m] = max(prev[i], m), min(next[m], i)
			}
		}
	}
	after := make([]int, n+1) // least last maker of the nodes from a position on
	after[n] = n
	for i := n - 1; i >= 0; i-- {
		after[i] = min(after[i+1], prev[i])
	}
	lo, until := 0, 0
	var peak int64
	for p := range n {
		if until <= p && after[p+1] >= p { // everything before leads here, everything after comes from here
			if p > lo {
				list = append(list, segment{lo, p, peak})
			}
			floor = max(floor, usage[p])
			lo, peak = p+1, 0
		} else {
			peak = max(peak, usage[p])
		}
		until = max(until, next[p])
	}
	if n > lo {
		list = append(list, segment{lo, n, peak})
	}
	return list, floor
}
