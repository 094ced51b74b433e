package exec

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"unsafe"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
)

// Run computes the outputs for inputs given by name, like Program.Run, in this session. Values are tensors, also on devices,
// *Operand, and what the model's types ask for; outputs that Env.Leave leaves on a device are *Operand.
func (s *Session) Run(ctx context.Context, inputs map[string]tensor.Value) (map[string]tensor.Value, error) {
	values, err := s.m.Named(s.named, inputs)
	if err != nil {
		return nil, err
	}
	s.named = values
	defer clear(values)
	return s.RunNamed(ctx, values)
}

// RunNamed is Run of what Machine.Named has returned.
func (s *Session) RunNamed(ctx context.Context, values []tensor.Value) (_ map[string]tensor.Value, err error) {
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	defer s.forget()
	f, err := s.begin(ctx, values)
	if err != nil {
		return nil, err
	}
	defer s.run.End()
	defer f.drop()
	defer f.detach()
	left := left{s: s}
	defer func() {
		if err != nil {
			left.free()
		}
	}()
	if err := left.allocate(f); err != nil {
		return nil, err
	}
	s.attach(f)
	if err := f.prepareDirect(); err != nil {
		return nil, err
	}
	if err := f.retried(ctx, (*frame).paced); err != nil {
		return nil, err
	}
	f.checkDeclared(ctx)
	if err := f.finish(ctx); err != nil {
		return nil, err
	}
	return s.results(ctx, f, &left)
}

// results returns the outputs of a run, which are the caller's.
func (s *Session) results(ctx context.Context, f *frame, l *left) (map[string]tensor.Value, error) {
	main, out := s.m.main, map[string]tensor.Value{}
	for i, slot := range main.Outputs {
		name := s.m.env.OutputNames[i]
		if l.made != nil && l.made[i] != nil {
			out[name] = l.made[i]
			continue
		}
		v, err := f.value(slot)
		if err != nil {
			return nil, err
		}
		if t, ok := v.(*tensor.Tensor); ok && l.wanted(i) { // its shape was not known before
			if out[name], err = l.upload(ctx, i, t); err != nil {
				return nil, err
			}
			continue
		}
		if t, ok := v.(*tensor.Tensor); ok && (main.Slots[slot].direct >= 0 || main.Slots[slot].own) { // the storage is the caller's from now on
			out[name] = f.handOver(slot, t)
			continue
		}
		if z, ok := v.(*tensor.Sequence); ok && z == f.zipped { // nobody else refers to it
			out[name], f.zipped = z, nil
			continue
		}
		if v, err = ownValue(v); err != nil {
			return nil, err
		}
		out[name] = v
	}
	return out, nil
}

// open has the session ready for another run: what it still has enqueued ends first.
func (s *Session) open(ctx context.Context) error {
	if s.closed || s.m.closed.Load() {
		return ErrClosed
	}
	deepen()
	main := s.m.main
	if s.in == nil {
		s.in, s.ins = make([]*tensor.Tensor, len(main.Inputs)), make([]Operand, len(main.Inputs))
		s.outs, s.wanted = make([]Operand, len(main.Outputs)), make([]bool, len(main.Outputs))
	}
	s.settle(ctx)
	return nil
}

// forget lets go of the caller's operands.
func (s *Session) forget() {
	clear(s.in)
	clear(s.ins)
	clear(s.outs)
}

// begin validates inputs, finds the frame, and sets the inputs.
func (s *Session) begin(ctx context.Context, values []tensor.Value) (*frame, error) {
	for i := range s.wanted {
		s.wanted[i] = true
	}
	for i, v := range s.m.main.Graph.Inputs {
		switch x := values[i].(type) {
		case *tensor.Tensor:
			if v.Type.IsTensor() || v.Type.Kind == graph.KindUnknown {
				s.ins[i], values[i] = Operand{Tensor: x}, nil
				continue
			}
		case *Operand:
			if x != nil && (v.Type.IsTensor() || v.Type.Kind == graph.KindUnknown) {
				s.ins[i], values[i] = *x, nil
				continue
			}
		}
		x, err := hostValue(v, values[i])
		if err != nil {
			return nil, err
		}
		values[i] = x
	}
	return s.beginOperands(ctx, values)
}

