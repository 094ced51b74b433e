package cuda

import (
	"context"
	"fmt"
	"runtime"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/internal/gpugroup"
	"github.com/carve-dev/carve/internal/gpukernel"
)

// Compile implements backend.Backend. Kernels are written when shapes are known.
func (b *cuda) Compile(ctx context.Context, sub *graph.Graph, _ backend.CompileOptions) (backend.Executable, error) {
	return gpugroup.NewExecutable(ctx, sub, func(ctx context.Context, known graph.Bindings) (backend.Instance, error) {
		return b.specialize(ctx, sub, known)
	})
}

func (b *cuda) specialize(ctx context.Context, sub *graph.Graph, known graph.Bindings) (backend.Instance, error) {
	g, kernels, programs, err := gpugroup.Specialize(ctx, b.planner(), sub, known, b.acquire, (*program).kernel)
	if err != nil {
		return nil, err
	}
	in := &instance{d: b.on(), group: g, kernels: kernels}
	for i := range g.Steps {
		in.args += len(g.Steps[i].Args)
	}
	runtime.AddCleanup(in, gpugroup.Release, programs)
	runtime.AddCleanup(in, (*gpugroup.Group).Release, g)
	return in, nil
}

// instance is a subgraph for concrete shapes.
type instance struct {
	d       *gpu
	group   *gpugroup.Group
	kernels []uintptr // by step
	args    int       // of all steps
}

// Requirements implements backend.Instance.
func (in *instance) Requirements() backend.Requirements { return in.group.Requirements }

// state is what an instance keeps for a session.
type state struct {
	in     *instance
	bases  []gpugroup.Base // by slot, of this run
	values []uint64        // the steps' arguments, one after another
	params []uintptr       // where they lie
	graphs *graphs
}

func newState(in *instance) *state {
	st := &state{in: in, bases: in.group.NewBases(), values: make([]uint64, in.args+1), params: make([]uintptr, in.args+1), graphs: &graphs{d: in.d}}
	for i := range st.params {
		st.params[i] = at(&st.values[i])
	}
	runtime.AddCleanup(st, (*graphs).end, st.graphs)
	return st
}

// Enqueue implements backend.Instance: it queues the launches, as a graph where they have run before, and returns the event of the
// last.
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
	c := in.d.enter()
	defer c.leave()
	if err := st.run(c, s, a.Trace); err != nil {
		s.drain() // nothing of the group may be under way; the error is told
		return nil, err
	}
	e, err := s.mark(c)
	runtime.KeepAlive(in)
	if err != nil {
		s.drain()
		return nil, err
	}
	return e, nil
}

// run queues the launches.
func (st *state) run(c *call, s *stream, trace func(int)) error {
	if trace == nil && len(st.in.kernels) > 1 {
		if done, err := st.replay(c, s); done || err != nil {
			return err
		}
	}
	st.bind()
	return st.launches(c, s, trace)
}

// bind writes down the arguments of all steps.
func (st *state) bind() {
	k := 0
	for i := range st.in.group.Steps {
		x := &st.in.group.Steps[i]
		for j, m := range x.Args {
			if x.Call != nil {
				st.values[k] = st.address(m.Slot, m.Off)
				k++
				continue
			}
			if arg := &x.Launch.Args[j]; len(arg.Data) > 0 {
				st.params[k] = at(&arg.Data[0])
			} else if x.Launch.Kernel.Params[j].Scalar {
				st.values[k] = uint64(arg.Value)
			} else {
				st.values[k] = st.address(m.Slot, m.Off)
			}
			k++
		}
	}
}

// address returns where an operand lies, so many bytes into a slot, 0 for no slot.
func (st *state) address(slot, off int) uint64 {
	if slot < 0 {
		return 0
	}
	b := st.bases[slot]
	return uint64(b.Handle) + uint64(b.Offset+off)
}

// launches queues the launches one by one. The driver has read their arguments when it returns.
func (st *state) launches(c *call, s *stream, trace func(int)) error {
	k := 0
	for i := range st.in.group.Steps {
		x := &st.in.group.Steps[i]
		var err error
		if x.Call != nil {
			err = x.Call.(libraryCall).Program.run(s.handle, st.values[k:k+len(x.Args)])
		} else {
			err = c.launch(st.in.kernels[i], x.Launch, s.handle, at(&st.params[k]))
		}
		if err == nil && trace != nil {
			if err = s.Sync(context.Background()); err == nil {
				trace(i)
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", st.in.group.Requirements.Labels[i].Name, err)
		}
		k += len(x.Args)
	}
	runtime.KeepAlive(st)
	return nil
}

// launch queues a kernel whose parameters' addresses lie at params.
func (c *call) launch(kernel uintptr, x *gpukernel.Launch, stream, params uintptr) error {
	g := &x.Grid
	return c.do(fnLaunchKernel, kernel, uintptr(g[0]), uintptr(g[1]), uintptr(g[2]), uintptr(x.Kernel.Threads), 1, 1,
		uintptr(x.Kernel.Arena), stream, params, 0)
}
