package cpu

import (
	"slices"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/internal/place"
)

// Element-wise steps over contiguous tensors of as many elements that follow each other are run as one: part by part, all steps of each, so that what one makes lies
// in the first caches of the thread that the next one reads it in, and workers are called once. What only these steps read is never whole: each worker has room for
// the parts that it is at.

// flat is what an element-wise step says of itself.
type flat struct {
	count  int         // elements
	unit   int         // parts begin and end at multiples of so many
	nanos  float64     // of an element
	same   []flatPlace // of which elements [from, to) are read with those of the result, which is the last
	wholly []place.Memory
	body   flatBody
}

// flatBody computes elements [from, to), which at has of the tensors of same; past says that the result goes past the caches.
type flatBody func(st *state, worker int, at [3][]byte, from, to int, past bool)

// flatPlace is a tensor of a flat step, and the bytes of an element.
type flatPlace struct {
	at   place.Memory
	size int
}

func (f *flat) result() flatPlace { return f.same[len(f.same)-1] }

// flatPart returns how many elements of rows of so many a part has.
func flatPart(unit int) int { return max(elementsPerChunk/unit, 1) * unit }

// emitFlat emits an element-wise step that reads and writes what it says.
func (p *planner) emitFlat(f *flat, reads, writes []place.Memory) {
	part, past := flatPart(f.unit), p.past(f.result().at)
	p.emit(step{chunks: ceilDiv(f.count, part), grain: grainFor(float64(part) * f.nanos), flat: f, body: func(st *state, worker, lo, hi int) {
		from, to := lo*part, min(hi*part, f.count)
		var at [3][]byte
		for i, x := range f.same {
			at[i] = st.Bytes(x.at)[from*x.size : to*x.size]
		}
		f.body(st, worker, at, from, to, past)
	}}, reads, writes)
}

const (
	mostJoined  = 64                   // steps
	leastJoined = 3 * elementsPerChunk // elements: fewer stay in the first-level cache anyway
	widest      = 8                    // bytes of an element
)

// joinedSteps are flat steps [first, end) of an instance that run as one, in parts of so many elements.
type joinedSteps struct {
	first, end, count, part, chunks, grain int
	steps                                  []joinedStep
	rooms                                  int     // for parts that a worker has
	room                                   scratch // of them
}

type joinedStep struct {
	*flat
	rooms [3]int // in which parts of the tensors of same are, 1 more than their numbers; 0 for those that lie in memory
	past  bool
}

// join finds steps that run as one, and gives what they touch its place for all of them.
func (p *planner) join() []joinedSteps {
	var list []joinedSteps
	a := aliasesOf(p.Plan)
	for first := 0; first < len(p.steps); {
		j := joinedSteps{first: first, end: first}
		for j.end < len(p.steps) && j.end-first < mostJoined && j.takes(a, p.steps, j.end) {
			j.end++
		}
		if j.end-first > 1 && j.count >= leastJoined {
			j.steps = make([]joinedStep, j.end-first)
			p.makeRooms(&j)
			for i := range j.steps {
				f := p.steps[first+i].flat
				for k, x := range f.same {
					if j.steps[i].rooms[k] == 0 {
						p.Keep(x.at, first, j.end-1)
					}
				}
				for _, m := range f.wholly {
					p.Keep(m, first, j.end-1)
				}
			}
			j.fit(p.steps)
			j.passes(p)
			list = append(list, j)
		}
		first = max(j.end, first+1)
	}
	return list
}

// again returns such steps where steps have other sizes; ok is false where some cannot run as one that have to.
func (j joinedSteps) again(a aliases, steps []step) (_ joinedSteps, ok bool) {
	was := j
	j.count = 0
	for j.end = j.first; j.end < was.end; j.end++ {
		if !j.takes(a, steps, j.end) {
			return joinedSteps{}, was.rooms == 0
		}
	}
	j.steps = slices.Clone(j.steps)
	j.fit(steps)
	return j, true
}

// takes reports whether step k does the same where it is done part by part with those before.
func (j *joinedSteps) takes(a aliases, steps []step, k int) bool {
	f := steps[k].flat
	if f == nil {
		return false
	}
	if k == j.first {
		j.count, j.part = f.count, f.unit
		return true
	}
	if f.count != j.count || j.part%f.unit != 0 && f.unit%j.part != 0 {
		return false
	}
	for i := j.first; i < k; i++ {
		if !a.apart(steps[i].flat, f) {
			return false
		}
	}
	j.part = max(j.part, f.unit)
	return true
}

// fit notes the steps, and how large a part is.
func (j *joinedSteps) fit(steps []step) {
	nanos := 0.0
	for i := range j.steps {
		j.steps[i].flat = steps[j.first+i].flat
		nanos += j.steps[i].nanos
	}
	j.part = flatPart(j.part)
	j.chunks, j.grain = ceilDiv(j.count, j.part), grainFor(float64(j.part)*nanos)
}

// passes notes what goes past the caches: what is large, and is not read again at once.
func (j *joinedSteps) passes(p *planner) {
	for i := range j.steps {
		x := j.steps[i].result().at
		j.steps[i].past = j.steps[i].rooms[len(j.steps[i].same)-1] == 0 && p.past(x) && !slices.ContainsFunc(j.steps[i+1:], func(s joinedStep) bool {
			return slices.ContainsFunc(s.same, func(y flatPlace) bool { return y.at.Slot == x.Slot })
		})
	}
}

