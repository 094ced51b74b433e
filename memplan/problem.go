package memplan

import (
	"cmp"
	"slices"
	"sync"
)

// item is what the solvers place: one buffer, or several sharing ones at one
// offset.
type item struct {
	size        int64 // the largest of its pieces
	align       int64 // the largest of its buffers, at least 1
	fixed       int64 // offset, or -1 when it is free
	first, last int32 // sections it touches lie in [first, last)
	lo, hi      int32 // its pieces are problem.pieces[lo:hi]
}

// piece is the space that an item takes in the sections [first, last).
type piece struct {
	first, last int32
	size        int64
}

// problem is an instance in the form that solvers work on: time is replaced
// by sections, the maximal sets of buffers alive at one time, in order of
// time. Two buffers overlap in time exactly when they have a section in
// common. It is immutable once made and safe for concurrent reads.
type problem struct {
	bufs     []Buffer
	itemOf   []int32 // per buffer; -1 when it takes no space
	items    []item
	pieces   []piece
	sections int32
	bound    int64 // lower bound of the height
	endless  bool  // the bound does not fit in 63 bits
	rigid    bool  // some item is fixed
	plain    bool  // each item has one piece and none is fixed
	merged   bool  // some item holds several buffers

	onceBlocks sync.Once
	blocks     *blocking // through blocking only
	onceNear   sync.Once
	near       *neighbours // through neighbours only
}

// span is an interval of time in which one buffer takes space.
type span struct {
	buffer      int32
	first, last int32
}

// newProblem compresses bufs, which are valid. With share, buffers that may
// share space are put together where that saves some; without, each is placed
// apart. It returns nil when h ended. Cost O(n log n), and O(1) per pair of
// sharing buffers.
func newProblem(bufs []Buffer, share bool, h halt) *problem {
	p := &problem{bufs: bufs}
	spans, ok := p.compress(h)
	if !ok {
		return nil
	}
	if !p.computeBound(spans, h) {
		return nil
	}
	leader := identity(len(bufs))
	if share && !p.mergeShared(leader, h) {
		return nil
	}
	if !p.makeItems(spans, leader, h) {
		return nil
	}
	return p
}

// alive is the number of pieces that are alive at one time, on average over
// the sections.
func (p *problem) alive() float64 {
	sum := int64(0)
	for _, q := range p.pieces {
		sum += int64(q.last - q.first)
	}
	return float64(sum) / float64(max(p.sections, 1))
}

// blocking returns the blocks of p's sections, made when they are first asked
// for, or nil when the context of h had ended by then.
func (p *problem) blocking(h halt) *blocking {
	p.onceBlocks.Do(func() { p.blocks = newBlocking(p, halt{done: h.done}) })
	return p.blocks
}

// neighbours returns the neighbours of p's items, made when they are first
// asked for, or nil where newNeighbours does.
func (p *problem) neighbours(h halt) *neighbours {
	p.onceNear.Do(func() { p.near = newNeighbours(p, halt{done: h.done}) })
	return p.near
}

func identity(n int) []int32 {
	s := make([]int32, n)
	for i := range s {
		s[i] = int32(i)
	}
	return s
}

// compress numbers the sections and returns the spans of all buffers in
// terms of sections, ordered by buffer and time.
func (p *problem) compress(h halt) ([]span, bool) {
	var times []Interval
	spans := make([]span, 0, len(p.bufs))
	times = make([]Interval, 0, len(p.bufs))
	for i := range p.bufs {
		times = appendSpans(times, &p.bufs[i])
		for len(spans) < len(times) {
			spans = append(spans, span{buffer: int32(i)})
		}
		if i&chunkMask == 0 && h.stopped() {
			return nil, false
		}
	}
	n := len(spans)
	var s sorter
	lower, upper := make([]uint64, n), make([]uint64, n)
	for i, t := range times {
		lower[i], upper[i] = ascending(t.Lower), ascending(t.Upper)
	}
	starts, ok1 := s.sort(lower, h)
	ends, ok2 := s.sort(upper, h)
	if !ok1 || !ok2 {
		return nil, false
	}
	// Ends come before starts at the same time. A section is complete when an
	// end follows a start: no buffer can join it later.
	started, k := false, 0
	for j := range n {
		for k < n && lower[k] < upper[j] {
			spans[starts[k]].first = p.sections
			started = true
			k++
		}
		if started {
			p.sections++
			started = false
		}
		spans[ends[j]].last = p.sections
		if j&chunkMask == 0 && h.stopped() {
			return nil, false
		}
	}
	return spans, true
}

