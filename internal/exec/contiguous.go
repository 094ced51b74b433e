package exec

import (
	"context"
	"errors"
	"slices"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
)

// start puts the run of group i onto its stream. Operands that the instance cannot take as they lie it gets compact, once
// each, and from then on in every run.
func (f *frame) start(ctx context.Context, i int, inst backend.Instance, a *backend.RunArgs) (device.Event, error) {
	for {
		event, err := startInstance(ctx, inst, a)
		if err == nil {
			return event, nil
		}
		again, err := f.relay(ctx, i, a, err)
		if !again {
			return nil, err
		}
	}
}

// relay lays the operand of group i down compact of which its error speaks, where it is not yet. It reports whether it has;
// the error is otherwise the group's, or why it could not.
func (f *frame) relay(ctx context.Context, i int, a *backend.RunArgs, cause error) (bool, error) {
	var c *backend.ContiguousError
	if !errors.As(cause, &c) {
		return false, cause
	}
	list := a.Inputs
	if c.Output {
		list = a.Outputs
	}
	if c.Operand < 0 || c.Operand >= len(list) || list[c.Operand] == nil {
		return false, cause
	}
	t := list[c.Operand]
	if t.IsCompact() && alignedTo(t, tensor.Alignment) {
		return false, cause
	}
	st := &f.s.block.Steps[i]
	st.state.refuse(c.Output, c.Operand)
	f.session.m.picky.Store(true)
	if c.Output && f.s.block.Graph.Owner() == nil {
		return f.relayOutput(st.out[c.Operand], cause)
	}
	if c.Output {
		return true, f.relayResult(list, c.Operand, f.s.block.Slots[st.out[c.Operand]].Value.Format.Layout)
	}
	v := f.s.block.Slots[st.in[c.Operand]].Value
	dst := &Operand{Tensor: &tensor.Tensor{DType: t.DType, Shape: slices.Clone(t.Shape), Device: t.Device}, Layout: v.Format.Layout}
	if err := f.room(dst); err != nil {
		return false, err
	}
	src := &Operand{Tensor: t, Layout: v.Format.Layout}
	if err := f.edge().carryAt(ctx, i, dst, src, nil); err != nil {
		return false, err
	}
	f.patch(list, c.Operand, dst.Tensor)
	return true, nil
}

// room gives an operand storage until the end of the run.
func (f *frame) room(o *Operand) error {
	m := f.session.m
	size, err := m.env.Transfer.Registry.Size(o.format(), o.DType, o.Shape)
	if err != nil {
		return err
	}
	if o.Device.IsHost() {
		n, err := tensor.New(tensor.Uint8, int(size))
		if err == nil {
			o.Data = n.Data
		}
		return err
	}
	dev, err := m.env.Transfer.Device(o.format())
	if err != nil {
		return err
	}
	mem, err := f.session.alloc(dev, size)
	if err == nil {
		o.Handle = mem.Handle
		f.extra = append(f.extra, mem)
	}
	return err
}

// relayOutput has a group write its own storage instead of the caller's, from which the output is copied.
func (f *frame) relayOutput(slot int, cause error) (bool, error) {
	e := f.edge()
	g := e.at[slot]
	if g == nil { // plain storage of the caller's
		j := f.s.block.Slots[slot].direct
		if j < 0 || slices.Contains(f.s.block.Outputs[:j], slot) {
			return false, cause
		}
		o := &Operand{Tensor: &tensor.Tensor{}}
		*o.Tensor = f.tensors[slot]
		g = e.add(o, f.s.block.Slots[slot].Value.Name, slot, true)
		g.over, g.told = true, make([]bool, len(f.s.block.lanes))
		e.out[j] = g
	} else {
		e.ownPlace(slot)
		e.at[slot], g.at = nil, -1
	}
	e.copyOut(g)
	if f.s.block.Slots[slot].direct < 0 {
		return true, nil
	}
	return true, e.outStage(slices.Index(f.s.block.Outputs, slot))
}

// returned is what a group of a region has written beside where it belongs.
type returned struct {
	to   tensor.Tensor
	from *Operand
}

// relayResult has a group of a region write compact storage of its own in the place of result k, a slice of what a loop stacks.
func (f *frame) relayResult(list []*tensor.Tensor, k int, l graph.Layout) error {
	t := list[k]
	own := &Operand{Tensor: &tensor.Tensor{DType: t.DType, Shape: slices.Clone(t.Shape), Device: t.Device}, Layout: l}
	if err := f.room(own); err != nil {
		return err
	}
	f.returns = append(f.returns, returned{*t, own})
	f.patch(list, k, own.Tensor)
	return nil
}

// giveBack copies what relayResult has had a group write elsewhere to where it belongs.
func (f *frame) giveBack(ctx context.Context) error {
	if late := f.drain(ctx); late != nil {
		return late
	}
	for k := range f.returns {
		x := &f.returns[k]
		if err := f.session.m.carry(ctx, &Operand{Tensor: &x.to, Layout: x.from.Layout}, x.from, nil, &f.session.workers); err != nil {
			return err
		}
	}
	f.returns = f.returns[:0]
	return nil
}
