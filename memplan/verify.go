package memplan

import (
	"fmt"
	"math"
	"slices"
	"sort"
)

// Verify checks a plan without knowledge of how it was made: every buffer that
// takes space lies at an offset that is not negative, a multiple of its
// alignment and its fixed one if it has one; no two overlap in time and space
// unless they share and start at the same offset; and none ends above
// capacity (0 means no capacity). It returns a *ConflictError for the first
// fault in order of offset, and an *InputError for faulty buffers. The sweep
// line goes by offset; cost O(n log n) and O(1) per pair of sharing buffers.
func Verify(bufs []Buffer, offsets []int64, capacity int64) error {
	if len(offsets) != len(bufs) {
		return &ConflictError{A: len(bufs), B: -1,
			Reason: fmt.Sprintf("is the number of buffers, but there are %d offsets", len(offsets))}
	}
	if err := checkBuffers(bufs); err != nil {
		return err
	}
	var order []int
	for i := range bufs {
		if !bufs[i].takesSpace() {
			continue
		}
		if err := verifyAlone(bufs, i, offsets[i], capacity); err != nil {
			return err
		}
		order = append(order, i)
	}
	sort.SliceStable(order, func(x, y int) bool { return offsets[order[x]] < offsets[order[y]] })
	v := verifier{bufs: bufs, offsets: offsets, share: sharers(bufs)}
	v.numberTimes(order)
	for from := 0; from < len(order); {
		to := from + 1
		for to < len(order) && offsets[order[to]] == offsets[order[from]] {
			to++
		}
		if err := v.level(order[from:to]); err != nil {
			return err
		}
		from = to
	}
	return nil
}

// verifyAlone checks what concerns one buffer only.
func verifyAlone(bufs []Buffer, i int, offset, capacity int64) error {
	b := &bufs[i]
	switch {
	case offset < 0:
		return &ConflictError{i, -1, fmt.Sprintf("has the negative offset %d", offset)}
	case offset&(b.alignment()-1) != 0:
		return &ConflictError{i, -1, fmt.Sprintf("has the offset %d, not a multiple of its alignment %d", offset, b.Align)}
	case b.Fixed && offset != b.Offset:
		return &ConflictError{i, -1, fmt.Sprintf("has the offset %d, but is fixed at %d", offset, b.Offset)}
	case offset > math.MaxInt64-b.Size:
		return &ConflictError{i, -1, fmt.Sprintf("with offset %d and size %d ends beyond all addresses", offset, b.Size)}
	case capacity > 0 && offset+b.Size > capacity:
		return &ConflictError{i, -1, fmt.Sprintf("ends at %d, above the capacity %d", offset+b.Size, capacity)}
	}
	return nil
}

// verifier holds, per elementary interval of time, the buffer with the highest
// end among those seen, in a segment tree.
type verifier struct {
	bufs    []Buffer
	offsets []int64
	share   [][]int32
	times   []int64
	top     []int32 // per tree node: highest buffer over all of it; -1 none
	part    []int32 // per tree node: highest buffer over some of it; -1 none
}

func (v *verifier) numberTimes(order []int) {
	var spans []Interval
	for _, i := range order {
		spans = appendSpans(spans[:0], &v.bufs[i])
		for _, s := range spans {
			v.times = append(v.times, s.Lower)
		}
	}
	slices.Sort(v.times)
	v.times = slices.Compact(v.times)
	v.top = slices.Repeat([]int32{-1}, 2*len(v.times)+2)
	v.part = slices.Clone(v.top)
}

// end returns the first address behind buffer i, and 0 for none.
func (v *verifier) end(i int32) int64 {
	if i < 0 {
		return 0
	}
	return v.offsets[i] + v.bufs[i].Size
}

func (v *verifier) higher(i, j int32) int32 {
	if v.end(j) > v.end(i) {
		return j
	}
	return i
}

// level checks and adds buffers that have the same offset.
func (v *verifier) level(same []int) error {
	var spans []Interval
	for _, i := range same {
		spans = appendSpans(spans[:0], &v.bufs[i])
		for _, s := range spans {
			if j := v.highest(s); v.end(j) > v.offsets[i] {
				return &ConflictError{int(j), i, "overlap in time and space"}
			}
		}
	}
	if err := v.among(same); err != nil {
		return err
	}
	for _, i := range same {
		spans = appendSpans(spans[:0], &v.bufs[i])
		for _, s := range spans {
			v.raise(s, int32(i))
		}
	}
	return nil
}

// among checks that those of the same offset that are alive together share.
func (v *verifier) among(same []int) error {
	if len(same) < 2 {
		return nil
	}
	type use struct {
		at    Interval
		owner int
	}
	var uses []use
	for _, i := range same {
		for _, s := range appendSpans(nil, &v.bufs[i]) {
			uses = append(uses, use{s, i})
		}
	}
	sort.SliceStable(uses, func(x, y int) bool { return uses[x].at.Lower < uses[y].at.Lower })
	var alive []use
	for _, u := range uses {
		kept := alive[:0]
		for _, a := range alive {
			if a.at.Upper <= u.at.Lower {
				continue
			}
			if !shares(v.share, int32(a.owner), int32(u.owner)) {
				return &ConflictError{min(a.owner, u.owner), max(a.owner, u.owner), "overlap in time and space"}
			}
			kept = append(kept, a)
		}
		alive = append(kept, u)
	}
	return nil
}

// indices returns the elementary intervals of s as leaves of the tree.
func (v *verifier) indices(s Interval) (l, r int) {
	n := len(v.times)
	l, _ = slices.BinarySearch(v.times, s.Lower)
	r, _ = slices.BinarySearch(v.times, s.Upper)
	return l + n, r + n
}

func (v *verifier) highest(s Interval) int32 {
	l, r := v.indices(s)
	out := int32(-1)
	for i := l >> 1; i > 0; i >>= 1 {
		out = v.higher(out, v.top[i])
	}
	for i := (r - 1) >> 1; i > 0; i >>= 1 {
		out = v.higher(out, v.top[i])
	}
	for ; l < r; l, r = l>>1, r>>1 {
		if l&1 == 1 {
			out = v.higher(out, v.part[l])
			l++
		}
		if r&1 == 1 {
			r--
			out = v.higher(out, v.part[r])
		}
	}
	return out
}

func (v *verifier) raise(s Interval, b int32) {
	l, r := v.indices(s)
	for i, j := l, r; i < j; i, j = i>>1, j>>1 {
		if i&1 == 1 {
			v.top[i] = v.higher(v.top[i], b)
			v.part[i] = v.higher(v.part[i], b)
			i++
		}
		if j&1 == 1 {
			j--
			v.top[j] = v.higher(v.top[j], b)
			v.part[j] = v.higher(v.part[j], b)
		}
	}
	for i := l >> 1; i > 0; i >>= 1 {
		v.part[i] = v.higher(v.part[i], b)
	}
	for i := (r - 1) >> 1; i > 0; i >>= 1 {
		v.part[i] = v.higher(v.part[i], b)
	}
}
