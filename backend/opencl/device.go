package opencl

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernelstore"
)

// clDevice is a device of the library. It is opened when it is first used, and lives until the process ends: all backends of
// the process that work on it share its memory space, which has one name.
type clDevice struct {
	l      *library
	handle uintptr
	id     tensor.DeviceID
	facts  facts

	achieves sync.Once
	achieved *backend.Efficiency

	once    sync.Once
	err     error
	context uintptr
	copies  uintptr // queue of copies that are over when they return

	mu     sync.RWMutex
	blocks map[uintptr]block // by handle
	number uintptr           // of the block that was allocated last

	commands *commands // nil where there are none

	programs kernelstore.Store[*program]

	lost      atomic.Pointer[lostError]
	suspected atomic.Pointer[Error] // a failure after which the device has not worked yet
}

var _ device.Device = (*clDevice)(nil)

// block is memory of the device.
type block struct {
	size   int64
	number uintptr // no other ever has it
}

// open makes the context. The error is the same for ever, but that a device may be lost later.
func (d *clDevice) open() error {
	d.once.Do(func() {
		c := newCall()
		defer c.done()
		c.word = d.handle
		d.blocks = map[uintptr]block{}
		d.programs.Free = (*program).free
		if d.context, d.err = c.create(d.l, "clCreateContext", 0, 1, at(&c.word), 0, 0); d.err == nil {
			d.copies, d.err = d.queue(c, 0)
		}
	})
	if d.err != nil {
		return d.err
	}
	return d.sound()
}

// failed takes note of an error of the device's work, and returns it. The driver may call it.
func (d *clDevice) failed(err error) error {
	var e *Error
	switch {
	case !errors.As(err, &e):
	case errors.Is(e, ErrLost):
		d.lost.CompareAndSwap(nil, &lostError{e})
	case e.Status == outOfResources:
		d.suspected.Store(e)
	}
	return err
}

// sound returns an error where the device is lost. After a failure that may mean so it finds out: a device that is dead does not run
// an empty queue either.
func (d *clDevice) sound() error {
	if e := d.suspected.Swap(nil); e != nil {
		c := newCall()
		if err := c.do(d.l, "clFinish", d.copies); err != nil {
			d.lost.CompareAndSwap(nil, &lostError{e})
		}
		c.done()
	}
	if e := d.lost.Load(); e != nil {
		return e
	}
	return nil
}

// queue makes a queue with these properties, whose commands are run in order where they are 0.
func (d *clDevice) queue(c *call, properties uintptr) (uintptr, error) {
	return c.create(d.l, "clCreateCommandQueue", d.context, d.handle, properties)
}

// ID implements device.Device.
func (d *clDevice) ID() tensor.DeviceID { return d.id }

// Kinds of blocks.
const (
	plainBlock = 1      // that kernels read and write
	hostBlock  = 1 | 16 // the same, where the host reaches it too: pinned, for devices with memory of their own
)

// Alloc implements device.Device.
func (d *clDevice) Alloc(size int64) (device.Memory, error) { return d.alloc(size, plainBlock) }

// alloc is Alloc for a kind of memory.
func (d *clDevice) alloc(size int64, kind uintptr) (device.Memory, error) {
	if size < 0 {
		return device.Memory{}, fmt.Errorf("%w: %d bytes", device.ErrOutOfMemory, size)
	}
	if size > d.facts.mostAlloc && d.facts.mostAlloc > 0 {
		return device.Memory{}, &device.LimitError{Device: d.id.String(), Need: size, Limit: d.facts.mostAlloc}
	}
	if err := d.sound(); err != nil {
		return device.Memory{}, err
	}
	c := newCall()
	defer c.done()
	h, err := c.create(d.l, "clCreateBuffer", d.context, kind, uintptr(max(size, tensor.Alignment)), 0)
	if err != nil {
		return device.Memory{}, d.failed(err)
	}
	d.mu.Lock()
	d.number++
	d.blocks[h] = block{size, d.number}
	d.mu.Unlock()
	return device.Memory{Device: d.id, Handle: h, Size: size}, nil
}

// Free implements device.Device: nothing is kept.
func (d *clDevice) Free(m device.Memory) { d.DirectFree(m) }

