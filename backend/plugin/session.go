package plugin

import (
	"context"
	"fmt"
	"runtime"
	"unsafe"
	"weak"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/dl"
)

// session is the state of an instance for one session of the executor: the arguments of its runs where C sees them, which
// are patched between runs.
type session struct {
	in      *instance
	at      handle
	inputs  []operand
	outputs []operand
	buffers []operand
	ends    watch // its flag is carve_run.cancel
	event   *uint64
	err     callError
	frame   *dl.Frame
	w       writer // of the arguments

	opening bool             // nothing is read yet: what brings it there may still be queued
	args    *backend.RunArgs // of the run that is being queued; nil otherwise
	refused error            // what the host's output could not do in it
}

// operand is a tensor where C sees it. Where its dims lie, and its size, are not looked up there: the callee may have changed
// that.
type operand struct {
	*cTensor
	dims  []int64        // the shape, and room for as many strides
	known []int          // the shape, nil where it depends on data
	size  int64          // bytes
	copy  []byte         // of storage that the plugin's process does not see
	to    *tensor.Tensor // that is filled from the copy when the run is over
}

// outlived reports whether the session was opened in an earlier life.
func (s *session) outlived() bool {
	p := s.in.e.b.p
	if p.proc == nil {
		return false
	}
	life, err := p.proc.Life(patience)
	return err == nil && life != s.at.life // without a life, enqueue will say so
}

// Enqueue implements backend.Instance.
func (in *instance) Enqueue(ctx context.Context, a *backend.RunArgs) (device.Event, error) {
	s, ok := a.Local.(*session)
	if !ok || s.outlived() {
		var err error
		if s, err = in.session(ctx, a); err != nil {
			return nil, err
		}
		a.Local = s
	}
	if q, ok := a.Stream.(*device.Queue); ok { // of a plugin without streams
		return q.Do(func() error {
			e, err := s.enqueue(ctx, a)
			if err != nil || e == nil {
				return err
			}
			err = e.Wait(context.WithoutCancel(ctx))
			if e.Close(); err == nil && a.Trace != nil {
				s.trace(a)
			}
			return err
		}), nil
	}
	e, err := s.enqueue(ctx, a)
	if e == nil || err != nil {
		return nil, err
	}
	if a.Trace != nil { // sub-steps have to be told of before the event
		err := e.Wait(ctx)
		e.Close()
		if err == nil {
			s.trace(a)
		}
		return nil, err
	}
	return e, nil
}

func (s *session) trace(a *backend.RunArgs) {
	for i := range s.in.needs.Steps {
		a.Trace(i)
	}
}

// enqueue puts a run onto the session's stream.
func (s *session) enqueue(ctx context.Context, a *backend.RunArgs) (*event, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := s.patch(a); err != nil {
		return nil, err
	}
	p := s.in.e.b.p
	call := s.ends.begin(ctx)
	*s.event = 0
	s.err.clear()
	s.args, s.refused = a, nil
	st, err := s.invoke(p)
	s.args = nil
	switch {
	case err != nil || st == statusOK:
	case st != statusPending:
		err = s.failed(ctx, st)
	case *s.event == 0:
		err = fmt.Errorf("%w: %s: enqueue says that a run goes on, and gives no event", ErrPlugin, p.l.path)
	}
	if err != nil {
		s.ends.end(call)
		return nil, err
	}
	if p.proc != nil {
		s.wrote(a)
	}
	at := *s.event
	if at == 0 {
		s.ends.end(call)
		s.fill()
		if a.Trace != nil {
			s.trace(a)
		}
		return nil, nil
	}
	e := newEvent(p, handle{s.at.life, at})
	e.ends, e.call = &s.ends, call
	if p.proc != nil {
		e.finish = s.fill
	}
	return e, nil
}

// invoke calls enqueue without an allocation.
func (s *session) invoke(p *processor) (status, error) {
	if p.serial != nil {
		p.serial.Lock()
		defer p.serial.Unlock()
	}
	if p.proc != nil {
		return p.l.callFar(p.in(s.at.life), p.l.table.enqueue, uintptr(s.at.word), address(s.event), s.err.address())
	}
	dl.Invoke(s.frame)
	return status(int32(s.frame.Ret)), nil
}

// failed turns the status of enqueue into an error.
func (s *session) failed(ctx context.Context, st status) error {
	if s.refused != nil {
		return s.refused
	}
	err := s.in.e.b.p.l.failed("enqueue", st, s.err)
	switch {
	case st == statusNeedsContiguous && s.err.index >= 0 && int(s.err.index) < len(s.inputs):
		return &backend.ContiguousError{Operand: int(s.err.index), Problem: s.err.string()}
	case st == statusCancelled && ctx.Err() != nil:
		return ctx.Err()
	}
	return err
}

