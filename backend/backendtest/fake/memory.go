package fake

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
)

// fakeDevice is one device's memory.
type fakeDevice struct {
	m      *machine
	id     tensor.DeviceID
	number int

	mu     sync.Mutex
	blocks map[uintptr]*block
	last   uintptr
	held   int64
}

// block is a block of device memory.
type block struct {
	device   tensor.DeviceID
	data     []byte
	freed    bool     // with accesses under the watch's lock
	accesses []access // of late
}

// garbage is what memory holds that nobody has written: not a number in every float type.
const garbage = 0xff

func spoil(b []byte) {
	for i := range b {
		b[i] = garbage
	}
}

// errHandle is the error of a handle that is no block.
var errHandle = errors.New("no such block")

// ID implements device.Device.
func (d *fakeDevice) ID() tensor.DeviceID { return d.id }

// Alloc implements device.Device.
func (d *fakeDevice) Alloc(size int64) (device.Memory, error) {
	if err := d.m.fail(Alloc, d.number); err != nil {
		return device.Memory{}, fmt.Errorf("%w: %w", device.ErrOutOfMemory, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if size < 0 || size > 1<<40 || d.m.o.Memory > 0 && d.held+size > d.m.o.Memory {
		return device.Memory{}, fmt.Errorf("%w: %d bytes with %d of %d in use", device.ErrOutOfMemory, size, d.held, d.m.o.Memory)
	}
	t, err := tensor.New(tensor.Uint8, int(size))
	if err != nil {
		return device.Memory{}, fmt.Errorf("%w: %w", device.ErrOutOfMemory, err)
	}
	spoil(t.Data)
	d.last += 3 // handles are no addresses, and not dense
	d.blocks[d.last] = &block{device: d.id, data: t.Data}
	d.held += size
	d.m.note(func(s *Stats) { s.Allocs++; s.Held += size; s.Peak = max(s.Peak, s.Held) })
	return device.Memory{Device: d.id, Handle: d.last, Size: size}, nil
}

// Free implements device.Device: nothing is kept.
func (d *fakeDevice) Free(m device.Memory) {
	d.mu.Lock()
	b := d.blocks[m.Handle]
	delete(d.blocks, m.Handle)
	if b != nil {
		d.held -= int64(len(b.data))
	}
	d.mu.Unlock()
	if b == nil {
		d.m.watch.fault("block %d of %v is freed, but there is none: twice?", m.Handle, d.id)
		return
	}
	d.m.watch.free(b)
	d.m.note(func(s *Stats) { s.Held -= int64(len(b.data)) })
}

// DirectFree implements device.Device.
func (d *fakeDevice) DirectFree(m device.Memory) { d.Free(m) }

// ReleaseAll implements device.Device: nothing was kept.
func (d *fakeDevice) ReleaseAll() {}

// block returns the block of a handle, and whether n bytes at off lie in it.
func (d *fakeDevice) block(m device.Memory, off, n int64) (*block, error) {
	d.mu.Lock()
	b := d.blocks[m.Handle]
	d.mu.Unlock()
	switch {
	case b == nil:
		d.m.watch.fault("block %d of %v is used, but there is none", m.Handle, d.id)
		return nil, fmt.Errorf("%w: %d of %v", errHandle, m.Handle, d.id)
	case off < 0 || n < 0 || off > int64(len(b.data))-n:
		return nil, fmt.Errorf("%w: %d bytes at %d of %d", device.ErrBounds, n, off, len(b.data))
	}
	return b, nil
}

// fetch returns a constant of the device as a tensor of the host.
func (d *fakeDevice) fetch(v *graph.Value) (*tensor.Tensor, error) {
	t := *v.Const
	size, err := graph.PhysicalSize(v.Format, t.DType, t.Shape)
	if err != nil || size == 0 {
		t.Device, t.Handle, t.Offset, t.Data = tensor.DeviceID{}, 0, 0, []byte{}
		return &t, err
	}
	b, err := d.block(device.MemoryOf(&t), int64(t.Offset), size)
	if err != nil {
		return nil, err
	}
	d.m.touching.Lock()
	defer d.m.touching.Unlock()
	d.m.watch.onHost("a look at a constant").touch(b, int64(t.Offset), size, false)
	data := append([]byte(nil), b.data[t.Offset:int64(t.Offset)+size]...)
	t.Device, t.Handle, t.Offset, t.Data = tensor.DeviceID{}, 0, 0, data
	return &t, nil
}

// CopiesTo implements device.PeerCopier.
func (d *fakeDevice) CopiesTo(id tensor.DeviceID) bool { return !d.m.o.NoPeers && d.peer(id) != nil }

// peer returns the machine's device of that name.
func (d *fakeDevice) peer(id tensor.DeviceID) *fakeDevice {
	for _, o := range d.m.devices {
		if o.id == id {
			return o
		}
	}
	return nil
}

// CopyTo implements device.Device. Host memory that changes before it is read is a fault.
func (d *fakeDevice) CopyTo(ctx context.Context, s device.Stream, dst device.Memory, off int64, src []byte) error {
	n := int64(len(src))
	b, err := d.block(dst, off, n)
	if err != nil {
		return err
	}
	d.m.note(func(s *Stats) { s.CopiesTo++ })
	// Bytes that a copy under way still writes may change until this one begins, if it is ordered behind that.
	written := d.m.landing.pending(src)
	seed := maphash.MakeSeed()
	var sum uint64
	if !written {
		sum = maphash.Bytes(seed, src)
	}
	return d.move(ctx, s, CopyTo, func(p *piece, fails error) error {
		p.touch(b, off, n, true)
		d.m.landing.touch(p, src, false)
		if fails != nil {
			spoil(b.data[off : off+n])
			return fails
		}
		if !written && maphash.Bytes(seed, src) != sum {
			d.m.watch.fault("%s: the host's bytes changed before they were read", p.what)
		}
		copy(b.data[off:], src)
		return nil
	})
}

// CopyFrom implements device.Device. Host memory holds garbage until the copy is over.
func (d *fakeDevice) CopyFrom(ctx context.Context, s device.Stream, dst []byte, src device.Memory, off int64) error {
	n := int64(len(dst))
	b, err := d.block(src, off, n)
	if err != nil {
		return err
	}
	d.m.note(func(s *Stats) { s.CopiesFrom++ })
	ends := d.m.landing.begin(dst)
	err = d.move(ctx, s, CopyFrom, func(p *piece, fails error) error {
		defer ends()
		p.touch(b, off, n, false)
		d.m.landing.touch(p, dst, true)
		spoil(dst)
		if fails == nil {
			copy(dst, b.data[off:])
		}
		return fails
	})
	if err != nil { // nothing was queued, or it is over
		ends()
	}
	return err
}

// CopyBetween implements device.Device.
func (d *fakeDevice) CopyBetween(ctx context.Context, s device.Stream, dst device.Memory, dstOff int64, src device.Memory, srcOff, n int64) error {
	from, err := d.block(src, srcOff, n)
	if err != nil {
		return err
	}
	other := d
	if dst.Device != d.id {
		if other = d.peer(dst.Device); other == nil || d.m.o.NoPeers {
			return fmt.Errorf("%w: %v does not copy to %v", errHandle, d.id, dst.Device)
		}
		d.m.note(func(s *Stats) { s.CopiesAcross++ })
	}
	to, err := other.block(dst, dstOff, n)
	if err != nil {
		return err
	}
	d.m.note(func(s *Stats) { s.CopiesBetween++ })
	return d.move(ctx, s, CopyBetween, func(p *piece, fails error) error {
		p.touch(from, srcOff, n, false)
		p.touch(to, dstOff, n, true)
		if fails != nil {
			spoil(to.data[dstOff : dstOff+n])
			return fails
		}
		copy(to.data[dstOff:dstOff+n], from.data[srcOff:])
		return nil
	})
}

// move does a copy on a stream, or at once where it is nil. body is told of a late failure.
func (d *fakeDevice) move(ctx context.Context, s device.Stream, op Op, body func(p *piece, fails error) error) error {
	if err := d.m.fail(op, d.number); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	late := d.m.fail(LateCopy, d.number)
	copied := func(p *piece) error {
		d.m.touching.Lock()
		defer d.m.touching.Unlock()
		return body(p, late)
	}
	if s == nil {
		return copied(d.m.watch.onHost(string(op)))
	}
	st, err := d.stream(s)
	if err == nil {
		st.do(string(op), copied)
	}
	return err
}

// stream returns s as a stream of the device.
func (d *fakeDevice) stream(s device.Stream) (*stream, error) {
	st, ok := s.(*stream)
	if !ok || st.d != d {
		return nil, device.ErrStream
	}
	if st.closed.Load() {
		d.m.watch.fault("a stream of %v is used after Close", d.id)
		return nil, device.ErrClosed
	}
	return st, nil
}