// DirectFree implements device.Device.
func (d *clDevice) DirectFree(m device.Memory) {
	d.mu.Lock()
	_, known := d.blocks[m.Handle]
	delete(d.blocks, m.Handle)
	d.mu.Unlock()
	if known {
		d.l.release("clReleaseMemObject", m.Handle)
	}
}

// ReleaseAll implements device.Device: nothing is kept.
func (*clDevice) ReleaseAll() {}

// Within implements gpugroup.Reorderer: it reports an error where a block does not have n bytes from off on.
func (d *clDevice) Within(m device.Memory, off, n int64) error {
	d.mu.RLock()
	b, known := d.blocks[m.Handle]
	d.mu.RUnlock()
	if !known || m.Device != d.id {
		return fmt.Errorf("%w: no block of %v", device.ErrBounds, d.id)
	}
	if off < 0 || n < 0 || off > b.size || n > b.size-off {
		return fmt.Errorf("%w: %d bytes from %d on in a block of %d", device.ErrBounds, n, off, b.size)
	}
	return nil
}

// CopyTo implements device.Device.
func (d *clDevice) CopyTo(ctx context.Context, s device.Stream, dst device.Memory, off int64, src []byte) error {
	d.l.called.writes.Add(1)
	return d.transfer(ctx, s, "clEnqueueWriteBuffer", dst, off, src)
}

// CopyFrom implements device.Device.
func (d *clDevice) CopyFrom(ctx context.Context, s device.Stream, dst []byte, src device.Memory, off int64) error {
	d.l.called.reads.Add(1)
	return d.transfer(ctx, s, "clEnqueueReadBuffer", src, off, dst)
}

// transfer copies between the host's memory and a block: on a stream, which keeps the host's memory alive until the copy is
// over, or at once.
func (d *clDevice) transfer(ctx context.Context, s device.Stream, function string, m device.Memory, off int64, host []byte) error {
	if err := d.Within(m, off, int64(len(host))); err != nil {
		return err
	}
	queue, own, err := d.target(ctx, s)
	if err != nil || len(host) == 0 {
		return err
	}
	c := newCall()
	defer c.done()
	blocking := uintptr(1)
	if own != nil {
		blocking = 0
		own.keep = append(own.keep, host)
	}
	err = c.do(d.l, function, queue, m.Handle, blocking, uintptr(off), uintptr(len(host)), at(&host[0]), 0, 0, 0)
	if err == nil && own == nil { // Intel's driver for processors returns when it has taken the host's bytes: other queues do not see them yet
		err = c.do(d.l, "clFinish", queue)
	}
	return d.failed(err)
}

// CopyBetween implements device.Device.
func (d *clDevice) CopyBetween(ctx context.Context, s device.Stream, dst device.Memory, dstOff int64, src device.Memory, srcOff, n int64) error {
	if err := d.Within(dst, dstOff, n); err != nil {
		return err
	}
	if err := d.Within(src, srcOff, n); err != nil {
		return err
	}
	queue, own, err := d.target(ctx, s)
	if err != nil || n == 0 {
		return err
	}
	c := newCall()
	defer c.done()
	d.l.called.copies.Add(1)
	err = c.do(d.l, "clEnqueueCopyBuffer", queue, src.Handle, dst.Handle, uintptr(srcOff), uintptr(dstOff), uintptr(n), 0, 0, 0)
	if err == nil && own == nil {
		err = c.do(d.l, "clFinish", queue)
	}
	return d.failed(err)
}

// target returns the queue that a copy goes to, and its stream, nil where the copy is over when it returns.
func (d *clDevice) target(ctx context.Context, s device.Stream) (queue uintptr, own *stream, err error) {
	if err := errors.Join(ctx.Err(), d.sound()); err != nil {
		return 0, nil, err
	}
	if s == nil {
		return d.copies, nil, nil
	}
	if own, err = d.stream(s); err != nil {
		return 0, nil, err
	}
	return own.queue, own, nil
}

// stream returns s as a stream of the device.
func (d *clDevice) stream(s device.Stream) (*stream, error) {
	own, ok := s.(*stream)
	if !ok || own.d != d {
		return nil, device.ErrStream
	}
	if own.closed {
		return nil, device.ErrClosed
	}
	return own, nil
}
