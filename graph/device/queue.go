package device

import (
	"context"
	"fmt"
	"sync"
)

// Queue is a Stream whose work is functions, called one after another on a goroutine that lives as long as there are some:
// for processors that are driven by calls that return when the work is done. The zero value is an empty queue. WaitFor
// never blocks the caller.
type Queue struct {
	mu     sync.Mutex
	work   []func() error
	busy   bool // a goroutine is at work
	closed bool
	err    error // the first that no Record or Sync has reported
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
	if !q.busy {
		q.busy = true
		go q.run()
	}
}

// run does the work until there is none.
func (q *Queue) run() {
	for {
		q.mu.Lock()
		if len(q.work) == 0 {
			q.busy, q.work = false, nil
			q.mu.Unlock()
			return
		}
		item := q.work[0]
		q.work[0] = nil
		q.work = q.work[1:]
		q.mu.Unlock()
		err := item()
		q.mu.Lock()
		if q.err == nil {
			q.err = err
		}
		q.mu.Unlock()
	}
}

// Record implements Stream.
func (q *Queue) Record() (Event, error) {
	e := NewEvent()
	q.push(e, func() error {
		q.mu.Lock()
		err := q.err
		q.err = nil
		q.mu.Unlock()
		e.Complete(err)
		return nil
	})
	return e, nil
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
	e, _ := q.Record()
	return e.Wait(ctx)
}

// Close implements Stream. Its error is that of the work that no Record or Sync has reported. Closing twice does nothing.
func (q *Queue) Close() error {
	q.mu.Lock()
	closed := q.closed
	q.mu.Unlock()
	if closed {
		return nil
	}
	e, _ := q.Record()
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	return e.Wait(context.Background())
}