// session makes the state for the arguments of one session.
func (in *instance) session(ctx context.Context, a *backend.RunArgs) (*session, error) {
	e, p := in.e, in.e.b.p
	call, done := p.writer()
	defer done()
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := in.revive(ctx, call); err != nil {
		return nil, err
	}
	pg := &page{region: call.region}
	s := &session{in: in, w: writer{page: pg, side: call.side, keep: e.keep}}
	if err := s.open(a, call); err != nil {
		pg.end()
		return nil, err
	}
	e.sessions[s.at] = pg
	return s, nil
}

// open writes the arguments, and opens the plugin's session for them.
func (s *session) open(a *backend.RunArgs, call *writer) error {
	in, w, e, p := s.in, &s.w, s.in.e, s.in.e.b.p
	s.ends.flag, s.event, s.err, s.frame = one[int32](w), one[uint64](w), w.error(), one[dl.Frame](w)
	ports := func(values []*graph.Value, uses []backend.PortUse) []operand {
		out := make([]operand, len(values))
		for i, v := range values {
			out[i] = s.port(v, uses[i].Bytes)
		}
		return out
	}
	s.inputs, s.outputs = ports(e.sub.Inputs, in.needs.Inputs), ports(e.sub.Outputs, in.needs.Outputs)
	consts, err := s.constants(a)
	if err != nil {
		return err
	}
	for _, b := range in.needs.Buffers {
		o := operand{cTensor: one[cTensor](w)}
		o.dims = p.l.head(w, o.cTensor, tensor.Uint8, []int{int(b.Bytes)})
		o.size, o.cTensor.bytes = b.Bytes, b.Bytes
		s.buffers = append(s.buffers, o)
	}
	run := one[cRun](w)
	*run = cRun{size: uint32(unsafe.Sizeof(*run)), inputs: tensors(w, s.inputs), outputs: tensors(w, s.outputs), constants: list(w, consts),
		buffers: tensors(w, s.buffers), cancel: address(s.ends.flag)}
	if w.err != nil {
		return w.err
	}
	s.opening = true
	if err := s.patch(a); err != nil {
		return err
	}
	s.opening = false
	on, _ := a.Stream.(*stream)
	stream := call.stream(on)
	token := runs.put(weak.Make(s))
	run.run = token
	h := one[uint64](call)
	if err = p.do(call, "session_open", p.l.table.sessionOpen, uintptr(in.at.word), address(run), stream, address(h)); err == nil && *h == 0 {
		err = fmt.Errorf("%w: session_open gave no session", ErrPlugin)
	}
	if err != nil {
		runs.take(token)
		return err
	}
	s.at = handle{call.life, *h}
	*s.frame = dl.Frame{Fn: p.l.table.enqueue, Args: [dl.FrameArgs]uintptr{uintptr(s.at.word), address(s.event), s.err.address()}}
	runtime.AddCleanup(s, e.dead.session, deadSession{s.at, token})
	return nil
}

func tensors(w *writer, operands []operand) uintptr {
	out := make([]uintptr, len(operands))
	for i, o := range operands {
		out[i] = address(o.cTensor)
	}
	return list(w, out)
}

// port writes what does not change from run to run of an operand.
func (s *session) port(v *graph.Value, bytes int64) operand {
	l, w := s.in.e.b.p.l, &s.w
	o := operand{cTensor: one[cTensor](w)}
	dims, err := v.Type.Shape.Eval(s.in.bindings, []int{})
	if o.known = dims; err != nil { // it depends on data
		o.known, dims = nil, make([]int, len(v.Type.Shape))
	}
	o.dims = l.head(w, o.cTensor, v.Type.DType, dims)
	o.format, o.size, o.cTensor.bytes = l.format(w, v.Format), bytes, bytes
	return o
}

// constants writes the group's constants and those in formats of the instance's own, and returns their addresses.
func (s *session) constants(a *backend.RunArgs) ([]uintptr, error) {
	e, l, w := s.in.e, s.in.e.b.p.l, &s.w
	out := make([]uintptr, 0, len(a.Constants))
	for i, t := range a.Constants {
		format, keep := graph.HostFormat, t
		if i < len(e.constants) {
			v := e.constants[i]
			if format = v.Format; t == nil && v.IsDims() {
				var err error
				if keep, err = v.EvalDims(s.in.bindings); err != nil {
					return nil, err
				}
				data := many[byte](w, keep.NumBytes()) // nobody holds the tensor
				copy(data, keep.Bytes())
				keep = &tensor.Tensor{DType: keep.DType, Shape: keep.Shape, Data: data}
			}
		} else if k := i - len(e.constants); k < len(s.in.needs.Constants) {
			format = s.in.needs.Constants[k].Format
		}
		if keep == nil {
			return nil, fmt.Errorf("%w: constant %d is not there", ErrPlugin, i)
		}
		c := l.tensor(w, keep)
		c.format = l.format(w, format)
		if format != graph.HostFormat {
			n, err := e.b.size(format, keep.DType, keep.Shape)
			if err != nil {
				return nil, err
			}
			c.bytes = n
		}
		out = append(out, address(c))
	}
	return out, w.err
}

