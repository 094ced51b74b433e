package plugin

import (
	"context"
	"sync"
	"time"

	"github.com/carve-dev/carve/graph/device"
)

// stream is a queue of the plugin's.
type stream struct {
	p      *processor
	handle uint64 // 0 when closed
}

// slice is how long a wait stays in C: an end of ctx is seen after it.
const slice = 20 * time.Millisecond

// Record implements device.Stream.
func (s *stream) Record() (device.Event, error) {
	if s.handle == 0 {
		return nil, device.ErrClosed
	}
	w, done := s.p.writer()
	defer done()
	h := one[uint64](w)
	if err := s.p.do(w, "stream_record", s.p.l.table.streamRecord, uintptr(s.handle), address(h)); err != nil {
		return nil, err
	}
	if *h == 0 {
		return nil, nil
	}
	return newEvent(s.p, *h, nil), nil
}

// WaitFor implements device.Stream: the plugin waits for its own events, the caller for others.
func (s *stream) WaitFor(ctx context.Context, e device.Event) error {
	if s.handle == 0 {
		return device.ErrClosed
	}
	if e == nil {
		return nil
	}
	if done, _ := e.Done(); done {
		return nil
	}
	own, ok := e.(*event)
	if !ok || own.p.l != s.p.l {
		if err := e.Wait(ctx); err != nil && ctx.Err() != nil {
			return ctx.Err()
		}
		return nil // the event's own error is not this stream's
	}
	w, done := s.p.writer()
	defer done()
	return s.p.do(w, "stream_wait", s.p.l.table.streamWait, uintptr(s.handle), uintptr(own.handle))
}

// Sync implements device.Stream.
func (s *stream) Sync(ctx context.Context) error {
	if s.handle == 0 {
		return device.ErrClosed
	}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		st, err := s.sync(uint64(slice))
		if st != statusPending {
			return err
		}
	}
}

func (s *stream) sync(ns uint64) (status, error) {
	w, done := s.p.writer()
	defer done()
	return s.p.poll(w, "stream_sync", s.p.l.table.streamSync, uintptr(s.handle), uintptr(ns))
}

// Close implements device.Stream.
func (s *stream) Close() error {
	if s.handle == 0 {
		return nil
	}
	err := s.Sync(context.Background())
	if cerr := s.p.plain("stream_close", s.p.l.table.streamClose, uintptr(s.handle)); err == nil {
		err = cerr
	}
	s.handle = 0
	return err
}

// poll calls a function that answers with a status of work: pending, over, or what it failed with.
func (p *processor) poll(w *writer, function string, fn uintptr, args ...uintptr) (status, error) {
	e := w.error()
	if w.err != nil {
		return statusFailed, w.err
	}
	if p.serial != nil {
		p.serial.Lock()
		defer p.serial.Unlock()
	}
	st := p.l.call(fn, append(args, address(e))...)
	return st, p.l.failed(function, st, e)
}

// event is the end of work of the plugin's.
type event struct {
	p      *processor
	handle uint64
	over   func() // called once, with the lock held, when it has happened or is closed; may be nil

	mu       sync.Mutex
	done     bool
	err      error
	closed   bool
	watchers int  // that wait for it in the background: the last one gives a closed event back
	asked    bool // event_notify has been called
	told     *device.HostEvent
}

func newEvent(p *processor, handle uint64, over func()) *event {
	return &event{p: p, handle: handle, over: over}
}

// Done implements device.Event.
func (e *event) Done() (bool, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.poll(e.p.l.table.eventPoll)
	return e.done, e.err
}

// poll asks the plugin, with the lock held.
func (e *event) poll(fn uintptr, args ...uintptr) {
	if e.done || e.closed && e.watchers == 0 {
		return
	}
	w, done := e.p.writer()
	defer done()
	st, err := e.p.poll(w, "event_poll", fn, append([]uintptr{uintptr(e.handle)}, args...)...)
	if st != statusPending {
		e.end(err)
	}
}

// end notes that the event has happened, with the lock held.
func (e *event) end(err error) {
	e.done, e.err = true, err
	if e.over != nil {
		e.over()
		e.over = nil
	}
}

// Wait implements device.Event.
func (e *event) Wait(ctx context.Context) error {
	for {
		if done, err := e.Done(); done {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if told := e.notified(); told != nil {
			err := told.Wait(ctx)
			if done, own := e.Done(); done {
				return own
			}
			return err
		}
		e.waitSlice()
	}
}

// waitSlice waits in C for a while.
func (e *event) waitSlice() {
	w, done := e.p.writer()
	defer done()
	st, err := e.p.poll(w, "event_wait", e.p.l.table.eventWait, uintptr(e.handle), uintptr(slice))
	if st != statusPending {
		e.mu.Lock()
		if !e.done {
			e.end(err)
		}
		e.mu.Unlock()
	}
}

// notified returns the event that happens when the plugin calls done, nil where it does not.
func (e *event) notified() *device.HostEvent {
	if e.p.l.table.eventNotify == 0 {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.told != nil || e.asked || e.closed {
		return e.told
	}
	e.asked = true
	told := device.NewEvent()
	token := waiting.put(e)
	e.told = told
	if err := e.p.plain("event_notify", e.p.l.table.eventNotify, uintptr(e.handle), uintptr(token)); err != nil {
		waiting.take(token)
		e.told = nil
	}
	return e.told
}

// happened is what the plugin's call of done leads to.
func (e *event) happened(st status) {
	e.mu.Lock()
	e.poll(e.p.l.table.eventPoll) // it has the text of an error
	if !e.done {
		e.end(e.p.l.failed("done", st, nil))
	}
	told, err := e.told, e.err
	e.mu.Unlock()
	if told != nil {
		told.Complete(err)
	}
}

// Notify implements device.Event.
func (e *event) Notify(fn func(err error)) {
	if done, err := e.Done(); done {
		fn(err)
		return
	}
	if told := e.notified(); told != nil {
		told.Notify(fn)
		return
	}
	e.mu.Lock()
	e.watchers++
	e.mu.Unlock()
	go func() {
		fn(e.Wait(context.Background()))
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.watchers--; e.closed && e.watchers == 0 {
			e.giveBack()
		}
	}()
}

// Close implements device.Event.
func (e *event) Close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return
	}
	e.closed = true
	if e.over != nil {
		e.over()
		e.over = nil
	}
	if e.watchers == 0 {
		e.giveBack()
	}
}

func (e *event) giveBack() {
	_ = e.p.plain("event_close", e.p.l.table.eventClose, uintptr(e.handle)) // there is nobody to tell
}
