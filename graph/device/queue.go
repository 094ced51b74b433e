package device

import (
	"context"
	"fmt"
	"sync"
)

// Queue is a Stream whose work is functions, called one after another on a goroutine that lives as long as there are some:
// for processors that are driven by calls that return when the work is done. Who waits in Sync or Close, with a context that
// cannot end, does the work itself where that goroutine has not begun with it: the way to another thread and back can take
// longer than the work. The zero value is an empty queue. WaitFor never blocks the caller.
type Queue struct {
	mu      sync.Mutex
	work    []func() error
	started bool // there is a goroutine that will look for work, or does it
	busy    bool // somebody is at work
	closed  bool
	err     error // the first that no Record or Sync has reported
}

// Do queues a piece of work and returns its Event. A panic of fn becomes the Event's error. After Close the work is not
// done, and the Event's error is ErrClosed.
func (q *Queue) Do(fn func() error) *HostEvent {
	e := NewEvent()
	q.push(e, func() error {
		err := call(fn)
		e.Complete(err)
		return err
	})
	return e
}

func call(fn func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			if cause, ok := r.(error); ok {
				err = fmt.Errorf("panic: %w", cause)
			} else {
				err = fmt.Errorf("panic: %v", r)
			}
		}
	}()
	return fn()
}

// push appends an item, whose event it completes where the queue is closed.
func (q *Queue) push(e *HostEvent, item func() error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		e.Complete(ErrClosed)
		return
	}
	q.work = append(q.work, item)
	q.start()
}

// start has a goroutine look for work, with the lock held, where nobody is at it.
func (q *Queue) start() {
	if q.busy || q.started || len(q.work) == 0 {
		return
	}
	q.started = true
	go func() {
		q.run(nil)
		q.mu.Lock()
		q.started = false
		q.start() // what came while somebody else was at work and has left
		q.mu.Unlock()
	}()
}

// run does the work until there is none, or until an event has happened, unless somebody else is at it.
func (q *Queue) run(until *HostEvent) {
	q.mu.Lock()
	if q.busy {
		q.mu.Unlock()
		return
	}
	q.busy = true
	for len(q.work) > 0 && !until.happened() {
		item := q.work[0]
		q.work[0] = nil
		q.work = q.work[1:]
		q.mu.Unlock()
		err := item()
		q.mu.Lock()
		if q.err == nil {
			q.err = err
		}
	}
	q.busy = false
	if len(q.work) == 0 {
		q.work = nil
	}
	q.start()
	q.mu.Unlock()
}

// happened reports whether the event is there and has happened.
func (e *HostEvent) happened() bool {
	if e == nil {
		return false
	}
	done, _ := e.Done()
	return done
}

// finish waits for the event of something queued, and does the work up to it where nobody else has begun.
func (q *Queue) finish(ctx context.Context, e *HostEvent) error {
	if ctx.Done() == nil {
		q.run(e)
	}
	return e.Wait(ctx)
}

// Record implements Stream.
func (q *Queue) Record() (Event, error) { return q.record(), nil }

func (q *Queue) record() *HostEvent {
	e := NewEvent()
	q.push(e, func() error {
		q.mu.Lock()
		err := q.err
		q.err = nil
		q.mu.Unlock()
		e.Complete(err)
		return nil
	})
	return e
}

// WaitFor implements Stream: the queue's goroutine waits, also after the end of ctx, since the order has to hold.
func (q *Queue) WaitFor(_ context.Context, e Event) error {
	if e == nil {
		return nil
	}
	if done, _ := e.Done(); done {
		return nil
	}
	gate := NewEvent()
	e.Notify(gate.Complete) // e may be closed before it is waited for
	q.push(gate, func() error {
		<-gate.over // the error of e is not this stream's
		return nil
	})
	return nil
}

// Sync implements Stream.
func (q *Queue) Sync(ctx context.Context) error {
	return q.finish(ctx, q.record())
}

// Close implements Stream. Its error is that of the work that no Record or Sync has reported. Closing twice does nothing.
func (q *Queue) Close() error {
	q.mu.Lock()
	closed := q.closed
	q.mu.Unlock()
	if closed {
		return nil
	}
	e := q.record()
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	return q.finish(context.Background(), e)
}
