package cuda

import (
	"context"
	"errors"
	"slices"
	"unsafe"

	"github.com/carve-dev/carve/graph/device"
)

// stream is a queue whose work the device does in order. What is queued begins without the host's doing.
type stream struct {
	d      *gpu
	handle uintptr
	closed bool

	// Of what was queued since the last event: pinned memory that copies use, and what has to be copied on when they are over.
	slots    []slot
	landings []landing
	held     int // bytes of slots
	// landing are events that come before what is queued now, of this stream and of others, whose landings may not be done.
	landing []*event

	staging device.Memory // what conversions pass through, one behind the other
}

// landing is what a copy from the device has brought to pinned memory, and where the host puts it then.
type landing struct {
	to   []byte
	from slot
}

// nonBlocking is a kind of stream: it does not wait for the legacy default stream.
const nonBlocking = 1

// NewStream implements device.Device.
func (d *gpu) NewStream() (device.Stream, error) {
	if err := d.retain(); err != nil {
		return nil, err
	}
	c := d.enter()
	h, err := c.create(fnStreamCreate, nonBlocking)
	c.leave()
	if err != nil {
		d.release()
		return nil, err
	}
	return &stream{d: d, handle: h}, nil
}

// upload queues a copy from the host, whose bytes it has read when it returns.
func (s *stream) upload(ctx context.Context, dst uintptr, src []byte) error {
	if s.lands(src) {
		if err := s.Sync(ctx); err != nil {
			return err
		}
	}
	c := s.d.enter()
	defer c.leave()
	for off := 0; off < len(src); off += mostSlot {
		part := src[off:min(off+mostSlot, len(src))]
		at, direct, err := s.through(c, part)
		if err == nil {
			if !direct {
				copy(s.slots[len(s.slots)-1].bytes(len(part)), part)
			}
			err = c.do(fnMemcpyHtoDAsync, dst+uintptr(off), at, uintptr(len(part)), s.handle)
		}
		if err != nil {
			return errors.Join(err, s.undo(off > 0))
		}
	}
	return nil
}

// download queues a copy to the host, which is over when the next event has happened.
func (s *stream) download(dst []byte, src uintptr) error {
	c := s.d.enter()
	defer c.leave()
	for off := 0; off < len(dst); off += mostSlot {
		part := dst[off:min(off+mostSlot, len(dst))]
		at, direct, err := s.through(c, part)
		if err == nil {
			err = c.do(fnMemcpyDtoHAsync, at, src+uintptr(off), uintptr(len(part)), s.handle)
		}
		if err != nil {
			return errors.Join(err, s.undo(off > 0))
		}
		if !direct {
			s.landings = append(s.landings, landing{part, s.slots[len(s.slots)-1]})
		}
	}
	return nil
}

// through returns the address that a copy of the host's bytes goes to or comes from: that of a new slot, or the bytes themselves
// where there is no pinned memory, and then the copy waits. A stream that has many slots waits for its copies first.
func (s *stream) through(c *call, part []byte) (address uintptr, direct bool, err error) {
	if s.held+len(part) > mostHeld {
		if err := s.Sync(context.Background()); err != nil {
			return 0, false, err
		}
	}
	x, err := s.d.pinned.take(c, len(part))
	if errors.Is(err, device.ErrOutOfMemory) {
		return at(&part[0]), true, nil
	}
	if err != nil {
		return 0, false, err
	}
	s.slots = append(s.slots, x)
	s.held += x.size
	return x.address, false, nil
}

// undo waits for the parts of a copy that were queued before one was not.
func (s *stream) undo(some bool) error {
	if !some {
		return nil
	}
	return s.Sync(context.Background())
}

// lands reports whether some of the host's bytes come from a copy that may not be over.
func (s *stream) lands(b []byte) bool {
	if overlaps(s.landings, b) {
		return true
	}
	for _, e := range s.landing {
		if e.lands(b) {
			return true
		}
	}
	return false
}

func overlaps(list []landing, b []byte) bool {
	first := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	for i := range list {
		x := uintptr(unsafe.Pointer(unsafe.SliceData(list[i].to)))
		if x < first+uintptr(len(b)) && first < x+uintptr(len(list[i].to)) {
			return true
		}
	}
	return false
}

// Record implements device.Stream.
func (s *stream) Record() (device.Event, error) {
	if s.closed {
		return nil, device.ErrClosed
	}
	c := s.d.enter()
	defer c.leave()
	e, err := s.mark(c)
	if err != nil {
		return nil, err
	}
	return e, nil
}

// mark returns the event of everything queued so far.
func (s *stream) mark(c *call) (*event, error) {
	e, err := s.d.record(c, s.handle)
	if err != nil {
		return nil, err
	}
	e.slots, e.landings, e.before = s.slots, s.landings, slices.DeleteFunc(s.landing, func(b *event) bool { return !b.pending() })
	s.slots, s.landings, s.landing, s.held = nil, nil, nil, 0
	if len(e.landings)+len(e.before) > 0 {
		s.landing = []*event{e}
	}
	return e, nil
}

// WaitFor implements device.Stream: the device waits for events of its own kind, the host for others.
func (s *stream) WaitFor(ctx context.Context, e device.Event) error {
	if s.closed {
		return device.ErrClosed
	}
	if e == nil {
		return nil
	}
	if done, _ := e.Done(); done {
		return nil // whatever its error: the order alone is the stream's matter
	}
	own, ok := e.(*event)
	if !ok || own.d.l != s.d.l {
		err := e.Wait(ctx)
		if done, _ := e.Done(); done {
			return nil
		}
		return err
	}
	c := s.d.enter()
	defer c.leave()
	if err := c.do(fnStreamWaitEvent, s.handle, own.handle, 0); err != nil {
		return err
	}
	if own.pending() {
		s.landing = append(s.landing, own)
	}
	return nil
}

// Sync implements device.Stream.
func (s *stream) Sync(ctx context.Context) error {
	e, err := s.Record()
	if err != nil {
		return err
	}
	defer e.Close()
	return e.Wait(ctx)
}

// drain waits for the end of everything queued, after a failure that is told.
func (s *stream) drain() {
	if s.Sync(context.Background()) == nil {
		return
	}
	c := s.d.enter()
	defer c.leave()
	_ = c.do(fnStreamSynchronize, s.handle)
}

// Close implements device.Stream.
func (s *stream) Close() error {
	if s.closed {
		return nil
	}
	err := s.Sync(context.Background())
	s.closed = true
	c := s.d.enter()
	if err != nil { // what is queued may use them yet
		_ = c.do(fnStreamSynchronize, s.handle)
	}
	for _, x := range s.slots {
		s.d.pinned.give(c, x)
	}
	s.slots, s.landings, s.landing = nil, nil, nil
	err = errors.Join(err, c.do(fnStreamDestroy, s.handle))
	c.leave()
	s.d.DirectFree(s.staging)
	s.d.release()
	return err
}
