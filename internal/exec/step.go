package exec

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
)

// failure is a step that failed in a run.
type failure struct {
	st    *Step
	err   error
	final bool // the oracle's kernels failed: there is nothing to fall back to
}

// Error names the step.
func (e *failure) Error() string { return stepError(e.st, e.err).Error() }

// Unwrap returns the cause.
func (e *failure) Unwrap() error { return e.err }

// run walks through the steps, and returns when all of them have ended, on errors too. Inputs and captures have been set. The
// error is a *failure, or ctx's.
func (f *frame) run(ctx context.Context) error {
	if err := f.walk(ctx); err != nil {
		return err
	}
	if late := f.drain(ctx); late != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return late
	}
	return nil
}

// walk is run up to where the last step has been put onto its lane: it does those of the host. After an error everything on
// the lanes has ended.
func (f *frame) walk(ctx context.Context) error {
	if f.poison != nil {
		f.poison.begin()
	}
	f.forget()
	f.find(f.s.block.finds)
	for i := range f.s.block.Steps {
		err := ctx.Err()
		if err == nil {
			err = f.step(ctx, i)
		}
		if err == nil {
			f.find(f.s.block.Steps[i].finds)
			continue
		}
		st := &f.s.block.Steps[i]
		if late := f.drain(ctx); late != nil { // what failed on a lane is why the host's step did
			st, err = late.st, late.err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var inner *failure
		if errors.As(err, &inner) {
			return inner
		}
		return &failure{st: st, err: err}
	}
	return nil
}

// step does step i, or puts it onto its lane.
func (f *frame) step(ctx context.Context, i int) error {
	st, prof := &f.s.block.Steps[i], f.session.profile
	if err := f.await(ctx, i); err != nil {
		return err
	}
	if f.edges != nil && f.edges.on {
		if err := f.edges.prepare(ctx, i); err != nil {
			return err
		}
	}
	var start time.Time
	if prof != nil {
		start = prof.begin(f, i)
	}
	if f.poison != nil {
		f.poisonSteps(i)
	}
	var err error
	switch st.Kind {
	case StepGroup:
		if f.session.check != nil {
			f.session.check.before(ctx, f, i)
		}
		if err = f.runGroup(ctx, i, st); err == nil && len(f.returns) > 0 {
			err = f.giveBack(ctx)
		}
		if err == nil && f.session.check != nil {
			f.session.check.after(ctx, f, i)
		}
	case StepConvert:
		err = f.runConvert(ctx, i, st)
	case StepHost:
		err = f.runHost(ctx, i, st)
	}
	if f.poison != nil {
		f.poison.until(f.s.plan.Start[i+1])
	}
	if prof != nil {
		prof.end(f, i, start)
	}
	return err
}

// runGroup runs a group's instance: to the end on the host, and as far as its queue elsewhere.
func (f *frame) runGroup(ctx context.Context, i int, st *Step) error {
	a := f.args[i]
	if st.dynamic {
		if err := f.bindDynamic(i, st); err != nil {
			return err
		}
	}
	if st.info.Threads {
		f.session.run.Park() // the cores are the backend's
		defer f.session.run.Resume()
	}
	inst := f.s.inst[i]
	if st.state.failed.Load() != nil {
		inst = &interpreter{m: f.session.m, body: st.Node.Regions[0].Graph, bindings: f.bindings(i)}
	}
	var err error
	switch {
	case inst == nil:
		err = f.runLate(ctx, i, st, a)
	case f.queued(i) && !isStandIn(inst):
		return f.enqueue(ctx, i, inst, a)
	default:
		if isStandIn(inst) && len(f.s.block.lanes) > 1 { // it works on the host, whatever the plan says of the group
			if late := f.drain(ctx); late != nil {
				return late
			}
		}
		if isStandIn(inst) && f.edges != nil && f.edges.on {
			if err = f.edges.ready(ctx, i); err != nil {
				return err
			}
		}
		if f.poison != nil && isStandIn(inst) { // it writes the outputs at once, over what the plan has end before them
			f.poison.until(f.s.plan.Start[i+1] - 1)
		}
		if err = f.runInstance(ctx, i, inst, a); err != nil && isStandIn(inst) {
			return &failure{st, err, true}
		}
	}
	if err != nil {
		return err
	}
	for k, slot := range st.out {
		if slot >= 0 && f.values[slot] == nil {
			return fmt.Errorf("%w: output %d was not made", ErrRun, k)
		}
	}
	return nil
}

// bindDynamic gives a group whose shapes depend on data the operands as they are now.
func (f *frame) bindDynamic(i int, st *Step) error {
	a := f.args[i]
	for k, slot := range st.in {
		if slot < 0 {
			continue
		}
		t, ok := f.values[slot].(*tensor.Tensor)
		if !ok {
			return fmt.Errorf("%w: operand %d is no tensor", ErrRun, k)
		}
		if f.edges != nil && f.edges.on && f.edges.inPlace(i, k) != nil {
			continue // it is the caller's
		}
		a.Inputs[k] = t
	}
	for k, slot := range st.out {
		a.Outputs[k] = nil
		if slot >= 0 {
			f.values[slot] = nil
		}
	}
	return nil
}

// runInstance runs the instance of group i and waits for its end.
func (f *frame) runInstance(ctx context.Context, i int, inst backend.Instance, a *backend.RunArgs) error {
	event, err := f.start(ctx, i, inst, a)
	if err != nil || event == nil {
		return err
	}
	defer event.Close()
	if err = event.Wait(ctx); err != nil && ctx.Err() != nil {
		_ = event.Wait(context.WithoutCancel(ctx)) // the memory is used again after this: the work has to be over
	}
	return err
}

// startInstance is Enqueue of an instance, whose panic becomes an error. It is the one place that runs instances.
func startInstance(ctx context.Context, inst backend.Instance, a *backend.RunArgs) (event device.Event, err error) {
	defer func() {
		if r := recover(); r != nil {
			event = nil
			if e, ok := r.(error); ok {
				err = fmt.Errorf("kernel: %w", e)
			} else {
				err = fmt.Errorf("kernel: %v", r)
			}
		}
	}()
	return inst.Enqueue(ctx, a)
}

func (f *frame) runConvert(ctx context.Context, i int, st *Step) error {
	in, out := st.in[0], st.out[0]
	src, ok := f.values[in].(*tensor.Tensor)
	if !ok {
		return fmt.Errorf("%w: operand is no tensor", ErrRun)
	}
	if e := f.edges; e != nil && e.on {
		if done, err := e.convert(ctx, i); err != nil {
			return err
		} else if done {
			return f.mark(i)
		}
		if given := e.fill[i].src; given != nil {
			src = &given.tensor
		}
	}
	move := f.s.moves[i]
	if move == nil { // the shape depends on data
		var err error
		if move, err = f.session.m.prepare(ctx, st, src.DType, src.Shape); err != nil {
			return err
		}
		if _, err := f.makeLoose(out, src.DType, src.Shape); err != nil {
			return err
		}
	}
	x := convert.Exec{Workers: &f.session.workers}
	if f.queued(i) {
		var err error
		if x.Stream, err = f.session.stream(f.s.block.queue(st)); err != nil {
			return err
		}
	}
	if err := move(ctx, &f.tensors[out], src, x); err != nil {
		return err
	}
	return f.mark(i)
}
