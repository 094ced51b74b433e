package memplan

import (
	"math"
	"slices"
)

// A chain of buffers, each alive together with the one before and the one
// after, meets its lower bound when the buffers lie at the bottom and at the
// top of the arena in turn. No placement that only ever takes the lower end of
// a free range finds that. The heuristic here goes through time once with the
// height given beforehand, and puts an item to the end of a free range whose
// neighbour outlives it.

// resident is an item that is alive at the current section.
type resident struct {
	lo, hi int64
	last   int32 // first section without it
}

// bothEnds tries the lower bound as height, and then a little more. It is for
// plain problems where few items are alive at one time.
func bothEnds(g *greedy, ceiling int64, h halt) (int64, bool) {
	p, offs := g.p, g.offs
	const maxAlive = 256
	alive := int64(0)
	for i := range p.items {
		alive += int64(p.items[i].last - p.items[i].first)
	}
	if !p.plain || alive > maxAlive*int64(p.sections) {
		return 0, false
	}
	order, ok := g.order(birthFirst, h)
	if !ok {
		return 0, false
	}
	for _, spare := range []int64{0, p.bound / 512, p.bound / 64} {
		if spare > ceiling-p.bound {
			break
		}
		if endsSweep(p, order, p.bound+spare, offs, h) {
			return p.height(offs), true
		}
	}
	return 0, false
}

// endsSweep places the items of a plain problem below height, in order of
// birth, and reports whether all of them found room. Cost O(n log n) and O(1)
// per item for each one alive.
func endsSweep(p *problem, order []int32, height int64, offs []int64, h halt) bool {
	live := make([]resident, 0, 64)
	now := int32(-1)
	for k, i := range order {
		if k&pollMask == pollMask && h.stopped() {
			return false
		}
		it := &p.items[i]
		if it.first != now {
			now = it.first
			live = slices.DeleteFunc(live, func(r resident) bool { return r.last <= now })
		}
		at, off := roomFor(it, live, height)
		if at < 0 {
			return false
		}
		offs[i] = off
		live = slices.Insert(live, at, resident{off, off + it.size, it.last})
	}
	return true
}

// roomFor chooses the smallest free range that holds it and the end of that
// range. It returns the item's position among live and its offset, or -1.
func roomFor(it *item, live []resident, height int64) (int, int64) {
	const wall = math.MaxInt32
	mask := it.align - 1
	at, offset, best := -1, int64(0), int64(math.MaxInt64)
	end, below := int64(0), int32(wall) // the resident under the free range
	for j := 0; j <= len(live); j++ {
		start, above := height, int32(wall)
		if j < len(live) {
			start, above = live[j].lo, live[j].last
		}
		if room := start - end; room >= it.size && room < best {
			low := (end + mask) &^ mask
			high := (start - it.size) &^ mask
			if low <= high {
				at, offset, best = j, low, room
				if keepsHigh(it.last, below, above) {
					offset = high
				}
			}
		}
		if j < len(live) {
			end, below = live[j].hi, live[j].last
		}
	}
	return at, offset
}

// keepsHigh reports whether an item that lives up to last goes to the upper
// end of a range between neighbours that live up to below and above: next to
// the one that outlives it by less, or else to the one that lives longer.
func keepsHigh(last, below, above int32) bool {
	switch lowOut, highOut := below >= last, above >= last; {
	case lowOut && highOut:
		return above < below
	case lowOut:
		return false
	case highOut:
		return true
	}
	return above > below
}
