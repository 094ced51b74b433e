package exec

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/convert"
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
	arenas  map[tensor.DeviceID]device.Memory
	owned   []device.Memory // arenas that the frame allocated itself
	poison  *poison         // of the test mode; nil otherwise
	loose   []device.Memory // per slot: storage outside of the plan, on other devices than the host
	beside  []int64         // per slot: bytes outside of the plan, on the host; nil before there are any
	// Per step, of late groups: the instances for the latest shapes, and memory for their buffers.
	late      [][]*lateInstance
	lateArena map[tensor.DeviceID]device.Memory
}

// newFrame binds a spec to memory. host is the part of the session's host arena that the frame may use; arenas of other
// devices are allocated for the frame.
func (ss *Session) newFrame(s *Spec, host device.Memory) (*frame, error) {
	b := s.block
	f := &frame{s: s, session: ss, tensors: make([]tensor.Tensor, len(b.Slots)), values: make([]tensor.Value, len(b.Slots)),
		args: make([]*backend.RunArgs, len(b.Steps)), inner: make([][]*frame, len(b.Steps)), arenas: map[tensor.DeviceID]device.Memory{{}: host}}
	for _, a := range s.plan.Arenas {
		if a.Device.IsHost() || a.Height == 0 {
			continue
		}
		dev := ss.m.env.Transfer.Devices[a.Device]
		if dev == nil {
			return f, fmt.Errorf("%w: no backend has device %v", backend.ErrUnavailable, a.Device)
		}
		m, err := ss.alloc(dev, a.Height)
		if err != nil {
			return f, err
		}
		f.arenas[a.Device] = m
		f.owned = append(f.owned, m)
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
		default:
			f.values[i] = nil
		}
	}
	for i := range b.Steps {
		if err := f.bindStep(i); err != nil {
			return f, err
		}
	}
	if ss.m.env.Poison {
		f.poison = newPoison(s, host.Data)
	}
	return f, nil
}

// place points t at offset off of the arena of its device.
func (f *frame) place(t *tensor.Tensor, off, size int64) {
	m := f.arenas[t.Device.Canonical()]
	if t.Device.Canonical().IsHost() {
		t.Data, t.Offset = m.Data[off:off+size:off+size], 0
		return
	}
	t.Handle, t.Offset = m.Handle, int(off)
}

