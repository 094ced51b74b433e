package gpugroup

import (
	"context"
	"fmt"
	"slices"

	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/gpukernel"
	"github.com/carve-dev/carve/internal/gpukernel/lower"
)

// Reorderer is a device as conversions need it that copy and reorder in one step: bytes of the host's are copied to staging memory
// of the device, from where a kernel reorders them to their place, or the other way. A kernel that read the host's memory itself
// would gather single elements over the bus.
type Reorderer interface {
	device.Device
	// Within returns an error that wraps device.ErrBounds where a block does not have n bytes from off on.
	Within(m device.Memory, off, n int64) error
	// Stage returns staging memory of at least size bytes, and what gives it back. What is queued on a stream later may use the same;
	// without a stream it is nobody else's until it is given back.
	Stage(s device.Stream, size int64) (m device.Memory, release func(), err error)
	// Kernel returns the compiled kernel of a plan that has one launch.
	Kernel(plan *gpukernel.Plan) (Reorder, error)
}

// Reorder is a compiled kernel that reorders the buffer "from" to the buffer "to".
type Reorder interface {
	// Launch queues the kernel; without a stream it is over when Launch returns.
	Launch(ctx context.Context, s device.Stream, from, to Base) error
}

// Costs are those of conversions between the host and a device: of a copy; of one that also reorders, by a kernel behind it or in front
// of it; and of one in front of which the host reorders and casts. Within is that of a kernel on the device.
type Costs struct{ Copy, Reorder, Cast, Within convert.Cost }

// Converters returns those of a backend: copies between the host and its devices, and among these, in each layout; and for each device
// conversions that reorder and cast beside the copy, and on the device itself, by kernels where direct. on returns the i-th device, in any order, as it plans and as
// it reorders.
func Converters(devices []device.Device, c Costs, direct bool, on func(i int) (*Device, Reorderer)) []convert.Converter {
	var list []convert.Converter
	for _, l := range layouts() {
		list = append(list, convert.Copies(l, c.Copy, devices...)...)
	}
	for i := range devices {
		d, r := on(i)
		if direct {
			list = append(list, d.reorders(r, c)...)
		}
		list = append(list, d.hostCasts(r, c.Cast)...)
	}
	return list
}

// reorders returns converters that copy and reorder in one step, between layouts of the host's and of the device's, and that cast in the
// same step where the device keeps operands of products in 16 bits; and those between layouts of the device's.
func (d *Device) reorders(on Reorderer, c Costs) []convert.Converter {
	var list []convert.Converter
	for _, rank := range []int{3, 4, 5} {
		supports := func(dt tensor.DType, r int) bool { return r == rank && dt.Size() > 0 }
		for _, pair := range Reorders(rank) {
			list = append(list, d.converters("reorder", pair, c.Reorder, d.convert, on, supports)...)
			if pair.Device != graph.RowMajor {
				list = append(list, d.withins("reorder", pair, c.Within, on, supports)...)
			}
		}
	}
	half := d.half()
	if half == "" {
		return list
	}
	cost := c.Reorder
	cost.PerByte *= 0.9 // the kernel writes half of the bytes
	for _, rank := range []int{0, 3, 4, 5} {
		for _, pair := range Casts(rank, half) { // on the device itself they would round what is on its way to the host
			list = append(list, d.converters("cast", pair, cost, d.convert, on, func(dt tensor.DType, r int) bool {
				return dt == tensor.Float32 && (rank == 0 || r == rank)
			})...)
		}
	}
	return list
}

// hostCasts returns converters between the host's row-major order and every layout that keeps float32 in 16 bits on the device, by
// a reorder and cast of the host's and a copy: those of constants, and of all else where there is no kernel for it.
func (d *Device) hostCasts(on Reorderer, cost convert.Cost) []convert.Converter {
	half := d.half()
	if half == "" {
		return nil
	}
	var list []convert.Converter
	for _, l := range layouts() {
		pair := Reordered{graph.RowMajor, lower.KeptLayout(half, l)}
		list = append(list, d.converters("cast", pair, cost, d.convertOnHost, on, func(dt tensor.DType, r int) bool {
			_, err := l.Describe(r)
			return dt == tensor.Float32 && err == nil
		})...)
	}
	return list
}

// half returns the type in which operands of products may be kept: that to which the device rounds them, "" where it is not of 16 bits.
func (d *Device) half() gpukernel.Type { return d.Kernels.Rounds().Half() }

// planConversion prepares a conversion between layouts: one to the device where up.
type planConversion func(on Reorderer, from, to graph.Layout, up bool, dt tensor.DType, dims []int) (convert.Move, error)

// converters returns the two of a pair of layouts, which are named by what they do beside copying.
func (d *Device) converters(does string, pair Reordered, cost convert.Cost, plan planConversion, on Reorderer,
	supports func(tensor.DType, int) bool,
) []convert.Converter {
	host, here := graph.On(pair.Host), d.format(pair.Device)
	up := convert.Converter{Name: "upload-" + does, From: host, To: here, Cost: cost, Supports: supports,
		Plan: func(dt tensor.DType, dims []int) (convert.Move, error) {
			return plan(on, host.Layout, here.Layout, true, dt, dims)
		}}
	if here.Layout.IsOpaque() {
		up.Rounds, up.Size = true, func(f graph.Format, dt tensor.DType, dims []int) (int64, error) { return bytesIn(f.Layout, dt, dims) }
	}
	down := up
	down.Name, down.From, down.To = "download-"+does, here, host
	down.Plan = func(dt tensor.DType, dims []int) (convert.Move, error) {
		return plan(on, here.Layout, host.Layout, false, dt, dims)
	}
	return []convert.Converter{up, down}
}

