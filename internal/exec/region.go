package exec

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// runIf is ONNX's If: the branch that is taken writes its results where the node's are, as far as it makes them.
func (f *frame) runIf(ctx context.Context, i int, st *Step) error {
	v, err := f.value(st.in[0])
	if err != nil {
		return err
	}
	cond, err := truth(v)
	if err != nil {
		return err
	}
	want := "else_branch"
	if cond {
		want = "then_branch"
	}
	r := slices.IndexFunc(st.Node.Regions, func(x graph.Region) bool { return x.Name == want })
	if r < 0 {
		return fmt.Errorf("%w: no %s", ErrRun, want)
	}
	g := f.inner[i][r]
	b := g.s.block
	if len(b.Inputs) != 0 || len(b.Outputs) < len(st.out) {
		return fmt.Errorf("%w: region %s has %d inputs and %d outputs", ErrRun, want, len(b.Inputs), len(b.Outputs))
	}
	if err := f.checkCaptured(g, st); err != nil {
		return err
	}
	if err := f.capture(g, st); err != nil {
		return err
	}
	for k, slot := range b.Outputs {
		if b.Slots[slot].direct != k {
			continue
		}
		if err := f.settleBranch(st, g, slot); err != nil {
			return err
		}
	}
	err = g.run(ctx)
	g.detach()
	if err != nil {
		return err
	}
	for k, out := range st.out {
		if out < 0 {
			continue
		}
		slot := b.Outputs[k]
		v, err := g.value(slot)
		if err != nil {
			return err
		}
		own := b.Slots[slot].own && v == tensor.Value(&g.tensors[slot])
		fresh := b.Slots[slot].direct == k && !f.inPlace(st, v) // of two results that are one value, one gets its storage
		if err := f.deliver(ctx, i, out, v, own || fresh); err != nil {
			return err
		}
		if own && f.s.block.Slots[out].Kind == SlotDynamic {
			f.take(out, g.release(slot))
			if err := g.hold(slot, 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// inPlace reports whether a value lies where the plan has a result of a node.
func (f *frame) inPlace(st *Step, v tensor.Value) bool {
	t, ok := v.(*tensor.Tensor)
	return ok && slices.ContainsFunc(st.out, func(out int) bool {
		return out >= 0 && f.s.block.Slots[out].Kind == SlotPlanned && sameStorage(&f.tensors[out], t)
	})
}

// settleBranch gives a result of a branch the place of the node's, where it can be written there, and storage of its own
// otherwise.
func (f *frame) settleBranch(st *Step, g *frame, slot int) error {
	b, t := g.s.block, &g.tensors[slot]
	for k, s := range b.Outputs {
		if s != slot || k >= len(st.out) || st.out[k] < 0 {
			continue
		}
		out := st.out[k]
		to, v := &f.tensors[out], f.s.block.Slots[out].Value
		if f.s.block.Slots[out].Kind == SlotPlanned && v.Type.DType == t.DType && sameFormat(v.Format, b.Slots[slot].Value.Format) &&
			slices.Equal(f.s.dims[out], g.s.dims[slot]) && alignedTo(to, g.s.strictest(slot)) {
			t.Data, t.Handle, t.Offset = to.Data, to.Handle, to.Offset
			return nil
		}
	}
	return g.fresh(slot)
}

// capture gives a region's frame what the region captures, and the symbols that it asks for.
func (f *frame) capture(g *frame, st *Step) error {
	f.tell(g)
	first := len(st.Node.Inputs)
	for k, slot := range g.s.block.Captures {
		v, err := f.value(st.in[first+k])
		if err != nil {
			return err
		}
		g.setValue(slot, v)
	}
	return nil
}

// call runs region r of step i with these inputs. Results have storage of their own.
func (f *frame) call(ctx context.Context, i, r int, inputs []tensor.Value) ([]tensor.Value, error) {
	st, g := &f.s.block.Steps[i], f.inner[i][r]
	b := g.s.block
	if len(inputs) != len(b.Inputs) {
		return nil, fmt.Errorf("%w: region %s takes %d inputs, found %d", ErrRun, st.Node.Regions[r].Name, len(b.Inputs), len(inputs))
	}
	for k, v := range inputs {
		g.setValue(b.Inputs[k], v)
	}
	if err := f.capture(g, st); err != nil {
		return nil, err
	}
	for k, slot := range b.Outputs {
		if b.Slots[slot].direct == k {
			if err := g.fresh(slot); err != nil {
				return nil, err
			}
		}
	}
	err := g.run(ctx)
	g.detach()
	if err != nil {
		return nil, err
	}
	out := make([]tensor.Value, len(b.Outputs))
	for k, slot := range b.Outputs {
		v, err := g.value(slot)
		if err != nil {
			return nil, err
		}
		if t, ok := v.(*tensor.Tensor); ok && b.Slots[slot].direct == k { // nobody else has its storage
			own := *t
			own.Shape = slices.Clone(t.Shape)
			out[k] = &own
			continue
		}
		if out[k], err = copyValue(v); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// fresh gives a slot that lies outside of the plan storage of its own.
func (f *frame) fresh(slot int) error {
	v, t := f.s.block.Slots[slot].Value, &f.tensors[slot]
	if v.Format != graph.HostFormat {
		_, err := f.makeLoose(slot, v.Type.DType, f.s.dims[slot])
		return err
	}
	n, err := tensor.New(v.Type.DType, f.s.dims[slot]...)
	if err != nil {
		return valueError(v, err)
	}
	t.Data, t.Offset = n.Data, 0
	return nil
}

// deliver makes v the value of slot, a result of step i. own says that nobody else will change what v lies in.
func (f *frame) deliver(ctx context.Context, i, slot int, v tensor.Value, own bool) error {
	sl, format := &f.s.block.Slots[slot], f.s.block.Slots[slot].Value.Format
	x, isTensor := v.(*tensor.Tensor)
	if sl.Kind == SlotPlanned {
		t := &f.tensors[slot]
		if !isTensor || x.DType != t.DType || !slices.Equal(x.Shape, t.Shape) {
			return fmt.Errorf("%w: value %v is %v where %v%v was inferred", ErrRun, sl.Value, v, t.DType, t.Shape)
		}
		if sameStorage(t, x) {
			return nil
		}
		return f.copyStep(ctx, i, t, x, format)
	}
	if !own && isTensor && (format != graph.HostFormat || x.DType != tensor.String && x.Strides == nil) {
		t, err := f.makeLoose(slot, x.DType, x.Shape)
		if err != nil {
			return err
		}
		return f.copyStep(ctx, i, t, x, format)
	}
	if !own {
		start := f.copyBegins()
		var err error
		if v, err = copyValue(v); err != nil {
			return err
		}
		f.noteCopy(i, start)
	}
	if err := f.hold(slot, f.session.counted(v)); err != nil {
		return err
	}
	f.setValue(slot, v)
	return nil
}

// copyStep copies a tensor to another one of the same dtype, shape and format, on behalf of step i.
func (f *frame) copyStep(ctx context.Context, i int, dst, src *tensor.Tensor, format graph.Format) error {
	start := f.copyBegins()
	if dst.Device.IsHost() && src.Device.IsHost() && dst.DType != tensor.String {
		to, from := dst.Data[dst.Offset:], src.Data[src.Offset:]
		if format.Layout.IsRowMajor() {
			n := dst.DType.Bytes(product(dst.Shape))
			to, from = to[:n], from[:n]
		}
		copy(to, from)
	} else if err := f.session.m.carry(ctx, &Operand{Tensor: dst, Layout: format.Layout}, &Operand{Tensor: src, Layout: format.Layout}, nil, &f.session.workers); err != nil {
		return err
	}
	f.noteCopy(i, start)
	return nil
}

// copyBegins returns the time, where a profile is made.
func (f *frame) copyBegins() time.Time {
	if f.session.profile == nil {
		return time.Time{}
	}
	return time.Now()
}

// noteCopy tells the profile of a copy that step i, one of the host scheduler's, has made since start.
func (f *frame) noteCopy(i int, start time.Time) {
	p := f.session.profile
	if p == nil {
		return
	}
	n := f.s.block.Steps[i].Node
	p.add(f, i, Span{Name: n.Name, Op: "Copy", Backend: hostName, Nodes: n.Provenance(), Start: start.Sub(p.zero), Time: time.Since(start)})
}
