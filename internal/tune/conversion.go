package tune

import (
	"context"
	"time"

	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/pool"
)

// conversion is a Subject that converts a tensor.
type conversion struct {
	move     convert.Move
	from, to *tensor.Tensor
	free     []func()
	threads  int
	run      pool.Run
	workers  device.Workers
}

// NewConversion returns the conversion of a task on so many threads, with the memory of its operand and its result. Errors are those of
// Feed, of the devices and of the converter.
func NewConversion(ctx context.Context, t *convert.Transfer, x *Task, threads int) (_ Subject, err error) {
	h := &conversion{threads: threads}
	h.workers.Run = &h.run
	defer func() {
		if err != nil {
			_ = h.Close() // the error counts
		}
	}()
	data, err := Feed(x.Type, nil)
	if err != nil {
		return nil, err
	}
	place := func(f graph.Format, make func(d device.Device) (device.Memory, error)) (*tensor.Tensor, error) {
		d, err := t.Device(f)
		if err != nil {
			return nil, err
		}
		m, err := make(d)
		if err != nil {
			return nil, err
		}
		h.free = append(h.free, func() { d.Free(m) })
		return &tensor.Tensor{DType: data.DType, Shape: data.Shape, Device: f.Device, Data: m.Data, Handle: m.Handle}, nil
	}
	h.from = data
	if x.Hop.From != graph.HostFormat {
		if h.from, err = place(x.Hop.From, func(device.Device) (device.Memory, error) {
			return t.New(ctx, data, graph.HostFormat, x.Hop.From, nil)
		}); err != nil {
			return nil, err
		}
	}
	size, err := t.Registry.Size(x.Hop.To, data.DType, data.Shape)
	if err != nil {
		return nil, err
	}
	if h.to, err = place(x.Hop.To, func(d device.Device) (device.Memory, error) { return d.Alloc(size) }); err != nil {
		return nil, err
	}
	h.move, err = x.Hop.Prepare(data.DType, data.Shape, nil)
	return h, err
}

// Run implements Subject.
func (h *conversion) Run(ctx context.Context) (time.Duration, error) {
	h.run.Begin(h.threads)
	defer h.run.End()
	start := time.Now()
	err := h.move(ctx, h.to, h.from, convert.Exec{Workers: &h.workers})
	return time.Since(start), err
}

// Close implements Subject.
func (h *conversion) Close() error {
	for _, free := range h.free {
		free()
	}
	h.free = nil
	return nil
}
