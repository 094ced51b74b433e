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
	near   *obstacles // one of these two, made when it is needed
	taken  *occupancy
	offs   []int64 // per item
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
	if !g.clear(h) {
		return 0, false
	}
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
		off, ok := g.findOffset(i, f)
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

// clear makes all space free, or returns false when h ended.
func (g *greedy) clear(h halt) bool {
	if g.near == nil && g.taken == nil {
		if list := g.p.neighbours(h); list != nil {
			g.near = newObstacles(g.p, list)
		} else if blocks := g.p.blocking(h); blocks != nil {
			g.taken = newOccupancy(blocks)
		}
	}
	switch {
	case g.near != nil:
		g.near.reset()
	case g.taken != nil:
		g.taken.reset()
	}
	return g.near != nil || g.taken != nil
}

// put takes the space of item i at off.
func (g *greedy) put(i int32, off int64) {
	it := &g.p.items[i]
	g.offs[i] = off
	if g.near != nil {
		g.near.add(i, extent{off, off + it.size})
		return
	}
	for _, q := range g.p.pieces[it.lo:it.hi] {
		g.taken.add(q.first, q.last, extent{off, off + q.size})
	}
}

// findOffset returns the offset for item i, or false where it overflows.
func (g *greedy) findOffset(i int32, f fit) (int64, bool) {
	it := &g.p.items[i]
	if g.near != nil {
		return it.choose(g.near.sets[g.near.place[i]], f)
	}
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
	return it.choose(m.sorted(), f)
}

// choose returns the offset that f chooses between extents that are taken,
// ordered by lower end, or false where it overflows.
func (it *item) choose(taken []extent, f fit) (int64, bool) {
	mask := it.align - 1
	end := int64(0) // start of the free range, before alignment
	best, bestGap := int64(-1), int64(math.MaxInt64)
	for _, e := range taken {
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
