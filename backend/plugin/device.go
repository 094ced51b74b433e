package plugin

import (
	"context"
	"fmt"
	"sync"
	"unsafe"

	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
)

// processor is an open processor: what backend, device and executables share.
type processor struct {
	l      *Library
	info   Processor
	handle uint64
	id     tensor.DeviceID // as carve knows the memory
	serial *sync.Mutex     // held during every call, where the plugin allows one at a time; nil otherwise
	pages  sync.Pool       // of *page, for the arguments of calls

	mu     sync.Mutex
	blocks map[uintptr]int64 // sizes of the memory that is given out, by handle
}

// writer returns a page for the arguments of one call; done takes it back.
func (p *processor) writer() (w *writer, done func()) {
	pg, ok := p.pages.Get().(*page)
	if !ok {
		pg = &page{}
	}
	return &writer{page: pg}, func() {
		pg.reset()
		p.pages.Put(pg)
	}
}

// do calls a function with an error behind its arguments.
func (p *processor) do(w *writer, function string, fn uintptr, args ...uintptr) error {
	if p.serial != nil {
		p.serial.Lock()
		defer p.serial.Unlock()
	}
	return p.l.do(w, function, fn, args...)
}

// plain calls a function without an error.
func (p *processor) plain(function string, fn uintptr, args ...uintptr) error {
	if p.serial != nil {
		p.serial.Lock()
		defer p.serial.Unlock()
	}
	return p.l.failed(function, p.l.call(fn, args...), nil)
}

// ownMemory reports whether the processor's memory is not the host's.
func (p *processor) ownMemory() bool { return p.info.flags&processorHostMemory == 0 }

// space is the Device of a processor with memory of its own.
type space struct{ p *processor }

// ID implements device.Device.
func (s *space) ID() tensor.DeviceID { return s.p.id }

// Alloc implements device.Device.
func (s *space) Alloc(size int64) (device.Memory, error) {
	if size < 0 {
		return device.Memory{}, fmt.Errorf("%w: %d bytes", device.ErrOutOfMemory, size)
	}
	w, done := s.p.writer()
	defer done()
	m := one[cMem](w)
	m.size = uint32(unsafe.Sizeof(*m))
	if err := s.p.do(w, "alloc", s.p.l.table.alloc, uintptr(s.p.handle), uintptr(max(size, 1)), tensor.Alignment, address(m)); err != nil {
		return device.Memory{}, err
	}
	if m.handle == 0 || m.bytes < size {
		return device.Memory{}, fmt.Errorf("%w: alloc of %d bytes gave block %d of %d bytes", ErrPlugin, size, m.handle, m.bytes)
	}
	h := uintptr(m.handle)
	s.p.mu.Lock()
	s.p.blocks[h] = m.bytes
	s.p.mu.Unlock()
	return device.Memory{Device: s.p.id, Handle: h, Size: m.bytes}, nil
}

func (s *space) forget(m device.Memory) {
	s.p.mu.Lock()
	delete(s.p.blocks, m.Handle)
	s.p.mu.Unlock()
}

// Free implements device.Device.
func (s *space) Free(m device.Memory) {
	s.forget(m)
	_ = s.p.plain("free", s.p.l.table.free, uintptr(s.p.handle), m.Handle) // there is nobody to tell
}

// DirectFree implements device.Device.
func (s *space) DirectFree(m device.Memory) {
	if s.p.l.table.directFree == 0 {
		s.Free(m)
		return
	}
	s.forget(m)
	_ = s.p.plain("direct_free", s.p.l.table.directFree, uintptr(s.p.handle), m.Handle)
}

// ReleaseAll implements device.Device.
func (s *space) ReleaseAll() {
	_ = s.p.plain("release_all", s.p.l.table.releaseAll, uintptr(s.p.handle))
}

// inside checks that a block has n bytes from off on.
func (p *processor) inside(m device.Memory, off, n int64) error {
	p.mu.Lock()
	size, ok := p.blocks[m.Handle]
	p.mu.Unlock()
	if !ok {
		return fmt.Errorf("%w: no block %#x of %s", device.ErrBounds, m.Handle, p.info.Name)
	}
	if off < 0 || n < 0 || off > size-n {
		return fmt.Errorf("%w: bytes %d to %d of %d", device.ErrBounds, off, off+n, size)
	}
	return nil
}

