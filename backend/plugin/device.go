package plugin

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/carve-dev/carve/backend/plugin/internal/isolate"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
)

// processor is an open processor: what backend, device and executables share.
type processor struct {
	l      *Library
	info   Processor
	id     tensor.DeviceID // as carve knows the memory
	serial *sync.Mutex     // held during every call, where the plugin allows one at a time; nil otherwise
	pages  sync.Pool       // of *page, for the arguments of calls

	proc    *isolate.Process // that it runs in, nil for this one
	word    atomic.Uint64    // the plugin's handle,
	life    atomic.Uint64    // which is one of this life
	opening sync.Mutex       // held while it is opened again
	options []string
	before  isolate.Stats // of the process, when the processor was opened

	mu     sync.Mutex
	blocks map[uintptr]*memory // that are given out, by handle
	last   uintptr             // handle that was given out last, where handles are not the plugin's
}

// handle is an object of the plugin's: its word means nothing in another life than its own. Without a process of its own a
// plugin has one life, with the number 0.
type handle struct{ life, word uint64 }

// writer returns a page for the arguments of one call, and sees to it that the processor is open in the life that the call is
// for; done takes the page back.
func (p *processor) writer() (w *writer, done func()) {
	pg, done := p.page()
	w = &writer{page: pg}
	if p.proc != nil {
		w.side, w.err = p.revive()
	}
	return w, done
}

// page returns an empty page, which done takes back.
func (p *processor) page() (pg *page, done func()) {
	pg, ok := p.pages.Get().(*page)
	if !ok {
		pg = &page{region: side{proc: p.proc}.shared()}
	}
	return pg, func() {
		pg.reset()
		p.pages.Put(pg)
	}
}

// in is the side on which a handle means something.
func (p *processor) in(life uint64) side {
	if p.proc == nil {
		return side{}
	}
	return side{p.l, p.proc, life}
}

// handle is the plugin's handle of the processor.
func (p *processor) handle() uintptr { return uintptr(p.word.Load()) }

// do calls a function with an error behind its arguments.
func (p *processor) do(w *writer, function string, fn uintptr, args ...uintptr) error {
	if p.serial != nil {
		p.serial.Lock()
		defer p.serial.Unlock()
	}
	return p.l.do(w, function, fn, args...)
}

// plain calls a function without an error.
func (p *processor) plain(s side, function string, fn uintptr, args ...uintptr) error {
	if p.serial != nil {
		p.serial.Lock()
		defer p.serial.Unlock()
	}
	st, err := p.l.call(s, fn, args...)
	if err != nil {
		return err
	}
	return p.l.failed(function, st, callError{})
}

// end calls a function that closes an object. What was lost with its process is closed already.
func (p *processor) end(h handle, function string, fn uintptr) error {
	err := p.plain(p.in(h.life), function, fn, uintptr(h.word))
	if errors.Is(err, ErrProcess) {
		return nil
	}
	return err
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
	m, err := s.p.alloc(w, size)
	if err != nil {
		return device.Memory{}, err
	}
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	h := uintptr(m.at.word)
	if s.p.proc != nil { // the plugin's handle changes with its process
		s.p.last++
		h = s.p.last
	}
	s.p.blocks[h] = m
	return device.Memory{Device: s.p.id, Handle: h, Size: m.size}, nil
}

// alloc asks the plugin for a block.
func (p *processor) alloc(w *writer, size int64) (*memory, error) {
	m := one[cMem](w)
	m.size = uint32(unsafe.Sizeof(*m))
	if err := p.do(w, "alloc", p.l.table.alloc, p.handle(), uintptr(max(size, 1)), tensor.Alignment, address(m)); err != nil {
		return nil, err
	}
	h, n := m.handle, m.bytes
	if h == 0 || n < size {
		return nil, fmt.Errorf("%w: alloc of %d bytes gave block %d of %d bytes", ErrPlugin, size, h, n)
	}
	return &memory{at: handle{w.life, h}, size: n}, nil
}

// forget takes a block from the list, nil where it is not there.
func (p *processor) forget(m device.Memory) *memory {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.blocks[m.Handle]
	delete(p.blocks, m.Handle)
	return b
}

// Free implements device.Device.
func (s *space) Free(m device.Memory) { s.p.free(m, "free", s.p.l.table.free) }

// DirectFree implements device.Device.
func (s *space) DirectFree(m device.Memory) {
	if s.p.l.table.directFree == 0 {
		s.Free(m)
		return
	}
	s.p.free(m, "direct_free", s.p.l.table.directFree)
}

func (p *processor) free(m device.Memory, function string, fn uintptr) {
	if b := p.forget(m); b != nil && (p.proc == nil || b.at.life == p.life.Load()) { // or it was lost with its process
		_ = p.plain(p.in(b.at.life), function, fn, p.handle(), uintptr(b.at.word)) // there is nobody to tell
	}
}

