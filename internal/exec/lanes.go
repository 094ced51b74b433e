package exec

import (
	"cmp"
	"container/heap"
	"slices"

	"github.com/carve-dev/carve/graph/tensor"
)

// A block's steps run on lanes: lane 0 is the host, which walks through the list; the others are streams of devices, onto
// which it puts steps when it comes to them. Whatever needs the host in between (a result whose shape depends on data,
// control flow around steps on devices, a group that fell back) is on lane 0 and waits for all lanes.

// lane is a queue: a stream of a device.
type lane struct {
	device tensor.DeviceID // canonical; the zero value is the host
	stream int
}

// compare orders lanes by device and stream.
func (l lane) compare(m lane) int {
	return cmp.Or(compareDevices(l.device, m.device), cmp.Compare(l.stream, m.stream))
}

// assignLanes gives every step its lane. Of a device's streams, a step takes the one on which what it reads was made last,
// then one that has not been used, then the one that was used longest ago.
func (b *Block) assignLanes(streams int) {
	b.lanes = []lane{{}}
	tail := []int{-1} // the last step of each lane
	for i := range b.Steps {
		st := &b.Steps[i]
		for _, r := range st.regions {
			st.barrier = st.barrier || len(r.lanes) > 1
		}
		d := st.Device()
		if d.IsHost() {
			continue
		}
		if st.dynamic {
			st.barrier = true // the host makes room for the results
			continue
		}
		if st.lane = b.laneOf(st, d, tail, max(streams, 1)); st.lane == len(tail) {
			tail = append(tail, i)
		}
		tail[st.lane] = i
	}
}

// laneOf chooses the lane of a step on device d. tail has the last step of each lane.
func (b *Block) laneOf(st *Step, d tensor.DeviceID, tail []int, streams int) int {
	oldest, used := 0, 0
	for l := 1; l < len(b.lanes); l++ {
		if b.lanes[l].device != d {
			continue
		}
		if st.reads(&b.Steps[tail[l]]) {
			return l
		}
		used++
		if oldest == 0 || tail[l] < tail[oldest] {
			oldest = l
		}
	}
	if used < streams {
		b.lanes = append(b.lanes, lane{d, used})
		return len(b.lanes) - 1
	}
	return oldest
}

// reads reports whether the step reads what another one makes.
func (st *Step) reads(maker *Step) bool {
	return slices.ContainsFunc(st.in, func(in int) bool { return in >= 0 && slices.Contains(maker.out, in) })
}

// Device returns where a step runs, the zero value for the host.
func (st *Step) Device() tensor.DeviceID {
	switch st.Kind {
	case StepGroup:
		return deviceOf(st.backend)
	case StepConvert:
		return st.Hop.StreamDevice().Canonical()
	case StepHost:
	}
	return tensor.DeviceID{}
}

// reorder puts steps that go onto a device's queue as far to the front as their operands allow, and steps for which the host
// has to wait to the back, so that devices and the host work at the same time. Where all steps are the host's the list stays
// as it is: the compiler has ordered it.
func (b *Block) reorder() {
	if len(b.lanes) == 1 {
		return
	}
	r := newReordering(b)
	steps := make([]Step, 0, len(b.Steps))
	for len(steps) < len(b.Steps) {
		steps = append(steps, b.Steps[r.next()])
	}
	b.Steps = steps
}

// reordering is a list scheduling of a block's steps. Steps whose operands are all made by listed steps are ready; of these
// come first what goes onto a queue, then what the host does without waiting, then the rest, each in the order of the list.
type reordering struct {
	b       *Block
	made    []int   // per slot: the step that makes it, -1 for none
	left    []int   // per step: operands that are still to be made
	readers [][]int // per step
	place   []int   // per step: its place on its lane, when it is listed
	count   []int   // per lane: steps listed
	over    []int   // per lane: how many of them the host knows to have ended
	ready   [3]indices
}

func newReordering(b *Block) *reordering {
	n := len(b.Steps)
	r := &reordering{b: b, made: make([]int, len(b.Slots)), left: make([]int, n), readers: make([][]int, n), place: make([]int, n),
		count: make([]int, len(b.lanes)), over: make([]int, len(b.lanes))}
	for i := range r.made {
		r.made[i] = -1
	}
	for i := range b.Steps {
		for _, s := range b.Steps[i].out {
			if s >= 0 {
				r.made[s] = i
			}
		}
	}
	for i := range b.Steps {
		for _, s := range b.Steps[i].in {
			if s >= 0 && r.made[s] >= 0 {
				r.left[i]++
				r.readers[r.made[s]] = append(r.readers[r.made[s]], i)
			}
		}
	}
	for i := range b.Steps {
		if r.left[i] == 0 {
			r.add(i)
		}
	}
	return r
}

// add puts a ready step into the list of its kind.
func (r *reordering) add(i int) {
	k := 0
	if st := &r.b.Steps[i]; st.lane == 0 {
		k = 1
		if r.waits(i) {
			k = 2
		}
	}
	heap.Push(&r.ready[k], i)
}

// waits reports whether the host has to wait for step i.
func (r *reordering) waits(i int) bool {
	st := &r.b.Steps[i]
	if st.barrier {
		return true
	}
	for _, s := range st.in {
		if s < 0 || r.made[s] < 0 {
			continue
		}
		if m := r.made[s]; r.b.Steps[m].lane > 0 && r.place[m] >= r.over[r.b.Steps[m].lane] {
			return true
		}
	}
	return false
}

// next lists one more step.
func (r *reordering) next() int {
	k := 0
	for len(r.ready[k]) == 0 {
		k++
	}
	i := heap.Pop(&r.ready[k]).(int)
	if k == 2 {
		r.wait(i)
	}
	l := r.b.Steps[i].lane
	r.place[i] = r.count[l]
	r.count[l]++
	for _, reader := range r.readers[i] {
		if r.left[reader]--; r.left[reader] == 0 {
			r.add(reader)
		}
	}
	return i
}

// wait notes what the host knows to have ended once it has waited for step i, and looks again at the steps that it would
// have had to wait for.
func (r *reordering) wait(i int) {
	st := &r.b.Steps[i]
	for l := range r.over {
		if st.barrier {
			r.over[l] = r.count[l]
		}
	}
	for _, s := range st.in {
		if s >= 0 && r.made[s] >= 0 {
			m := r.made[s]
			l := r.b.Steps[m].lane
			r.over[l] = max(r.over[l], r.place[m]+1)
		}
	}
	again := r.ready[2]
	r.ready[2] = nil
	for _, k := range again {
		r.add(k)
	}
}

// indices is a heap of steps, the first in the list on top.
type indices []int

func (h indices) Len() int           { return len(h) }
func (h indices) Less(i, j int) bool { return h[i] < h[j] }
func (h indices) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *indices) Push(x any) { *h = append(*h, x.(int)) }

// Pop implements heap.Interface.
func (h *indices) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}
