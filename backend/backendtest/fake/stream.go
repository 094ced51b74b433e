package fake

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/carve-dev/carve/graph/device"
)

// stream is a queue of a device: work is done in order, after a random delay each.
type stream struct {
	d      *fakeDevice
	number int
	queue  device.Queue
	closed atomic.Bool

	now   clock      // of the work done so far; the queue's goroutine alone reads and writes it
	delay *rand.Rand // the same
}

// NewStream implements device.Device.
func (d *fakeDevice) NewStream() (device.Stream, error) {
	if err := d.m.fail(NewStream, d.number); err != nil {
		return nil, err
	}
	n := d.m.watch.newStream()
	d.m.count("streams", 1)
	return &stream{d: d, number: n, delay: rand.New(rand.NewPCG(d.m.o.Seed, uint64(n)))}, nil
}

// do queues a piece of work.
func (s *stream) do(what string, body func(p *piece) error) *event {
	w, known := &s.d.m.watch, s.d.m.watch.known()
	e := &event{m: s.d.m}
	what = fmt.Sprintf("%s on stream %d", what, s.number)
	e.base = s.queue.Do(func() error {
		s.sleep()
		s.now = s.now.join(known).tick(s.number)
		p := &piece{w, s.number, slices.Clone(s.now), what}
		e.clock = p.clock
		return body(p)
	})
	return e
}

// sleep waits for as long as the seed says, every other time not at all.
func (s *stream) sleep() {
	if most := s.d.m.o.Delay; most > 0 && s.delay.IntN(2) == 0 {
		time.Sleep(time.Duration(s.delay.Int64N(int64(most))))
	}
}

// usable reports whether the stream is open, and notes a fault where it is not.
func (s *stream) usable(what string) error {
	if !s.closed.Load() {
		return nil
	}
	s.d.m.watch.fault("%s on a stream of %v after Close", what, s.d.id)
	return device.ErrClosed
}

// Record implements device.Stream.
func (s *stream) Record() (device.Event, error) {
	if err := s.usable("Record"); err != nil {
		return nil, err
	}
	if err := s.d.m.fail(Record, s.d.number); err != nil {
		return nil, err
	}
	return s.mark(true)
}

// mark returns the event of everything queued so far.
func (s *stream) mark(counted bool) (*event, error) {
	e := &event{m: s.d.m}
	s.queue.Do(func() error {
		e.clock = slices.Clone(s.now)
		return nil
	})
	var err error
	e.base, err = s.queue.Record()
	if counted {
		s.d.m.count("events", 1)
	}
	return e, err
}

// WaitFor implements device.Stream: the queue waits, not the caller.
func (s *stream) WaitFor(ctx context.Context, e device.Event) error {
	if err := s.usable("WaitFor"); err != nil {
		return err
	}
	if e == nil {
		return nil
	}
	if err := s.d.m.fail(WaitFor, s.d.number); err != nil {
		return err
	}
	w := &s.d.m.watch
	own, ok := e.(*event)
	if ok && own.m == s.d.m {
		own.usable("WaitFor")
		e = own.base
	}
	if err := s.queue.WaitFor(ctx, e); err != nil {
		return err
	}
	s.queue.Do(func() error {
		if ok && own.m == s.d.m {
			s.now = s.now.join(own.clock)
		} else { // what another's event stands for is what the host knows by now
			s.now = s.now.join(w.known())
		}
		return nil
	})
	return nil
}

// Sync implements device.Stream.
func (s *stream) Sync(ctx context.Context) error {
	if err := s.usable("Sync"); err != nil {
		return err
	}
	e, err := s.mark(false)
	if err != nil {
		return err
	}
	return e.wait(ctx)
}

// Close implements device.Stream.
func (s *stream) Close() error {
	if s.closed.Swap(true) {
		s.d.m.watch.fault("a stream of %v is closed twice", s.d.id)
		return nil
	}
	s.d.m.count("streams", -1)
	err := s.queue.Close()
	s.d.m.watch.learn(s.now)
	return err
}

// event is the end of a piece of work. Whoever sees that it has happened knows what was before it.
type event struct {
	m      *machine
	base   device.Event
	clock  clock // written before base happens
	closed atomic.Bool
}

// usable notes a fault where the event is closed.
func (e *event) usable(what string) {
	if e.closed.Load() {
		e.m.watch.fault("%s on an event after Close", what)
	}
}

// Done implements device.Event.
func (e *event) Done() (bool, error) {
	e.usable("Done")
	done, err := e.base.Done()
	if done {
		e.m.watch.learn(e.clock)
	}
	return done, err
}

// Wait implements device.Event.
func (e *event) Wait(ctx context.Context) error {
	e.usable("Wait")
	return e.wait(ctx)
}

func (e *event) wait(ctx context.Context) error {
	if done, _ := e.base.Done(); !done {
		e.m.note(func(s *Stats) { s.Waits++ })
	}
	err := e.base.Wait(ctx)
	if done, _ := e.base.Done(); done {
		e.m.watch.learn(e.clock)
	}
	return err
}

// Notify implements device.Event.
func (e *event) Notify(fn func(error)) {
	e.usable("Notify")
	e.base.Notify(func(err error) {
		e.m.watch.learn(e.clock)
		fn(err)
	})
}

// Close implements device.Event.
func (e *event) Close() {
	if e.closed.Swap(true) {
		e.m.watch.fault("an event is closed twice")
		return
	}
	e.m.count("events", -1)
}
