package device

import (
	"fmt"
	"unsafe"

	"github.com/carve-dev/carve/graph/tensor"
)

// HostWith returns the host's memory with blocks of an Allocator; nil means Host. A block that is smaller than asked for, or
// not aligned to tensor.Alignment, is given back, and the error wraps ErrAllocator.
func HostWith(a Allocator) Device {
	if a == nil {
		return Host
	}
	return &allocated{Device: Host, from: a}
}

// allocated is the host with somebody else's blocks.
type allocated struct {
	Device // copies and streams
	from   Allocator
}

// Alloc implements Device. The block goes back as it came: the allocator may know it by its Handle.
func (d *allocated) Alloc(size int64) (Memory, error) {
	if size < 0 {
		return Memory{}, fmt.Errorf("%w: a block of %d bytes", ErrOutOfMemory, size)
	}
	if size == 0 {
		return Memory{Data: []byte{}}, nil
	}
	m, err := d.from.Alloc(size)
	if err != nil {
		return Memory{}, err
	}
	address := uintptr(unsafe.Pointer(unsafe.SliceData(m.Data)))
	if int64(len(m.Data)) < size || address%tensor.Alignment != 0 {
		d.from.Free(m)
		return Memory{}, fmt.Errorf("%w: %d bytes at %#x, asked for %d aligned to %d", ErrAllocator, len(m.Data), address, size, tensor.Alignment)
	}
	m.Size = max(m.Size, size)
	return m, nil
}

// Free implements Device.
func (d *allocated) Free(m Memory) {
	if len(m.Data) > 0 {
		d.from.Free(m)
	}
}

// DirectFree implements Device: what the allocator keeps is its own matter.
func (d *allocated) DirectFree(m Memory) { d.Free(m) }

// ReleaseAll implements Device.
func (*allocated) ReleaseAll() {}