// bytesIn returns the bytes of a tensor in a layout.
func bytesIn(l graph.Layout, dt tensor.DType, dims []int) (int64, error) {
	dt, l = Lies(l, dt)
	return graph.PhysicalSize(graph.On(l), dt, dims)
}

// conversion is a conversion of tensors of one type and shape.
type conversion struct {
	on       Reorderer
	kernel   Reorder
	up       bool  // to the device
	from, to int64 // bytes
}

// onHost prepares a conversion whose reorder, and cast, is the host's.
func (d *Device) onHost(on Reorderer, from, to graph.Layout, up bool, dt tensor.DType, dims []int) (*conversion, convert.Move, error) {
	x := &conversion{on: on, up: up}
	var err error
	if x.from, err = bytesIn(from, dt, dims); err != nil {
		return nil, nil, err
	}
	if x.to, err = bytesIn(to, dt, dims); err != nil {
		return nil, nil, err
	}
	source, from := Lies(from, dt)
	target, to := Lies(to, dt)
	host, err := convert.PlanHostCast(from, to, source, target, dims)
	if err != nil {
		return nil, nil, err
	}
	return x, x.byHost(host), nil
}

// convertOnHost prepares a conversion by the host.
func (d *Device) convertOnHost(on Reorderer, from, to graph.Layout, up bool, dt tensor.DType, dims []int) (convert.Move, error) {
	_, move, err := d.onHost(on, from, to, up, dt, dims)
	return move, err
}

// nothing converts tensors without elements, which have no memory.
func nothing(context.Context, *tensor.Tensor, *tensor.Tensor, convert.Exec) error { return nil }

// convert prepares a conversion. Where there is no kernel of one launch for it the host reorders, which is a detour.
func (d *Device) convert(on Reorderer, from, to graph.Layout, up bool, dt tensor.DType, dims []int) (convert.Move, error) {
	x, around, err := d.onHost(on, from, to, up, dt, dims)
	if err != nil {
		return nil, err
	}
	if slices.Contains(dims, 0) {
		return nothing, nil
	}
	if x.kernel, err = d.reorderKernel(on, from, to, dt, dims); err != nil {
		return around, &convert.DetourError{Cause: err}
	}
	return func(ctx context.Context, dst, src *tensor.Tensor, e convert.Exec) error {
		here := src
		if x.up {
			here = dst
		}
		if here.Offset%OperandAlign != 0 {
			return around(ctx, dst, src, e)
		}
		return x.move(ctx, dst, src, e.Stream)
	}, nil
}

// move queues the copy and the kernel.
func (x *conversion) move(ctx context.Context, dst, src *tensor.Tensor, s device.Stream) error {
	there, host, staged := dst, src, x.from
	if !x.up {
		there, host, staged = src, dst, x.to
	}
	bytes, err := hostBytes(host, staged)
	if err != nil {
		return err
	}
	if err := x.on.Within(device.MemoryOf(there), int64(there.Offset), x.from+x.to-staged); err != nil {
		return err
	}
	staging, release, err := x.on.Stage(s, staged)
	if err != nil {
		return err
	}
	defer release()
	stage, place := Base{Handle: staging.Handle}, Base{Handle: there.Handle, Offset: there.Offset}
	if !x.up {
		if err := x.kernel.Launch(ctx, s, place, stage); err != nil {
			return err
		}
		return x.on.CopyFrom(ctx, s, bytes, staging, 0)
	}
	if err := x.on.CopyTo(ctx, s, staging, 0, bytes); err != nil {
		return err
	}
	return x.kernel.Launch(ctx, s, stage, place)
}

// hostBytes returns n bytes of a tensor of the host's.
func hostBytes(t *tensor.Tensor, n int64) ([]byte, error) {
	if t.Offset < 0 || int64(len(t.Data))-int64(t.Offset) < n {
		return nil, fmt.Errorf("%w: a copy of %v needs %d bytes, and has %d", tensor.ErrShape, t, n, max(len(t.Data)-t.Offset, 0))
	}
	return t.Data[t.Offset : int64(t.Offset)+n], nil
}

// byHost returns the conversion as a reorder of the host's, and a copy.
func (x *conversion) byHost(host convert.Move) convert.Move {
	return func(ctx context.Context, dst, src *tensor.Tensor, e convert.Exec) error {
		between := &tensor.Tensor{DType: src.DType, Shape: src.Shape}
		if x.up {
			between.Data = make([]byte, x.to)
			if err := host(ctx, between, src, convert.Exec{Workers: e.Workers}); err != nil {
				return err
			}
			return x.on.CopyTo(ctx, e.Stream, device.MemoryOf(dst), int64(dst.Offset), between.Data)
		}
		between.Data = make([]byte, x.from)
		if err := x.on.CopyFrom(ctx, e.Stream, between.Data, device.MemoryOf(src), int64(src.Offset)); err != nil {
			return err
		}
		if e.Stream != nil {
			if err := e.Stream.Sync(ctx); err != nil {
				return err
			}
		}
		return host(ctx, dst, between, convert.Exec{Workers: e.Workers})
	}
}
