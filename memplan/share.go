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

// bySize orders sharing buffers with the largest first, ties by index,
// or false when h ended.
func bySize(bufs []Buffer, list [][]int32, h halt) ([]int32, bool) {
	var some []int32
	var keys []uint64
	for i := range bufs {
		if list[i] != nil && bufs[i].takesSpace() {
			some, keys = append(some, int32(i)), append(keys, descending(bufs[i].Size))
		}
	}
	var s sorter
	order, ok := s.sort(keys, h)
	for k, x := range order {
		order[k] = some[x]
	}
	return order, ok
}

// countedSpans returns the spans that count towards the lower bound: all but
// the times of a sharing buffer when a larger one that it may share with is
// counted already. No two counted buffers of one time may share, so that their
// sizes add up in every plan. It returns false when h ended.
func countedSpans(bufs []Buffer, spans []span, h halt) ([]span, bool) {
	list := sharers(bufs)
	if list == nil {
		return spans, true
	}
	counted := make([][]span, len(bufs))
	for _, s := range spans {
		counted[s.buffer] = append(counted[s.buffer], s)
	}
	done := make([]bool, len(bufs))
	order, ok := bySize(bufs, list, h)
	for k, i := range order {
		if k&pollMask == 0 && h.stopped() {
			return nil, false
		}
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
	return out, ok
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
// two buffers of a group share or are never alive together. It notes whether
// it merged any, and returns false when h ended.
func (p *problem) mergeShared(leader []int32, h halt) bool {
	bufs := p.bufs
	list := sharers(bufs)
	if list == nil {
		return true
	}
	type pair struct{ i, j int32 }
	var pairs []pair
	var keys []uint64 // by what they save
	for i := range list {
		if i&pollMask == 0 && h.stopped() {
			return false
		}
		for _, j := range list[i] {
			if int32(i) < j && collide(&bufs[i], &bufs[j]) {
				pairs = append(pairs, pair{int32(i), j})
				keys = append(keys, descending(min(bufs[i].Size, bufs[j].Size)))
			}
		}
	}
	var s sorter
	order, ok := s.sort(keys, h)
	if !ok {
		return false
	}
	members := make(map[int32][]int32)
	group := func(i int32) []int32 {
		if g, ok := members[i]; ok {
			return g
		}
		return []int32{i}
	}
	for k, x := range order {
		if k&pollMask == 0 && h.stopped() {
			return false
		}
		a, b := leader[pairs[x].i], leader[pairs[x].j]
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
		p.merged = true
	}
	return true
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
