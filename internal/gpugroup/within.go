package gpugroup

import (
	"context"
	"fmt"

	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/gpukernel"
)

// Tensors that lie on a device in one format and are read in another, such as a caller's, are converted there, by one kernel.

// withins returns the converters of a pair whose first layout is one of the device's, too: between both on the device.
func (d *Device) withins(does string, pair Reordered, cost convert.Cost, on Reorderer, supports func(tensor.DType, int) bool) []convert.Converter {
	if pair.Host.IsBlocked() {
		return nil
	}
	one, other := d.format(pair.Host), d.format(pair.Device)
	there := convert.Converter{Name: "device-" + does, From: one, To: other, Cost: cost, Supports: supports,
		Plan: func(dt tensor.DType, dims []int) (convert.Move, error) {
			return d.convertWithin(on, one.Layout, other.Layout, dt, dims)
		}}
	if other.Layout.IsOpaque() {
		there.Rounds, there.Size = true, func(f graph.Format, dt tensor.DType, dims []int) (int64, error) { return bytesIn(f.Layout, dt, dims) }
	}
	back := there
	back.From, back.To = other, one
	back.Plan = func(dt tensor.DType, dims []int) (convert.Move, error) {
		return d.convertWithin(on, other.Layout, one.Layout, dt, dims)
	}
	return []convert.Converter{there, back}
}

// convertWithin prepares a conversion on the device. Where there is no kernel of one launch for it, and for tensors that do not begin
// where kernels read, it goes by way of the host.
func (d *Device) convertWithin(on Reorderer, from, to graph.Layout, dt tensor.DType, dims []int) (convert.Move, error) {
	x, around, err := d.aroundHost(on, from, to, dt, dims)
	if err != nil {
		return nil, err
	}
	if x.from == 0 {
		return nothing, nil
	}
	if x.kernel, err = d.reorderKernel(on, from, to, dt, dims); err != nil {
		return around, &convert.DetourError{Cause: err}
	}
	return func(ctx context.Context, dst, src *tensor.Tensor, e convert.Exec) error {
		if src.Offset%OperandAlign != 0 || dst.Offset%OperandAlign != 0 {
			return around(ctx, dst, src, e)
		}
		if err := on.Within(device.MemoryOf(src), int64(src.Offset), x.from); err != nil {
			return err
		}
		if err := on.Within(device.MemoryOf(dst), int64(dst.Offset), x.to); err != nil {
			return err
		}
		return x.kernel.Launch(ctx, e.Stream, Base{Handle: src.Handle, Offset: src.Offset}, Base{Handle: dst.Handle, Offset: dst.Offset})
	}, nil
}

// aroundHost prepares a conversion on the device as a copy to the host, a reorder there, and a copy back.
func (d *Device) aroundHost(on Reorderer, from, to graph.Layout, dt tensor.DType, dims []int) (*conversion, convert.Move, error) {
	down, first, err := d.onHost(on, from, graph.RowMajor, false, dt, dims)
	if err != nil {
		return nil, nil, err
	}
	up, second, err := d.onHost(on, graph.RowMajor, to, true, dt, dims)
	if err != nil {
		return nil, nil, err
	}
	x := &conversion{on: on, from: down.from, to: up.to}
	return x, func(ctx context.Context, dst, src *tensor.Tensor, e convert.Exec) error {
		between := &tensor.Tensor{DType: src.DType, Shape: src.Shape, Data: make([]byte, down.to)}
		if err := first(ctx, between, src, e); err != nil {
			return err
		}
		return second(ctx, dst, between, e)
	}, nil
}

// reorderKernel returns the compiled kernel of a reorder that is one launch.
func (d *Device) reorderKernel(on Reorderer, from, to graph.Layout, dt tensor.DType, dims []int) (Reorder, error) {
	plan, err := d.Reorder(from, to, dt, dims)
	if err != nil {
		return nil, err
	}
	if len(plan.Launches) != 1 || len(plan.Scratch) > 0 {
		return nil, fmt.Errorf("%w: a reorder of %d launches", gpukernel.ErrUnsupported, len(plan.Launches))
	}
	return on.Kernel(plan)
}