// patch points the session's tensors at the operands of a run.
func (s *session) patch(a *backend.RunArgs) error {
	if len(a.Inputs) != len(s.inputs) || len(a.Outputs) != len(s.outputs) || len(a.Buffers) != len(s.buffers) {
		return fmt.Errorf("%w: a run with %d inputs, %d outputs and %d buffers", ErrPlugin, len(a.Inputs), len(a.Outputs), len(a.Buffers))
	}
	for i, t := range a.Inputs {
		if err := s.point(&s.inputs[i], t, reads); err != nil {
			return err
		}
	}
	for i, t := range a.Outputs {
		known := s.outputs[i].known
		if t == nil && known != nil && !s.opening { // other results' shapes depend on data
			var err error
			if t, err = a.Alloc(i, s.in.e.sub.Outputs[i].Type.DType, known); err != nil {
				return err
			}
		}
		if t == nil {
			if s.outputs[i].data, s.outputs[i].to = 0, nil; known == nil {
				s.outputs[i].cTensor.bytes = 0
			}
			continue
		}
		if err := s.point(&s.outputs[i], t, writes); err != nil {
			return err
		}
	}
	for i, t := range a.Buffers {
		if err := s.point(&s.buffers[i], t, scratch); err != nil {
			return err
		}
	}
	return nil
}

// use is what a run does with an operand.
type use int

const (
	reads use = iota
	writes
	scratch
)

// point gives an operand of the session the storage and the shape of t.
func (s *session) point(o *operand, t *tensor.Tensor, u use) error {
	if err := s.in.e.b.p.l.point(&s.w, o, t); err != nil || s.w.proc == nil {
		return err
	}
	if t.Device.IsHost() {
		return s.w.lend(o, t, u)
	}
	if p := s.in.e.b.p.l.opened(t.Device); u == reads && p != nil && !s.opening {
		s.w.placeOf(p, t.Handle, int64(t.Offset), o.size)
	}
	return s.w.err
}

// point gives a C tensor the storage and the shape of t.
func (l *Library) point(w *writer, o *operand, t *tensor.Tensor) error {
	if t == nil {
		return fmt.Errorf("%w: an operand is not there", ErrPlugin)
	}
	if len(o.dims) != 2*len(t.Shape) {
		return fmt.Errorf("%w: an operand of rank %d instead of %d", ErrPlugin, len(t.Shape), len(o.dims)/2)
	}
	if t.Device.IsHost() {
		o.deviceType, o.deviceID = int32(tensor.Host), 0
		o.data = uintptr(unsafe.Pointer(unsafe.SliceData(t.Data)))
	} else {
		o.data = t.Handle
		if w.proc != nil {
			if p := l.opened(t.Device); p != nil {
				o.data = uintptr(w.place(p, t.Handle))
			}
		}
		if o.deviceType == 0 {
			o.deviceType, o.deviceID = l.outside(t.Device)
		}
	}
	o.byteOffset = uint64(t.Offset)
	if len(t.Shape) == 0 {
		return nil
	}
	put(o.dims, t.Shape)
	if o.strides = 0; t.Strides != nil {
		o.strides = address(&o.dims[len(t.Shape)])
		put(o.dims[len(t.Shape):], t.Strides)
	}
	return nil
}

// put writes a list of numbers to where C reads them.
func put(at []int64, list []int) {
	for i, n := range list {
		at[i] = int64(n)
	}
}

// output is the host's service of that name: storage for an output whose shape depends on data.
func (s *session) output(index uint64, shape uintptr, ndim uint64) error {
	if index >= uint64(len(s.outputs)) || s.args.Outputs[index] != nil || s.outputs[index].known != nil {
		return fmt.Errorf("%w: output %d needs no storage", ErrPlugin, index)
	}
	o := &s.outputs[index]
	if ndim != uint64(len(o.dims)/2) {
		return fmt.Errorf("%w: output %d of rank %d instead of %d", ErrPlugin, index, ndim, len(o.dims)/2)
	}
	dims, err := s.w.side.dims(shape, ndim, "shape of an output")
	if err != nil {
		return err
	}
	v := s.in.e.sub.Outputs[index]
	t, err := s.args.Alloc(int(index), v.Type.DType, dims)
	if err != nil {
		return err
	}
	size, err := s.in.e.b.size(v.Format, v.Type.DType, dims)
	if err != nil {
		return err
	}
	o.size, o.cTensor.bytes = size, size
	return s.point(o, t, writes)
}
