package exec

import (
	"fmt"
	"slices"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
)

// frame is a specialised block bound to a session's arenas: what a run reads and writes. It belongs to one session.
type frame struct {
	s       *Spec
	session *Session
	tensors []tensor.Tensor // descriptor per slot; steps point at them
	values  []tensor.Value  // what a slot holds now; nil before it is made
	args    []*backend.RunArgs
	inner   [][]*frame
	loops   []*loopRun // per step, of loops
	arenas  map[tensor.DeviceID]arena
	// Per step on another lane than the host's: the event that others wait for, and that of a group's run. Nil where all
	// steps are the host's.
	ends, runs []device.Event
	poison     *poison          // of the test mode; nil otherwise
	loose      []device.Memory  // per slot: storage outside of the plan, on other devices than the host
	made       []*tensor.Tensor // per slot: what prepareDirect has made for this run; nil before there are any
	beside     []int64          // per slot: bytes outside of the plan, on the host; nil before there are any
	mine       []holding        // per slot: what it has of the session's store; nil before there is any
	late       []lateKept       // per step, of late groups; nil before there are any
	zipped     *tensor.Sequence // of the last ZipMap; nil where the caller has it
	filled     []filling        // per step, of lists that it fills; nil before there are any
	found      graph.Bindings   // by the run: see found.go
	told       graph.Bindings   // of a region: what the run around it has found
	read       []int64          // of the operands of a late group
	edges      *edges           // nil before the first operand that is no plain tensor of the host
	patches    []patched        // operands of groups, as they were before this run changed them
	extra      []device.Memory  // what patches lie in, on other devices than the host
	returns    []returned       // results of groups of a region that have to be copied to where they belong
	into       []Operand        // the caller's outputs, of which groups write those that are apart from all else; nil for none
}

// newFrame binds a spec to memory: the parts of the session's arenas that the frame may use, by device.
func (ss *Session) newFrame(s *Spec, arenas map[tensor.DeviceID]arena) (*frame, error) {
	b := s.block
	f := &frame{s: s, session: ss, tensors: make([]tensor.Tensor, len(b.Slots)), values: make([]tensor.Value, len(b.Slots)),
		args: make([]*backend.RunArgs, len(b.Steps)), inner: make([][]*frame, len(b.Steps)), loops: make([]*loopRun, len(b.Steps)), arenas: arenas}
	if len(b.lanes) > 1 {
		f.ends, f.runs = make([]device.Event, len(b.Steps)), make([]device.Event, len(b.Steps))
	}
	for i, sl := range b.Slots {
		t := &f.tensors[i]
		t.DType, t.Shape, t.Device = sl.Value.Type.DType, s.dims[i], sl.Value.Format.Device
		f.values[i] = t
		switch sl.Kind {
		case SlotConst:
			*t = *sl.Value.Const
		case SlotDims:
			*t = *s.content[i]
		case SlotPlanned:
			if sl.direct < 0 {
				f.place(t, s.plan.Values[i], s.sizes[i])
			}
		case SlotDynamic, SlotInput:
			f.values[i] = nil
		}
	}
	for i := range b.Steps {
		if err := f.bindStep(i); err != nil {
			return f, err
		}
	}
	if ss.m.env.Poison {
		f.poison = newPoison(s, arenas[tensor.DeviceID{}].mem.Data)
	}
	return f, nil
}

// arena is the part of a session's memory on one device that a frame may use: from off on.
type arena struct {
	mem device.Memory
	off int64
}

// part returns the arena from off on.
func (a arena) part(off int64) arena {
	if a.mem.Data != nil {
		a.mem.Data = a.mem.Data[off:]
		return a
	}
	a.off += off
	return a
}

// place points t at offset off of the arena of its device.
func (f *frame) place(t *tensor.Tensor, off, size int64) {
	a := f.arenas[t.Device.Canonical()]
	if t.Device.IsHost() {
		t.Data, t.Offset = a.mem.Data[off:off+size:off+size], 0
		return
	}
	t.Handle, t.Offset = a.mem.Handle, int(a.off+off)
}

func (f *frame) bindStep(i int) error {
	st, s := &f.s.block.Steps[i], f.s
	switch st.Kind {
	case StepGroup:
		stream, err := f.session.stream(f.s.block.queue(st))
		if err != nil {
			return err
		}
		a := &backend.RunArgs{Constants: s.consts[i], Workers: &f.session.workers, Stream: stream,
			Inputs: make([]*tensor.Tensor, 0, len(st.in)), Outputs: make([]*tensor.Tensor, 0, len(st.out)), Buffers: make([]*tensor.Tensor, 0, len(s.reqs[i].Buffers))}
		for _, k := range st.in {
			a.Inputs = append(a.Inputs, f.tensorAt(k))
		}
		for _, k := range st.out {
			if k >= 0 && f.s.block.Slots[k].Kind == SlotPlanned {
				a.Outputs = append(a.Outputs, f.tensorAt(k))
			} else {
				a.Outputs = append(a.Outputs, nil)
			}
		}
		buffers, shapes, on := make([]tensor.Tensor, len(s.reqs[i].Buffers)), make([]int, len(s.reqs[i].Buffers)), deviceOf(st.backend)
		for j, r := range s.reqs[i].Buffers {
			t := &buffers[j]
			shapes[j] = int(r.Bytes)
			t.DType, t.Shape, t.Device = tensor.Uint8, shapes[j:j+1:j+1], on
			f.place(t, s.plan.Buffers[i][j], r.Bytes)
			a.Buffers = append(a.Buffers, t)
		}
		a.Alloc = func(out int, dt tensor.DType, shape []int) (*tensor.Tensor, error) {
			return f.allocOutput(st, out, dt, shape)
		}
		a.Reserve = f.session.claim
		f.args[i] = a
	case StepHost:
		arenas := map[tensor.DeviceID]arena{}
		for k, d := range s.rooms[i] {
			arenas[d] = f.arenas[d].part(s.plan.Buffers[i][k])
		}
		for _, inner := range s.inner[i] {
			g, err := f.session.newFrame(inner, arenas)
			f.inner[i] = append(f.inner[i], g)
			if err != nil {
				return err
			}
		}
		f.loops[i] = f.newLoopRun(i)
	case StepConvert: // its operands are slots
	}
	return nil
}

