// Package convert changes the format of tensors: it knows who can convert what, finds the cheapest path over these
// converters, puts Convert nodes where the formats of a value's producer and consumers differ, takes superfluous ones
// away, and lowers the rest to single hops.
//
// Every backend brings converters from and to the host row-major format, the "MXNet" format of the proposals; direct ones
// between two backends are welcome. Reorder kernels for described host layouts are the package's own.
//
// # Where to start
//
// A backend's author writes [Converter] values and returns them from Backend.Converters: From, To, what a conversion costs,
// and a Plan that makes the [Move] for one dtype and shape. [NewRegistry] joins those of all backends and answers for
// paths. [Insert], [Eliminate] and [Lower] are the compiler's: they change graphs.
//
// Who reorders tensors by hand begins with [PlanHost], between two layouts of the host, and [Registry.NewTensor], which makes a
// tensor in any format; [Transfer] follows a path over devices. The first two have examples.
//
// The package imports graph, graph/device and internal/kernel.
package convert

import (
	"context"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
)

// Converter is one way to change the format of a tensor. It is immutable and safe for concurrent use.
type Converter struct {
	Name     string // for reports: "host-reorder", "opencl-upload"
	From, To graph.Format
	Cost     Cost
	// Supports tells whether the converter handles that dtype and rank; nil means all of them.
	Supports func(dt tensor.DType, rank int) bool
	// Rounds says that the converter computes: what it makes, and makes of that again, differs by rounding. Others move elements.
	Rounds bool
	// Spreads says that a Move spreads its work over Exec.Workers, in parts of some 100 KiB, and tells Exec.Progress of them.
	Spreads bool
	// Size returns the bytes of a tensor in the opaque layouts among From and To. It is required where one is opaque.
	Size func(f graph.Format, dt tensor.DType, dims []int) (int64, error)
	// Plan prepares the conversion of tensors of one dtype and logical shape. The Move that it returns is called any number
	// of times, also concurrently, and should not allocate. Beside a *DetourError it returns a Move as well: see Prepare.
	Plan func(dt tensor.DType, dims []int) (Move, error)
}

// Move converts src to dst. Both describe the same logical tensor; their storage is in the converter's From and To
// formats.
//
// A Move between formats of the host is over when it returns. One that touches a device goes on x.Stream as that device's
// copies do: it may return before it is over, and an error after that is the stream's (see device.Device).
type Move func(ctx context.Context, dst, src *tensor.Tensor, x Exec) error

// Exec is what a Move runs with. The zero value is serial, and the Move is over when it returns.
type Exec struct {
	Workers *device.Workers // for work on the host; nil means that it is serial
	Stream  device.Stream   // of the Converter's StreamDevice; nil means that the Move is over when it returns
	// Progress, where it is not nil, is told how many bytes of the source a part of the work has read for the last time, on the
	// goroutine that did it. Moves of converters that do not spread their work need not tell.
	Progress func(bytes int)
}

// StreamDevice returns the device whose stream a conversion goes on: that of From, and that of To where From is the host's.
// Between formats of the host there is no queue.
func (c *Converter) StreamDevice() tensor.DeviceID {
	if c.From.Device.IsHost() {
		return c.To.Device
	}
	return c.From.Device
}

// Cost models the time of a conversion: Fixed nanoseconds, PerByte nanoseconds for every byte of the source, and Far more for
// every byte of a tensor beyond FarBytes, which come from memory and go there.
type Cost struct {
	Fixed   float64
	PerByte float64
	Far     float64
}

// FarBytes is what of a tensor is still in a cache when it is converted: of source and result together twice as much.
const FarBytes = 4 << 20

// Of returns the nanoseconds for a tensor of that many bytes.
func (c Cost) Of(bytes int64) float64 {
	return c.Fixed + c.PerByte*float64(bytes) + c.Far*float64(max(0, bytes-FarBytes))
}

// HostCost is the built-in cost of a reorder in host memory on one thread, between row-major and blocks of channels, or between
// blocks of different sizes, as within a model: of what was made shortly before, to where other things were. It reads and writes
// some 20 GB/s: internal/bench/reorder -cold prints both beside what it measures.
var HostCost = Cost{Fixed: 1500, PerByte: 0.1, Far: 0.02}

// lastCost is that of a reorder between blocks of channels and channels last, whose innermost elements stay together, and
// turnCost that of one between layouts without blocks, which turns a matrix.
var (
	lastCost = Cost{Fixed: 1500, PerByte: 0.06, Far: 0.03}
	turnCost = Cost{Fixed: 1500, PerByte: 0.11, Far: 0.06}
)

// hostCost returns the built-in cost of a reorder between two described layouts.
func hostCost(from, to graph.Layout) Cost {
	switch {
	case !from.IsBlocked() && !to.IsBlocked():
		return turnCost
	case from.IsBlocked() != to.IsBlocked() && !from.IsRowMajor() && !to.IsRowMajor():
		return lastCost
	}
	return HostCost
}