func (f *frame) bindStep(i int) error {
	st, s := &f.s.block.Steps[i], f.s
	switch st.Kind {
	case StepGroup:
		a := &backend.RunArgs{Constants: s.consts[i], Workers: &f.session.workers, Stream: f.session.stream(deviceOf(st.backend))}
		if a.Stream == nil {
			return fmt.Errorf("%w: device %v gave no stream", backend.ErrUnavailable, deviceOf(st.backend))
		}
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
		for j, r := range s.reqs[i].Buffers {
			t := &tensor.Tensor{DType: tensor.Uint8, Shape: []int{int(r.Bytes)}, Device: deviceOf(st.backend)}
			f.place(t, s.plan.Buffers[i][j], r.Bytes)
			a.Buffers = append(a.Buffers, t)
		}
		a.Alloc = func(out int, dt tensor.DType, shape []int) (*tensor.Tensor, error) {
			return f.allocOutput(st, out, dt, shape)
		}
		a.Reserve = f.session.claim
		f.args[i] = a
	case StepHost:
		var host device.Memory
		if n := len(s.plan.Buffers[i]); n > 0 {
			off := s.plan.Buffers[i][n-1]
			host = f.arenas[tensor.DeviceID{}]
			host.Data = host.Data[off:]
		}
		for _, inner := range s.inner[i] {
			g, err := f.session.newFrame(inner, host)
			f.inner[i] = append(f.inner[i], g)
			if err != nil {
				return err
			}
		}
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
	return f.makeLoose(st.out[out], dt, shape)
}

// makeLoose gives a slot storage outside of the plan, in the slot's format: its shape depends on data. On the host it is
// Go's; on other devices it lives until the slot's next or the frame's end.
func (f *frame) makeLoose(slot int, dt tensor.DType, shape []int) (*tensor.Tensor, error) {
	t, format := &f.tensors[slot], f.s.block.Slots[slot].Value.Format
	if format == graph.HostFormat {
		count, err := tensor.NumElements(shape)
		if err != nil {
			return nil, err
		}
		if err := f.hold(slot, int64(dt.Bytes(count))); err != nil {
			return nil, fmt.Errorf("%v%v: %w", dt, shape, err)
		}
		n, err := tensor.New(dt, shape...)
		if err != nil {
			return nil, err
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
	for _, m := range f.owned {
		f.session.release(f.session.m.env.Transfer.Devices[m.Device.Canonical()], m)
	}
	f.owned = nil
	for _, d := range sortedDevices(f.lateArena) {
		var dev device.Device = device.Host
		if !d.IsHost() {
			dev = f.session.m.env.Transfer.Devices[d]
		}
		f.session.release(dev, f.lateArena[d])
	}
	f.lateArena = nil
	for slot, n := range f.beside {
		f.beside[slot] = 0
		_ = f.session.claim(-n)
	}
	for i := range f.loose {
		f.releaseLoose(i)
	}
	for _, list := range f.inner {
		for _, g := range list {
			g.free()
		}
	}
}

// run executes the steps in order. Inputs and captures have been set.
func (f *frame) run(ctx context.Context) error {
	prof := f.session.profile
	if f.poison != nil {
		f.poison.begin()
	}
	for i := range f.s.block.Steps {
		if err := ctx.Err(); err != nil {
			return err
		}
		st := &f.s.block.Steps[i]
		var start time.Time
		if prof != nil {
			start = prof.begin(f, i)
		}
		if f.poison != nil {
			f.poisonSteps(i)
		}
		var err error
		switch st.Kind {
		case StepGroup:
			if f.session.check != nil {
				f.session.check.before(ctx, f, i)
			}
			if err = f.runGroup(ctx, i, st); err == nil && f.session.check != nil {
				f.session.check.after(ctx, f, i)
			}
		case StepConvert:
			err = f.runConvert(ctx, i, st)
		case StepHost:
			err = f.runHost(ctx, i, st)
		}
		if f.poison != nil {
			f.poison.until(f.s.plan.Start[i+1])
		}
		if prof != nil {
			prof.end(f, i, start)
		}
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return stepError(st, err)
		}
	}
	return nil
}

func (f *frame) runGroup(ctx context.Context, i int, st *Step) error {
	a := f.args[i]
	if st.dynamic {
		for k, slot := range st.in {
			if slot < 0 {
				continue
			}
			t, ok := f.values[slot].(*tensor.Tensor)
			if !ok {
				return fmt.Errorf("%w: operand %d is no tensor", ErrRun, k)
			}
			a.Inputs[k] = t
		}
		for k, slot := range st.out {
			a.Outputs[k] = nil
			if slot >= 0 {
				f.values[slot] = nil
			}
		}
	}
	if st.info.Threads {
		f.session.run.Park() // the cores are the backend's
	}
	var err error
	if f.s.isLate(i) {
		err = f.runLate(ctx, i, st, a)
	} else {
		err = enqueue(ctx, f.s.inst[i], a)
	}
	if st.info.Threads {
		f.session.run.Resume()
	}
	if err != nil {
		if ctx.Err() != nil || f.session.m.env.Strict || st.info.Oracle || !f.s.canRepeat(i) || errors.Is(err, ErrMemoryLimit) || errors.Is(err, device.ErrOutOfMemory) || errors.Is(err, backend.ErrRange) {
			return err
		}
		err = f.session.m.runFallback(ctx, st, f.bindings(i), a, err)
	}
	if err != nil {
		return err
	}
	for k, slot := range st.out {
		if slot >= 0 && f.values[slot] == nil {
			return fmt.Errorf("%w: output %d was not made", ErrRun, k)
		}
	}
	return nil
}

// enqueue runs an instance and waits for its end. A panic of a backend's kernel becomes an error.
func enqueue(ctx context.Context, inst backend.Instance, a *backend.RunArgs) (err error) {
	defer func() {
		if r := recover(); r != nil {
			if e, ok := r.(error); ok {
				err = fmt.Errorf("kernel: %w", e)
			} else {
				err = fmt.Errorf("kernel: %v", r)
			}
		}
	}()
	event, err := inst.Enqueue(ctx, a)
	if err == nil && event != nil {
		defer event.Close()
		if err = event.Wait(ctx); err != nil && ctx.Err() != nil {
			_ = event.Wait(context.WithoutCancel(ctx)) // the memory is used again after this: the work has to be over
		}
	}
	return err
}

func (f *frame) runConvert(ctx context.Context, i int, st *Step) error {
	in, out := st.in[0], st.out[0]
	src, ok := f.values[in].(*tensor.Tensor)
	if !ok {
		return fmt.Errorf("%w: operand is no tensor", ErrRun)
	}
	move := f.s.moves[i]
	if move == nil { // the shape depends on data
		var err error
		if move, err = st.Hop.Plan(src.DType, src.Shape); err != nil {
			return err
		}
		if _, err := f.makeLoose(out, src.DType, src.Shape); err != nil {
			return err
		}
	}
	return move(ctx, &f.tensors[out], src, convert.Exec{Workers: &f.session.workers})
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
