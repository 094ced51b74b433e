package exec

import (
	"context"
	"errors"
	"fmt"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/property"
)

// toHost returns t, stored in format f, as a compact row-major tensor of the host, aligned for its dtype.
func (m *Machine) toHost(ctx context.Context, t *tensor.Tensor, f graph.Format) (*tensor.Tensor, error) {
	if f == graph.HostFormat && t.DType == tensor.String {
		return t, nil
	}
	return m.gather(ctx, &Operand{Tensor: t, Layout: f.Layout}, nil)
}

// fromHost stores the compact row-major host tensor t into dst, whose format is f.
func (m *Machine) fromHost(ctx context.Context, dst, t *tensor.Tensor, f graph.Format) error {
	if dst.DType == tensor.String {
		copy(dst.Strings, t.Strings)
		return nil
	}
	return m.scatter(ctx, &Operand{Tensor: dst, Layout: f.Layout}, t, nil)
}

// fallback returns the instance that stands in for a group whose backend refused the shapes.
func (m *Machine) fallback(ctx context.Context, st *Step, b graph.Bindings, cause error) backend.Instance {
	m.fell(ctx, st, property.SpecializeFail, "group refused the shapes and falls back to the oracle's kernels", cause)
	return &interpreter{m: m, body: st.Node.Regions[0].Graph, bindings: b}
}

// isStandIn reports whether an instance is not a backend's but stands in for one.
func isStandIn(inst backend.Instance) bool {
	_, ok := inst.(*interpreter)
	return ok
}

// retried runs the frame, and once more from the start whenever a group has failed that can fall back: from then on the
// oracle's kernels run that group. Inputs have been set, and stay as they are. What a group fails at because of the inputs,
// the oracle fails at too: the group is then its backend's again. Where a device was reset, and no group is to blame for it, the run
// is done again as it is, once. walk is the frame's run, or as much of it as does not wait.
func (f *frame) retried(ctx context.Context, walk func(*frame, context.Context) error) error {
	var fallen []*failure
	again := false
	for {
		err := f.attempt(ctx, walk)
		if err == nil {
			for _, x := range fallen {
				f.session.m.fell(ctx, x.st, property.RunFailed, "group failed and is run by the oracle's kernels from now on", x.err)
			}
			return nil
		}
		var fail *failure
		if !errors.As(err, &fail) {
			forget(fallen)
			return err
		}
		if !again && f.session.canBeginAnew(ctx, fail) {
			again = true
			continue
		}
		if len(fallen) < mostRepeats && f.session.canFallBack(ctx, fail) {
			fail.st.state.failed.Store(&fail.err)
			fallen = append(fallen, fail)
			continue
		}
		forget(fallen)
		for _, x := range fallen {
			if x.st == fail.st && x.err.Error() != fail.err.Error() {
				return stepError(fail.st, fmt.Errorf("%w (and its fallback failed: %w)", x.err, fail.err))
			}
		}
		return stepError(fail.st, fail.err)
	}
}

// attempt runs the frame once, with the caller's operands where they are bound.
func (f *frame) attempt(ctx context.Context, walk func(*frame, context.Context) error) error {
	if f.edges != nil && f.edges.on {
		if err := f.edges.bind(); err != nil {
			return err
		}
	}
	return walk(f, ctx)
}

// mostRepeats bounds how often a run is done again.
const mostRepeats = 1000

func forget(fallen []*failure) {
	for _, x := range fallen {
		x.st.state.failed.Store(nil)
	}
}

// canFallBack reports whether the run is done again with the oracle's kernels in a failed group's place.
func (s *Session) canFallBack(ctx context.Context, x *failure) bool {
	if x.st.Kind != StepGroup || x.final || x.st.info.Oracle || s.m.env.Strict || ctx.Err() != nil {
		return false
	}
	if errors.Is(x.err, device.ErrGone) {
		return false // the fallback would read what lies on the device
	}
	if errors.Is(x.err, device.ErrOutOfMemory) && x.st.Device().IsHost() {
		return false // of which the fallback needs more
	}
	return !errors.Is(x.err, ErrMemoryLimit) && !errors.Is(x.err, backend.ErrRange)
}

// canBeginAnew reports whether a run whose device was reset is done again: by a move, or by other runs.
func (s *Session) canBeginAnew(ctx context.Context, x *failure) bool {
	blameless := x.st.Kind == StepConvert || errors.Is(x.err, device.ErrLost)
	return blameless && errors.Is(x.err, device.ErrReset) && !s.m.env.Strict && ctx.Err() == nil
}

// Retry gives the groups that failed in a run back to their backends. It returns how many there were.
func (m *Machine) Retry() int {
	if m == nil {
		return 0
	}
	return m.main.retry()
}

func (b *Block) retry() int {
	n := 0
	for i := range b.Steps {
		st := &b.Steps[i]
		if st.state.failed.Swap(nil) != nil {
			n++
		}
		for _, r := range st.regions {
			n += r.retry()
		}
	}
	return n
}
