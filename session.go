package carve

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/pool"
)

// Session holds the memory of one run at a time: an arena per device, for every shape that it has run. It is used by one
// goroutine at a time.
type Session struct {
	p       *Program
	frames  []*boundFrame // most recently used first
	arena   device.Memory // the host's, as large as the largest plan so far
	streams map[tensor.DeviceID]device.Stream
	run     pool.Run
	held    atomic.Int64 // bytes of all device memory
	profile *profiler
	check   *checker         // looks at each group; nil otherwise
	in      []*tensor.Tensor // inputs of the current run
}

type boundFrame struct {
	shapes [][]int
	f      *frame
}

// stream returns the session's stream of a device.
func (s *Session) stream(d tensor.DeviceID) device.Stream {
	d = canonical(d)
	if st := s.streams[d]; st != nil {
		return st
	}
	if d.IsHost() {
		s.streams[d] = &device.HostStream{Run: &s.run}
		return s.streams[d]
	}
	if dev := s.p.devices[d]; dev != nil {
		if st, err := dev.NewStream(); err == nil {
			s.streams[d] = st
		}
	}
	return s.streams[d]
}

// alloc takes device memory within MaxArenaBytes.
func (s *Session) alloc(d device.Device, n int64) (device.Memory, error) {
	if limit := s.p.o.MaxArenaBytes; limit > 0 && s.held.Load()+n > limit {
		return device.Memory{}, fmt.Errorf("%w: %d bytes with %d in use, limit %d", ErrMemoryLimit, n, s.held.Load(), limit)
	}
	m, err := d.Alloc(n)
	if err == nil {
		m.Device = d.ID()
		s.held.Add(m.Size)
	}
	return m, err
}

func (s *Session) release(d device.Device, m device.Memory) {
	s.held.Add(-m.Size)
	d.Free(m)
}

// frameFor returns the frame for the session's input shapes.
func (s *Session) frameFor(ctx context.Context, in []*tensor.Tensor) (*frame, error) {
	for i, b := range s.frames {
		if matches(b.shapes, in) {
			copy(s.frames[1:i+1], s.frames[:i])
			s.frames[0] = b
			s.p.touch(b.f.s)
			return b.f, nil
		}
	}
	shapes := make([][]int, len(in))
	for i, t := range in {
		if t != nil {
			shapes[i] = slices.Clone(t.Shape)
		}
	}
	sp, err := s.p.spec(ctx, shapes)
	if err != nil {
		return nil, err
	}
	s.frames = slices.DeleteFunc(s.frames, func(b *boundFrame) bool {
		if s.p.cached(b.f.s) {
			return false
		}
		b.f.free()
		return true
	})
	if need := s.p.arenaFor(sp); need > int64(len(s.arena.Data)) {
		if err := s.growArena(need); err != nil {
			return nil, err
		}
	}
	f, err := s.newFrame(sp, s.arena)
	if err != nil {
		f.free()
		return nil, err
	}
	s.frames = append([]*boundFrame{{shapes, f}}, s.frames...)
	return f, nil
}

// growArena replaces the host arena by a larger one; frames bound to the old one are dropped.
func (s *Session) growArena(need int64) error {
	for _, b := range s.frames {
		b.f.free()
	}
	s.frames = nil
	if s.arena.Size > 0 {
		s.release(device.Host, s.arena)
		s.arena = device.Memory{}
	}
	m, err := s.alloc(device.Host, need)
	if err != nil {
		return err
	}
	s.arena = m
	return nil
}

func matches(shapes [][]int, in []*tensor.Tensor) bool {
	for i, t := range in {
		if t != nil && !slices.Equal(shapes[i], t.Shape) {
			return false
		}
	}
	return true
}

// Run computes the outputs for inputs given by name, like Program.Run, in this session.
func (s *Session) Run(ctx context.Context, inputs map[string]tensor.Value) (map[string]tensor.Value, error) {
	main := s.p.main
	values := make([]tensor.Value, len(main.inputs))
	for i, v := range main.g.Inputs {
		x, ok := inputs[v.Name]
		if d := s.p.defaults[i]; d != nil && (!ok || x == nil) {
			x, ok = d, true
		}
		if !ok || x == nil {
			return nil, &InputError{Name: v.Name, Problem: "missing", Expected: v.Type.String(), Found: "nothing", kind: ErrInput}
		}
		values[i] = x
	}
	for _, name := range sortedKeys(inputs) {
		if !slices.ContainsFunc(main.g.Inputs, func(v *graph.Value) bool { return v.Name == name }) {
			return nil, &InputError{Name: name, Problem: "the model has no such input", kind: ErrInput}
		}
	}
	f, err := s.begin(ctx, values)
	if err != nil {
		return nil, err
	}
	defer s.run.End()
	if err := f.prepareDirect(); err != nil {
		return nil, err
	}
	if err := f.run(ctx); err != nil {
		return nil, err
	}
	out := map[string]tensor.Value{}
	for i, slot := range main.outputs {
		v, err := f.value(slot)
		if err != nil {
			return nil, err
		}
		if main.slots[slot].direct >= 0 { // the storage is the caller's from now on
			c := *v.(*tensor.Tensor)
			c.Shape = slices.Clone(c.Shape)
			out[s.p.model.graph.Outputs[i].Name] = &c
			continue
		}
		if v, err = ownValue(v); err != nil {
			return nil, err
		}
		out[s.p.model.graph.Outputs[i].Name] = v
	}
	return out, nil
}

