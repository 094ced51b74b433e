package convert

import (
	"context"
	"fmt"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
)

// Copies returns the converters that move tensors of a described layout as they lie, by the devices' own copies: from the
// host to each of the devices, back, and from one to another where CopyBetween reaches it. Between the others the registry
// finds the way through the host. A backend for memory of its own returns them from Converters, for row-major and whatever
// other layouts it shares with the host.
func Copies(l graph.Layout, cost Cost, devices ...device.Device) []Converter {
	var list []Converter
	add := func(name string, from, to tensor.DeviceID, copied copier) {
		list = append(list, Converter{Name: name, From: graph.Format{Device: from, Layout: l}, To: graph.Format{Device: to, Layout: l}, Cost: cost,
			Supports: func(dt tensor.DType, _ int) bool { return dt.Bytes(1) > 0 },
			Plan: func(dt tensor.DType, dims []int) (Move, error) {
				return planCopy(l, dt, dims, copied)
			}})
	}
	for _, d := range devices {
		add("upload", tensor.DeviceID{}, d.ID(), func(ctx context.Context, dst, src *tensor.Tensor, n int64, s device.Stream) error {
			from, err := hostBytes("source", src, n)
			if err != nil {
				return err
			}
			return d.CopyTo(ctx, s, device.MemoryOf(dst), int64(dst.Offset), from)
		})
		add("download", d.ID(), tensor.DeviceID{}, func(ctx context.Context, dst, src *tensor.Tensor, n int64, s device.Stream) error {
			to, err := hostBytes("destination", dst, n)
			if err != nil {
				return err
			}
			return d.CopyFrom(ctx, s, to, device.MemoryOf(src), int64(src.Offset))
		})
		for _, other := range devices {
			if other.ID() == d.ID() || !device.CopiesTo(d, other.ID()) {
				continue
			}
			add("device-copy", d.ID(), other.ID(), func(ctx context.Context, dst, src *tensor.Tensor, n int64, s device.Stream) error {
				return d.CopyBetween(ctx, s, device.MemoryOf(dst), int64(dst.Offset), device.MemoryOf(src), int64(src.Offset), n)
			})
		}
	}
	return list
}

// copier copies n bytes of one tensor's storage to another's.
type copier func(ctx context.Context, dst, src *tensor.Tensor, n int64, s device.Stream) error

func planCopy(l graph.Layout, dt tensor.DType, dims []int, copied copier) (Move, error) {
	if dt.Bytes(1) <= 0 {
		return nil, fmt.Errorf("%w: copy of %v", tensor.ErrUnsupported, dt)
	}
	n, err := graph.PhysicalSize(graph.On(l), dt, dims)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, dst, src *tensor.Tensor, x Exec) error {
		if err := ctx.Err(); err != nil || n == 0 {
			return err
		}
		return copied(ctx, dst, src, n, x.Stream)
	}, nil
}

// hostBytes returns n bytes of a host tensor's storage, which is the source or the destination of a copy.
func hostBytes(end string, t *tensor.Tensor, n int64) ([]byte, error) {
	if t.Offset < 0 || int64(len(t.Data))-int64(t.Offset) < n {
		return nil, fmt.Errorf("%w: a copy of %v needs a %s of %d bytes, and has %d", tensor.ErrShape, t, end, n, max(len(t.Data)-t.Offset, 0))
	}
	return t.Data[t.Offset : int64(t.Offset)+n], nil
}
