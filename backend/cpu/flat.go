package cpu

import (
	"slices"
	"unsafe"

	"github.com/carve-dev/carve/internal/place"
)

// Element-wise steps over contiguous tensors of as many elements that follow each other are run as one: piece by piece, all steps of each, so that what one makes lies
// in the first caches of the thread that the next one reads it in, and workers are called once. Whether that is the same as one after the other depends on where
// tensors lie: the planner of memory lets one lie in the place of another that a step before has read. So it is looked at when a run has its memory.

// flat is what an element-wise step says of itself.
type flat struct {
	count   int         // elements
	unit    int         // parts begin and end at multiples of so many
	nanos   float64     // of an element
	same    []flatPlace // of which elements [from, to) are read or written with those of the result
	wholly  []place.Memory
	written int // how many of the last of same are written
	body    func(st *state, worker, from, to int)
}

// flatPlace is a tensor of a flat step, and the bytes of an element.
type flatPlace struct {
	at   place.Memory
	size int
}

// flatPart returns how many elements of rows of so many a part has.
func flatPart(unit int) int { return max(elementsPerChunk/unit, 1) * unit }

// emitFlat emits an element-wise step that reads and writes what it says.
func (p *planner) emitFlat(f *flat, reads, writes []place.Memory) {
	part := flatPart(f.unit)
	s := step{chunks: ceilDiv(f.count, part), grain: grainFor(float64(part) * f.nanos), flat: f, body: func(st *state, worker, lo, hi int) {
		f.body(st, worker, lo*part, min(hi*part, f.count))
	}}
	if slices.ContainsFunc(writes, p.past) {
		s.flat = nil // the caches do not have it for the next step
	}
	p.emit(s, reads, writes)
}

// mostJoined is how many steps are joined, at most, and leastJoined the fewest elements of tensors that do not stay in the first-level cache anyway.
const mostJoined, leastJoined = 16, 3 * elementsPerChunk

// joinedSteps are flat steps [first, end) of an instance that may run as one, in parts of so many elements.
type joinedSteps struct{ first, end, part, chunks, grain int }

// join finds steps that may run as one.
func (in *instance) join() {
	in.joined = in.joined[:0:0]
	for first := 0; first < len(in.steps); {
		end, unit, nanos := first, 1, 0.0
		for ; end < len(in.steps) && end-first < mostJoined; end++ {
			s := &in.steps[end]
			if s.flat == nil || s.serial != nil || s.flat.count != in.steps[first].flat.count || unit%s.flat.unit != 0 && s.flat.unit%unit != 0 {
				break
			}
			unit, nanos = max(unit, s.flat.unit), nanos+s.flat.nanos
		}
		if end-first < 2 || in.steps[first].flat.count < leastJoined {
			first = max(end, first+1)
			continue
		}
		part := flatPart(unit)
		in.joined = append(in.joined, joinedSteps{first, end, part, ceilDiv(in.steps[first].flat.count, part), grainFor(float64(part) * nanos)})
		first = end
	}
}

// interval is where a tensor lies in memory: [from, to), nothing where both are 0, with elements of size bytes, or 0 for one that is read wholly.
type interval struct {
	from, to uintptr
	size     int
	written  bool
}

// apart reports whether the part of one step at a and that of another at b may be done in another order than all of one before all of the other.
func (a interval) apart(b interval) bool {
	if !a.written && !b.written || a.to <= b.from || b.to <= a.from {
		return true
	}
	return a.from == b.from && a.size == b.size && a.size > 0
}

// mayJoin reports whether steps do the same part by part where tensors lie in this run.
func (st *state) mayJoin(j *joinedSteps) bool {
	list := st.intervals[:0]
	for i := j.first; i < j.end; i++ {
		f, before := st.in.steps[i].flat, len(list)
		for k, x := range f.same {
			list = append(list, st.interval(x.at, x.size, k >= len(f.same)-f.written))
		}
		for _, m := range f.wholly {
			list = append(list, st.interval(m, 0, false))
		}
		for _, a := range list[:before] {
			for _, b := range list[before:] {
				if !a.apart(b) {
					st.intervals = list
					return false
				}
			}
		}
	}
	st.intervals = list
	return true
}

func (st *state) interval(m place.Memory, size int, written bool) interval {
	b := st.Bytes(m)
	if len(b) == 0 {
		return interval{}
	}
	from := uintptr(unsafe.Pointer(&b[0]))
	return interval{from, from + uintptr(len(b)), size, written}
}

// runJoined runs parts [lo, hi) of joined steps.
func runJoined(arg any, worker, lo, hi int) {
	st := arg.(*state)
	j := st.joined
	count := st.in.steps[j.first].flat.count
	for i := lo; i < hi; i++ {
		if i%chunkPoll == 0 && st.ctx.Err() != nil {
			return
		}
		for k := j.first; k < j.end; k++ {
			st.in.steps[k].flat.body(st, worker, i*j.part, min((i+1)*j.part, count))
		}
	}
}
