package schedule

import (
	"context"
	"fmt"

	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/memplan"
)

// searchSteps is the budget of exact search where the heuristics do not meet the lower bound: a few milliseconds.
const searchSteps = 2000

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
	for i := range k.p.Values {
		v := &k.p.Values[i]
		k.at[i] = -1
		if !v.Planned || !k.mine(v.Device) {
			continue
		}
		k.arena.Naive += aligned(v.Bytes)
		if l := k.lives[i]; l.parent == i && l.hi > l.lo && v.Bytes > 0 {
			k.at[i] = len(k.bufs)
			k.add(Placed{Step: -1, Index: i, Bytes: v.Bytes, Lower: l.lo, Upper: l.hi}, 0)
		}
	}
}

func (k *packer) buffers() error {
	for i := range k.p.Steps {
		s := &k.p.Steps[i]
		if len(s.Buffers) == 0 || !k.mine(s.Device) {
			continue
		}
		for j, b := range s.Buffers {
			lo, hi := k.base[i]+int64(b.First), k.base[i]+int64(b.Last)+1
			if b.First < 0 || b.Last < b.First || hi > k.base[i+1] || b.Bytes < 0 {
				return fmt.Errorf("%w: step %d has a buffer of %d bytes from %d to %d", ErrProblem, i, b.Bytes, b.First, b.Last)
			}
			if s.NoReuse {
				lo, hi = k.base[i], k.base[i+1]
			}
			k.arena.Naive += aligned(b.Bytes)
			if b.Bytes > 0 {
				k.add(Placed{Step: i, Index: j, Bytes: b.Bytes, Lower: lo, Upper: hi}, b.Align)
			}
		}
	}
	return nil
}

// pack fills in the device's part of plan.
func (k *packer) pack(ctx context.Context, plan *Plan, verify bool) error {
	k.reserve()
	k.values()
	if err := k.buffers(); err != nil {
		return err
	}
	packed, err := memplan.Pack(ctx, k.bufs, &memplan.Options{Steps: searchSteps, Threads: 1})
	if err != nil {
		return err
	}
	if verify {
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
	for i, v := range k.p.Values {
		if v.Planned && k.mine(v.Device) {
			if at := k.at[find(k.lives, i)]; at >= 0 {
				plan.Values[i] = packed.Offsets[at]
			}
		}
	}
	return nil
}
