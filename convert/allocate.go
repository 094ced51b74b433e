package convert

import (
	"fmt"
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
)

// NewTensor returns a tensor in any format that the registry knows the size of, in a block of a, which is the Device of the
// format, or for formats of the host an Allocator as well: the caller gives the block back. With a nil the storage is Go's,
// for formats of the host alone, and the block is empty. Only Go's storage is zero. The error wraps graph.ErrOpaque where
// nobody knows the layout, tensor.ErrNotHost for a device's format without the device, and what Alloc returns.
func (r *Registry) NewTensor(a device.Allocator, f graph.Format, dt tensor.DType, dims ...int) (*tensor.Tensor, device.Memory, error) {
	size, err := r.Size(f, dt, dims)
	if err != nil {
		return nil, device.Memory{}, err
	}
	t := &tensor.Tensor{DType: dt, Shape: slices.Clone(dims), Device: f.Device}
	if a == nil {
		if !f.Device.IsHost() {
			return nil, device.Memory{}, fmt.Errorf("%w: %v needs %d bytes of its device", tensor.ErrNotHost, f, size)
		}
		storage, err := tensor.New(tensor.Uint8, int(size))
		if err != nil {
			return nil, device.Memory{}, fmt.Errorf("%v%v in %v: %w", dt, dims, f, err)
		}
		t.Data = storage.Data
		return t, device.Memory{}, nil
	}
	m, err := a.Alloc(size)
	if err != nil {
		return nil, device.Memory{}, fmt.Errorf("%v%v in %v: %w", dt, dims, f, err)
	}
	if t.Data = m.Data; !f.Device.IsHost() {
		t.Handle = m.Handle
	}
	return t, m, nil
}
