package plugin

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
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
	handle  uint64
	inputs  []*cTensor
	outputs []*cTensor
	consts  []*cTensor
	buffers []*cTensor
	cancel  *int32
	event   *uint64
	err     *cError
	frame   *dl.Frame

	args    *backend.RunArgs // of the run that is being queued; nil otherwise
	refused error            // what the host's output could not do in it
}

// Enqueue implements backend.Instance.
func (in *instance) Enqueue(ctx context.Context, a *backend.RunArgs) (device.Event, error) {
	s, ok := a.Local.(*session)
	if !ok {
		var err error
		if s, err = in.session(a); err != nil {
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
	atomic.StoreInt32(s.cancel, 0)
	end := watch(ctx, s.cancel)
	*s.event = 0
	s.err.clear()
	s.args, s.refused = a, nil
	st := s.invoke(p)
	s.args = nil
	if st < 0 {
		end()
		return nil, s.failed(ctx, st)
	}
	if *s.event == 0 {
		end()
		if a.Trace != nil {
			s.trace(a)
		}
		return nil, nil
	}
	return newEvent(p, *s.event, end), nil
}

// invoke calls enqueue without an allocation.
func (s *session) invoke(p *processor) status {
	if p.serial != nil {
		p.serial.Lock()
		defer p.serial.Unlock()
	}
	dl.Invoke(s.frame)
	return status(int32(s.frame.Ret))
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
func (in *instance) session(a *backend.RunArgs) (*session, error) {
	e, p := in.e, in.e.b.p
	pg := &page{}
	w := &writer{page: pg}
	s := &session{in: in, cancel: one[int32](w), event: one[uint64](w), err: w.error(), frame: one[dl.Frame](w)}
	var err error
	ports := func(values []*graph.Value, uses []backend.PortUse) []*cTensor {
		out := make([]*cTensor, len(values))
		for i, v := range values {
			out[i] = s.port(w, v, uses[i].Bytes)
		}
		return out
	}
	s.inputs, s.outputs = ports(e.sub.Inputs, in.needs.Inputs), ports(e.sub.Outputs, in.needs.Outputs)
	if s.consts, err = s.constants(w, a); err != nil {
		pg.end()
		return nil, err
	}
	for _, b := range in.needs.Buffers {
		c := one[cTensor](w)
		p.l.head(w, c, tensor.Uint8, []int{int(b.Bytes)})
		c.bytes = b.Bytes
		s.buffers = append(s.buffers, c)
	}
	run, h := one[cRun](w), one[uint64](w)
	*run = cRun{size: uint32(unsafe.Sizeof(*run)), inputs: tensors(w, s.inputs), outputs: tensors(w, s.outputs), constants: tensors(w, s.consts),
		buffers: tensors(w, s.buffers), cancel: address(s.cancel)}
	if w.err != nil {
		pg.end()
		return nil, w.err
	}
	if err := s.patch(a); err != nil {
		pg.end()
		return nil, err
	}
	var handle uint64
	if st, ok := a.Stream.(*stream); ok {
		handle = st.handle
	}
	token := runs.put(weak.Make(s))
	run.run = token
	if err := p.do(w, "session_open", p.l.table.sessionOpen, uintptr(in.handle), address(run), uintptr(handle), address(h)); err != nil {
		runs.take(token)
		pg.end()
		return nil, err
	}
	if s.handle = *h; s.handle == 0 {
		runs.take(token)
		pg.end()
		return nil, fmt.Errorf("%w: session_open gave no session", ErrPlugin)
	}
	*s.frame = dl.Frame{Fn: p.l.table.enqueue, Args: [6]uintptr{uintptr(s.handle), address(s.event), address(s.err)}}
	e.mu.Lock()
	e.sessions[s.handle] = pg
	e.mu.Unlock()
	runtime.AddCleanup(s, e.dead.session, deadSession{s.handle, token})
	return s, nil
}

func tensors(w *writer, list []*cTensor) uintptr {
	out := many[uintptr](w, len(list))
	for i, c := range list {
		out[i] = address(c)
	}
	if len(out) == 0 {
		return 0
	}
	return address(&out[0])
}

// port writes what does not change from run to run of an operand.
func (s *session) port(w *writer, v *graph.Value, bytes int64) *cTensor {
	l := s.in.e.b.p.l
	c := one[cTensor](w)
	dims, err := v.Type.Shape.Eval(s.in.bindings, nil)
	if err != nil { // it depends on data
		dims = make([]int, len(v.Type.Shape))
	}
	l.head(w, c, v.Type.DType, dims)
	c.format, c.bytes = l.format(w, v.Format), bytes
	return c
}

// constants writes the group's constants and those in formats of the instance's own.
func (s *session) constants(w *writer, a *backend.RunArgs) ([]*cTensor, error) {
	e, l := s.in.e, s.in.e.b.p.l
	out := make([]*cTensor, 0, len(a.Constants))
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
		out = append(out, c)
	}
	return out, w.err
}

// patch points the session's tensors at the operands of a run.
func (s *session) patch(a *backend.RunArgs) error {
	l := s.in.e.b.p.l
	if len(a.Inputs) != len(s.inputs) || len(a.Outputs) != len(s.outputs) || len(a.Buffers) != len(s.buffers) {
		return fmt.Errorf("%w: a run with %d inputs, %d outputs and %d buffers", ErrPlugin, len(a.Inputs), len(a.Outputs), len(a.Buffers))
	}
	for i, t := range a.Inputs {
		if err := l.point(s.inputs[i], t); err != nil {
			return err
		}
	}
	for i, t := range a.Outputs {
		if t == nil {
			s.outputs[i].data, s.outputs[i].bytes = 0, 0
			continue
		}
		if err := l.point(s.outputs[i], t); err != nil {
			return err
		}
	}
	for i, t := range a.Buffers {
		if err := l.point(s.buffers[i], t); err != nil {
			return err
		}
	}
	return nil
}

// point gives a C tensor the storage and the shape of t.
func (l *Library) point(c *cTensor, t *tensor.Tensor) error {
	if t == nil {
		return fmt.Errorf("%w: an operand is not there", ErrPlugin)
	}
	if t.Device.IsHost() {
		c.deviceType, c.deviceID = int32(tensor.Host), 0
		c.data = uintptr(unsafe.Pointer(unsafe.SliceData(t.Data)))
	} else {
		c.data = t.Handle
		if c.deviceType == 0 {
			c.deviceType, c.deviceID = l.outside(t.Device)
		}
	}
	c.byteOffset = uint64(t.Offset)
	if int(c.ndim) != len(t.Shape) {
		return fmt.Errorf("%w: an operand of rank %d instead of %d", ErrPlugin, len(t.Shape), c.ndim)
	}
	if len(t.Shape) == 0 {
		return nil
	}
	put(c.shape, t.Shape)
	if c.strides = 0; t.Strides != nil {
		c.strides = c.shape + 8*uintptr(len(t.Shape)) // head has left room there
		put(c.strides, t.Strides)
	}
	return nil
}

// put writes a list of numbers to where C reads them.
func put(at uintptr, list []int) {
	out := unsafe.Slice((*int64)(pointer(at)), len(list))
	for i, n := range list {
		out[i] = int64(n)
	}
}

// output is the host's service of that name: storage for an output whose shape depends on data.
func (s *session) output(index uint64, shape uintptr, ndim uint64) error {
	if index >= uint64(len(s.outputs)) || s.args.Outputs[index] != nil {
		return fmt.Errorf("%w: output %d needs no storage", ErrPlugin, index)
	}
	c := s.outputs[index]
	if ndim != uint64(c.ndim) {
		return fmt.Errorf("%w: output %d of rank %d instead of %d", ErrPlugin, index, ndim, c.ndim)
	}
	dims64, err := words[int64](shape, ndim, "shape of an output")
	if err != nil {
		return err
	}
	dims := make([]int, len(dims64))
	for i, n := range dims64 {
		dims[i] = int(n)
	}
	v := s.in.e.sub.Outputs[index]
	t, err := s.args.Alloc(int(index), v.Type.DType, dims)
	if err != nil {
		return err
	}
	if err := s.in.e.b.p.l.point(c, t); err != nil {
		return err
	}
	c.bytes, err = s.in.e.b.size(v.Format, v.Type.DType, dims)
	return err
}
