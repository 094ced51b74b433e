package exec

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/property"
)

// A run that is enqueued ends later: the session is then busy with it, and waits for its end before the next. A group that
// fails late is told of by the Event, since inputs may be gone by then, and falls back from the next run on.

// canRunAhead reports whether nothing is left to do for the host when the steps are enqueued.
func (f *frame) canRunAhead() bool {
	if f.ends == nil || f.poison != nil || f.session.profile != nil || f.session.check != nil {
		return false
	}
	b := f.s.block
	for i, slot := range b.Outputs {
		if f.session.wanted[i] && b.Slots[slot].direct < 0 && !f.special(i) {
			return false
		}
	}
	return true
}

// runAhead enqueues the steps, and returns the event of their end, nil where they are over.
func (f *frame) runAhead(ctx context.Context) (device.Event, error) {
	over := false
	err := f.retried(ctx, func(f *frame, ctx context.Context) error {
		if over = f.copiesLater(); over {
			return f.run(ctx)
		}
		return f.walk(ctx)
	})
	if err != nil {
		return nil, err
	}
	f.checkDeclared(ctx)
	if over {
		return nil, f.finish(ctx)
	}
	event, err := f.event(ctx)
	if err != nil {
		f.drain(ctx)
	}
	return event, err
}

// copiesLater reports whether something has to wait for the end of the steps.
func (f *frame) copiesLater() bool {
	e := f.edges
	if e == nil || !e.on {
		return false
	}
	for j, slot := range f.s.block.Outputs {
		if e.out[j] != nil && e.out[j].after || e.root(slot) != nil && f.session.wanted[j] && e.need[slot] {
			return true
		}
	}
	return false
}

// ahead is the end of a run on several lanes: the last of them is told to wait for the others, and knows no errors of theirs.
type ahead struct {
	*device.HostEvent
	order device.Event // for streams
}

// Close implements device.Event.
func (a *ahead) Close() {
	if a.order != nil {
		a.order.Close()
	}
}

// ordering returns the event that a stream waits for in e's place, which the stream's device may know.
func ordering(e device.Event) device.Event {
	if a, ok := e.(*ahead); ok && a.order != nil {
		return a.order
	}
	return e
}

// event returns that of the end of all that is on the lanes.
func (f *frame) event(ctx context.Context) (device.Event, error) {
	var streams []device.Stream
	var ends []device.Event
	for l, i := range f.s.tails {
		if s := f.session.streams[f.s.block.lanes[l]]; i >= 0 && s != nil {
			e, err := s.Record()
			if err != nil {
				return nil, err
			}
			if e != nil {
				streams, ends = append(streams, s), append(ends, e)
			}
		}
	}
	before := slices.DeleteFunc(slices.Clone(f.ends), func(e device.Event) bool { return e == nil })
	before = append(before, f.pendingInputs()...)
	if len(ends) == 0 {
		return nil, nil
	}
	last := len(ends) - 1
	if len(before) == 0 && last == 0 {
		return ends[0], nil
	}
	a := &ahead{HostEvent: device.NewEvent()}
	gather := func(list []device.Event) {
		var mu sync.Mutex
		left, first := len(list), error(nil)
		for _, e := range list {
			e.Notify(func(err error) {
				mu.Lock()
				if first == nil {
					first = err
				}
				left--
				over := left == 0
				mu.Unlock()
				if over {
					a.Complete(first)
				}
			})
		}
	}
	var err error
	a.order = ends[last]
	for _, e := range ends[:last] {
		if err == nil {
			err = streams[last].WaitFor(ctx, e)
		}
	}
	if err == nil && last > 0 {
		if e, failed := streams[last].Record(); failed != nil {
			err = failed
		} else {
			a.order, ends = e, append(ends, e)
		}
	}
	for _, e := range f.runs {
		if e != nil {
			before = append(before, e)
		}
	}
	gather(slices.Concat(before, ends))
	for _, e := range ends {
		if e != a.order {
			e.Close()
		}
	}
	if err != nil {
		a.Close()
		return nil, err
	}
	return a, nil
}

