package memplan

import "math"

// noFloor is the floor of a section without unplaced items.
const noFloor = math.MaxInt64

// search is the state of one exact search. One goroutine uses it.
//
// An unplaced item has a lowest offset, low. A section has a floor, the least
// low of its unplaced items: below the floor all is decided, and floor plus
// the sizes of unplaced items must not exceed the capacity. Every low follows
// from a set of placements, its reason; a contradiction follows from the
// reasons of what contradicts, and placements outside of that need not be
// tried again. All changes are undone through logs.
//
// Sections, their floors and offsets that are as low as can be are those of
// Moffitt, MiniMalloc: a lightweight memory allocator for hardware-accelerated
// machine learning, ASPLOS 2023, volume 4, pages 238 to 252. Weights of what
// contradictions were met in are those of Boussemart, Hemery, Lecoutre and Sais,
// Boosting systematic search by weighting constraints, ECAI 2004.
type search struct {
	*model
	capacity int64   // in units, for sums of sizes
	top      []int64 // per item: highest offset in units

	low     []int64
	reason  []int32 // per item: set of placements that low follows from
	placed  []bool
	members []int32 // permutation of member per section, unplaced ones first
	slots   []int32 // positions in members
	open    []int32 // per section: number of unplaced items
	rest    []int64 // per section: sum of unplaced sizes
	floor   []int64
	atFloor []int32 // per section: unplaced items with low == floor
	cross   []int32 // per section s: unplaced items in both s and s+1
	weight  []int64 // per section: contradictions seen

	stamp      int64
	savedAt    []int64 // per section: stamp of its last entry in sectionLog
	dirty      []int32 // sections whose floor must be found again
	queue      []int32 // sections to draw conclusions from
	queued     []bool  // per section
	lowLog     []lowEntry
	sectionLog []sectionEntry
	stack      []int32 // placed items in order

	sets    *setArena
	derived []int32  // per set: set made from it in this step
	touched []int32  // sets with an entry in derived
	cause   []uint64 // placements that the last contradiction follows from

	candidates []int32
	scores     []int32
	goals      []int64

	sorter sorter // of ranks

	rank  []int32 // items with lower ranks are tried first
	style style
	nodes int64
	limit int64
	halt  halt
	abort bool // out of nodes or time
}

type lowEntry struct {
	item, reason int32
	low          int64
}

type sectionEntry struct {
	section, atFloor int32
	floor            int64
}

func newSearch(m *model, h halt) *search {
	return &search{
		model: m, halt: h,
		top: make([]int64, m.n), low: make([]int64, m.n), reason: make([]int32, m.n),
		placed:  make([]bool, m.n),
		members: make([]int32, len(m.member)), slots: make([]int32, len(m.slot)),
		open: make([]int32, m.sections), rest: make([]int64, m.sections),
		floor: make([]int64, m.sections), atFloor: make([]int32, m.sections),
		cross: make([]int32, m.sections), weight: make([]int64, m.sections),
		savedAt: make([]int64, m.sections), queued: make([]bool, m.sections), rank: make([]int32, m.n),
		sets: newSetArena(m.n), cause: make([]uint64, (m.n+63)/64),
	}
}

// reset prepares for a search within a capacity in bytes.
func (s *search) reset(capacity int64) {
	s.capacity = s.fits(capacity)
	copy(s.members, s.member)
	copy(s.slots, s.slot)
	copy(s.rest, s.load)
	copy(s.cross, s.crossing)
	clear(s.low)
	clear(s.reason)
	clear(s.placed)
	clear(s.floor)
	clear(s.weight)
	for i := range s.top {
		s.top[i] = (capacity - s.bytes[i]) / s.unit
	}
	for q := range s.sections {
		s.open[q] = s.memberAt[q+1] - s.memberAt[q]
		s.atFloor[q] = s.open[q]
	}
	s.lowLog, s.sectionLog, s.stack = s.lowLog[:0], s.sectionLog[:0], s.stack[:0]
	s.candidates = s.candidates[:0]
	s.forget()
	s.sets.drop(1)
	s.nodes, s.abort = 0, false
}

// mark is a state to return to.
type mark struct {
	stack, lows, sections int
	sets                  int32
}

func (s *search) mark() mark {
	return mark{len(s.stack), len(s.lowLog), len(s.sectionLog), s.sets.size()}
}

// unwind returns to the state of k.
func (s *search) unwind(k mark) {
	for i := len(s.lowLog) - 1; i >= k.lows; i-- {
		e := &s.lowLog[i]
		s.low[e.item], s.reason[e.item] = e.low, e.reason
	}
	s.lowLog = s.lowLog[:k.lows]
	for i := len(s.sectionLog) - 1; i >= k.sections; i-- {
		e := &s.sectionLog[i]
		s.floor[e.section], s.atFloor[e.section] = e.floor, e.atFloor
	}
	s.sectionLog = s.sectionLog[:k.sections]
	for i := len(s.stack) - 1; i >= k.stack; i-- {
		b := s.stack[i]
		s.placed[b] = false
		for q := s.first[b]; q < s.last[b]; q++ {
			s.rest[q] += s.size[b]
			s.open[q]++ // b stands right behind the unplaced ones
			if q+1 < s.last[b] {
				s.cross[q]++
			}
		}
	}
	s.stack = s.stack[:k.stack]
	s.sets.drop(k.sets)
}

