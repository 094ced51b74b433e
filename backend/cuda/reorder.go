package cuda

import (
	"context"
	"runtime"
	"sync"

	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/internal/gpugroup"
	"github.com/carve-dev/carve/internal/gpukernel"
)

// costs are those of conversions, in nanoseconds: estimates.
var costs = gpugroup.Costs{Copy: convert.Cost{Fixed: 15000, PerByte: 0.1}, Reorder: convert.Cost{Fixed: 20000, PerByte: 0.1}, Cast: convert.Cost{Fixed: 16500, PerByte: 0.16},
	Within: convert.Cost{Fixed: 5000, PerByte: 0.003}}

// reorderer is a device that reorders what is copied, by kernels of a backend on it.
type reorderer struct {
	*gpu
	b *cuda
}

var _ gpugroup.Reorderer = reorderer{}

// Stage implements gpugroup.Reorderer.
func (r reorderer) Stage(s device.Stream, size int64) (device.Memory, func(), error) {
	if s == nil {
		m, err := r.Alloc(size)
		return m, func() { r.DirectFree(m) }, err
	}
	own, err := r.stream(s)
	if err != nil {
		return device.Memory{}, nil, err
	}
	m, err := own.stage(size)
	return m, func() {}, err
}

// stage returns memory of at least size bytes for the next conversion: what is queued on the stream runs in order, so that the one
// before is over with it by then.
func (s *stream) stage(size int64) (device.Memory, error) {
	if s.staging.Size >= size {
		return s.staging, nil
	}
	m, err := s.d.Alloc(size)
	if err != nil {
		return m, err
	}
	if s.staging.Size > 0 {
		s.drain()
		s.d.DirectFree(s.staging)
	}
	s.staging = m
	return m, nil
}

// Kernel implements gpugroup.Reorderer.
func (r reorderer) Kernel(plan *gpukernel.Plan) (gpugroup.Reorder, error) {
	programs, err := r.b.acquire(context.Background(), plan)
	if err != nil {
		return nil, err
	}
	x := &reorder{d: r.gpu, launch: &plan.Launches[0]}
	x.kernel = programs.Program.kernel(x.launch.Kernel.Name)
	runtime.AddCleanup(x, func(p *compiled) { p.Release() }, programs)
	return x, nil
}

// reorder is a kernel that reorders.
type reorder struct {
	d      *gpu
	launch *gpukernel.Launch
	kernel uintptr
	calls  sync.Pool // of *arguments
}

// arguments are those of one launch, in memory that does not move.
type arguments struct {
	values []uint64
	params []uintptr // where they lie
}

// Launch implements gpugroup.Reorder.
func (r *reorder) Launch(ctx context.Context, s device.Stream, from, to gpugroup.Base) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s == nil {
		return r.d.now(func(c *call) error { return r.queue(c, r.d.copies, from, to) })
	}
	own, err := r.d.stream(s)
	if err != nil {
		return err
	}
	c := r.d.enter()
	defer c.leave()
	return r.queue(c, own.handle, from, to)
}

// queue queues the kernel. The driver has read the arguments when it returns.
func (r *reorder) queue(c *call, stream uintptr, from, to gpugroup.Base) error {
	a, ok := r.calls.Get().(*arguments)
	if !ok {
		n := len(r.launch.Args)
		a = &arguments{make([]uint64, n), make([]uintptr, n)}
		for i := range a.params {
			if data := r.launch.Args[i].Data; len(data) > 0 {
				a.params[i] = at(&data[0])
			} else {
				a.params[i] = at(&a.values[i])
			}
		}
	}
	defer r.calls.Put(a)
	for i := range r.launch.Args {
		switch x := &r.launch.Args[i]; {
		case r.launch.Kernel.Params[i].Scalar:
			a.values[i] = uint64(x.Value)
		case x.Buffer == "from":
			a.values[i] = uint64(from.Handle) + uint64(from.Offset)
		default:
			a.values[i] = uint64(to.Handle) + uint64(to.Offset)
		}
	}
	err := c.launch(r.kernel, r.launch, stream, at(&a.params[0]))
	runtime.KeepAlive(r)
	return err
}
