package memplan

import "math"

// noFloor is the floor of a section without unplaced items.
const noFloor = math.MaxInt64

// search is the state of one exact search. One goroutine uses it.
//
// An unplaced item has a lowest offset, low. A section has a floor, the least
// low of its unplaced items, and below the floor all is decided; floor plus
// the sizes of unplaced items must not exceed the capacity. All changes are
// undone through a trail.
type search struct {
	*model
	capacity int64   // in units, for sums of sizes
	top      []int64 // per item: highest offset in units

	low     []int64
	placed  []bool
	members []int32 // permutation of member per section, unplaced first
	slots   []int32 // positions in members
	open    []int32 // per section: number of unplaced items
	rest    []int64 // per section: sum of unplaced sizes
	floor   []int64
	atFloor []int32 // per section: unplaced items with low == floor
	cross   []int32 // per section s: unplaced items in both s and s+1
	weight  []int64 // per section: failures seen

	stamp      int64
	savedAt    []int64 // per section: stamp of its last entry in sectionTrail
	dirty      []int32 // sections whose floor must be found again
	lows       []lowEntry
	sectionLog []sectionEntry
	stack      []int32 // placed items in order
	candidates []int32
	scores     []int32
	goals      []int64
	failed     map[uint64]struct{}

	rank  []int32
	style style
	nodes int64
	limit int64
	halt  halt
	quit  func() bool
	abort bool
}

type lowEntry struct {
	item int32
	low  int64
}

type sectionEntry struct {
	section, atFloor int32
	floor            int64
}

// maxFailed bounds the memory for failed states.
const maxFailed = 1 << 20

func newSearch(m *model, h halt) *search {
	s := &search{
		model: m, halt: h,
		top: make([]int64, m.n), low: make([]int64, m.n), placed: make([]bool, m.n),
		members: make([]int32, len(m.member)), slots: make([]int32, len(m.slot)),
		open: make([]int32, m.sections), rest: make([]int64, m.sections),
		floor: make([]int64, m.sections), atFloor: make([]int32, m.sections),
		cross: make([]int32, m.sections), weight: make([]int64, m.sections),
		savedAt: make([]int64, m.sections), rank: make([]int32, m.n),
		failed: make(map[uint64]struct{}),
	}
	return s
}

// reset prepares for a search within a capacity in bytes.
func (s *search) reset(capacity int64) {
	s.capacity = s.fits(capacity)
	copy(s.members, s.member)
	copy(s.slots, s.slot)
	copy(s.rest, s.load)
	copy(s.cross, s.crossing)
	clear(s.low)
	clear(s.placed)
	clear(s.floor)
	clear(s.weight)
	clear(s.failed)
	for i := range s.top {
		s.top[i] = (capacity - s.bytes[i]) / s.unit
	}
	for q := range s.sections {
		s.open[q] = s.memberAt[q+1] - s.memberAt[q]
		s.atFloor[q] = s.open[q]
	}
	s.lows, s.sectionLog, s.stack = s.lows[:0], s.sectionLog[:0], s.stack[:0]
	s.candidates, s.dirty = s.candidates[:0], s.dirty[:0]
	s.nodes, s.abort = 0, false
}

// mark is a state to return to.
type mark struct{ stack, lows, sections int }

func (s *search) mark() mark { return mark{len(s.stack), len(s.lows), len(s.sectionLog)} }

// save notes a section's floor once per step.
func (s *search) save(q int32) {
	if s.savedAt[q] != s.stamp {
		s.savedAt[q] = s.stamp
		s.sectionLog = append(s.sectionLog, sectionEntry{q, s.atFloor[q], s.floor[q]})
	}
}

// leaveFloor notes that an item at the floor of q is there no more.
func (s *search) leaveFloor(q int32) {
	s.save(q)
	s.atFloor[q]--
	if s.atFloor[q] == 0 {
		s.dirty = append(s.dirty, q)
	}
}

// raise lifts the lowest offset of an unplaced item to v or, aligned, above.
// It reports whether the item still fits.
func (s *search) raise(c int32, v int64) bool {
	old := s.low[c]
	if v <= old {
		return true
	}
	v = (v + s.mask[c]) &^ s.mask[c]
	s.lows = append(s.lows, lowEntry{c, old})
	s.low[c] = v
	for q := s.first[c]; q < s.last[c]; q++ {
		if s.floor[q] == old {
			s.leaveFloor(q)
		}
	}
	return v <= s.top[c]
}

// place puts b at its lowest offset, lifts what overlaps it in time, and
// reports whether no contradiction shows. In either case unwind undoes it.
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
	ok := true
	for _, c := range s.conflict[s.conflictAt[b]:s.conflictAt[b+1]] {
		if !s.placed[c] && s.low[c] < end && !s.raise(c, end) {
			ok = false
			break
		}
	}
	return s.settle() && ok
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

// settle finds floors again and reports whether all sections hold what they
// must.
func (s *search) settle() bool {
	ok := true
	for _, q := range s.dirty {
		if !ok {
			break
		}
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
			ok = false
		}
	}
	s.dirty = s.dirty[:0]
	return ok
}

// unwind returns to the state of k.
func (s *search) unwind(k mark) {
	for i := len(s.lows) - 1; i >= k.lows; i-- {
		s.low[s.lows[i].item] = s.lows[i].low
	}
	s.lows = s.lows[:k.lows]
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
}

// key hashes the state of the sections [lo, hi): which items are unplaced and
// how low they may go. What remains to be decided depends on nothing else.
func (s *search) key(lo, hi int32) uint64 {
	k := uint64(lo)<<32 | uint64(hi)
	for _, b := range s.byFirst[s.begins[lo]:s.begins[hi]] {
		if !s.placed[b] {
			k += mix(uint64(b)*0x9e3779b97f4a7c15 ^ uint64(s.low[b]))
		}
	}
	return k
}

// mix scatters the bits of x.
func mix(x uint64) uint64 {
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	return x ^ x>>32
}
