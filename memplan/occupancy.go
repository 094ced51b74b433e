package memplan

import "math/bits"

// extent is the half-open range of addresses [lo, hi).
type extent struct{ lo, hi int64 }

// occupancy knows which addresses are taken in which sections. It is a
// segment tree over the sections. A node holds two sets of extents: cover, of
// what is taken in every section below it, and touch, of what is taken in
// some. Sets are unions, and in a dense arena unions are short: that is what
// makes a query cheap where thousands of buffers are alive. A query reads
// O(log sections) sets.
type occupancy struct {
	leaves int32
	cover  [][]extent
	touch  [][]extent
	dirty  []int32 // nodes with a set that is not empty
	slab   []extent
	merge  merger
}

// newOccupancy returns an empty occupancy of the given number of sections.
func newOccupancy(sections int32) *occupancy {
	n := int32(1)
	if sections > 1 {
		n = 1 << bits.Len32(uint32(sections-1))
	}
	o := &occupancy{leaves: n, cover: make([][]extent, 2*n), touch: make([][]extent, 2*n)}
	return o
}

// reset empties o and keeps its memory.
func (o *occupancy) reset() {
	for _, i := range o.dirty {
		o.cover[i], o.touch[i] = o.cover[i][:0], o.touch[i][:0]
	}
	o.dirty = o.dirty[:0]
}

// add takes e in the sections [first, last).
func (o *occupancy) add(first, last int32, e extent) {
	l, r := first+o.leaves, last+o.leaves
	for ; l < r; l, r = l>>1, r>>1 {
		if l&1 == 1 {
			o.addNode(l, e)
			l++
		}
		if r&1 == 1 {
			r--
			o.addNode(r, e)
		}
	}
}

func (o *occupancy) addNode(i int32, e extent) {
	if len(o.cover[i]) == 0 && len(o.touch[i]) == 0 {
		o.dirty = append(o.dirty, i)
	}
	o.grow(&o.cover[i])
	o.cover[i], _ = insertExtent(o.cover[i], e)
	for ; i > 0; i >>= 1 {
		if len(o.cover[i]) == 0 && len(o.touch[i]) == 0 {
			o.dirty = append(o.dirty, i)
		}
		o.grow(&o.touch[i])
		var grown bool
		if o.touch[i], grown = insertExtent(o.touch[i], e); !grown {
			return // then it is in all sets above as well
		}
	}
}

// grow gives a set without memory its first few extents.
func (o *occupancy) grow(set *[]extent) {
	const first = 4
	if cap(*set) > 0 {
		return
	}
	if len(o.slab) < first {
		o.slab = make([]extent, first*min(1024, int(o.leaves)))
	}
	*set = o.slab[:0:first]
	o.slab = o.slab[first:]
}

// gather appends the sets that together are what is taken in [first, last).
func (o *occupancy) gather(first, last int32) {
	l, r := first+o.leaves, last+o.leaves
	for ; l < r; l, r = l>>1, r>>1 {
		if l&1 == 1 {
			o.merge.run(o.touch[l])
			l++
		}
		if r&1 == 1 {
			r--
			o.merge.run(o.touch[r])
		}
	}
	// What covers a proper ancestor of a node read above. Ancestors inside
	// the range were read already, through touch.
	l, r = first+o.leaves, last-1+o.leaves
	width := int32(1)
	for l, r = l>>1, r>>1; l > 0; l, r = l>>1, r>>1 {
		width <<= 1
		if lo := l*width - o.leaves; lo < first || lo+width > last {
			o.merge.run(o.cover[l])
		}
		if l == r {
			continue
		}
		if lo := r*width - o.leaves; lo < first || lo+width > last {
			o.merge.run(o.cover[r])
		}
	}
}

// insertExtent adds e to a sorted set of disjoint, non-touching extents. It
// reports whether that changed the set.
func insertExtent(set []extent, e extent) ([]extent, bool) {
	n := len(set)
	if n == 0 || set[n-1].hi < e.lo {
		return append(set, e), true
	}
	// i is the first extent that ends at e.lo or later.
	i, j := 0, n
	for i < j {
		if m := int(uint(i+j) >> 1); set[m].hi < e.lo {
			i = m + 1
		} else {
			j = m
		}
	}
	if set[i].lo <= e.lo && e.hi <= set[i].hi {
		return set, false
	}
	if set[i].lo > e.hi {
		set = append(set, extent{})
		copy(set[i+1:], set[i:n])
		set[i] = e
		return set, true
	}
	k := i + 1
	for k < n && set[k].lo <= e.hi {
		k++
	}
	set[i] = extent{min(set[i].lo, e.lo), max(set[k-1].hi, e.hi)}
	if k > i+1 {
		set = append(set[:i+1], set[k:]...)
	}
	return set, true
}

// merger unites a few sorted sets of extents into one, closing gaps that are
// too small to matter.
type merger struct {
	size int64 // gaps that are smaller do not matter
	a, b []extent
	ends []int
}

func (m *merger) reset(size int64) { m.size, m.a, m.ends = size, m.a[:0], m.ends[:0] }

// run adds a sorted set.
func (m *merger) run(r []extent) {
	if len(r) == 0 {
		return
	}
	e := r[0]
	for _, x := range r[1:] {
		if x.lo-e.hi >= m.size {
			m.a = append(m.a, e)
			e.lo = x.lo
		}
		e.hi = x.hi
	}
	m.a = append(m.a, e)
	m.ends = append(m.ends, len(m.a))
}

// sorted returns the union of all sets added, ordered by lower end. The result
// is valid until the next reset.
func (m *merger) sorted() []extent {
	for len(m.ends) > 1 {
		b := m.b[:0]
		from, out := 0, 0
		for i := 0; i < len(m.ends); i += 2 {
			mid, end := m.ends[i], len(m.a)
			if i+1 < len(m.ends) {
				end = m.ends[i+1]
			}
			b = uniteRuns(b, m.a[from:mid], m.a[mid:end], m.size)
			m.ends[out] = len(b)
			out++
			from = end
		}
		m.ends = m.ends[:out]
		m.a, m.b = b, m.a
	}
	return m.a
}

// uniteRuns appends the union of the sorted sets x, which is not empty, and y.
func uniteRuns(dst, x, y []extent, size int64) []extent {
	if len(y) == 0 {
		return append(dst, x...)
	}
	if y[0].lo < x[0].lo {
		x, y = y, x
	}
	e := x[0]
	x = x[1:]
	for len(x) > 0 || len(y) > 0 {
		if len(x) == 0 || len(y) > 0 && y[0].lo < x[0].lo {
			x, y = y, x
		}
		next := x[0]
		x = x[1:]
		if next.lo-e.hi >= size {
			dst = append(dst, e)
			e = next
		} else if next.hi > e.hi {
			e.hi = next.hi
		}
	}
	return append(dst, e)
}