// makeRooms gives workers room for parts of what only these steps touch, of which they make the whole.
func (p *planner) makeRooms(j *joinedSteps) {
	type use struct{ last, room int }
	uses := map[int]use{} // by slot
	var free []int
	for i := range j.steps {
		f := p.steps[j.first+i].flat
		for k, x := range f.same {
			slot := x.at.Slot
			u, ok := uses[slot]
			if first, last := p.Life(x.at); !ok && k == len(f.same)-1 && first == j.first+i && last < j.end && p.Whole(x.at) {
				if len(free) == 0 {
					j.rooms++
					free = append(free, j.rooms)
				}
				u = use{last - j.first, free[len(free)-1]}
				uses[slot], free = u, free[:len(free)-1]
				p.Away(x.at)
			}
			j.steps[i].rooms[k] = u.room
		}
		for k, x := range f.same {
			if u, ok := uses[x.at.Slot]; ok && u.last == i && !slices.ContainsFunc(f.same[:k], func(y flatPlace) bool { return y.at.Slot == x.at.Slot }) {
				free = append(free, u.room)
			}
		}
	}
	if j.rooms > 0 {
		j.room = p.scratch(j.rooms * widest * elementsPerChunk)
		p.Keep(j.room.at, j.first, j.end-1)
	}
}

// aliases are slots that may lie in the place of others, by slot: which one they are taken for, or unordered where elements lie elsewhere in it.
type aliases map[int]int

const unordered = -1

func aliasesOf(p *place.Plan) aliases {
	a := aliases{}
	for k, pairs := range [2][]backend.InPlace{p.Reqs.InPlace, p.Reqs.Extends} {
		for _, x := range pairs {
			for i := range p.Slots {
				if s := &p.Slots[i]; s.Kind == place.Output && s.Index == x.Output {
					a[i] = x.Input // whose slot has its number
					if k == 1 {
						a[i], a[x.Input] = unordered, unordered
					}
				}
			}
		}
	}
	return a
}

// apart reports whether a part of one step and another part of one behind it may be done in any order.
func (a aliases) apart(before, behind *flat) bool {
	return a.clear(before.result(), true, behind) && !slices.ContainsFunc(before.same[:len(before.same)-1], func(x flatPlace) bool { return !a.clear(x, false, behind) }) &&
		!slices.ContainsFunc(before.wholly, func(m place.Memory) bool { return !a.clear(flatPlace{at: m}, false, behind) })
}

// clear reports whether a tensor that a step reads or writes is nothing that one behind it writes, or reads, or has its elements at the same places.
func (a aliases) clear(x flatPlace, written bool, behind *flat) bool {
	for i, y := range behind.same {
		if (written || i == len(behind.same)-1) && !a.inOrder(x, y) {
			return false
		}
	}
	return !written || !slices.ContainsFunc(behind.wholly, func(m place.Memory) bool { return !a.inOrder(x, flatPlace{at: m}) })
}

// inOrder reports whether two tensors have no memory in common, or the same for each of their elements; of those of size 0 it is not known for which.
func (a aliases) inOrder(x, y flatPlace) bool {
	p, q := x.at.Slot, y.at.Slot
	if r, ok := a[p]; ok {
		p = r
	}
	if r, ok := a[q]; ok {
		q = r
	}
	if p != q || p != unordered && (x.at.Off+x.at.Size <= y.at.Off || y.at.Off+y.at.Size <= x.at.Off) {
		return true
	}
	return p != unordered && x.at.Off == y.at.Off && x.size == y.size && x.size > 0
}

// pieces returns what a step reads and writes of elements [from, to): of those that have rooms, which begin each so many elements behind the other, from at on.
func (s *joinedStep) pieces(st *state, rooms []byte, each, at, from, to int) (list [3][]byte) {
	for k, x := range s.same {
		if r := s.rooms[k]; r > 0 {
			list[k] = rooms[(r-1)*widest*each+at*x.size:][:(to-from)*x.size]
			continue
		}
		list[k] = st.Bytes(x.at)[from*x.size : to*x.size]
	}
	return list
}

// runJoined runs parts [lo, hi) of joined steps.
func runJoined(arg any, worker, lo, hi int) {
	st := arg.(*state)
	j := st.joined
	var rooms []byte
	if j.rooms > 0 {
		rooms = st.Bytes(j.room.at.Part(worker*j.room.size, j.room.size))
	}
	for i := lo; i < hi; i++ {
		if i%chunkPoll == 0 && st.ctx.Err() != nil {
			return
		}
		from, to := i*j.part, min((i+1)*j.part, j.count)
		for k := range j.steps {
			s := &j.steps[k]
			s.body(st, worker, s.pieces(st, rooms, elementsPerChunk, 0, from, to), from, to, s.past)
		}
	}
}

// runSteps runs joined steps, in a trace one after the other.
func (st *state) runSteps(j *joinedSteps) error {
	st.joined = j
	if st.a.Trace != nil {
		return st.runApart(j)
	}
	st.run.For(j.chunks, j.grain, runJoined, st)
	return st.ctx.Err()
}

// runApart runs joined steps one after the other, in memory for what they make as a whole.
func (st *state) runApart(j *joinedSteps) error {
	if n := j.rooms * widest * j.count; len(st.rooms) < n {
		if err := st.reserve(int64(n)); err != nil {
			return err
		}
		st.rooms = make([]byte, n)
	}
	for st.alone = range j.steps {
		st.run.For(j.chunks, j.grain, runAlone, st)
		st.a.Trace(j.first + st.alone)
	}
	return st.ctx.Err()
}

// runAlone runs parts [lo, hi) of one of joined steps.
func runAlone(arg any, worker, lo, hi int) {
	st := arg.(*state)
	j := st.joined
	s := &j.steps[st.alone]
	for i := lo; i < hi; i++ {
		from, to := i*j.part, min((i+1)*j.part, j.count)
		s.body(st, worker, s.pieces(st, st.rooms, j.count, from, from, to), from, to, s.past)
	}
}
