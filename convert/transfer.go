package convert

import (
	"context"
	"fmt"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
)

// Transfer converts tensors outside of any plan, along the cheapest path and hop by hop: constants, operands of fallbacks,
// what a caller brings in another format. What lies between two hops has memory of its own until the next hop is done. It
// is immutable and safe for concurrent use.
type Transfer struct {
	Registry *Registry
	Devices  map[tensor.DeviceID]device.Device // by canonical ID; see tensor.DeviceID.Canonical
}

// Device returns the device of a format. The error wraps ErrNoPath where nobody has it.
func (t *Transfer) Device(f graph.Format) (device.Device, error) {
	d := t.Devices[f.Device.Canonical()]
	if d == nil {
		return nil, fmt.Errorf("%w: no backend has device %v", ErrNoPath, f.Device)
	}
	return d, nil
}

// Into converts src, stored in format from, to dst, whose storage in format to is there already. The formats are not equal.
// The error wraps ErrNoPath where there is no way.
func (t *Transfer) Into(ctx context.Context, dst, src *tensor.Tensor, from, to graph.Format, w *device.Workers) error {
	path, err := t.path(src, from, to)
	if err != nil {
		return err
	}
	src, release, err := t.walk(ctx, path[:len(path)-1], src, w)
	if err != nil {
		return err
	}
	defer release()
	return t.hop(ctx, path[len(path)-1], dst, src, w)
}

// New converts src, stored in format from, to memory of the device of format to, which belongs to the caller.
func (t *Transfer) New(ctx context.Context, src *tensor.Tensor, from, to graph.Format, w *device.Workers) (device.Memory, error) {
	path, err := t.path(src, from, to)
	if err != nil {
		return device.Memory{}, err
	}
	src, release, err := t.walk(ctx, path[:len(path)-1], src, w)
	if err != nil {
		return device.Memory{}, err
	}
	defer release()
	_, m, err := t.step(ctx, path[len(path)-1], src, w)
	return m, err
}

func (t *Transfer) path(src *tensor.Tensor, from, to graph.Format) ([]*Converter, error) {
	if from == to {
		return nil, fmt.Errorf("%w: from %v to itself", ErrNoPath, from)
	}
	return t.Registry.PathOf(from, to, src.DType, len(src.Shape))
}

// walk takes src along hops. release frees what the result lies in, if that is not src.
func (t *Transfer) walk(ctx context.Context, hops []*Converter, src *tensor.Tensor, w *device.Workers) (_ *tensor.Tensor, release func(), err error) {
	release = func() {}
	for _, c := range hops {
		next, m, err := t.step(ctx, c, src, w)
		release()
		if err != nil {
			return nil, nil, err
		}
		d := t.Devices[c.To.Device.Canonical()]
		release = func() { d.Free(m) }
		src = next
	}
	return src, release, nil
}

// step takes src along one hop, to memory of its own.
func (t *Transfer) step(ctx context.Context, c *Converter, src *tensor.Tensor, w *device.Workers) (*tensor.Tensor, device.Memory, error) {
	size, err := t.Registry.Size(c.To, src.DType, src.Shape)
	if err != nil {
		return nil, device.Memory{}, err
	}
	d, err := t.Device(c.To)
	if err != nil {
		return nil, device.Memory{}, err
	}
	m, err := d.Alloc(size)
	if err != nil {
		return nil, device.Memory{}, err
	}
	dst := &tensor.Tensor{DType: src.DType, Shape: src.Shape, Device: c.To.Device, Data: m.Data, Handle: m.Handle}
	if err := t.hop(ctx, c, dst, src, w); err != nil {
		d.Free(m)
		return nil, device.Memory{}, err
	}
	return dst, m, nil
}

func (t *Transfer) hop(ctx context.Context, c *Converter, dst, src *tensor.Tensor, w *device.Workers) error {
	move, err := c.Prepare(src.DType, src.Shape, nil)
	if err != nil {
		return err
	}
	return move(ctx, dst, src, Exec{Workers: w})
}