func (f *frame) tensorAt(slot int) *tensor.Tensor {
	if slot < 0 {
		return nil
	}
	return &f.tensors[slot]
}

// allocOutput is RunArgs.Alloc: storage for an output whose shape depends on data.
func (f *frame) allocOutput(st *Step, out int, dt tensor.DType, shape []int) (*tensor.Tensor, error) {
	if out < 0 || out >= len(st.out) || st.out[out] < 0 {
		return nil, fmt.Errorf("%w: %v has no output %d", ErrRun, st.Node, out)
	}
	slot := st.out[out]
	o := f.callers(slot, dt, shape)
	if o == nil {
		var err error
		if o, err = f.provided(slot, dt, shape); err != nil {
			return nil, err
		}
	}
	if o != nil {
		t := &f.tensors[slot]
		t.DType, t.Shape, t.Data, t.Offset, t.Strings, f.values[slot] = dt, o.Shape, o.Data, o.Offset, o.Strings, t
		if f.poison != nil {
			fillNaN(o.Bytes())
		}
		return t, nil
	}
	return f.makeLoose(slot, dt, shape)
}

// makeLoose gives a slot storage outside of the plan, in the slot's format: its shape depends on data. On the host it is the store's, or Go's where
// the caller gets it; on other devices it lives until the slot's next or the frame's end.
func (f *frame) makeLoose(slot int, dt tensor.DType, shape []int) (*tensor.Tensor, error) {
	t, format := &f.tensors[slot], f.s.block.Slots[slot].Value.Format
	if format == graph.HostFormat && dt != tensor.String && !f.s.block.callers(slot) {
		t, err := f.own(slot, dt, shape)
		if err != nil {
			return nil, fmt.Errorf("%v%v: %w", dt, shape, err)
		}
		if f.poison != nil {
			fillNaN(t.Data)
		}
		return t, nil
	}
	if format == graph.HostFormat {
		count, err := tensor.NumElements(shape)
		if err != nil {
			return nil, err
		}
		if err := f.hold(slot, int64(dt.Bytes(count))); err != nil {
			return nil, fmt.Errorf("%v%v: %w", dt, shape, err)
		}
		n, err := newResult(dt, shape)
		if err != nil {
			return nil, err
		}
		if f.poison != nil {
			fillNaN(n.Data)
		}
		*t, f.values[slot] = *n, t
		return t, nil
	}
	size, err := f.session.m.env.Transfer.Registry.Size(format, dt, shape)
	if err != nil {
		return nil, err
	}
	made := tensor.Tensor{DType: dt, Shape: slices.Clone(shape), Device: format.Device}
	if format.Device.IsHost() {
		if err := f.hold(slot, size); err != nil {
			return nil, fmt.Errorf("%v%v: %w", dt, shape, err)
		}
		data, err := tensor.New(tensor.Uint8, int(size))
		if err != nil {
			return nil, err
		}
		made.Data = data.Data
	} else {
		if f.loose == nil {
			f.loose = make([]device.Memory, len(f.s.block.Slots))
		}
		f.releaseLoose(slot)
		m, err := f.session.alloc(f.session.m.env.Transfer.Devices[format.Device.Canonical()], size)
		if err != nil {
			return nil, err
		}
		made.Handle, f.loose[slot] = m.Handle, m
	}
	*t, f.values[slot] = made, t
	return t, nil
}

// releaseLoose gives back what a slot has outside of the plan.
func (f *frame) releaseLoose(slot int) {
	if m := f.loose[slot]; m.Device != (tensor.DeviceID{}) {
		f.session.release(f.session.m.env.Transfer.Devices[m.Device.Canonical()], m)
		f.loose[slot] = device.Memory{}
	}
}

// free gives back what the frame allocated.
func (f *frame) free() {
	if f == nil {
		return
	}
	for slot, n := range f.beside {
		f.beside[slot] = 0
		_ = f.session.claim(-n)
	}
	for i := range f.loose {
		f.releaseLoose(i)
	}
	for i := range f.late {
		f.session.lateNodes -= f.late[i].nodes
	}
	f.late = nil
	for _, list := range f.inner {
		for _, g := range list {
			g.free()
		}
	}
}

// value returns what a slot holds: nil for none, an error where it was not made.
func (f *frame) value(slot int) (tensor.Value, error) {
	if slot < 0 {
		return nil, nil
	}
	if f.values[slot] == nil {
		return nil, fmt.Errorf("%w: value %v was not made", ErrRun, f.s.block.Slots[slot].Value)
	}
	return f.values[slot], nil
}
