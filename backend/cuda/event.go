package cuda

import (
	"context"
	"runtime"
	"sync"
	"time"
)

// event is the end of what was queued on a stream before it. The driver calls nobody: who wants to know asks it.
type event struct {
	d      *gpu
	handle uintptr

	mu       sync.Mutex
	done     bool
	err      error
	slots    []slot
	landings []landing
	before   []*event // whose landings come before
	told     []func(error)
	watched  bool // a goroutine waits
	closed   bool
}

// What the flags of events mean: the thread that waits for one sleeps, and they keep no time.
const blockingSync, disableTiming = 1, 2

// record returns the event of everything that is queued on a stream. The context is current.
func (d *gpu) record(c *call, stream uintptr) (*event, error) {
	h, err := d.takeEvent(c)
	if err != nil {
		return nil, err
	}
	if err := c.do(fnEventRecord, h, stream); err != nil {
		d.giveEvent(h)
		return nil, err
	}
	return &event{d: d, handle: h}, nil
}

// takeEvent returns an event of the driver's.
func (d *gpu) takeEvent(c *call) (uintptr, error) {
	d.mu.Lock()
	if n := len(d.events); n > 0 {
		h := d.events[n-1]
		d.events = d.events[:n-1]
		d.mu.Unlock()
		return h, nil
	}
	d.mu.Unlock()
	return c.create(fnEventCreate, blockingSync|disableTiming)
}

// giveEvent keeps an event of the driver's for others. One that streams wait for yet may be recorded again: they wait for what it
// was then.
func (d *gpu) giveEvent(h uintptr) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.context != 0 { // else it has ended with it
		d.events = append(d.events, h)
	}
}

// Done implements device.Event.
func (e *event) Done() (bool, error) {
	e.mu.Lock()
	if e.done {
		defer e.mu.Unlock()
		return true, e.err
	}
	c := e.d.enter()
	err := c.err
	if err == nil {
		switch status := c.status(fnEventQuery, e.handle); status {
		case 0:
		case codeNotReady:
			c.leave()
			e.mu.Unlock()
			return false, nil
		default: // what it was asked for has failed, or the question
			err = c.failed(fnEventQuery, status)
			if c.do(fnEventSynchronize, e.handle) == nil {
				err = nil
			}
		}
	}
	told := e.happen(c, err)
	c.leave()
	e.mu.Unlock()
	for _, fn := range told {
		fn(err)
	}
	return true, err
}

// happen lands what the copies have brought, with the lock held, and returns who is to be told.
func (e *event) happen(c *call, err error) []func(error) {
	for _, b := range e.before {
		_, _ = b.Done() // it has happened too, and its error is its own
	}
	for _, x := range e.landings {
		if err == nil {
			copy(x.to, x.from.bytes(len(x.to)))
		}
	}
	for _, x := range e.slots {
		e.d.pinned.give(c, x)
	}
	told := e.told
	e.done, e.err = true, err
	e.slots, e.landings, e.before, e.told = nil, nil, nil, nil
	return told
}

// pending reports whether something has to land when the event has happened.
func (e *event) pending() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.done && len(e.landings)+len(e.before) > 0
}

// lands reports whether some of the host's bytes come from a copy before the event that may not be over.
func (e *event) lands(b []byte) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if overlaps(e.landings, b) {
		return true
	}
	for _, x := range e.before {
		if x.lands(b) {
			return true
		}
	}
	return false
}

// How long Wait asks again and again, by turns with other goroutines, before it sleeps, and for how long at a time.
const (
	busyFor    = 50 * time.Microsecond
	leastSleep = 20 * time.Microsecond
	mostSleep  = time.Millisecond
)

// Wait implements device.Event. Where the context cannot end, the driver waits, and the thread sleeps; else the goroutine does, for
// a while at a time.
func (e *event) Wait(ctx context.Context) error {
	begin := time.Now()
	for {
		done, err := e.Done()
		if done {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		passed := time.Since(begin)
		switch {
		case passed < busyFor:
			runtime.Gosched()
		case ctx.Done() == nil:
			c := e.d.enter()
			_ = c.do(fnEventSynchronize, e.handle) // Done says how it was
			c.leave()
		default:
			t := time.NewTimer(min(max(passed/8, leastSleep), mostSleep))
			select {
			case <-t.C:
			case <-ctx.Done():
				t.Stop()
			}
		}
	}
}

// Notify implements device.Event: a goroutine waits.
func (e *event) Notify(fn func(err error)) {
	e.mu.Lock()
	if e.done {
		err := e.err
		e.mu.Unlock()
		fn(err)
		return
	}
	e.told = append(e.told, fn)
	e.watch()
	e.mu.Unlock()
}

// watch has a goroutine wait for the event, with the lock held.
func (e *event) watch() {
	if e.watched {
		return
	}
	e.watched = true
	e.d.mu.Lock()
	e.d.users++
	e.d.mu.Unlock()
	go func() {
		defer e.d.release()
		_ = e.Wait(context.Background()) // those who are told get the error
		e.mu.Lock()
		e.watched = false
		closed := e.closed
		e.mu.Unlock()
		if closed {
			e.d.giveEvent(e.handle)
		}
	}()
}

// Close implements device.Event. What copies have brought lands all the same.
func (e *event) Close() {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return
	}
	e.closed = true
	if !e.done && len(e.landings)+len(e.before)+len(e.slots) > 0 {
		e.watch()
	}
	watched := e.watched
	e.mu.Unlock()
	if !watched {
		e.d.giveEvent(e.handle)
	}
}