// pendingInputs returns the events of inputs for which lanes wait, and whose errors lanes do not know.
func (f *frame) pendingInputs() []device.Event {
	if f.edges == nil || !f.edges.on {
		return nil
	}
	var out []device.Event
	for _, g := range f.edges.in {
		if g == nil || g.Ready == nil || g.over {
			continue
		}
		if done, err := g.Ready.Done(); !done || err != nil {
			out = append(out, g.Ready)
		}
	}
	return out
}

// hold notes that a run has been enqueued whose end is an event's.
func (s *Session) hold(f *frame, end device.Event) {
	over := new(atomic.Bool) // of this run: a callback may come late
	s.pending, s.over = f, over
	if end == nil {
		over.Store(true)
		return
	}
	end.Notify(func(error) { over.Store(true) })
}

// quiesce waits for the run that has been enqueued, if there is one, and returns what failed there.
func (s *Session) quiesce(ctx context.Context) *failure {
	f := s.pending
	if f == nil {
		return nil
	}
	s.pending = nil
	late := f.drain(ctx)
	s.letGo(f)
	return late
}

// idle reports whether nothing of the session is under way on a device, as far as it is known.
func (s *Session) idle() bool {
	if s.pending != nil && s.over.Load() {
		s.settle(context.Background())
	}
	return s.pending == nil
}

// settle is quiesce that has groups fall back which failed. The run's Event has told of that.
func (s *Session) settle(ctx context.Context) {
	late := s.quiesce(ctx)
	if late == nil || errors.Is(late.err, context.Canceled) || errors.Is(late.err, context.DeadlineExceeded) {
		return
	}
	if ctx = context.WithoutCancel(ctx); s.canFallBack(ctx, late) {
		late.st.state.failed.Store(&late.err)
		s.m.fell(ctx, late.st, property.RunFailed, "group failed and is run by the oracle's kernels from now on", late.err)
	}
}

// left are the outputs that Session.Run leaves on devices.
type left struct {
	s    *Session
	made []*Operand // per output, nil for the others; nil where there are none
}

// wanted reports whether output i is left on a device.
func (l *left) wanted(i int) bool {
	return i < len(l.s.m.env.Leave) && !l.s.m.env.Leave[i].IsHost()
}

// allocate makes room for the outputs of known shape.
func (l *left) allocate(f *frame) error {
	if len(l.s.m.env.Leave) == 0 {
		return nil
	}
	l.made = make([]*Operand, len(l.s.outs))
	for i, slot := range f.s.block.Outputs {
		dims := f.s.dims[slot]
		if !l.wanted(i) || dims == nil || f.s.block.Slots[slot].Value.Type.DType == tensor.String {
			continue
		}
		var err error
		if l.made[i], err = l.room(i, f.s.block.Slots[slot].Value.Type.DType, dims); err != nil {
			return err
		}
		l.s.outs[i] = *l.made[i]
	}
	return nil
}

// room returns a tensor on the device of output i. It does not come from the pool, since it may outlive the program.
func (l *left) room(i int, dt tensor.DType, dims []int) (*Operand, error) {
	format := graph.Format{Device: l.s.m.env.Leave[i].Canonical()}
	d := l.s.m.spaces[format.Device]
	if d == nil {
		return nil, fmt.Errorf("%w: no backend has device %v", backend.ErrUnavailable, format.Device)
	}
	dev := d.Pool.Device
	for r := d.relief(); ; d.Trim() {
		out, m, err := l.s.m.env.Transfer.Registry.NewTensor(dev, format, dt, dims...)
		if err == nil {
			return &Operand{Tensor: out, Release: sync.OnceFunc(func() { dev.Free(m) })}, nil
		}
		if !r.next(err) {
			return nil, err
		}
	}
}

// upload copies an output whose shape a run has shown.
func (l *left) upload(ctx context.Context, i int, t *tensor.Tensor) (tensor.Value, error) {
	if t.DType == tensor.String {
		return t.Clone()
	}
	o, err := l.room(i, t.DType, t.Shape)
	if err != nil {
		return nil, err
	}
	if err := l.s.m.carry(ctx, o, &Operand{Tensor: t}, nil, &l.s.workers); err != nil {
		o.Release()
		return nil, err
	}
	l.made[i] = o
	return o, nil
}

// free gives back what a run that failed has made.
func (l *left) free() {
	for _, o := range l.made {
		if o != nil {
			o.Release()
		}
	}
}
