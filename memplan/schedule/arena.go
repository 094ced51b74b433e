package schedule

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/memplan"
)

// searchSteps is the budget of exact search where the heuristics do not meet the lower bound: a few milliseconds.
const searchSteps = 2000

// nearShare is the part of the lower bound by which a plan that follows others may be further above it than the first of them.
const nearShare = 1.0 / 32

func aligned(n int64) int64 { return (n + tensor.Alignment - 1) &^ (tensor.Alignment - 1) }

// packer makes the plan of one device.
type packer struct {
	p      *Problem
	lives  []life
	base   []int64
	device tensor.DeviceID
	arena  Arena
	bufs   []memplan.Buffer
	at     []int // per value: its buffer, -1 for none
	nested []nested
	o      *order // nil where all steps are on one lane
	t      *touches
	h      *horizon
}

// mine reports whether something on device d belongs to the arena. All host backends share one.
func (k *packer) mine(d tensor.DeviceID) bool {
	return d == k.device || d.IsHost() && k.device.IsHost()
}

func (k *packer) add(place Placed, align int64) {
	k.bufs = append(k.bufs, memplan.Buffer{Size: aligned(place.Bytes), Align: max(align, tensor.Alignment), Lower: place.Lower, Upper: place.Upper})
	k.arena.Placed = append(k.arena.Placed, place)
}

// reserve makes room for all that add may be called with.
func (k *packer) reserve() {
	n := len(k.p.Values)
	for i := range k.p.Steps {
		n += len(k.p.Steps[i].Buffers)
	}
	k.bufs, k.arena.Placed = make([]memplan.Buffer, 0, n), make([]Placed, 0, n)
}

func (k *packer) values() {
	k.at = make([]int, len(k.p.Values))
	if k.o != nil {
		k.h = k.o.horizon(k.p, k.device)
	}
	for i := range k.p.Values {
		v := &k.p.Values[i]
		k.at[i] = -1
		if !v.Planned || !k.mine(v.Device) {
			continue
		}
		k.arena.Naive += aligned(v.Bytes)
		if l := k.lives[i]; l.parent == i && l.hi > l.lo && v.Bytes > 0 {
			k.at[i] = len(k.bufs)
			k.add(Placed{Step: -1, Index: i, Bytes: v.Bytes, Lower: l.lo, Upper: k.until(i, l)}, 0)
		}
	}
}

// until returns the end of a value's lifetime: that in the order of the list, or where that comes later, when all who touch
// it have ended for whoever uses the arena from then on.
func (k *packer) until(v int, l life) int64 {
	if k.o == nil || l.hi > k.base[len(k.p.Steps)] {
		return l.hi
	}
	last := k.t.of(v)
	at := k.h.from(l.end, last)
	if at == l.end+1 && k.o.over(last, l.end) {
		return l.hi
	}
	return max(l.hi, k.base[at])
}

// end is until for what a step has for itself.
func (k *packer) end(i int, hi int64) int64 {
	if k.o == nil {
		return hi
	}
	last := fill(make([]int32, k.o.lanes))
	last[k.p.Steps[i].Lane] = int32(i)
	if at := k.h.from(i, last); at > i+1 {
		return max(hi, k.base[at])
	}
	return hi
}

func (k *packer) buffers() error {
	for i := range k.p.Steps {
		s := &k.p.Steps[i]
		for j, b := range s.Buffers {
			if !k.mine(b.Device) {
				continue
			}
			lo, hi := k.base[i]+int64(b.First), k.base[i]+int64(b.Last)+1
			if b.First < 0 || b.Last < b.First || hi > k.base[i+1] || b.Bytes < 0 {
				return fmt.Errorf("%w: step %d has a buffer of %d bytes from %d to %d", ErrProblem, i, b.Bytes, b.First, b.Last)
			}
			k.arena.Naive += aligned(b.Bytes)
			if b.Bytes > 0 && !s.NoReuse {
				k.add(Placed{Step: i, Index: j, Bytes: b.Bytes, Lower: lo, Upper: k.end(i, hi)}, b.Align)
			}
		}
		if s.NoReuse {
			if err := k.nest(i, s); err != nil {
				return err
			}
		}
	}
	return nil
}

// nested is a buffer that lies at an offset in another one, which stands for all of a step that forbids reuse.
type nested struct {
	step, index int
	in          int // of packer.bufs
	offset      int64
}

