package opencl

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/internal/gpugroup"
	"github.com/carve-dev/carve/internal/gpukernel"
)

// Compile implements backend.Backend. Kernels are written when shapes are known.
func (b *opencl) Compile(ctx context.Context, sub *graph.Graph, _ backend.CompileOptions) (backend.Executable, error) {
	return gpugroup.NewExecutable(ctx, sub, func(ctx context.Context, known graph.Bindings) (backend.Instance, error) {
		return b.specialize(ctx, sub, known)
	})
}

func (b *opencl) specialize(ctx context.Context, sub *graph.Graph, known graph.Bindings) (backend.Instance, error) {
	g, kernels, programs, err := gpugroup.Specialize(ctx, b.planner(), sub, known, b.acquire, (*program).kernel)
	if err != nil {
		return nil, err
	}
	in := &instance{d: b.on(), group: g, kernels: kernels, record: b.record, loose: b.loose && b.on().facts.loose}
	runtime.AddCleanup(in, gpugroup.Release, programs)
	return in, nil
}

// instance is a subgraph for concrete shapes.
type instance struct {
	d       *clDevice
	group   *gpugroup.Group
	kernels []*kernel // by step
	record  bool      // as command buffers
	loose   bool      // on queues out of order
}

// Requirements implements backend.Instance.
func (in *instance) Requirements() backend.Requirements { return in.group.Requirements }

// state is what an instance keeps for a session.
type state struct {
	in       *instance
	bases    []gpugroup.Base // by slot
	places   []gpugroup.Base // these, and what else tells whether operands lie where they lay
	recorded *recorded
	waves    waves
}

func newState(in *instance) *state {
	n := len(in.group.NewBases())
	st := &state{in: in, places: make([]gpugroup.Base, 2*n+1), recorded: &recorded{d: in.d, kernels: map[uintptr][]uintptr{}}}
	st.bases = st.places[:n]
	runtime.AddCleanup(st, (*recorded).end, st.recorded)
	return st
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
		st = newState(in)
		a.Local = st
	}
	if err := in.group.Bind(in.d.id, a, st.bases); err != nil {
		return nil, err
	}
	if len(in.kernels) == 0 {
		return s.mark()
	}
	c := newCall()
	defer c.done()
	queue := s.queue
	together := in.loose && a.Trace == nil && st.waves.find(in.group, st.bases)
	if together {
		if err := s.fork(c); err != nil {
			return nil, in.d.failed(err)
		}
		queue = s.loose
	}
	if a.Trace != nil || !st.replay(c, queue, together) {
		if err := st.launch(c, queue, together, a.Trace); err != nil {
			return nil, err
		}
	}
	if together {
		in.d.l.release("clReleaseEvent", c.word)
		if err := s.join(c); err != nil {
			return nil, in.d.failed(err)
		}
	}
	e, err := s.watch(c, c.word)
	runtime.KeepAlive(in)
	return e, err
}

// launch queues the kernels one by one, on a queue out of order in waves. The last one's event is left in c.word.
func (st *state) launch(c *call, queue uintptr, together bool, trace func(step int)) error {
	in := st.in
	for i, k := range in.kernels {
		var err error
		if together && st.waves.waits[i] {
			err = c.do(in.d.l, "clEnqueueBarrierWithWaitList", queue, 0, 0, 0)
		}
		if err == nil {
			err = in.d.queueKernel(c, queue, k, in.group.Steps[i].Launch, i == len(in.kernels)-1, st.base(i))
		}
		if err == nil && trace != nil {
			if err = c.do(in.d.l, "clFinish", queue); err == nil {
				trace(i)
			}
		}
		if err != nil {
			_ = c.do(in.d.l, "clFinish", queue) // nothing of the group may be under way; the error is told
			return fmt.Errorf("%s: %w", in.group.Requirements.Labels[i].Name, errors.Join(in.d.failed(err), in.d.sound()))
		}
	}
	return nil
}

// base returns what says where the buffer of an argument of a step lies.
func (st *state) base(step int) func(arg int) gpugroup.Base {
	args := st.in.group.Steps[step].Args
	return func(i int) gpugroup.Base {
		b := st.bases[args[i].Slot]
		b.Offset += args[i].Off
		return b
	}
}

// queueKernel sets the arguments of a kernel and queues it. base says where the buffer of an argument lies. Where it is told,
// the event is left in c.word.
func (d *clDevice) queueKernel(c *call, queue uintptr, k *kernel, x *gpukernel.Launch, tell bool, base func(arg int) gpugroup.Base) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := d.setArguments(c, k.handle, x, base); err != nil {
		return err
	}
	told := uintptr(0)
	if c.word = 0; tell {
		told = at(&c.word)
	}
	d.l.called.kernels.Add(1)
	return check("clEnqueueNDRangeKernel", int32(c.invoke(d.l.enqueueKernel, queue, k.handle, 3, 0, at(&c.global[0]), at(&c.local[0]), 0, 0, told)))
}

// setArguments sets the arguments of a kernel, which nobody else may meanwhile, and leaves its extents in the call.
func (d *clDevice) setArguments(c *call, kernel uintptr, x *gpukernel.Launch, base func(arg int) gpugroup.Base) error {
	l, next := d.l, uintptr(0)
	set := func(size, value uintptr) error {
		status := int32(c.invoke(l.setKernelArg, kernel, next, size, value))
		next++
		return check("clSetKernelArg", status)
	}
	for i := range x.Kernel.Params {
		param := &x.Kernel.Params[i]
		if param.Scalar {
			c.value = x.Args[i].Value
			if err := set(uintptr(param.Type.Size()), at(&c.value)); err != nil {
				return err
			}
			continue
		}
		b := base(i)
		c.word, c.value = b.Handle, int64(b.Offset/param.Type.Size())
		if err := set(8, at(&c.word)); err != nil {
			return err
		}
		if err := set(8, at(&c.value)); err != nil {
			return err
		}
	}
	threads := x.Kernel.Threads
	c.global = [3]uintptr{uintptr(x.Grid[0] * threads), uintptr(x.Grid[1]), uintptr(x.Grid[2])}
	c.local = [3]uintptr{uintptr(threads), 1, 1}
	return nil
}
