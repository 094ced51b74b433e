package exec

import (
	"context"
	"slices"
	"unsafe"

	"github.com/carve-dev/carve/graph/tensor"
)

// carried is a value that a loop carries and whose shape changes, or that is no tensor, as it is between two iterations. A tensor that a group of the
// body has made, or that the body passes on, is not copied: what it lies in goes with it, and what the one before it lay in is what the group
// writes next.
type carried struct {
	value  tensor.Value
	tensor tensor.Tensor // of value, where that is one
	holding
	loaned bool // somebody else has the storage
}

// set makes v the value.
func (c *carried) set(v tensor.Value) {
	if c.value = v; v == nil {
		return
	}
	if t, ok := v.(*tensor.Tensor); ok {
		c.tensor = *t
		c.value = &c.tensor
	}
}

// leaveLoose takes a result of the body as the next of carried value k.
func (r *loopRun) leaveLoose(k int, v tensor.Value) error {
	c, next, g := &r.l.carried[k], &r.looseNext[k], r.g
	sl := &g.s.block.Slots[c.result]
	*next = carried{}
	if sl.Kind == SlotInput {
		for j := range r.l.carried {
			if from := &r.loose[j]; r.l.carried[j].param == c.result && !r.l.carried[j].fixed {
				next.set(from.value)
				next.holding, next.loaned = from.holding, from.loaned
				return nil
			}
		}
	}
	if t, ok := v.(*tensor.Tensor); ok && sl.own && t == &g.tensors[c.result] {
		next.set(t)
		next.holding = g.release(c.result)
		return g.hold(c.result, 0)
	}
	v, err := g.copyOf(c.result, v)
	next.set(v)
	r.f.noteCopy(r.i, r.f.copyBegins())
	return err
}

// copyOf returns a slot's value with storage of its own, in the slot's format.
func (f *frame) copyOf(slot int, v tensor.Value) (tensor.Value, error) {
	t, ok := v.(*tensor.Tensor)
	format := f.s.block.Slots[slot].Value.Format
	if !ok || format.Layout.IsRowMajor() || !format.Device.IsHost() {
		return copyValue(v)
	}
	size, err := f.session.m.env.Transfer.Registry.Size(format, t.DType, t.Shape)
	if err != nil {
		return nil, err
	}
	data, err := storage(int(size))
	if err != nil {
		return nil, err
	}
	copy(data, t.Data[t.Offset:])
	return &tensor.Tensor{DType: t.DType, Shape: slices.Clone(t.Shape), Device: t.Device, Data: data}, nil
}

// turnLoose has the next values be the current ones, and gives the body's groups what is free then.
func (r *loopRun) turnLoose() {
	r.loose, r.looseNext = r.looseNext, r.loose
	for k := range r.looseNext {
		old := &r.looseNext[k]
		if old.mem == nil || shares(r.loose, old.mem) || shares(r.looseNext[:k], old.mem) {
			continue
		}
		h, slot := old.holding, r.l.carried[k].result
		if r.g.mine != nil && r.g.mine[slot].mem == nil && r.g.s.block.Slots[slot].own {
			r.g.mine[slot] = h
		} else {
			r.g.letGo(&h)
		}
	}
}

// shares reports whether one of the values lies in this memory.
func shares(list []carried, mem []byte) bool {
	for i := range list {
		if unsafe.SliceData(list[i].mem) == unsafe.SliceData(mem) {
			return true
		}
	}
	return false
}

// finishLoose hands carried value k over.
func (r *loopRun) finishLoose(ctx context.Context, k int) error {
	c, out := &r.loose[k], r.l.carried[k].out
	own := !c.loaned && !r.twice(k)
	if err := r.f.deliver(ctx, r.i, out, c.value, own); err != nil || !own || c.mem == nil {
		return err
	}
	r.f.take(out, c.holding)
	c.holding = holding{}
	return nil
}

// twice reports whether carried value k lies where another one lies.
func (r *loopRun) twice(k int) bool {
	t, ok := r.loose[k].value.(*tensor.Tensor)
	if !ok {
		return false
	}
	for j := range r.loose {
		if x, ok := r.loose[j].value.(*tensor.Tensor); ok && j != k && (sameStorage(x, t) || len(x.Strings) > 0 && unsafe.SliceData(x.Strings) == unsafe.SliceData(t.Strings)) {
			return true
		}
	}
	return false
}

// endLoose lets go of what carried values lie in.
func (r *loopRun) endLoose() {
	for k := range r.loose {
		if h := r.loose[k].holding; h.mem != nil && !shares(r.loose[:k], h.mem) {
			r.g.letGo(&h)
		}
	}
	clear(r.loose)
	clear(r.looseNext)
}
