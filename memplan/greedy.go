package memplan

import "math"

// fit says which of the free ranges that are large enough takes a buffer.
type fit int

const (
	bestFit  fit = iota // the smallest, ties and none: the lowest
	firstFit            // the lowest
)

// greedy places items one after the other, in a given order. It may be used
// again and again, by one goroutine.
type greedy struct {
	p      *problem
	taken  *occupancy // nil before it is needed
	offs   []int64    // per item
	keys   []uint64
	sorter sorter
}

func newGreedy(p *problem) *greedy {
	n := len(p.items)
	return &greedy{p: p, offs: make([]int64, n), keys: make([]uint64, n)}
}

// place puts the items at the offsets that f chooses, fixed ones first, and
// returns the height. It gives up with false once the height would exceed
// ceiling, on overflow of offsets, and when h ends. The offsets are in g.offs.
// Cost O(items log sections) set reads.
func (g *greedy) place(order []int32, f fit, ceiling int64, h halt) (int64, bool) {
	p := g.p
	if g.taken == nil {
		blocks := p.blocking(h)
		if blocks == nil {
			return 0, false
		}
		g.taken = newOccupancy(blocks)
	}
	g.taken.reset()
	height := int64(0)
	if p.rigid {
		for i := range p.items {
			if it := &p.items[i]; it.fixed >= 0 {
				g.put(int32(i), it.fixed)
				height = max(height, it.fixed+it.size)
			}
		}
	}
	for k, i := range order {
		it := &p.items[i]
		if it.fixed >= 0 {
			continue
		}
		off, ok := g.findOffset(it, f)
		if !ok || off > ceiling-it.size {
			return 0, false
		}
		g.put(i, off)
		height = max(height, off+it.size)
		if k&pollMask == pollMask && h.stopped() {
			return 0, false
		}
	}
	return height, height <= ceiling
}

// put takes the space of item i at off.
func (g *greedy) put(i int32, off int64) {
	it := &g.p.items[i]
	g.offs[i] = off
	for _, q := range g.p.pieces[it.lo:it.hi] {
		g.taken.add(q.first, q.last, extent{off, off + q.size})
	}
}

// findOffset returns the offset for it, or false where it overflows.
func (g *greedy) findOffset(it *item, f fit) (int64, bool) {
	m := &g.taken.merge
	m.reset(it.size)
	for _, q := range g.p.pieces[it.lo:it.hi] {
		from := len(m.a)
		m.size = q.size
		g.taken.gather(q.first, q.last)
		if d := it.size - q.size; d > 0 {
			// An obstacle to a piece of size s allows starts up to lo - s,
			// which is where one of the full size would allow them if it
			// began higher by the difference.
			for k := from; k < len(m.a); k++ {
				if m.a[k].lo > math.MaxInt64-d {
					return 0, false
				}
				m.a[k].lo += d
			}
		}
	}
	m.size = it.size
	mask := it.align - 1
	end := int64(0) // start of the free range, before alignment
	best, bestGap := int64(-1), int64(math.MaxInt64)
	for _, e := range m.sorted() {
		if e.lo-end >= it.size && e.lo-end < bestGap {
			if start := (end + mask) &^ mask; start <= e.lo-it.size {
				if f == firstFit {
					return start, true
				}
				best, bestGap = start, e.lo-end
			}
		}
		end = max(end, e.hi)
	}
	if best >= 0 {
		return best, true
	}
	if end > math.MaxInt64-mask {
		return 0, false
	}
	return (end + mask) &^ mask, true
}