// begin validates inputs, finds the frame, and sets the inputs.
func (s *Session) begin(ctx context.Context, values []tensor.Value) (*frame, error) {
	if s.p.closed.Load() {
		return nil, ErrClosed
	}
	main := s.p.main
	if cap(s.in) < len(values) {
		s.in = make([]*tensor.Tensor, len(values))
	}
	s.in = s.in[:len(values)]
	for i, v := range main.g.Inputs {
		s.in[i] = nil
		x, err := hostValue(v, values[i])
		if err != nil {
			return nil, err
		}
		values[i] = x
		s.in[i], _ = x.(*tensor.Tensor)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f, err := s.frameFor(ctx, s.in)
	if err != nil {
		return nil, err
	}
	for i, slot := range main.inputs {
		if t := s.in[i]; t != nil {
			f.setValue(slot, t)
		} else {
			f.setValue(slot, values[i])
		}
	}
	s.run.Begin(s.p.o.Threads)
	return f, nil
}

// hostInput checks an input tensor against its port and returns it compact, on the host, aligned for its dtype.
func hostInput(v *graph.Value, t *tensor.Tensor) (*tensor.Tensor, error) {
	bad := func(problem, expected, found string) error {
		return &InputError{Name: v.Name, Problem: problem, Expected: expected, Found: found, kind: ErrInput}
	}
	if t == nil {
		return nil, bad("missing", v.Type.String(), "nothing")
	}
	if t.DType != v.Type.DType && v.Type.DType != tensor.Invalid {
		return nil, bad("wrong dtype", v.Type.DType.Name(), t.DType.Name())
	}
	if err := t.Check(); err != nil {
		return nil, bad(err.Error(), v.Type.String(), t.String())
	}
	if !t.Device.IsHost() {
		return nil, bad("not on the host", "host", t.Device.String())
	}
	if s := v.Type.Shape; s.Known() {
		ok := len(s) == len(t.Shape)
		for k := 0; ok && k < len(s); k++ {
			c, isConst := s[k].Const()
			ok = !isConst || int(c) == t.Shape[k]
		}
		if !ok {
			return nil, bad("wrong shape", s.String(), fmt.Sprint(t.Shape))
		}
	}
	if size := t.DType.Size(); t.DType != tensor.String && (!t.IsCompact() || misaligned(t, size)) {
		c, err := t.Clone()
		if err != nil {
			return nil, bad(err.Error(), "", "")
		}
		return c, nil
	}
	return t, nil
}

func misaligned(t *tensor.Tensor, size int) bool {
	b := t.Bytes()
	return size > 1 && len(b) > 0 && uintptr(unsafe.Pointer(unsafe.SliceData(b)))%uintptr(min(size, 8)) != 0
}

// RunInto computes into the caller's outputs, like Program.RunInto, in this session.
func (s *Session) RunInto(ctx context.Context, inputs, outputs []*tensor.Tensor) error {
	if s.p.closed.Load() {
		return ErrClosed
	}
	main := s.p.main
	if len(inputs) != len(main.inputs) {
		return &InputError{Name: "inputs", Problem: "wrong number", Expected: fmt.Sprint(len(main.inputs)), Found: fmt.Sprint(len(inputs)), kind: ErrInput}
	}
	if len(outputs) != len(main.outputs) {
		return &InputError{Name: "outputs", Problem: "wrong number", Expected: fmt.Sprint(len(main.outputs)), Found: fmt.Sprint(len(outputs)), kind: ErrOutput}
	}
	f, err := s.beginTensors(ctx, inputs)
	if err != nil {
		return err
	}
	defer s.run.End()
	for i, slot := range main.outputs {
		if err := s.checkOutput(f, i, slot, inputs, outputs); err != nil {
			return err
		}
	}
	for i, slot := range main.outputs {
		if main.slots[slot].direct < 0 {
			continue
		}
		t := &f.tensors[slot]
		if o := outputs[i]; o != nil {
			t.Data, t.Offset = o.Data, o.Offset
		} else if t.Data == nil { // not wanted, but made
			n, err := tensor.New(t.DType, t.Shape...)
			if err != nil {
				return err
			}
			t.Data, t.Offset = n.Data, 0
		}
	}
	err = f.run(ctx)
	if err == nil {
		err = s.copyOutputs(f, outputs)
	}
	for _, slot := range main.outputs { // the caller's storage is not kept
		if main.slots[slot].direct >= 0 {
			f.tensors[slot].Data = nil
		}
	}
	return err
}

func (s *Session) copyOutputs(f *frame, outputs []*tensor.Tensor) error {
	main := s.p.main
	for i, slot := range main.outputs {
		if outputs[i] == nil || main.slots[slot].direct >= 0 {
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
		o := outputs[i]
		if t.DType != o.DType || !slices.Equal(t.Shape, o.Shape) {
			return s.badOutput(i, "wrong type or shape", t.String(), o.String())
		}
		if t.DType == tensor.String {
			copy(o.Strings, t.Strings)
			continue
		}
		copy(o.Bytes(), t.Bytes())
	}
	return nil
}

// beginTensors is begin for tensors, without an allocation.
func (s *Session) beginTensors(ctx context.Context, inputs []*tensor.Tensor) (*frame, error) {
	main := s.p.main
	if cap(s.in) < len(inputs) {
		s.in = make([]*tensor.Tensor, len(inputs))
	}
	s.in = s.in[:len(inputs)]
	for i, v := range main.g.Inputs {
		t := inputs[i]
		if t == nil {
			t = s.p.defaults[i]
		}
		t, err := hostInput(v, t)
		if err != nil {
			return nil, err
		}
		s.in[i] = t
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f, err := s.frameFor(ctx, s.in)
	if err != nil {
		return nil, err
	}
	for i, slot := range main.inputs {
		f.tensors[slot] = *s.in[i]
		f.values[slot] = &f.tensors[slot]
	}
	s.run.Begin(s.p.o.Threads)
	return f, nil
}

func (s *Session) badOutput(i int, problem, expected, found string) error {
	return &InputError{Name: s.p.model.graph.Outputs[i].Name, Problem: problem, Expected: expected, Found: found, kind: ErrOutput}
}

// checkOutput validates output i before the run, as far as its shape is known.
func (s *Session) checkOutput(f *frame, i, slot int, inputs, outputs []*tensor.Tensor) error {
	o := outputs[i]
	if o == nil {
		return nil
	}
	if err := o.Check(); err != nil {
		return s.badOutput(i, err.Error(), "", "")
	}
	v := s.p.main.slots[slot].v
	if o.DType != v.Type.DType || !o.IsCompact() || !o.Device.IsHost() {
		return s.badOutput(i, "must be a compact host tensor of the right dtype", v.Type.String(), o.String())
	}
	if d := f.s.dims[slot]; d != nil && !slices.Equal(d, o.Shape) {
		return s.badOutput(i, "wrong shape", fmt.Sprint(d), fmt.Sprint(o.Shape))
	}
	if misaligned(o, o.DType.Size()) {
		return s.badOutput(i, "storage is not aligned for its dtype", "", "")
	}
	b := o.Bytes()
	for k, in := range inputs {
		if in != nil && overlaps(b, in.Bytes()) {
			return s.badOutput(i, "overlaps input "+s.p.main.g.Inputs[k].Name, "", "")
		}
	}
	for k, other := range outputs[:i] {
		if other != nil && overlaps(b, other.Bytes()) {
			return s.badOutput(i, "overlaps output "+s.p.model.graph.Outputs[k].Name, "", "")
		}
	}
	return nil
}

// Close frees the session's memory. It must not be in use.
func (s *Session) Close() error {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	if !s.p.live[s] {
		return nil
	}
	s.p.drop(s)
	return nil
}

// free gives everything back.
func (s *Session) free() {
	for _, b := range s.frames {
		b.f.free()
	}
	s.frames = nil
	if s.arena.Size > 0 {
		s.release(device.Host, s.arena)
		s.arena = device.Memory{}
	}
	for _, d := range sortedDevices(s.streams) {
		s.streams[d].Close()
	}
	clear(s.streams)
}

func sortedDevices[T any](m map[tensor.DeviceID]T) []tensor.DeviceID {
	out := make([]tensor.DeviceID, 0, len(m))
	for d := range m {
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b tensor.DeviceID) int {
		if a.Type != b.Type {
			return int(a.Type - b.Type)
		}
		return int(a.Index - b.Index)
	})
	return out
}