// beginOperands validates s.ins, finds the frame, and sets the inputs. values has those that are no tensors; nil where there
// are none. It allocates nothing.
func (s *Session) beginOperands(ctx context.Context, values []tensor.Value) (*frame, error) {
	for i := range s.ins {
		if s.in[i] = s.ins[i].Tensor; s.in[i] == nil && values != nil && values[i] != nil {
			continue
		}
		if err := s.checkInput(i); err != nil {
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(s.m.main.lanes) > 1 {
		s.run.BeginYielding(s.m.env.Threads)
	} else {
		s.run.Begin(s.m.env.Threads) // workers wake while plans for new shapes are made
	}
	f, err := s.frameFor(ctx, s.in)
	if err != nil {
		s.run.End()
		return nil, err
	}
	for i, slot := range s.m.main.Inputs {
		if t := s.in[i]; t != nil {
			f.tensors[slot] = *t
			f.values[slot] = &f.tensors[slot]
		} else {
			f.setValue(slot, values[i])
		}
	}
	return f, nil
}

// attach notes the operands that are no plain tensors of the host, and those that a group does not take as they lie.
func (s *Session) attach(f *frame) {
	main, picky := s.m.main, f.s.picky || s.m.picky.Load()
	for i, slot := range main.Inputs {
		o := &s.ins[i]
		if o.Tensor == nil || o.DType == tensor.String || o.plain() && !(picky && !f.suits(slot, o, false)) {
			continue
		}
		e := f.edge()
		e.in[i] = e.add(o, main.Graph.Inputs[i].Name, slot, false)
		t := &f.tensors[slot] // its own storage comes when it is needed
		t.Data, t.Handle, t.Offset, t.Strides, t.Device = nil, 0, 0, nil, tensor.DeviceID{}
	}
	for i, slot := range main.Outputs {
		o := &s.outs[i]
		over := s.reaches(i)
		if o.Tensor == nil || o.DType == tensor.String || o.plain() && !(picky && !f.suits(slot, o, true)) && (!over || f.extends(i)) {
			continue
		}
		e := f.edge()
		e.out[i] = e.add(o, s.m.env.OutputNames[i], slot, true)
		e.out[i].apart = over && !f.extends(i)
	}
}

// suits reports whether the groups that read a slot, or the one that makes it, take a plain tensor as it lies.
func (f *frame) suits(slot int, o *Operand, result bool) bool {
	g := given{tensor: *o.Tensor}
	e := edges{f: f}
	for i := range f.s.block.Steps {
		st := &f.s.block.Steps[i]
		list := st.in
		if result {
			list = st.out
		}
		for k, s := range list {
			if s == slot && st.Kind == StepGroup && !e.takes(i, k, &g, result) {
				return false
			}
		}
	}
	return true
}

// RunInto computes into the caller's outputs, like Program.RunInto, in this session.
func (s *Session) RunInto(ctx context.Context, inputs, outputs []*tensor.Tensor) error {
	if err := s.open(ctx); err != nil {
		return err
	}
	if err := s.m.counts(len(inputs), len(outputs)); err != nil {
		return err
	}
	defer s.forget()
	for i, t := range inputs {
		s.ins[i].Tensor = t
	}
	for i, t := range outputs {
		s.outs[i].Tensor = t
	}
	_, err := s.compute(ctx, false)
	return err
}

// Enqueue is RunInto for operands, which does not wait for the end, like Program.Enqueue.
func (s *Session) Enqueue(ctx context.Context, inputs, outputs []*Operand) (device.Event, error) {
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	if err := s.m.counts(len(inputs), len(outputs)); err != nil {
		return nil, err
	}
	defer s.forget()
	for i, o := range inputs {
		if o != nil {
			s.ins[i] = *o
		}
	}
	for i, o := range outputs {
		if o != nil {
			s.outs[i] = *o
		}
	}
	return s.compute(ctx, true)
}

func (m *Machine) counts(inputs, outputs int) error {
	main := m.main
	if inputs != len(main.Inputs) {
		return &PortError{Name: "inputs", Problem: "wrong number", Expected: fmt.Sprint(len(main.Inputs)), Found: fmt.Sprint(inputs), Kind: ErrInput}
	}
	if outputs != len(main.Outputs) {
		return &PortError{Name: "outputs", Problem: "wrong number", Expected: fmt.Sprint(len(main.Outputs)), Found: fmt.Sprint(outputs), Kind: ErrOutput}
	}
	return nil
}

// compute runs with s.ins into s.outs. Where it need not wait for the end, the event tells of that.
func (s *Session) compute(ctx context.Context, ahead bool) (device.Event, error) {
	main := s.m.main
	for i := range s.ins {
		if s.ins[i].Tensor == nil {
			s.ins[i] = Operand{Tensor: s.m.env.Defaults[i]}
		}
	}
	for i := range s.outs {
		s.wanted[i] = s.outs[i].Tensor != nil
	}
	f, err := s.beginOperands(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer s.run.End()
	for i, slot := range main.Outputs {
		if err := s.m.checkOutput(i, f.s.dims[slot], s.ins, s.outs); err != nil {
			return nil, err
		}
	}
	s.attach(f)
	if err = s.direct(f); err == nil {
		if ahead && f.canRunAhead() {
			var event device.Event
			if event, err = f.runAhead(ctx); err == nil {
				s.hold(f, event)
				return event, nil
			}
		} else {
			f.into = s.outs
			if err = f.retried(ctx, (*frame).paced); err == nil {
				f.checkDeclared(ctx)
				if err = f.finish(ctx); err == nil {
					err = s.copyOutputs(f)
				}
			}
		}
	}
	s.letGo(f)
	return nil, err
}

// direct has outputs written to the caller's storage where their makers can.
func (s *Session) direct(f *frame) error {
	main := s.m.main
	for i, slot := range main.Outputs {
		if main.Slots[slot].direct < 0 || f.special(i) {
			continue
		}
		t := &f.tensors[slot]
		if o := s.outs[i].Tensor; o != nil {
			t.Data, t.Offset = o.Data, o.Offset
		} else if t.Data == nil { // not wanted, but made
			n, err := tensor.New(t.DType, t.Shape...)
			if err != nil {
				return err
			}
			t.Data, t.Offset = n.Data, 0
		}
	}
	return nil
}

// special reports whether output i is bound by the frame's edges.
func (f *frame) special(i int) bool { return f.edges != nil && f.edges.on && f.edges.out[i] != nil }

// letGo ends a run: the caller's storage is not kept.
func (s *Session) letGo(f *frame) {
	f.detach()
	for _, slot := range s.m.main.Outputs {
		if s.m.main.Slots[slot].direct >= 0 {
			f.tensors[slot].Data = nil
		}
	}
	f.letCallersGo()
	f.drop()
}

// finish does for operands of the caller's what has to wait for the end of the steps.
func (f *frame) finish(ctx context.Context) error {
	if f.edges == nil || !f.edges.on {
		return nil
	}
	return f.edges.finish(ctx)
}

func (s *Session) copyOutputs(f *frame) error {
	main := s.m.main
	for i, slot := range main.Outputs {
		o := s.outs[i].Tensor
		if o == nil || main.Slots[slot].direct >= 0 || f.special(i) {
			continue
		}
		v, err := f.value(slot)
		if err != nil {
			return err
		}
		t, ok := v.(*tensor.Tensor)
		if !ok {
			return s.badOutput(i, "is no tensor", "a tensor", fmt.Sprintf("%T", v))
		}
		if err := s.sameAs(i, t, o); err != nil {
			return err
		}
		if t.DType == tensor.String {
			if unsafe.SliceData(o.Strings) != unsafe.SliceData(t.Strings) { // else they were written there
				copy(o.Strings, t.Strings)
			}
			continue
		}
		if unsafe.SliceData(o.Data) != unsafe.SliceData(t.Data) || o.Offset != t.Offset {
			copy(o.Bytes(), t.Bytes())
		}
	}
	return nil
}

// sameAs compares the type of result i with that of the caller's output.
func (s *Session) sameAs(i int, t, o *tensor.Tensor) error {
	if t.DType != o.DType || !slices.Equal(t.Shape, o.Shape) {
		return s.badOutput(i, "wrong type or shape", t.String(), o.String())
	}
	return nil
}

// unknownInput names the first, in the order of names, of the given inputs that is none.
func unknownInput[T any](known []*graph.Value, given map[string]T) error {
	names := map[string]bool{}
	for _, v := range known {
		names[v.Name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !names[name] {
			return &PortError{Name: name, Problem: "the model has no such input", Kind: ErrInput}
		}
	}
	return nil
}

// handOver returns a slot's tensor as the caller's from now on: that of prepareDirect where there is one.
func (f *frame) handOver(slot int, t *tensor.Tensor) *tensor.Tensor {
	var c *tensor.Tensor
	var shape []int
	if f.made != nil && f.made[slot] != nil {
		c, f.made[slot] = f.made[slot], nil
		shape = append(c.Shape[:0], t.Shape...)
	} else {
		c, shape = &tensor.Tensor{}, slices.Clone(t.Shape)
	}
	*c = *t
	c.Shape = shape
	f.release(slot)
	return c
}

// prepareDirect gives outputs that are written in place fresh storage.
func (f *frame) prepareDirect() error {
	for i, sl := range f.s.block.Slots {
		if sl.direct < 0 || f.special(sl.direct) {
			continue
		}
		t, err := newResult(sl.Value.Type.DType, f.s.dims[i])
		if err != nil {
			return valueError(sl.Value, err)
		}
		if f.made == nil {
			f.made = make([]*tensor.Tensor, len(f.tensors))
		}
		f.made[i] = t
		if f.tensors[i].Data, f.tensors[i].Offset = t.Data, 0; f.poison != nil {
			fillNaN(t.Data)
		}
	}
	return nil
}
