package memplan

import "slices"

// sharers returns the symmetric relation of Buffer.Share as sorted lists, nil
// when no buffer shares.
func sharers(bufs []Buffer) [][]int32 {
	any := false
	for i := range bufs {
		any = any || len(bufs[i].Share) > 0
	}
	if !any {
		return nil
	}
	list := make([][]int32, len(bufs))
	for i := range bufs {
		for _, j := range bufs[i].Share {
			list[i] = append(list[i], int32(j))
			list[j] = append(list[j], int32(i))
		}
	}
	for i := range list {
		slices.Sort(list[i])
		list[i] = slices.Compact(list[i])
	}
	return list
}

// shares reports whether j is in the list of i.
func shares(list [][]int32, i, j int32) bool {
	if list == nil {
		return false
	}
	_, found := slices.BinarySearch(list[i], j)
	return found
}

// bySize orders sharing buffers with the largest first, ties by index.
func bySize(bufs []Buffer, list [][]int32) []int32 {
	var order []int32
	for i := range bufs {
		if list[i] != nil && bufs[i].takesSpace() {
			order = append(order, int32(i))
		}
	}
	slices.SortStableFunc(order, func(x, y int32) int {
		switch {
		case bufs[x].Size > bufs[y].Size:
			return -1
		case bufs[x].Size < bufs[y].Size:
			return 1
		}
		return 0
	})
	return order
}

// countedSpans returns the spans that count towards the lower bound: all but
// the times of a sharing buffer when a larger one that it may share with is
// counted already. No two counted buffers of one time may share, so that their
// sizes add up in every plan.
func countedSpans(bufs []Buffer, spans []span) []span {
	list := sharers(bufs)
	if list == nil {
		return spans
	}
	counted := make([][]span, len(bufs))
	for _, s := range spans {
		counted[s.buffer] = append(counted[s.buffer], s)
	}
	done := make([]bool, len(bufs))
	for _, i := range bySize(bufs, list) {
		for _, j := range list[i] {
			if done[j] {
				counted[i] = subtractSpans(counted[i], counted[j])
			}
		}
		done[i] = true
	}
	out := make([]span, 0, len(spans))
	for _, s := range counted {
		out = append(out, s...)
	}
	return out
}

// subtractSpans returns a without the sections of b, both in order of time.
func subtractSpans(a, b []span) []span {
	var out []span
	for _, s := range a {
		for _, t := range b {
			if t.last <= s.first || t.first >= s.last {
				continue
			}
			if t.first > s.first {
				out = append(out, span{s.buffer, s.first, t.first})
			}
			s.first = t.last
			if s.first >= s.last {
				break
			}
		}
		if s.first < s.last {
			out = append(out, s)
		}
	}
	return out
}

// maxMerge bounds the work to put two groups of sharing buffers together.
const maxMerge = 1 << 12

// mergeShared chooses which sharing buffers start at the same offset, those
// first that save most, and sets leader to the least index of each group. Any
// two buffers of a group share or are never alive together. It reports whether
// it merged any.
func mergeShared(bufs []Buffer, leader []int32) bool {
	list := sharers(bufs)
	if list == nil {
		return false
	}
	type pair struct{ i, j int32 }
	var pairs []pair
	for i := range list {
		for _, j := range list[i] {
			if int32(i) < j && collide(&bufs[i], &bufs[j]) {
				pairs = append(pairs, pair{int32(i), j})
			}
		}
	}
	saved := func(p pair) int64 { return min(bufs[p.i].Size, bufs[p.j].Size) }
	slices.SortStableFunc(pairs, func(x, y pair) int {
		switch a, b := saved(x), saved(y); {
		case a > b:
			return -1
		case a < b:
			return 1
		}
		return 0
	})
	members := make(map[int32][]int32)
	group := func(i int32) []int32 {
		if g, ok := members[i]; ok {
			return g
		}
		return []int32{i}
	}
	merged := false
	for _, p := range pairs {
		a, b := leader[p.i], leader[p.j]
		if a == b {
			continue
		}
		a, b = min(a, b), max(a, b)
		ga, gb := group(a), group(b)
		if len(ga)*len(gb) > maxMerge || !compatible(bufs, list, ga, gb) {
			continue
		}
		for _, x := range gb {
			leader[x] = a
		}
		members[a] = append(ga, gb...)
		delete(members, b)
		merged = true
	}
	return merged
}

// compatible reports whether all buffers of two groups may start at one
// offset.
func compatible(bufs []Buffer, list [][]int32, ga, gb []int32) bool {
	for _, x := range ga {
		for _, y := range gb {
			bx, by := &bufs[x], &bufs[y]
			if bx.Fixed && by.Fixed && bx.Offset != by.Offset {
				return false
			}
			if fx, ok := fixedAmong(bx, by); ok && fx&(max(bx.alignment(), by.alignment())-1) != 0 {
				return false
			}
			if !shares(list, x, y) && collide(bx, by) {
				return false
			}
		}
	}
	return true
}

// fixedAmong returns the offset of the fixed one of two buffers.
func fixedAmong(x, y *Buffer) (int64, bool) {
	if x.Fixed {
		return x.Offset, true
	}
	return y.Offset, y.Fixed
}

// collide reports whether two buffers take space at the same time.
func collide(x, y *Buffer) bool {
	if !x.takesSpace() || !y.takesSpace() || x.Lower >= y.Upper || y.Lower >= x.Upper {
		return false
	}
	if len(x.Gaps) == 0 && len(y.Gaps) == 0 {
		return true
	}
	for _, s := range appendSpans(nil, x) {
		for _, t := range appendSpans(nil, y) {
			if s.Lower < t.Upper && t.Lower < s.Upper {
				return true
			}
		}
	}
	return false
}
