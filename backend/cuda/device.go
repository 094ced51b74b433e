package cuda

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernelstore"
)

// gpu is a device of the driver. Its context, the primary one, which libraries of the vendor's share, is there as long as a backend
// on the device is open, or memory or streams of it are left.
type gpu struct {
	l       *library
	ordinal int32
	id      tensor.DeviceID
	facts   facts

	mu      sync.Mutex
	users   int // open backends, blocks and streams
	context uintptr
	copies  uintptr // stream of copies that are over when they return
	graphs  map[*graphs]struct{}
	vendors map[string]*vendor
	events  []uintptr // that nobody uses

	room     sync.RWMutex
	blocks   map[uintptr]int64 // sizes by address
	pinned   pinned
	programs kernelstore.Store[*program]
	prebuilt kernelstore.Store[*program] // parts of programs, by kernel
	lost     atomic.Pointer[Error]       // the first failure that the context has not survived
}

var _ device.PeerCopier = (*gpu)(nil)

// retain counts a user, for whom the context is there.
func (d *gpu) retain() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e := d.lost.Load(); e != nil {
		return e
	}
	if d.users == 0 {
		if err := d.open(); err != nil {
			d.shut()
			return err
		}
	}
	d.users++
	return nil
}

// release ends a use.
func (d *gpu) release() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.users--; d.users == 0 {
		d.shut()
	}
}

func (d *gpu) open() (err error) {
	c := newCall(d.l)
	d.context, err = c.create(fnPrimaryCtxRetain, uintptr(d.ordinal))
	c.done()
	if err != nil {
		return err
	}
	c = d.enter()
	defer c.leave()
	d.copies, err = c.create(fnStreamCreate, nonBlocking)
	return err
}

// shut gives back what the device still has, and the context. It goes on after failures: there is nobody to tell.
func (d *gpu) shut() {
	if d.context == 0 {
		return
	}
	d.programs.Clear()
	d.prebuilt.Clear()
	c := d.enter()
	for g := range d.graphs {
		g.destroy(c)
	}
	for _, v := range d.vendors {
		v.close()
	}
	for _, e := range d.events {
		_ = c.do(fnEventDestroy, e)
	}
	if d.copies != 0 {
		_ = c.do(fnStreamDestroy, d.copies)
	}
	d.pinned.free(c)
	c.leave()
	d.graphs, d.vendors, d.events, d.copies, d.context = nil, nil, nil, 0, 0
	c = newCall(d.l)
	_ = c.do(fnPrimaryCtxRelease, uintptr(d.ordinal))
	c.done()
}

// ID implements device.Device.
func (d *gpu) ID() tensor.DeviceID { return d.id }

// Alloc implements device.Device.
func (d *gpu) Alloc(size int64) (device.Memory, error) {
	if size < 0 {
		return device.Memory{}, fmt.Errorf("%w: %d bytes", device.ErrOutOfMemory, size)
	}
	if size > d.facts.memory {
		return device.Memory{}, &device.LimitError{Device: d.id.String(), Need: size, Limit: d.facts.memory}
	}
	if err := d.retain(); err != nil {
		return device.Memory{}, err
	}
	c := d.enter()
	p, err := c.create(fnMemAlloc, uintptr(max(size, tensor.Alignment)))
	c.leave()
	if err != nil {
		d.release()
		return device.Memory{}, err
	}
	d.room.Lock()
	if d.blocks == nil {
		d.blocks = map[uintptr]int64{}
	}
	d.blocks[p] = size
	d.room.Unlock()
	return device.Memory{Device: d.id, Handle: p, Size: size}, nil
}

// Free implements device.Device: nothing is kept.
func (d *gpu) Free(m device.Memory) { d.DirectFree(m) }

// DirectFree implements device.Device.
func (d *gpu) DirectFree(m device.Memory) {
	d.room.Lock()
	_, known := d.blocks[m.Handle]
	delete(d.blocks, m.Handle)
	d.room.Unlock()
	if !known {
		return
	}
	c := d.enter()
	_ = c.do(fnMemFree, m.Handle) // there is nobody to tell
	c.leave()
	d.release()
}

// ReleaseAll implements device.Device: nothing is kept but pinned memory of the host that no copy uses.
func (d *gpu) ReleaseAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.context == 0 {
		return
	}
	c := d.enter()
	d.pinned.free(c)
	c.leave()
}

