package device

import (
	"context"
	"sync"
)

// HostEvent is an Event that the host completes: that of work in background on the host, or on a device whose driver calls
// back.
type HostEvent struct {
	over chan struct{} // closed by Complete

	mu   sync.Mutex
	fns  []func(error)
	done bool
	err  error
}

// NewEvent returns an event that has not happened.
func NewEvent() *HostEvent { return &HostEvent{over: make(chan struct{})} }

// Complete lets the event happen, with the work's error or nil. It may be called on any goroutine, and calls the functions
// given to Notify. Calls after the first change nothing.
func (e *HostEvent) Complete(err error) {
	e.mu.Lock()
	if e.done {
		e.mu.Unlock()
		return
	}
	fns := e.fns
	e.done, e.err, e.fns = true, err, nil
	close(e.over)
	e.mu.Unlock()
	for _, fn := range fns {
		fn(err)
	}
}

// Over returns a channel that is closed when the event has happened.
func (e *HostEvent) Over() <-chan struct{} { return e.over }

// Done implements Event.
func (e *HostEvent) Done() (bool, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.done, e.err
}

// Wait implements Event.
func (e *HostEvent) Wait(ctx context.Context) error {
	if done, err := e.Done(); done {
		return err
	}
	select {
	case <-e.over:
		_, err := e.Done()
		return err
	case <-ctx.Done():
		if done, err := e.Done(); done {
			return err
		}
		return ctx.Err()
	}
}

// Notify implements Event.
func (e *HostEvent) Notify(fn func(err error)) {
	e.mu.Lock()
	if !e.done {
		e.fns = append(e.fns, fn)
		e.mu.Unlock()
		return
	}
	err := e.err
	e.mu.Unlock()
	fn(err)
}

// Close implements Event: there is nothing to give back.
func (e *HostEvent) Close() {}