// ReleaseAll implements device.Device.
func (s *space) ReleaseAll() {
	_ = s.p.plain(s.p.in(s.p.life.Load()), "release_all", s.p.l.table.releaseAll, s.p.handle())
}

// inside checks that a block has n bytes from off on.
func (p *processor) inside(m device.Memory, off, n int64) error {
	p.mu.Lock()
	b, ok := p.blocks[m.Handle]
	p.mu.Unlock()
	if !ok {
		return fmt.Errorf("%w: no block %#x of %s", device.ErrBounds, m.Handle, p.info.Name)
	}
	if off < 0 || n < 0 || off > b.size-n {
		return fmt.Errorf("%w: bytes %d to %d of %d", device.ErrBounds, off, off+n, b.size)
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
	return s.move(ctx, st, transfer{kind: copyTo, to: s.p, dst: dst.Handle, dstOffset: off, bytes: int64(len(src)), host: src})
}

// CopyFrom implements device.Device.
func (s *space) CopyFrom(ctx context.Context, st device.Stream, dst []byte, src device.Memory, off int64) error {
	if len(dst) == 0 {
		return nil
	}
	if err := s.p.inside(src, off, int64(len(dst))); err != nil {
		return err
	}
	return s.move(ctx, st, transfer{kind: copyFrom, src: src.Handle, srcOffset: off, bytes: int64(len(dst)), host: dst})
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
	return s.move(ctx, st, transfer{kind: copyBetween, to: to, dst: dst.Handle, dstOffset: dstOff, src: src.Handle, srcOffset: srcOff, bytes: n})
}

// CopiesTo implements device.PeerCopier.
func (s *space) CopiesTo(id tensor.DeviceID) bool {
	other := s.p.l.opened(id)
	if other == nil || other == s.p {
		return false
	}
	st, err := s.p.l.call(s.p.in(s.p.life.Load()), s.p.l.table.copiesTo, s.p.handle(), other.handle())
	return err == nil && st == 1
}

// transfer is a copy of bytes. Handles are those of blocks as carve knows them.
type transfer struct {
	kind                 uint32
	to                   *processor // whose the block dst is; not looked at from the processor to the host
	dst, src             uintptr
	dstOffset, srcOffset int64
	bytes                int64
	host                 []byte // the end that lies in the host's memory
}

// move calls copy, on a stream where there is one.
func (s *space) move(ctx context.Context, st device.Stream, c transfer) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if q, ok := st.(*device.Queue); ok { // of a plugin without streams
		q.Do(func() error { return s.moveOn(nil, &c) })
		return nil
	}
	if st == nil {
		return s.moveOn(nil, &c)
	}
	own, ok := st.(*stream)
	if !ok || own.p != s.p {
		return device.ErrStream
	}
	if own.closed {
		return device.ErrClosed
	}
	return s.moveOn(own, &c)
}

func (s *space) moveOn(on *stream, c *transfer) error {
	w, done := s.p.writer()
	defer done()
	at := one[cCopy](w)
	*at = cCopy{size: uint32(unsafe.Sizeof(*at)), kind: c.kind, dstOffset: uint64(c.dstOffset), srcOffset: uint64(c.srcOffset), bytes: uint64(c.bytes)}
	lent := loan{on: on}
	switch c.kind {
	case copyTo:
		at.src = uint64(lent.lend(w, c.host, false))
		at.dst = w.place(c.to, c.dst)
	case copyFrom:
		at.dst = uint64(lent.lend(w, c.host, true))
		at.src = w.placeOf(s.p, c.src, c.srcOffset, c.bytes)
	case copyBetween:
		at.dst = w.place(c.to, c.dst)
		at.src = w.placeOf(s.p, c.src, c.srcOffset, c.bytes)
		if c.to != s.p {
			at.dstBackend = uint64(c.to.handle())
		}
	}
	stream := w.stream(on)
	copies := list(w, []uintptr{address(at)})
	if err := s.p.do(w, "copy", s.p.l.table.copy, s.p.handle(), copies, 1, stream); err != nil {
		return err
	}
	if c.kind != copyFrom {
		w.wrote(c.to, c.dst, c.dstOffset, c.bytes)
	}
	return lent.settle()
}

// NewStream implements device.Device.
func (s *space) NewStream() (device.Stream, error) {
	if s.p.l.table.streamOpen == 0 {
		return &device.Queue{}, nil // the calls themselves are the work
	}
	w, done := s.p.writer()
	defer done()
	h := one[uint64](w)
	if err := s.p.do(w, "stream_open", s.p.l.table.streamOpen, s.p.handle(), 0, address(h)); err != nil {
		return nil, err
	}
	if *h == 0 {
		return nil, fmt.Errorf("%w: stream_open gave no stream", ErrPlugin)
	}
	return &stream{p: s.p, at: handle{w.life, *h}}, nil
}
