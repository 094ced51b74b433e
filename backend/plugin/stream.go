package plugin

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/carve-dev/carve/backend/plugin/internal/isolate"
	"github.com/carve-dev/carve/graph/device"
)

// stream is a queue of the plugin's.
type stream struct {
	p      *processor
	at     handle
	closed bool
	used   bool // there is work of which no Record or Sync has told

	staging page // copies of the host's memory that work on the stream reads, out of process
	staged  int  // their bytes
}

// slice is how long a wait stays in C: an end of ctx is seen after it.
const slice = 20 * time.Millisecond

// hour is how long a wait stays in C that nothing can end, in this process: a plugin that is told so may do the work on the
// thread that waits.
const hour = time.Hour

// stream returns the plugin's handle of a stream that work is put on, 0 for none.
func (w *writer) stream(s *stream) uintptr {
	if s == nil || w.err != nil {
		return 0
	}
	if w.proc != nil && s.at.life != w.life {
		w.err = s.again(w)
	}
	s.used = true
	return uintptr(s.at.word)
}

// again opens the stream in another life than its own, where nothing is lost.
func (s *stream) again(w *writer) error {
	if s.used {
		return s.lost()
	}
	h := one[uint64](w)
	if err := s.p.do(w, "stream_open", s.p.l.table.streamOpen, s.p.handle(), 0, address(h)); err != nil {
		return err
	}
	s.at = handle{w.life, *h}
	return nil
}

// lost is the error of work that has ended with its process.
func (s *stream) lost() error {
	return &ProcessError{Plugin: s.p.l.name, Function: "stream_sync", Reason: "was ended before the work on the stream was done", cause: ErrLost}
}

// gone reports whether the work on the stream has ended with its process, and what is to be said of it.
func (s *stream) gone(w *writer) (bool, error) {
	if w.proc == nil || w.err == nil && w.life == s.at.life {
		return false, nil
	}
	if !s.used {
		return true, nil
	}
	s.used = false // it is said once
	return true, s.lost()
}

// Record implements device.Stream.
func (s *stream) Record() (device.Event, error) {
	if s.closed {
		return nil, device.ErrClosed
	}
	w, done := s.p.writer()
	defer done()
	if gone, err := s.gone(w); gone {
		return nil, err
	}
	h := one[uint64](w)
	s.used = false // the event will tell
	if err := s.p.do(w, "stream_record", s.p.l.table.streamRecord, uintptr(s.at.word), address(h)); err != nil {
		return nil, err
	}
	if *h == 0 {
		return nil, nil
	}
	return newEvent(s.p, handle{w.life, *h}), nil
}

// WaitFor implements device.Stream: the plugin waits for its own events, the caller for others.
func (s *stream) WaitFor(ctx context.Context, e device.Event) error {
	if s.closed {
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
	stream := w.stream(s)
	if w.proc != nil && own.at.life != w.life {
		return w.err // it has happened
	}
	return s.p.do(w, "stream_wait", s.p.l.table.streamWait, stream, uintptr(own.at.word))
}

// Sync implements device.Stream.
func (s *stream) Sync(ctx context.Context) error {
	if s.closed {
		return device.ErrClosed
	}
	return s.drain(ctx)
}

// drain waits for everything on the stream.
func (s *stream) drain(ctx context.Context) error {
	long := slice
	if ctx.Done() == nil && s.p.l.apart == nil {
		long = hour
	}
	for begin := time.Now(); ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		st, err := s.sync(uint64(long))
		if st != statusPending {
			return err
		}
		if a := s.p.l.apart; a != nil && time.Since(begin) > a.timeout {
			s.p.proc.End(s.at.life, &isolate.Failure{Kind: isolate.Hung, Text: fmt.Sprintf("has not done what is on a stream within %v", a.timeout)})
		}
	}
}

func (s *stream) sync(ns uint64) (status, error) {
	w, done := s.p.writer()
	defer done()
	if gone, err := s.gone(w); gone {
		s.unstage()
		return statusOK, err
	}
	st, err := s.p.poll(w, "stream_sync", s.p.l.table.streamSync, uintptr(s.at.word), uintptr(ns))
	if st != statusPending {
		s.used = false
		s.unstage()
	}
	return st, err
}

// Close implements device.Stream.
func (s *stream) Close() error {
	if s.closed {
		return nil
	}
	err := s.Sync(context.Background())
	if cerr := s.p.end(s.at, "stream_close", s.p.l.table.streamClose); err == nil {
		err = cerr
	}
	s.closed = true
	s.staging.end()
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
	st, err := p.l.call(w.side, fn, append(args, e.address())...)
	if err != nil {
		return statusFailed, err
	}
	return st, p.l.failed(function, st, e)
}

// event is the end of work of the plugin's.
type event struct {
	p      *processor
	at     handle
	finish func() // called first where it ended well, with the lock held; may be nil
	ends   *watch // that stops when it has happened or is closed; may be nil
	call   uint64 // that is watched

	mu       sync.Mutex
	done     bool
	err      error
	closed   bool
	watchers int  // that wait for it in the background: the last one gives a closed event back
	asked    bool // event_notify has been called
	told     *device.HostEvent
}

func newEvent(p *processor, at handle) *event {
	e := &event{p: p, at: at}
	if a := p.l.apart; a != nil {
		a.running.add(e, a.timeout)
	}
	return e
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
	w, done := e.writer()
	defer done()
	st, err := e.p.poll(w, "event_poll", fn, append([]uintptr{uintptr(e.at.word)}, args...)...)
	if st != statusPending {
		e.end(err)
	}
}

// writer is for calls in the life that the event is of.
func (e *event) writer() (w *writer, done func()) {
	p, done := e.p.page()
	return &writer{page: p, side: e.p.in(e.at.life)}, done
}

// end notes that the event has happened, with the lock held.
func (e *event) end(err error) {
	if err == nil && e.finish != nil {
		e.finish()
	}
	e.done, e.err = true, err
	if a := e.p.l.apart; a != nil {
		a.running.remove(e)
	}
	if e.ends != nil {
		e.ends.end(e.call)
		e.ends = nil
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
	w, done := e.writer()
	defer done()
	st, err := e.p.poll(w, "event_wait", e.p.l.table.eventWait, uintptr(e.at.word), uintptr(slice))
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
	if err := e.p.plain(e.p.in(e.at.life), "event_notify", e.p.l.table.eventNotify, uintptr(e.at.word), uintptr(token)); err != nil {
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
		e.end(e.p.l.failed("done", st, callError{}))
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
	if e.ends != nil {
		e.ends.end(e.call)
		e.ends = nil
	}
	if e.watchers == 0 {
		e.giveBack()
	}
}

func (e *event) giveBack() {
	if a := e.p.l.apart; a != nil {
		a.running.remove(e)
	}
	_ = e.p.end(e.at, "event_close", e.p.l.table.eventClose) // there is nobody to tell
}