// leaveFloor notes that an item at the floor of q is there no more.
func (s *search) leaveFloor(q int32) {
	if s.savedAt[q] != s.stamp {
		s.savedAt[q] = s.stamp
		s.sectionLog = append(s.sectionLog, sectionEntry{q, s.atFloor[q], s.floor[q]})
	}
	if !s.queued[q] {
		s.queued[q] = true
		s.queue = append(s.queue, q)
	}
	s.atFloor[q]--
	if s.atFloor[q] == 0 {
		s.dirty = append(s.dirty, q)
	}
}

// raise lifts the lowest offset of an unplaced item to v or, aligned, above,
// which follows from the placements in the set why. It reports whether the
// item still fits.
func (s *search) raise(c int32, v int64, why int32) bool {
	old := s.low[c]
	s.lowLog = append(s.lowLog, lowEntry{c, s.reason[c], old})
	v = (v + s.mask[c]) &^ s.mask[c]
	s.low[c], s.reason[c] = v, why
	for q, f := range s.floor[s.first[c]:s.last[c]] {
		if q := s.first[c] + int32(q); f == old {
			s.leaveFloor(q)
		} else if s.atFloor[q] <= maxSums && !s.queued[q] {
			s.queued[q] = true
			s.queue = append(s.queue, q)
		}
	}
	return v <= s.top[c]
}

// place puts b at its lowest offset, lifts what overlaps it in time, and
// reports whether no contradiction shows; if one does, cause is set. In either
// case unwind undoes it. Nothing unplaced may fit below b.
func (s *search) place(b int32) bool {
	s.stamp++
	s.placed[b] = true
	s.stack = append(s.stack, b)
	off := s.low[b]
	for q := s.first[b]; q < s.last[b]; q++ {
		s.rest[q] -= s.size[b]
		s.open[q]--
		s.swap(b, q, s.open[q])
		if q+1 < s.last[b] {
			s.cross[q]--
		}
		if s.floor[q] == off {
			s.leaveFloor(q)
		}
	}
	end := off + s.size[b]
	why := s.sets.pushCopy(s.reason[b])
	addItem(s.sets.set(why), b)
	ok := true
	for _, c := range s.conflict[s.conflictAt[b]:s.conflictAt[b+1]] {
		if s.placed[c] || s.low[c] >= end {
			continue
		}
		w := why
		if s.size[c] <= off && s.reason[c] != 0 {
			// c would fit below b, were its low not what it is.
			w = s.derive(why, s.reason[c])
		}
		if !s.raise(c, end, w) {
			copy(s.cause, s.sets.set(w))
			ok = false
			break
		}
	}
	for _, x := range s.touched {
		s.derived[x] = 0
	}
	s.touched = s.touched[:0]
	if !ok {
		s.forget()
		return false
	}
	return s.settle()
}

// derive returns the union of why and x, made once per step for every x.
func (s *search) derive(why, x int32) int32 {
	for len(s.derived) <= int(x) {
		s.derived = append(s.derived, 0)
	}
	if s.derived[x] == 0 {
		id := s.sets.pushCopy(why)
		union(s.sets.set(id), s.sets.set(x))
		s.derived[x] = id
		s.touched = append(s.touched, x)
	}
	return s.derived[x]
}

// swap moves item b to position k of section q's members.
func (s *search) swap(b, q, k int32) {
	at := &s.slots[s.slotAt[b]+q-s.first[b]]
	list := s.members[s.memberAt[q]:s.memberAt[q+1]]
	x := list[k]
	list[*at], list[k] = x, b
	s.slots[s.slotAt[x]+q-s.first[x]] = *at
	*at = k
}

// settle finds floors again, draws conclusions, and reports whether no
// contradiction shows; if one does, cause is set.
func (s *search) settle() bool {
	ok := s.refloor()
	for ok && len(s.queue) > 0 {
		q := s.queue[len(s.queue)-1]
		s.queue = s.queue[:len(s.queue)-1]
		s.queued[q] = false
		ok = s.infer(q) && s.refloor()
	}
	s.forget()
	return ok
}

// forget empties the lists of what is still to be looked at.
func (s *search) forget() {
	for _, q := range s.queue {
		s.queued[q] = false
	}
	s.queue, s.dirty = s.queue[:0], s.dirty[:0]
}

// refloor finds floors again and reports whether all sections hold what they
// must; if one does not, cause is set.
func (s *search) refloor() bool {
	for _, q := range s.dirty {
		f, count := int64(noFloor), int32(0)
		from := s.memberAt[q]
		for _, b := range s.members[from : from+s.open[q]] {
			switch v := s.low[b]; {
			case v < f:
				f, count = v, 1
			case v == f:
				count++
			}
		}
		s.floor[q], s.atFloor[q] = f, count
		if f != noFloor && f+s.rest[q] > s.capacity {
			s.weight[q]++
			clear(s.cause)
			s.explain(s.cause, q)
			return false
		}
	}
	s.dirty = s.dirty[:0]
	return true
}

// explain adds to dst the placements that the state of section q follows from.
func (s *search) explain(dst []uint64, q int32) {
	from, to := s.memberAt[q], s.memberAt[q+1]
	s.sets.begin()
	for _, b := range s.members[from:to] {
		s.sets.unite(dst, s.reason[b])
	}
	for _, b := range s.members[from+s.open[q] : to] {
		addItem(dst, b)
	}
}
