package opencl

import (
	"context"
	"fmt"
	"runtime"

	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/gpugroup"
	"github.com/carve-dev/carve/internal/gpukernel"
	"github.com/carve-dev/carve/internal/kernelstore"
)

// reorderCost is that of a copy which reorders: as a copy, and a kernel behind it or in front of it.
var reorderCost = convert.Cost{Fixed: 30000, PerByte: 0.12}

// reorders returns converters that copy and reorder in one step, between layouts of the host's and of the device's: the bytes
// pass through memory of the device, where a kernel reorders them.
func (d *clDevice) reorders(planner *gpugroup.Device, cache *kernelstore.Folder) []convert.Converter {
	var list []convert.Converter
	for _, rank := range []int{3, 4} {
		for _, pair := range gpugroup.Reorders(rank) {
			supports := func(dt tensor.DType, r int) bool { return r == rank && dt.Size() > 0 }
			host, here := graph.On(pair.Host), graph.Format{Device: d.id, Layout: pair.Device}
			list = append(list, convert.Converter{Name: "upload-reorder", From: host, To: here, Cost: reorderCost, Supports: supports,
				Plan: func(dt tensor.DType, dims []int) (convert.Move, error) {
					return d.planReorder(planner, cache, host.Layout, here.Layout, true, dt, dims)
				}},
				convert.Converter{Name: "download-reorder", From: here, To: host, Cost: reorderCost, Supports: supports,
					Plan: func(dt tensor.DType, dims []int) (convert.Move, error) {
						return d.planReorder(planner, cache, here.Layout, host.Layout, false, dt, dims)
					}})
		}
	}
	return list
}

// reorder is a compiled conversion of tensors of one type and shape.
type reorder struct {
	d        *clDevice
	launch   *gpukernel.Launch
	kernel   *kernel
	up       bool  // to the device
	from, to int64 // bytes
}

// planReorder prepares a conversion. Where there is no kernel of one launch for it, as for tensors without elements, the host
// reorders.
func (d *clDevice) planReorder(planner *gpugroup.Device, cache *kernelstore.Folder, from, to graph.Layout, up bool, dt tensor.DType, dims []int) (convert.Move, error) {
	r := &reorder{d: d, up: up}
	var err error
	if r.from, err = graph.PhysicalSize(graph.On(from), dt, dims); err != nil {
		return nil, err
	}
	if r.to, err = graph.PhysicalSize(graph.On(to), dt, dims); err != nil {
		return nil, err
	}
	host, err := convert.PlanHost(from, to, dt, dims)
	if err != nil {
		return nil, err
	}
	plan, err := planner.Reorder(from, to, dt, dims)
	if err != nil || len(plan.Launches) != 1 || len(plan.Scratch) > 0 {
		return r.byHost(host), nil
	}
	entry, err := d.acquire(context.Background(), plan, cache)
	if err != nil {
		return r.byHost(host), nil
	}
	r.launch = &plan.Launches[0]
	r.kernel = entry.Program.kernels[r.launch.Kernel.Name]
	runtime.AddCleanup(r, func(e *kernelstore.Entry[*program]) { e.Release() }, entry)
	around := r.byHost(host)
	return func(ctx context.Context, dst, src *tensor.Tensor, x convert.Exec) error {
		here := src
		if r.up {
			here = dst
		}
		if here.Offset%operandAlign != 0 {
			return around(ctx, dst, src, x)
		}
		return r.move(ctx, dst, src, x.Stream)
	}, nil
}

// operandAlign is what kernels ask of the places of operands.
const operandAlign = 16

// hostBytes returns n bytes of a tensor of the host's.
func hostBytes(t *tensor.Tensor, n int64) ([]byte, error) {
	if t.Offset < 0 || int64(len(t.Data))-int64(t.Offset) < n {
		return nil, fmt.Errorf("%w: a copy of %v needs %d bytes, and has %d", tensor.ErrShape, t, n, max(len(t.Data)-t.Offset, 0))
	}
	return t.Data[t.Offset : int64(t.Offset)+n], nil
}

// move queues the copy and the kernel, through memory of the stream's.
func (r *reorder) move(ctx context.Context, dst, src *tensor.Tensor, s device.Stream) error {
	d, there, host, staged := r.d, dst, src, r.from
	if !r.up {
		there, host, staged = src, dst, r.to
	}
	bytes, err := hostBytes(host, staged)
	if err != nil {
		return err
	}
	if err := d.within(device.MemoryOf(there), int64(there.Offset), r.from+r.to-staged); err != nil {
		return err
	}
	queue, own, err := d.target(ctx, s)
	if err != nil {
		return err
	}
	var staging device.Memory
	if own != nil {
		staging, err = own.stage(staged)
	} else if staging, err = d.alloc(staged, hostBlock); err == nil {
		defer d.DirectFree(staging)
	}
	if err != nil {
		return err
	}
	from, to := gpugroup.Base{Handle: staging.Handle}, gpugroup.Base{Handle: there.Handle, Offset: there.Offset}
	if r.up {
		if err := d.CopyTo(ctx, s, staging, 0, bytes); err != nil {
			return err
		}
	} else {
		from, to = to, from
	}
	c := newCall()
	defer c.done()
	err = d.queueKernel(c, queue, r.kernel, r.launch, false, func(i int) gpugroup.Base {
		if r.launch.Args[i].Buffer == "from" {
			return from
		}
		return to
	})
	switch {
	case err != nil:
		return err
	case !r.up:
		// On the queue of copies that are over when they return, this one waits for the kernel.
		err = d.CopyFrom(ctx, s, bytes, staging, 0)
	case own == nil:
		err = c.do(d.l, "clFinish", queue)
	}
	runtime.KeepAlive(r)
	return err
}

// byHost returns the conversion as a reorder of the host's, and a copy.
func (r *reorder) byHost(host convert.Move) convert.Move {
	return func(ctx context.Context, dst, src *tensor.Tensor, x convert.Exec) error {
		between := &tensor.Tensor{DType: src.DType, Shape: src.Shape}
		if r.up {
			between.Data = make([]byte, r.to)
			if err := host(ctx, between, src, convert.Exec{Workers: x.Workers}); err != nil {
				return err
			}
			return r.d.CopyTo(ctx, x.Stream, device.MemoryOf(dst), int64(dst.Offset), between.Data)
		}
		between.Data = make([]byte, r.from)
		if err := r.d.CopyFrom(ctx, x.Stream, between.Data, device.MemoryOf(src), int64(src.Offset)); err != nil {
			return err
		}
		if x.Stream != nil {
			if err := x.Stream.Sync(ctx); err != nil {
				return err
			}
		}
		return host(ctx, dst, between, convert.Exec{Workers: x.Workers})
	}
}
