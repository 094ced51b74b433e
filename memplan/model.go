package memplan

import "math"

// model is a problem in the form that exact search works on, in units that
// divide all sizes: every item is one rectangle. Items with gaps or steps get
// the rectangle around them, and then search proves nothing when it fails. A
// model is immutable and shared by the searches of all threads; the capacity
// is not part of it.
//
// Search places items in canonical positions only: every feasible plan can be
// slid down until each item lies at 0 or on top of another, as far as its
// alignment lets it. Offsets of canonical plans are multiples of unit.
type model struct {
	n, sections int32
	unit        int64
	grain       int64   // least alignment, in bytes
	bytes       []int64 // size in bytes
	size        []int64 // size rounded up to grain, in units
	mask        []int64 // alignment in units, less 1
	first, last []int32 // sections [first, last)
	class       []int32 // least item of the same size, alignment and sections

	conflictAt []int32 // conflicts of item i are conflict[conflictAt[i]:conflictAt[i+1]]
	conflict   []int32
	memberAt   []int32 // items of section s are member[memberAt[s]:memberAt[s+1]]
	member     []int32
	slotAt     []int32 // item i has slots slotAt[i].. for its sections in order
	slot       []int32 // position of the item in each section's members
	load       []int64 // sum of sizes per section
	crossing   []int32 // number of items in both section s and s+1
	byFirst    []int32 // items ordered by first section
	aligned    bool    // some mask is not 0
	exact      bool    // no item is smaller than its rectangle
}

// maxConflicts bounds the memory of a model: 4 bytes each.
const maxConflicts = 1 << 23

// newModel returns nil when p has fixed items or is too large to search
// exactly, when sums of sizes could overflow, and when h ended.
func newModel(p *problem, h halt) *model {
	if p.rigid || len(p.items) == 0 || p.stacked() > math.MaxInt64/4 {
		return nil
	}
	m := &model{n: int32(len(p.items)), sections: p.sections, exact: p.plain}
	if !m.list(p, h) {
		return nil
	}
	m.measure(p)
	m.classify()
	return m
}

// stacked returns what all items would take one above the other, alignment
// included, approximately. No offset of a canonical plan is higher.
func (p *problem) stacked() float64 {
	sum := 0.0
	for i := range p.items {
		sum += float64(p.items[i].size) + float64(p.items[i].align)
	}
	return sum
}

// list fills the members of sections and the conflicts of items.
func (m *model) list(p *problem, h halt) bool {
	n, slots := int(m.n), 0
	m.first, m.last = make([]int32, n), make([]int32, n)
	m.slotAt = make([]int32, n+1)
	m.memberAt = make([]int32, m.sections+1)
	m.crossing = make([]int32, m.sections)
	for i := range p.items {
		it := &p.items[i]
		m.first[i], m.last[i] = it.first, it.last
		m.slotAt[i] = int32(slots)
		slots += int(it.last - it.first)
		if slots > maxConflicts {
			return false
		}
	}
	m.slotAt[n] = int32(slots)
	for i := range n {
		if i&pollMask == 0 && h.stopped() {
			return false
		}
		for s := m.first[i]; s < m.last[i]; s++ {
			m.memberAt[s+1]++
			if s+1 < m.last[i] {
				m.crossing[s]++
			}
		}
	}
	for s := range m.sections {
		m.memberAt[s+1] += m.memberAt[s]
	}
	m.member, m.slot = make([]int32, slots), make([]int32, slots)
	fill := make([]int32, m.sections)
	for i := range n {
		if i&pollMask == 0 && h.stopped() {
			return false
		}
		for s := m.first[i]; s < m.last[i]; s++ {
			m.slot[m.slotAt[i]+s-m.first[i]] = fill[s]
			m.member[m.memberAt[s]+fill[s]] = int32(i)
			fill[s]++
		}
	}
	return m.listConflicts(h)
}

