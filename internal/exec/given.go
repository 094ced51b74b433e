package exec

import (
	"context"
	"fmt"
	"slices"

	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
)

// blame is the failure of a step that could not get an operand of the caller's, which is not the group's fault.
func (g *given) blame(st *Step, err error) error {
	return &failure{st: st, err: BlameNodes([]string{g.name}, hostName, err), final: true}
}

// wait has the host wait for an operand.
func (g *given) wait(ctx context.Context, st *Step) error {
	if g.over || g.Ready == nil {
		return nil
	}
	if err := g.Ready.Wait(ctx); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return g.blame(st, fmt.Errorf("it was not made: %w", err))
	}
	g.over = true
	return nil
}

// tell has the lane of step i wait for an operand: the host itself, where the step is its.
func (e *edges) tell(ctx context.Context, g *given, i int) error {
	f, st := e.f, &e.f.s.block.Steps[i]
	if g.over || g.Ready == nil {
		return nil
	}
	if !f.queued(i) {
		return g.wait(ctx, st)
	}
	if g.told[st.lane] {
		return nil
	}
	s, err := f.session.stream(f.s.block.queue(st))
	if err == nil {
		err = s.WaitFor(ctx, ordering(g.Ready))
	}
	if err != nil {
		return g.blame(st, err)
	}
	g.told[st.lane] = true
	return nil
}

// ready has the host wait for what group i reads and writes of the caller's: a stand-in works on the host.
func (e *edges) ready(ctx context.Context, i int) error {
	st := &e.f.s.block.Steps[i]
	for _, g := range e.reads[i] {
		if g != nil {
			if err := g.wait(ctx, st); err != nil {
				return err
			}
		}
	}
	for _, slot := range st.out {
		if slot >= 0 && e.at[slot] != nil {
			if err := e.at[slot].wait(ctx, st); err != nil {
				return err
			}
		}
	}
	return nil
}

// prepare has the operands of step i there before it is done.
func (e *edges) prepare(ctx context.Context, i int) error {
	st := &e.f.s.block.Steps[i]
	for k, slot := range st.in {
		if slot < 0 {
			continue
		}
		g := e.root(slot)
		if e.conversion(i) {
			x := &e.fill[i]
			if x.src != nil {
				if err := e.tell(ctx, x.src, i); err != nil {
					return err
				}
			}
			if x.to == nil && (x.skip || x.from != nil || x.src != nil) {
				continue
			}
		} else if here := e.inPlace(i, k); here != nil {
			if err := e.tell(ctx, here, i); err != nil {
				return err
			}
			continue
		}
		if g != nil {
			if err := e.stage(ctx, g, st); err != nil {
				return err
			}
		}
	}
	for _, slot := range st.out {
		if slot >= 0 && e.at[slot] != nil && e.at[slot].output {
			if err := e.tell(ctx, e.at[slot], i); err != nil {
				return err
			}
		}
	}
	return nil
}

// stage fills the own storage of an input's slot, compact on the host, once a run.
func (e *edges) stage(ctx context.Context, g *given, st *Step) error {
	if g.staged {
		return nil
	}
	if err := g.wait(ctx, st); err != nil {
		return err
	}
	f := e.f
	t := &f.tensors[g.slot]
	for i, other := range e.in {
		if other != g {
			continue
		}
		if have := e.stages[i]; have == nil || have.DType != t.DType || have.Len() != t.Len() {
			n, err := tensor.New(t.DType, t.Shape...)
			if err != nil {
				return g.blame(st, err)
			}
			e.stages[i] = n
		}
		t.Data, t.Strings = e.stages[i].Data, e.stages[i].Strings
	}
	if err := f.session.m.carry(ctx, &Operand{Tensor: t}, &g.Operand, nil, &f.session.workers); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return g.blame(st, err)
	}
	g.staged = true
	return nil
}

// convert does what conversion i does for operands of the caller's. It reports whether nothing is left to do.
func (e *edges) convert(ctx context.Context, i int) (done bool, err error) {
	x, st := &e.fill[i], &e.f.s.block.Steps[i]
	if x.to != nil {
		if err := e.carryAt(ctx, i, &x.to.Operand, e.own(st.in[0]), x.to); err != nil {
			return false, err
		}
	}
	if x.from != nil {
		return true, e.carryAt(ctx, i, e.own(st.out[0]), &x.from.Operand, x.from)
	}
	return x.skip, nil
}

// own is a slot's own storage as an operand.
func (e *edges) own(slot int) *Operand {
	return &Operand{Tensor: &e.f.tensors[slot], Layout: e.f.s.block.Slots[slot].Value.Format.Layout}
}

// carryAt is carry at the time of step i: on its lane where that is the device's that copies, otherwise when everything on
// the lane is over, and to the end.
func (e *edges) carryAt(ctx context.Context, i int, dst, src *Operand, g *given) error {
	f, st := e.f, &e.f.s.block.Steps[i]
	var s device.Stream
	var err error
	if f.queued(i) {
		if s, err = f.session.stream(f.s.block.queue(st)); err != nil {
			return err
		}
		if st.Device() == dst.Device.Canonical() && onDevice(dst, src) {
			if g != nil {
				err = e.tell(ctx, g, i)
			}
			if err != nil {
				return err
			}
			return f.session.m.carry(ctx, dst, src, s, nil)
		}
		if err := s.Sync(ctx); err != nil { // of what was made, or is overwritten
			return err
		}
	}
	if g != nil {
		if err := g.wait(ctx, st); err != nil {
			return err
		}
	}
	return f.session.m.carry(ctx, dst, src, nil, &f.session.workers)
}

// finish copies outputs that have to wait for the end of the run, and stages inputs that are outputs. Lanes that waited for an
// input know nothing of how its making ended: finish asks.
func (e *edges) finish(ctx context.Context) error {
	f := e.f
	host := &Step{Kind: StepHost}
	for _, g := range e.in {
		if g != nil && slices.Contains(g.told, true) {
			if err := g.wait(ctx, host); err != nil {
				return err
			}
		}
	}
	for j, slot := range f.s.block.Outputs {
		if g := e.root(slot); g != nil && f.session.wanted[j] && e.need[slot] {
			if err := e.stage(ctx, g, host); err != nil {
				return err
			}
		}
	}
	for j, g := range e.out {
		if g == nil || !g.after {
			continue
		}
		v, err := f.value(g.slot)
		if err != nil {
			return err
		}
		t, ok := v.(*tensor.Tensor)
		if !ok {
			return f.session.badOutput(j, "is no tensor", "a tensor", fmt.Sprintf("%T", v))
		}
		if err := f.session.sameAs(j, t, g.Tensor); err != nil {
			return err
		}
		if err := g.wait(ctx, host); err != nil {
			return err
		}
		src := &Operand{Tensor: t, Layout: f.s.block.Slots[g.slot].Value.Format.Layout}
		if err := f.session.m.carry(ctx, &g.Operand, src, nil, &f.session.workers); err != nil {
			return g.blame(host, err)
		}
	}
	return nil
}
