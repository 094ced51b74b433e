package exec

import (
	"context"
	"errors"
	"fmt"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph/device"
)

// queue returns the stream that a step's work goes to: that of its lane, or the first of its device where the host waits for
// it.
func (b *Block) queue(st *Step) lane {
	if st.lane > 0 {
		return b.lanes[st.lane]
	}
	return lane{device: st.Device()}
}

// stream returns the session's stream of a lane.
func (s *Session) stream(l lane) (device.Stream, error) {
	if st := s.streams[l]; st != nil {
		return st, nil
	}
	dev := s.m.env.Transfer.Devices[l.device]
	if dev == nil {
		return nil, fmt.Errorf("%w: no backend has device %v", backend.ErrUnavailable, l.device)
	}
	st, err := dev.NewStream()
	if err != nil {
		return nil, fmt.Errorf("%w: device %v gave no stream: %w", backend.ErrUnavailable, l.device, err)
	}
	s.streams[l] = st
	return st, nil
}

// queued reports whether step i is on another lane than the host's, for the spec at hand.
func (f *frame) queued(i int) bool { return f.s.lane(i) > 0 }

// enqueue puts a group's run onto its lane.
func (f *frame) enqueue(ctx context.Context, i int, inst backend.Instance, a *backend.RunArgs) error {
	event, err := f.start(ctx, i, inst, a)
	if err != nil {
		return err
	}
	f.runs[i] = event
	return f.mark(i)
}

// mark records the end of what step i put onto its lane, where others wait for it, and waits for it where the run is looked
// at step by step.
func (f *frame) mark(i int) error {
	if !f.queued(i) {
		return nil
	}
	if f.session.profile == nil && f.session.check == nil && f.poison == nil && !f.s.awaited[i] {
		return nil
	}
	s, err := f.session.stream(f.s.block.queue(&f.s.block.Steps[i]))
	if err != nil {
		return err
	}
	if f.ends[i], err = s.Record(); err != nil {
		return err
	}
	if f.session.profile != nil || f.session.check != nil || f.poison != nil {
		return device.Wait(context.Background(), f.ends[i])
	}
	return nil
}

// await has step i wait for the steps on other lanes that it depends on: the host waits itself, another lane is told to.
func (f *frame) await(ctx context.Context, i int) error {
	if f.ends == nil {
		return nil
	}
	for _, w := range f.s.plan.Waits[i] {
		if !f.queued(w) { // the host has done it
			continue
		}
		if !f.queued(i) {
			if err := device.Wait(ctx, f.ends[w]); err != nil {
				return err
			}
			continue
		}
		s, err := f.session.stream(f.s.block.queue(&f.s.block.Steps[i]))
		if err != nil {
			return err
		}
		if err := s.WaitFor(ctx, f.ends[w]); err != nil {
			return err
		}
	}
	return nil
}

// drain waits for the end of everything on the lanes, and returns the first step that failed there by itself. The events are
// given back.
func (f *frame) drain(ctx context.Context) *failure {
	if f.ends == nil {
		return nil
	}
	ctx = context.WithoutCancel(ctx) // the memory is used again after this
	var fault *failure
	blame := func(i int, err error) {
		if i >= 0 && err != nil && (fault == nil || errors.Is(fault.err, device.ErrLost) && !errors.Is(err, device.ErrLost)) {
			fault = &failure{st: &f.s.block.Steps[i], err: err}
		}
	}
	errs := make([]error, len(f.s.tails))
	for l, i := range f.s.tails {
		if i >= 0 {
			if s := f.session.streams[f.s.block.lanes[l]]; s != nil {
				errs[l] = s.Sync(ctx)
			}
		}
	}
	settle := func(events []device.Event, blamed func(i int) int) {
		for i, e := range events {
			if e != nil {
				blame(blamed(i), e.Wait(ctx))
				e.Close()
				events[i] = nil
			}
		}
	}
	settle(f.runs, func(i int) int { return i })
	settle(f.ends, f.moveBefore) // no group failed: a move did
	for l, err := range errs {
		if err != nil {
			blame(f.moveBefore(f.s.tails[l]), err)
		}
	}
	return fault
}

// moveBefore returns the last conversion on the lane of step i, up to that step; the step itself where there is none.
func (f *frame) moveBefore(i int) int {
	for k := i; k >= 0; k-- {
		if st := &f.s.block.Steps[k]; st.Kind == StepConvert && f.s.lane(k) == f.s.lane(i) {
			return k
		}
	}
	return i
}