// listConflicts lists for each item those that share a section with it: all of
// its first section, and those that begin in a later one of its sections.
func (m *model) listConflicts(h halt) bool {
	n := int(m.n)
	begins := make([]int32, m.sections+1) // items by first section
	for i := range n {
		begins[m.first[i]+1]++
	}
	total := 0
	for s := range m.sections {
		begins[s+1] += begins[s]
	}
	degree := make([]int32, n+1)
	for i := range n {
		f, l := m.first[i], m.last[i]
		d := m.memberAt[f+1] - m.memberAt[f] - 1 + begins[l] - begins[f+1]
		degree[i+1] = d
		if total += int(d); total > maxConflicts {
			return false
		}
	}
	for i := range n {
		degree[i+1] += degree[i]
	}
	m.conflictAt = degree
	m.byFirst = make([]int32, n)
	fill := make([]int32, m.sections)
	for i := range n {
		s := m.first[i]
		m.byFirst[begins[s]+fill[s]] = int32(i)
		fill[s]++
	}
	m.conflict = make([]int32, 0, total)
	for i := range n {
		f, l := m.first[i], m.last[i]
		for _, c := range m.member[m.memberAt[f]:m.memberAt[f+1]] {
			if int(c) != i {
				m.conflict = append(m.conflict, c)
			}
		}
		m.conflict = append(m.conflict, m.byFirst[begins[f+1]:begins[l]]...)
		if i&pollMask == 0 && h.stopped() {
			return false
		}
	}
	return true
}

// measure finds the unit and expresses sizes in it.
func (m *model) measure(p *problem) {
	m.grain = p.items[0].align
	for i := range p.items {
		m.grain = min(m.grain, p.items[i].align)
	}
	m.bytes, m.size, m.mask = make([]int64, m.n), make([]int64, m.n), make([]int64, m.n)
	for i := range p.items {
		it := &p.items[i]
		m.bytes[i] = it.size
		m.size[i] = (it.size + m.grain - 1) &^ (m.grain - 1)
		m.unit = gcd(m.unit, m.size[i])
		if it.align > m.grain { // all offsets are multiples of grain anyway
			m.mask[i] = it.align
			m.unit = gcd(m.unit, it.align)
		}
	}
	m.load = make([]int64, m.sections)
	for i := range m.size {
		m.size[i] /= m.unit
		if m.mask[i] != 0 {
			m.mask[i] = m.mask[i]/m.unit - 1
			m.aligned = m.aligned || m.mask[i] != 0
		}
		for s := m.first[i]; s < m.last[i]; s++ {
			m.load[s] += m.size[i]
		}
	}
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// classify finds items that may change places in every plan.
func (m *model) classify() {
	type kind struct {
		bytes, mask int64
		first, last int32
	}
	seen := make(map[kind]int32, m.n)
	m.class = make([]int32, m.n)
	for i := range m.n {
		k := kind{m.bytes[i], m.mask[i], m.first[i], m.last[i]}
		if _, ok := seen[k]; !ok {
			seen[k] = i
		}
		m.class[i] = seen[k]
	}
}

// fits returns the capacity in units that sums of sizes must keep to, for a
// capacity in bytes. Items end at or below the capacity in bytes; rounded up to
// grain, an item may end up to one grain above it.
func (m *model) fits(capacity int64) int64 {
	down := capacity / m.grain * m.grain
	rest := capacity - down
	for i := range m.bytes {
		if pad := -m.bytes[i] & (m.grain - 1); pad > 0 && rest+pad >= m.grain {
			return (down + m.grain) / m.unit
		}
	}
	return down / m.unit
}

// above returns the least height above the given one that a canonical plan
// can have: a multiple of unit plus the size of some item.
func (m *model) above(height int64) int64 {
	next := int64(math.MaxInt64)
	for _, b := range m.bytes {
		if h := b; h > height {
			next = min(next, h)
		} else if rest := (height - h) % m.unit; height <= math.MaxInt64-m.unit {
			next = min(next, height-rest+m.unit)
		}
	}
	return next
}
