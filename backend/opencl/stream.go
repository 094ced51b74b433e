package opencl

import (
	"context"
	"sync"
	"time"

	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/internal/dl"
)

// stream is a queue whose commands the device runs in order. What is queued begins without the host's doing.
type stream struct {
	d      *clDevice
	queue  uintptr
	loose  uintptr // a queue out of order for groups, 0 until there is one
	closed bool
	keep   [][]byte // the host's memory that copies since the last event read or write

	staging device.Memory // what conversions pass through, one behind the other
}

// NewStream implements device.Device.
func (d *clDevice) NewStream() (device.Stream, error) {
	if err := d.sound(); err != nil {
		return nil, err
	}
	c := newCall()
	defer c.done()
	q, err := d.queue(c, 0)
	if err != nil {
		return nil, d.failed(err)
	}
	return &stream{d: d, queue: q}, nil
}

// stage returns memory of at least size bytes for the next conversion: commands on the stream run in order, so that the one
// before is over with it by then.
func (s *stream) stage(size int64) (device.Memory, error) {
	if s.staging.Size >= size {
		return s.staging, nil
	}
	m, err := s.d.alloc(size, hostBlock)
	if err != nil {
		return m, err
	}
	s.d.DirectFree(s.staging) // what is queued keeps it
	s.staging = m
	return m, nil
}

// Record implements device.Stream.
func (s *stream) Record() (device.Event, error) {
	if s.closed {
		return nil, device.ErrClosed
	}
	return s.mark()
}

// mark returns the event of everything queued so far.
func (s *stream) mark() (device.Event, error) {
	c := newCall()
	defer c.done()
	c.word = 0
	if err := c.do(s.d.l, "clEnqueueMarkerWithWaitList", s.queue, 0, 0, at(&c.word)); err != nil {
		return nil, s.d.failed(err)
	}
	return s.watch(c, c.word)
}

// watch returns the event of a command, the last one that was queued, and has the device begin.
func (s *stream) watch(c *call, handle uintptr) (device.Event, error) {
	e := &event{HostEvent: device.NewEvent(), d: s.d, handle: handle, keep: s.keep}
	s.keep = nil
	const complete = 0
	e.token = running.put(e)
	if err := check("clSetEventCallback", int32(c.invoke(s.d.l.setEventCallback, handle, complete, completed(), e.token))); err != nil {
		running.take(e.token)
		e.Close()
		return nil, err
	}
	if err := check("clFlush", int32(c.invoke(s.d.l.flush, s.queue))); err != nil {
		e.Close()
		return nil, s.d.failed(err)
	}
	return e, nil
}

// WaitFor implements device.Stream: the device waits for its own events, and for others by one of its own that the host lets happen.
func (s *stream) WaitFor(_ context.Context, e device.Event) error {
	if s.closed {
		return device.ErrClosed
	}
	if e == nil {
		return nil
	}
	if done, _ := e.Done(); done {
		return nil // whatever its error: the order alone is the stream's matter
	}
	c := newCall()
	defer c.done()
	if own, ok := e.(*event); ok && own.d == s.d {
		c.word = own.handle
		return c.do(s.d.l, "clEnqueueBarrierWithWaitList", s.queue, 1, at(&c.word), 0)
	}
	gate, err := c.create(s.d.l, "clCreateUserEvent", s.d.context)
	if err != nil {
		return err
	}
	c.word = gate
	err = c.do(s.d.l, "clEnqueueBarrierWithWaitList", s.queue, 1, at(&c.word), 0)
	e.Notify(func(error) { go s.d.happen(gate) })
	return err
}

// happen lets an event of the host's happen, and gives it back.
func (d *clDevice) happen(gate uintptr) {
	c := newCall()
	defer c.done()
	c.invoke(d.l.fn["clSetUserEventStatus"], gate, 0)
	c.invoke(d.l.fn["clReleaseEvent"], gate)
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

// Close implements device.Stream.
func (s *stream) Close() error {
	if s.closed {
		return nil
	}
	err := s.Sync(context.Background())
	s.closed = true
	s.d.DirectFree(s.staging)
	s.d.l.release("clReleaseCommandQueue", s.queue)
	if s.loose != 0 {
		s.d.l.release("clReleaseCommandQueue", s.loose)
	}
	return err
}

// event is the end of a command, and of all those before it on its stream. The driver tells of it on a thread of its own, which NVIDIA's
// does at ticks that are 20 ms apart: who waits asks it, too.
type event struct {
	*device.HostEvent
	d       *clDevice
	handle  uintptr
	token   uintptr  // in running
	keep    [][]byte // the host's memory until then
	watched sync.Once
	once    sync.Once
}

// How long Wait sleeps between two questions.
const (
	leastSleep = 20 * time.Microsecond
	mostSleep  = time.Millisecond
)

// Wait implements device.Event.
func (e *event) Wait(ctx context.Context) error {
	begin := time.Now()
	t := time.NewTimer(leastSleep)
	defer t.Stop()
	for {
		if e.ask(); ctx.Err() != nil {
			return e.HostEvent.Wait(ctx)
		}
		select {
		case <-e.Over():
			return e.HostEvent.Wait(ctx)
		case <-ctx.Done():
		case <-t.C:
			t.Reset(min(max(time.Since(begin)/8, leastSleep), mostSleep))
		}
	}
}

// ask lets the event happen where the driver says that the command is over.
func (e *event) ask() {
	if done, _ := e.Done(); done {
		return
	}
	c := newCall()
	defer c.done()
	const executionStatus, size = 0x11d3, 4
	c.word = 1
	if err := c.do(e.d.l, "clGetEventInfo", e.handle, executionStatus, size, at(&c.word), 0); err == nil && int32(c.word) <= 0 {
		tell(e.token, int32(c.word))
	}
}

// Notify implements device.Event: a goroutine waits.
func (e *event) Notify(fn func(error)) {
	e.HostEvent.Notify(fn)
	if done, _ := e.Done(); done {
		return
	}
	e.watched.Do(func() {
		c := newCall()
		defer c.done()
		if c.do(e.d.l, "clRetainEvent", e.handle) == nil { // else the driver tells of it
			go func() {
				defer e.d.l.release("clReleaseEvent", e.handle)
				_ = e.Wait(context.Background()) // those who are told get the error
			}()
		}
	})
}

// Close implements device.Event.
func (e *event) Close() { e.once.Do(func() { e.d.l.release("clReleaseEvent", e.handle) }) }

// running are the events that the driver will tell of, by what it tells.
var running waiting

type waiting struct {
	mu     sync.Mutex
	last   uintptr
	events map[uintptr]*event
}

func (w *waiting) put(e *event) uintptr {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.events == nil {
		w.events = map[uintptr]*event{}
	}
	w.last++
	w.events[w.last] = e
	return w.last
}

func (w *waiting) take(token uintptr) *event {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.events[token]
	delete(w.events, token)
	return e
}

// tell lets an event happen that has not yet, with the status of its command, an error where it is negative.
func tell(token uintptr, status int32) {
	e := running.take(token)
	if e == nil {
		return
	}
	var err error
	if status < 0 {
		err = e.d.failed(&Error{Function: "a queued command", Status: status})
	}
	e.keep = nil
	e.Complete(err)
}

// completed returns the function that the driver calls when a command is over.
var completed = sync.OnceValue(func() uintptr {
	return dl.Callback(func(_, status, token uintptr) uintptr {
		tell(token, int32(status))
		return 0
	})
})