// CopyTo implements device.Device.
func (s *space) CopyTo(ctx context.Context, st device.Stream, dst device.Memory, off int64, src []byte) error {
	if len(src) == 0 {
		return nil
	}
	if err := s.p.inside(dst, off, int64(len(src))); err != nil {
		return err
	}
	return s.move(ctx, st, cCopy{kind: copyTo, dst: uint64(dst.Handle), dstOffset: uint64(off), bytes: uint64(len(src))}, src)
}

// CopyFrom implements device.Device.
func (s *space) CopyFrom(ctx context.Context, st device.Stream, dst []byte, src device.Memory, off int64) error {
	if len(dst) == 0 {
		return nil
	}
	if err := s.p.inside(src, off, int64(len(dst))); err != nil {
		return err
	}
	return s.move(ctx, st, cCopy{kind: copyFrom, src: uint64(src.Handle), srcOffset: uint64(off), bytes: uint64(len(dst))}, dst)
}

// CopyBetween implements device.Device, and reaches the memory of other processors of the plugin that it copies to.
func (s *space) CopyBetween(ctx context.Context, st device.Stream, dst device.Memory, dstOff int64, src device.Memory, srcOff, n int64) error {
	if n == 0 {
		return nil
	}
	to := s.p
	if dst.Device != s.p.id {
		if to = s.p.l.opened(dst.Device); to == nil {
			return fmt.Errorf("%w: device %v", device.ErrBounds, dst.Device)
		}
	}
	if err := to.inside(dst, dstOff, n); err != nil {
		return err
	}
	if err := s.p.inside(src, srcOff, n); err != nil {
		return err
	}
	c := cCopy{kind: copyBetween, dst: uint64(dst.Handle), dstOffset: uint64(dstOff), src: uint64(src.Handle), srcOffset: uint64(srcOff), bytes: uint64(n)}
	if to != s.p {
		c.dstBackend = to.handle
	}
	return s.move(ctx, st, c, nil)
}

// CopiesTo implements device.PeerCopier.
func (s *space) CopiesTo(id tensor.DeviceID) bool {
	other := s.p.l.opened(id)
	return other != nil && other != s.p && s.p.l.call(s.p.l.table.copiesTo, uintptr(s.p.handle), uintptr(other.handle)) == 1
}

// move calls copy, on a stream where there is one. host is the end that lies in the host's memory.
func (s *space) move(ctx context.Context, st device.Stream, c cCopy, host []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if q, ok := st.(*device.Queue); ok { // of a plugin without streams
		q.Do(func() error { return s.moveOn(0, c, host) })
		return nil
	}
	handle := uint64(0)
	if st != nil {
		own, ok := st.(*stream)
		if !ok || own.p != s.p {
			return device.ErrStream
		}
		if handle = own.handle; handle == 0 {
			return device.ErrClosed
		}
	}
	return s.moveOn(handle, c, host)
}

func (s *space) moveOn(stream uint64, c cCopy, host []byte) error {
	w, done := s.p.writer()
	defer done()
	at := one[cCopy](w)
	*at = c
	at.size = uint32(unsafe.Sizeof(*at))
	switch c.kind {
	case copyTo:
		at.src = uint64(uintptr(unsafe.Pointer(unsafe.SliceData(host))))
	case copyFrom:
		at.dst = uint64(uintptr(unsafe.Pointer(unsafe.SliceData(host))))
	}
	copies := list(w, []uintptr{address(at)})
	return s.p.do(w, "copy", s.p.l.table.copy, uintptr(s.p.handle), copies, 1, uintptr(stream))
}

// NewStream implements device.Device.
func (s *space) NewStream() (device.Stream, error) {
	if s.p.l.table.streamOpen == 0 {
		return &device.Queue{}, nil // the calls themselves are the work
	}
	w, done := s.p.writer()
	defer done()
	h := one[uint64](w)
	if err := s.p.do(w, "stream_open", s.p.l.table.streamOpen, uintptr(s.p.handle), 0, address(h)); err != nil {
		return nil, err
	}
	if *h == 0 {
		return nil, fmt.Errorf("%w: stream_open gave no stream", ErrPlugin)
	}
	return &stream{p: s.p, handle: *h}, nil
}
