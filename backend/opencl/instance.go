package opencl

import (
	"context"
	"fmt"
	"runtime"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/place"
)

// instance is a subgraph for concrete shapes.
type instance struct {
	d     *clDevice
	steps []step
	slots []place.Slot
	reqs  backend.Requirements
}

// Requirements implements backend.Instance.
func (in *instance) Requirements() backend.Requirements { return in.reqs }

// base is where a slot lies in a run.
type base struct {
	handle uintptr
	offset int
}

// state is what an instance keeps for a session.
type state struct {
	in    *instance
	bases []base // by slot
}

// Enqueue implements backend.Instance: it queues the launches, and returns the event of the last.
func (in *instance) Enqueue(ctx context.Context, a *backend.RunArgs) (device.Event, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s, err := in.d.stream(a.Stream)
	if err != nil {
		return nil, err
	}
	st, ok := a.Local.(*state)
	if !ok || st.in != in {
		st = &state{in: in, bases: make([]base, len(in.slots))}
		a.Local = st
	}
	if err := st.bind(a); err != nil {
		return nil, err
	}
	if len(in.steps) == 0 {
		return s.mark()
	}
	c := newCall()
	defer c.done()
	for i := range in.steps {
		last := i == len(in.steps)-1
		err := st.launch(c, s, &in.steps[i], last)
		if err == nil && a.Trace != nil {
			if err = c.do(in.d.l, "clFinish", s.queue); err == nil {
				a.Trace(i)
			}
		}
		if err != nil {
			_ = c.do(in.d.l, "clFinish", s.queue) // nothing of the group may be under way; the error is told
			return nil, fmt.Errorf("%s: %w", in.reqs.Labels[i].Name, err)
		}
	}
	e, err := s.watch(c, c.word)
	runtime.KeepAlive(in)
	return e, err
}

// bind finds where the slots lie in a run.
func (st *state) bind(a *backend.RunArgs) error {
	for i := range st.in.slots {
		slot := &st.in.slots[i]
		var t *tensor.Tensor
		switch slot.Kind {
		case place.Input:
			t = a.Inputs[slot.Index]
		case place.Output:
			t = a.Outputs[slot.Index]
		case place.Const:
			t = a.Constants[slot.Index]
		case place.Buffer:
			t = a.Buffers[slot.Index]
		case place.Data:
		}
		st.bases[i] = base{}
		if t == nil || t.Device != st.in.d.id {
			continue // of the host: no launch reads it
		}
		st.bases[i] = base{t.Handle, t.Offset}
		if t.Offset%operandAlign != 0 && slot.Kind != place.Const && slot.Kind != place.Buffer {
			return &backend.ContiguousError{Output: slot.Kind == place.Output, Operand: slot.Index,
				Problem: fmt.Sprintf("it lies %d bytes into its block, which has to be a multiple of %d", t.Offset, operandAlign)}
		}
	}
	return nil
}

// launch queues one kernel. The last one's event is left in c.word.
func (st *state) launch(c *call, s *stream, x *step, last bool) error {
	l, k := st.in.d.l, x.kernel
	k.mu.Lock()
	defer k.mu.Unlock()
	next := uintptr(0)
	set := func(size, value uintptr) error {
		status := int32(c.invoke(l.setKernelArg, k.handle, next, size, value))
		next++
		return check("clSetKernelArg", status)
	}
	for i, m := range x.args {
		param := &x.launch.Kernel.Params[i]
		if param.Scalar {
			c.value = x.launch.Args[i].Value
			if err := set(uintptr(param.Type.Size()), at(&c.value)); err != nil {
				return err
			}
			continue
		}
		b := st.bases[m.Slot]
		c.word, c.value = b.handle, int64((b.offset+m.Off)/param.Type.Size())
		if err := set(8, at(&c.word)); err != nil {
			return err
		}
		if err := set(8, at(&c.value)); err != nil {
			return err
		}
	}
	threads := x.launch.Kernel.Threads
	c.global = [3]uintptr{uintptr(x.launch.Grid[0] * threads), uintptr(x.launch.Grid[1]), uintptr(x.launch.Grid[2])}
	c.local = [3]uintptr{uintptr(threads), 1, 1}
	told := uintptr(0)
	if c.word = 0; last {
		told = at(&c.word)
	}
	return check("clEnqueueNDRangeKernel", int32(c.invoke(l.enqueueKernel, s.queue, k.handle, 3, 0, at(&c.global[0]), at(&c.local[0]), 0, 0, told)))
}
