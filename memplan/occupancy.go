package memplan

import "math/bits"

// extent is the half-open range of addresses [lo, hi).
type extent struct{ lo, hi int64 }

// occupancy knows which addresses are taken in which sections. It divides the
// sections into blocks, and has a segment tree over these. A node of the tree
// holds two sets of extents: cover, of what is taken in every section below
// it, and touch, of what is taken in some. Sets are unions, and in a dense
// arena unions are short: that is what makes a query cheap where thousands of
// buffers are alive. What is taken in a part of a block only is in the block's
// list of stays, which is short as well: most lifetimes are short, and the
// tree above the blocks has few levels. A query reads O(log blocks) sets and
// at most two lists.
type occupancy struct {
	*blocking
	leaves int32
	cover  [][]extent
	touch  [][]extent
	dirty  []int32 // nodes with a set that is not empty
	stays  []stay
	used   []int32 // stays of block k are stays[at[k]:][:used[k]]
	slab   []extent
	merge  merger
}

// stay is what an item takes for a time.
type stay struct {
	lo, hi      int64
	first, last int32
}

// newOccupancy returns an empty occupancy of blocks.
func newOccupancy(b *blocking) *occupancy {
	count, n := b.count(), int32(1)
	if count > 1 {
		n = 1 << bits.Len32(uint32(count-1))
	}
	return &occupancy{blocking: b, leaves: n, cover: make([][]extent, 2*n), touch: make([][]extent, 2*n),
		stays: make([]stay, b.at[count]), used: make([]int32, count)}
}

// reset empties o and keeps its memory.
func (o *occupancy) reset() {
	for _, i := range o.dirty {
		o.cover[i], o.touch[i] = o.cover[i][:0], o.touch[i][:0]
	}
	o.dirty = o.dirty[:0]
	clear(o.used)
}

// add takes e in the sections [first, last), which are those of a piece that
// the blocks were made for.
func (o *occupancy) add(first, last int32, e extent) {
	from, to, head, tail := o.split(first, last)
	if head >= 0 {
		o.addStay(head, stay{e.lo, e.hi, first, last})
	}
	if tail >= 0 {
		o.addStay(tail, stay{e.lo, e.hi, first, last})
	}
	for l, r := from+o.leaves, to+o.leaves; l < r; l, r = l>>1, r>>1 {
		if l&1 == 1 {
			o.addCover(l, e)
			l++
		}
		if r&1 == 1 {
			r--
			o.addCover(r, e)
		}
	}
}

func (o *occupancy) addStay(k int32, s stay) {
	o.stays[o.at[k]+o.used[k]] = s
	o.used[k]++
	o.addTouch(k+o.leaves, extent{s.lo, s.hi})
}

func (o *occupancy) addCover(i int32, e extent) {
	o.note(i)
	o.grow(&o.cover[i])
	o.cover[i], _ = insertExtent(o.cover[i], e)
	o.addTouch(i, e)
}

// addTouch adds e to what is taken below node i and all above.
func (o *occupancy) addTouch(i int32, e extent) {
	for ; i > 0; i >>= 1 {
		o.note(i)
		o.grow(&o.touch[i])
		var grown bool
		if o.touch[i], grown = insertExtent(o.touch[i], e); !grown {
			return // then it is in all sets above as well
		}
	}
}

// note remembers that node i is about to hold something.
func (o *occupancy) note(i int32) {
	if len(o.cover[i]) == 0 && len(o.touch[i]) == 0 {
		o.dirty = append(o.dirty, i)
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

// gather adds to o.merge sets that together are what is taken in [first, last).
func (o *occupancy) gather(first, last int32) {
	m := &o.merge
	from, to, head, tail := o.split(first, last)
	for _, k := range [2]int32{head, tail} {
		if k < 0 {
			continue
		}
		list := o.stays[o.at[k]:][:o.used[k]]
		for i := range list {
			if s := &list[i]; s.first < last && first < s.last {
				m.add(extent{s.lo, s.hi})
			}
		}
	}
	for l, r := from+o.leaves, to+o.leaves; l < r; l, r = l>>1, r>>1 {
		if l&1 == 1 {
			m.run(o.touch[l])
			l++
		}
		if r&1 == 1 {
			r--
			m.run(o.touch[r])
		}
	}
	// What covers a node above: of a block that was read in part, or of a node
	// that was read through touch, which has what lies inside the range only.
	l, r := o.block[first]+o.leaves, o.block[last-1]+o.leaves
	for width := int32(1); l > 0; l, r, width = l>>1, r>>1, width<<1 {
		if lo := l*width - o.leaves; lo < from || lo+width > to {
			m.run(o.cover[l])
		}
		if l == r {
			continue
		}
		if lo := r*width - o.leaves; lo < from || lo+width > to {
			m.run(o.cover[r])
		}
	}
	m.flush()
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
	size  int64 // gaps that are smaller do not matter
	union []extent
	a, b  []extent
	ends  []int
}

func (m *merger) reset(size int64) {
	m.size, m.union, m.a, m.ends = size, m.union[:0], m.a[:0], m.ends[:0]
}

// add adds one extent.
func (m *merger) add(e extent) { m.union = uniteExtent(m.union, e, m.size) }

// uniteExtent adds e to a sorted set of extents between which gaps are at
// least of the given size, which is positive.
func uniteExtent(set []extent, e extent, size int64) []extent {
	i, j := 0, len(set) // i is the first that e joins or comes before
	for i < j {
		if k := int(uint(i+j) >> 1); e.lo-set[k].hi >= size {
			i = k + 1
		} else {
			j = k
		}
	}
	n := len(set)
	if i == n {
		return append(set, e)
	}
	at := &set[i]
	if at.lo-e.hi >= size {
		set = append(set, extent{})
		copy(set[i+1:], set[i:n])
		set[i] = e
		return set
	}
	at.lo = min(at.lo, e.lo)
	if e.hi <= at.hi {
		return set
	}
	at.hi = e.hi
	k := i + 1
	for ; k < n && set[k].lo-at.hi < size; k++ {
		at.hi = max(at.hi, set[k].hi)
	}
	if k > i+1 {
		set = append(set[:i+1], set[k:]...)
	}
	return set
}

// run adds a sorted set.
func (m *merger) run(r []extent) {
	const few = 6 // are added one by one
	if len(r) <= few {
		for _, e := range r {
			m.add(e)
		}
		return
	}
	m.append(r)
}

// append adds a sorted set, which is not empty, as it is.
func (m *merger) append(r []extent) {
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

// flush puts what was added one by one with the rest.
func (m *merger) flush() {
	if len(m.union) > 0 {
		m.append(m.union)
		m.union = m.union[:0]
	}
}

// sorted returns the union of all that was added and flushed, ordered by lower
// end. The result is valid until the next reset.
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
	e := x[0]
	if y[0].lo < e.lo {
		e = y[0]
	}
	i, j := 0, 0
	for i < len(x) && j < len(y) {
		next := x[i]
		if y[j].lo < next.lo {
			next = y[j]
			j++
		} else {
			i++
		}
		if next.lo-e.hi >= size {
			dst = append(dst, e)
			e = next
		} else if next.hi > e.hi {
			e.hi = next.hi
		}
	}
	rest := x[i:]
	if len(rest) == 0 {
		rest = y[j:]
	}
	for ; len(rest) > 0; rest = rest[1:] {
		if rest[0].lo-e.hi >= size {
			dst = append(dst, e)
			return append(dst, rest...)
		}
		e.hi = max(e.hi, rest[0].hi)
	}
	return append(dst, e)
}
