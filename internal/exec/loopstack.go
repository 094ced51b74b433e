package exec

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/carve-dev/carve/graph/tensor"
)

// stackRun is what a body gives slice by slice, in a run.
type stackRun struct {
	data    []byte           // the whole, or what there is of it
	bytes   int              // of a slice
	room    int64            // slices that data has room for
	holding                  // of data, where the whole is as long as there are slices
	first   tensor.Tensor    // the first slice, where the body's results need not be of one shape; of no data
	list    []*tensor.Tensor // of slices that are no numbers or lie apart in the whole
}

// What is stacked and grows has room for mostRoom slices at first. A result of known size is made at once up to mostAtOnce bytes.
const (
	mostRoom   = 16
	mostAtOnce = 1 << 30
)

// openStack makes room for what the body gives slice by slice, as far as its size is known.
func (r *loopRun) openStack(k int, trips int64) error {
	c, s := &r.l.stacked[k], &r.stacks[k]
	*s = stackRun{list: s.list[:0]}
	if !c.fixed || c.out < 0 {
		return nil
	}
	sl := &r.g.s.block.Slots[c.result]
	s.bytes = sl.Value.Type.DType.Bytes(product(c.dims))
	if r.f.s.block.Slots[c.out].Kind == SlotPlanned {
		t := &r.f.tensors[c.out]
		if !r.counted(trips) || int64(t.Shape[c.axis]) != trips || t.DType != sl.Value.Type.DType || len(t.Shape) != len(c.dims)+1 {
			return fmt.Errorf("%w: scan output %d is %v, and the loop has %d iterations", ErrRun, k, t, trips)
		}
		s.data, s.room = t.Bytes(), trips
		return nil
	}
	return r.grow(k, r.roomAtFirst(s, trips))
}

// roomAtFirst returns how many slices a stack has room for at first.
func (r *loopRun) roomAtFirst(s *stackRun, trips int64) int64 {
	switch {
	case r.counted(trips) && (r.l.scan || trips <= mostAtOnce/int64(max(s.bytes, 1))):
		return trips
	case trips >= 0:
		return min(trips, mostRoom)
	}
	return mostRoom
}

// grow makes room for so many slices.
func (r *loopRun) grow(k int, room int64) error {
	s := &r.stacks[k]
	if int64(s.bytes) > 0 && room > math.MaxInt64/2/int64(s.bytes) {
		return fmt.Errorf("%w: %d slices of %d bytes", tensor.ErrTooLarge, room, s.bytes)
	}
	n := room * int64(s.bytes)
	if err := r.collected.add(n); err != nil {
		return err
	}
	data, kept, err := r.f.session.room(int(n), r.f.s.block.callers(r.l.stacked[k].out))
	if err != nil {
		return err
	}
	copy(data, s.data)
	if err := r.collected.add(-int64(len(s.data))); err != nil {
		return err
	}
	r.f.letGo(&s.holding)
	s.data, s.room, s.mem = data, room, kept
	return nil
}

// place returns where slice it of a stack lies; nil where the stack has no room for it that is contiguous.
func (r *loopRun) place(k int, it, trips int64) ([]byte, error) {
	c, s := &r.l.stacked[k], &r.stacks[k]
	if it >= s.room {
		if err := r.grow(k, 2*max(s.room, 1)); err != nil {
			return nil, err
		}
	}
	if c.back {
		it = trips - 1 - it
	}
	return s.data[int(it)*s.bytes : int(it+1)*s.bytes : int(it+1)*s.bytes], nil
}

// push puts slice it of what is stacked into the whole, where the body has not written it there.
func (r *loopRun) push(k int, it, trips int64) error {
	c, s := &r.l.stacked[k], &r.stacks[k]
	v, err := r.g.value(c.result)
	if err != nil || c.out < 0 {
		return err
	}
	t, ok := v.(*tensor.Tensor)
	if !ok {
		return fmt.Errorf("%w: scan output %d is no tensor", ErrRun, k)
	}
	if !c.fixed {
		return r.pushAny(k, it, trips, t)
	}
	start := r.f.copyBegins()
	if c.whole {
		to, err := r.place(k, it, trips)
		if err != nil || len(to) == 0 || len(t.Data) > t.Offset && &t.Data[t.Offset] == &to[0] {
			return err
		}
		copy(to, t.Bytes())
	} else {
		if c.back {
			it = trips - 1 - it
		}
		outer := product(c.dims[:c.axis])
		inner := s.bytes / max(outer, 1)
		for o := range outer {
			copy(s.data[(o*int(trips)+int(it))*inner:][:inner], t.Bytes()[o*inner:])
		}
	}
	r.f.noteCopy(r.i, start)
	return nil
}

// pushAny is push of a slice whose shape is that of the first one, which the run has shown.
func (r *loopRun) pushAny(k int, it, trips int64, t *tensor.Tensor) error {
	c, s := &r.l.stacked[k], &r.stacks[k]
	start := r.f.copyBegins()
	defer func() { r.f.noteCopy(r.i, start) }()
	if it == 0 {
		s.first = tensor.Tensor{DType: t.DType, Shape: slices.Clone(t.Shape)}
	} else if t.DType != s.first.DType || !slices.Equal(t.Shape, s.first.Shape) {
		return fmt.Errorf("%w: iteration %d gives %v, iteration 0 %v", ErrRun, it, t, &s.first)
	}
	axis := c.axis
	if axis < 0 {
		axis += len(t.Shape) + 1
	}
	if t.DType.Size() == 0 || axis < 0 || axis > len(t.Shape) || product(t.Shape[:axis]) != 1 {
		if err := r.collected.add(r.f.session.counted(t)); err != nil {
			return err
		}
		own, err := t.Clone()
		s.list = append(s.list, own)
		return err
	}
	if it == 0 {
		s.bytes = t.NumBytes()
		if err := r.grow(k, r.roomAtFirst(s, trips)); err != nil {
			return err
		}
	}
	to, err := r.place(k, it, trips)
	copy(to, t.Bytes())
	return err
}

// finishStack hands over what n iterations have put into one piece of memory.
func (r *loopRun) finishStack(ctx context.Context, k int, n int64) error {
	c, s := &r.l.stacked[k], &r.stacks[k]
	t := &tensor.Tensor{DType: s.first.DType, Shape: s.first.Shape}
	axis := c.axis
	if c.fixed {
		t.DType, t.Shape = r.g.s.block.Slots[c.result].Value.Type.DType, slices.Clone(c.dims)
	} else if axis < 0 {
		axis += len(t.Shape) + 1
	}
	bytes := n * int64(s.bytes)
	t.Shape, t.Data = slices.Insert(t.Shape, axis, int(n)), s.data[:bytes:bytes]
	r.collected.end()
	r.collected.n = 0
	s.data = nil
	if err := r.f.deliver(ctx, r.i, c.out, t, true); err != nil || s.mem == nil {
		return err
	}
	r.f.take(c.out, holding{mem: s.mem})
	s.holding = holding{}
	return nil
}