// nest adds one rectangle for all buffers of step i, side by side.
func (k *packer) nest(i int, s *Step) error {
	place := Placed{Step: i, Index: -1, Lower: k.base[i], Upper: k.end(i, k.base[i+1])}
	most := int64(tensor.Alignment)
	for j, b := range s.Buffers {
		if b.Bytes == 0 || !k.mine(b.Device) {
			continue
		}
		align := max(b.Align, tensor.Alignment)
		at := (place.Bytes + align - 1) &^ (align - 1)
		if align&(align-1) != 0 {
			return fmt.Errorf("%w: step %d has a buffer that is aligned to %d bytes", ErrProblem, i, b.Align)
		}
		if at < place.Bytes || at > math.MaxInt64-tensor.Alignment-b.Bytes {
			return fmt.Errorf("%w: step %d has buffers of more than 2^63-1 bytes", ErrProblem, i)
		}
		if place.Index < 0 {
			place.Index = j
		}
		most, place.Bytes = max(most, align), at+aligned(b.Bytes)
		k.nested = append(k.nested, nested{i, j, len(k.bufs), at})
	}
	if place.Bytes > 0 {
		k.add(place, most)
	}
	return nil
}

// known returns the plan that was made before for the same buffers, where there is one and it is sound.
func (k *packer) known() (memplan.Plan, bool) {
	for i := range k.p.Known {
		a := &k.p.Known[i]
		if a.Device != k.device.String() || !slices.EqualFunc(a.Placed, k.arena.Placed, func(a, b Placed) bool {
			return a.Bytes == b.Bytes && a.Lower == b.Lower && a.Upper == b.Upper
		}) {
			continue
		}
		plan := memplan.Plan{Offsets: offsets(a.Placed), Height: a.Height, Method: a.Method}
		if a.Height > 0 && memplan.Verify(k.bufs, plan.Offsets, a.Height) == nil {
			plan.LowerBound = memplan.LowerBound(k.bufs)
			return plan, true
		}
	}
	return memplan.Plan{}, false
}

// like returns the arena of the same buffers with other sizes that the plan follows, nil where there is none.
func (k *packer) like() *Arena {
	if k.p.Like == nil {
		return nil
	}
	for i := range k.p.Like.Arenas {
		a := &k.p.Like.Arenas[i]
		if a.Device == k.device && slices.EqualFunc(a.Placed, k.arena.Placed, func(a, b Placed) bool {
			return a.Step == b.Step && a.Index == b.Index && a.Lower == b.Lower && a.Upper == b.Upper
		}) {
			return a
		}
	}
	return nil
}

// offsets returns where everything lies.
func offsets(placed []Placed) []int64 {
	out := make([]int64, len(placed))
	for i := range placed {
		out[i] = placed[i].Offset
	}
	return out
}

// pack fills in the device's part of plan.
func (k *packer) pack(ctx context.Context, plan *Plan, verify bool) error {
	k.reserve()
	k.values()
	if err := k.buffers(); err != nil {
		return err
	}
	packed, known := k.known()
	if !known {
		var err error
		o := memplan.Options{Steps: searchSteps, Threads: 1}
		if like := k.like(); like != nil {
			o.Like, o.Near = offsets(like.Placed), like.near
		}
		if packed, err = memplan.Pack(ctx, k.bufs, &o); err != nil {
			return err
		}
		if k.arena.near = o.Near; packed.Method != memplan.Alike {
			k.arena.near = float64(packed.Height)/float64(max(packed.LowerBound, 1)) + nearShare
		}
	}
	if verify && !known {
		if err := memplan.Verify(k.bufs, packed.Offsets, packed.Height); err != nil {
			return err
		}
	}
	k.arena.Height, k.arena.LowerBound, k.arena.Method = packed.Height, packed.LowerBound, packed.Method
	if packed.LowerBound > 0 && packed.Nodes > 0 { // search may have proven more
		k.arena.LowerBound = memplan.LowerBound(k.bufs)
	}
	for i := range k.arena.Placed {
		b := &k.arena.Placed[i]
		b.Offset = packed.Offsets[i]
		if b.Step >= 0 {
			plan.Buffers[b.Step][b.Index] = b.Offset
		}
	}
	for _, b := range k.nested {
		plan.Buffers[b.step][b.index] = packed.Offsets[b.in] + b.offset
	}
	for i, v := range k.p.Values {
		if v.Planned && k.mine(v.Device) {
			if at := k.at[find(k.lives, i)]; at >= 0 {
				plan.Values[i] = packed.Offsets[at]
			}
		}
	}
	return nil
}