// makeItems turns buffers with the same leader into one item. It reports
// whether it came to an end before h did.
func (p *problem) makeItems(spans []span, leader []int32, h halt) bool {
	n := len(p.bufs)
	p.itemOf = make([]int32, n)
	p.items = make([]item, 0, n)
	p.plain = true
	itemOfLeader := p.itemOf // filled in order: a leader has the least index
	for i := range n {
		if i&chunkMask == 0 && h.stopped() {
			return false
		}
		b := &p.bufs[i]
		if !b.takesSpace() {
			p.itemOf[i] = -1
			continue
		}
		if l := leader[i]; int(l) != i {
			p.itemOf[i] = itemOfLeader[l]
		} else {
			p.itemOf[i] = int32(len(p.items))
			p.items = append(p.items, item{align: 1, fixed: -1})
		}
		it := &p.items[p.itemOf[i]]
		it.size = max(it.size, b.Size)
		it.align = max(it.align, b.alignment())
		if b.Fixed {
			it.fixed = b.Offset
			p.rigid, p.plain = true, false
		}
	}
	count := make([]int32, len(p.items)+1)
	for _, s := range spans {
		if it := p.itemOf[s.buffer]; it >= 0 {
			count[it+1]++
		}
	}
	for i := range p.items {
		count[i+1] += count[i]
		p.items[i].lo, p.items[i].hi = count[i], count[i]
	}
	p.pieces = make([]piece, count[len(p.items)])
	for i, s := range spans {
		if i&chunkMask == 0 && h.stopped() {
			return false
		}
		k := p.itemOf[s.buffer]
		if k < 0 {
			continue
		}
		it := &p.items[k]
		p.pieces[it.hi] = piece{s.first, s.last, p.bufs[s.buffer].Size}
		if it.hi == it.lo {
			it.first, it.last = s.first, s.last
		}
		it.first, it.last = min(it.first, s.first), max(it.last, s.last)
		it.hi++
	}
	for i := range p.items {
		p.joinPieces(&p.items[i])
		p.plain = p.plain && p.items[i].hi-p.items[i].lo == 1
	}
	return true
}

// joinPieces puts the pieces of an item in order of time, and makes one of
// those that have the same size and meet.
func (p *problem) joinPieces(it *item) {
	all := p.pieces[it.lo:it.hi]
	if len(all) < 2 {
		return
	}
	slices.SortFunc(all, func(x, y piece) int {
		return cmp.Or(cmp.Compare(x.first, y.first), cmp.Compare(x.last, y.last), cmp.Compare(x.size, y.size))
	})
	kept := all[:1]
	for _, q := range all[1:] {
		if l := &kept[len(kept)-1]; q.size == l.size && q.first <= l.last {
			l.last = max(l.last, q.last)
		} else {
			kept = append(kept, q)
		}
	}
	it.hi = it.lo + int32(len(kept))
}

// height returns the height of a layout of items.
func (p *problem) height(ofItem []int64) int64 {
	height := int64(0)
	for i, off := range ofItem {
		height = max(height, off+p.items[i].size)
	}
	return height
}

// offsets spreads the offsets of items to buffers.
func (p *problem) offsets(ofItem []int64) []int64 {
	out := make([]int64, len(p.bufs))
	for i, k := range p.itemOf {
		switch {
		case k >= 0:
			out[i] = ofItem[k]
		case p.bufs[i].Fixed:
			out[i] = p.bufs[i].Offset
		}
	}
	return out
}