// Within implements gpugroup.Reorderer: it reports an error where a block does not have n bytes from off on.
func (d *gpu) Within(m device.Memory, off, n int64) error {
	d.room.RLock()
	size, known := d.blocks[m.Handle]
	d.room.RUnlock()
	if !known || m.Device != d.id {
		return fmt.Errorf("%w: no block of %v", device.ErrBounds, d.id)
	}
	if off < 0 || n < 0 || off > size || n > size-off {
		return fmt.Errorf("%w: %d bytes from %d on in a block of %d", device.ErrBounds, n, off, size)
	}
	return nil
}

// CopyTo implements device.Device.
func (d *gpu) CopyTo(ctx context.Context, s device.Stream, dst device.Memory, off int64, src []byte) error {
	if err := errors.Join(d.Within(dst, off, int64(len(src))), ctx.Err()); err != nil {
		return err
	}
	if s == nil {
		if len(src) == 0 {
			return nil
		}
		return d.now(func(c *call) error {
			return c.do(fnMemcpyHtoDAsync, dst.Handle+uintptr(off), at(&src[0]), uintptr(len(src)), d.copies)
		})
	}
	own, err := d.stream(s)
	if err != nil || len(src) == 0 {
		return err
	}
	return own.upload(ctx, dst.Handle+uintptr(off), src)
}

// CopyFrom implements device.Device.
func (d *gpu) CopyFrom(ctx context.Context, s device.Stream, dst []byte, src device.Memory, off int64) error {
	if err := errors.Join(d.Within(src, off, int64(len(dst))), ctx.Err()); err != nil {
		return err
	}
	if s == nil {
		if len(dst) == 0 {
			return nil
		}
		return d.now(func(c *call) error {
			return c.do(fnMemcpyDtoHAsync, at(&dst[0]), src.Handle+uintptr(off), uintptr(len(dst)), d.copies)
		})
	}
	own, err := d.stream(s)
	if err != nil || len(dst) == 0 {
		return err
	}
	return own.download(dst, src.Handle+uintptr(off))
}

// CopiesTo implements device.PeerCopier: the driver copies between all its devices.
func (d *gpu) CopiesTo(id tensor.DeviceID) bool { return d.l.device(id) != nil }

// CopyBetween implements device.Device.
func (d *gpu) CopyBetween(ctx context.Context, s device.Stream, dst device.Memory, dstOff int64, src device.Memory, srcOff, n int64) error {
	other := d.l.device(dst.Device)
	if other == nil {
		return fmt.Errorf("%w: %v is no device of the driver's", device.ErrBounds, dst.Device)
	}
	if err := errors.Join(other.Within(dst, dstOff, n), d.Within(src, srcOff, n), ctx.Err()); err != nil {
		return err
	}
	to, from := dst.Handle+uintptr(dstOff), src.Handle+uintptr(srcOff)
	copied := func(c *call, stream uintptr) error {
		if other != d {
			return c.do(fnMemcpyPeerAsync, to, other.context, from, d.context, uintptr(n), stream)
		}
		return c.do(fnMemcpyDtoDAsync, to, from, uintptr(n), stream)
	}
	if s == nil {
		if n == 0 {
			return nil
		}
		return d.now(func(c *call) error { return copied(c, d.copies) })
	}
	own, err := d.stream(s)
	if err != nil || n == 0 {
		return err
	}
	c := d.enter()
	defer c.leave()
	return copied(c, own.handle)
}

// now does a copy on the stream of those that are over when they return. The host's memory is the driver's until then, so that the
// end of a context changes nothing.
func (d *gpu) now(do func(c *call) error) error {
	c := d.enter()
	defer c.leave()
	if err := do(c); err != nil {
		return err
	}
	e, err := d.record(c, d.copies)
	if err != nil {
		return errors.Join(err, c.do(fnStreamSynchronize, d.copies))
	}
	err = e.Wait(context.Background())
	e.Close()
	return err
}

// stream returns s as a stream of the device.
func (d *gpu) stream(s device.Stream) (*stream, error) {
	own, ok := s.(*stream)
	if !ok || own.d != d {
		return nil, device.ErrStream
	}
	if own.closed {
		return nil, device.ErrClosed
	}
	return own, nil
}
