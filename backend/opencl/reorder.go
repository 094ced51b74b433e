package opencl

import (
	"context"
	"runtime"

	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/internal/gpugroup"
	"github.com/carve-dev/carve/internal/gpukernel"
)

// costs are those of conversions, in nanoseconds: estimates.
var costs = gpugroup.Costs{Copy: convert.Cost{Fixed: 20000, PerByte: 0.1}, Reorder: convert.Cost{Fixed: 30000, PerByte: 0.12}, Cast: convert.Cost{Fixed: 21500, PerByte: 0.16},
	Within: convert.Cost{Fixed: 10000, PerByte: 0.02}}

// reorderer is a device that reorders what is copied, by kernels of a backend on it.
type reorderer struct {
	*clDevice
	b *opencl
}

var _ gpugroup.Reorderer = reorderer{}

// Stage implements gpugroup.Reorderer.
func (r reorderer) Stage(s device.Stream, size int64) (device.Memory, func(), error) {
	if s == nil {
		m, err := r.alloc(size, hostBlock)
		return m, func() { r.DirectFree(m) }, err
	}
	own, err := r.stream(s)
	if err != nil {
		return device.Memory{}, nil, err
	}
	m, err := own.stage(size)
	return m, func() {}, err
}

// Kernel implements gpugroup.Reorderer.
func (r reorderer) Kernel(plan *gpukernel.Plan) (gpugroup.Reorder, error) {
	programs, err := r.b.acquire(context.Background(), plan)
	if err != nil {
		return nil, err
	}
	x := &reorder{d: r.clDevice, launch: &plan.Launches[0]}
	x.kernel = programs.Program.kernel(x.launch.Kernel.Name)
	runtime.AddCleanup(x, func(p *compiled) { p.Release() }, programs)
	return x, nil
}

// reorder is a kernel that reorders.
type reorder struct {
	d      *clDevice
	launch *gpukernel.Launch
	kernel *kernel
}

// Launch implements gpugroup.Reorder.
func (r *reorder) Launch(ctx context.Context, s device.Stream, from, to gpugroup.Base) error {
	queue, own, err := r.d.target(ctx, s)
	if err != nil {
		return err
	}
	c := newCall()
	defer c.done()
	err = r.d.queueKernel(c, queue, r.kernel, r.launch, false, func(i int) gpugroup.Base {
		if r.launch.Args[i].Buffer == "from" {
			return from
		}
		return to
	})
	if err == nil && own == nil {
		err = c.do(r.d.l, "clFinish", queue)
	}
	runtime.KeepAlive(r)
	return r.d.failed(err)
}
