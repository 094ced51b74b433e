// Package schedule turns a schedule of steps into buffers with lifetimes and asks memplan for their offsets: liveness,
// in-place, nested plans, one arena per device.
//
// Time is counted in sub-steps. A step of a cooperative group has several, and the group's own buffers live within them,
// so they are packed flat with everything else of the device; those of a group that forbids sharing (NoReuse) are nested
// side by side in one rectangle. The lower bound is that of the flattened buffers after aliasing, in aligned sizes; values that live elsewhere
// (inputs and outputs of the caller, constants) are not part of it.
//
// The package knows no graph. Backends may import it.
package schedule

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/carve-dev/carve/graph/tensor"
)

// Problem is what Make plans: values and the steps that make and read them, in the order of execution.
type Problem struct {
	Values []Value
	Steps  []Step
	Known  []Known // what need not be searched for
	// Like is the plan of a problem with the same steps and other sizes. Where an arena has the same buffers in the same sub-steps, the
	// plan's order is tried before others (memplan.Options.Like). Nil means none.
	Like *Plan
}

// Known is an arena that was planned before. Where an arena of a problem has the same buffers in the same order and sub-steps, and
// the offsets are sound, it is taken as it is.
type Known struct {
	Device string // as tensor.DeviceID.String writes it
	Height int64
	Method string
	Placed []Placed // Step and Index do not count
}

// Value is a buffer that passes between steps. Its lifetime follows from the steps.
type Value struct {
	Bytes   int64           // physical size; values of 0 bytes take no space
	Device  tensor.DeviceID // arena that it lies in
	Planned bool            // false: it lies elsewhere, and is never overwritten
	Keep    bool            // it is read after the last step
}

// Step is one step of the schedule.
type Step struct {
	Substeps int // at least 1; 0 counts as 1
	Inputs   []Port
	Outputs  []Port
	Buffers  []Buffer
	InPlace  []Pair // outputs that may overwrite inputs
	NoReuse  bool   // Buffers must not share memory with each other
	// Lane is where the step runs: 0 is the host, which runs its steps one after another; others are queues, whose steps the
	// host puts there when it comes to them in the list, and which run in the order of the queue and after the steps that make
	// their operands. What may overlap in time shares no memory.
	Lane int
	// Barrier has the step wait for everything in front of it, on all lanes, and all that follow wait for it. It is on lane 0.
	Barrier bool
}

// Port is a value as a step reads or writes it, from sub-step First to Last of the step.
type Port struct {
	Value       int // index into Problem.Values; negative for none
	First, Last int
}

// Buffer is memory of a step's own, alive from sub-step First to Last.
type Buffer struct {
	Bytes, Align int64
	First, Last  int
	Device       tensor.DeviceID // arena that it lies in
}

// Pair names an output and an input by their indices in the step.
type Pair struct{ Output, Input int }

// Plan is where everything lies.
type Plan struct {
	Values  []int64   // offset in the device's arena; -1 for values that are not planned
	Buffers [][]int64 // per step and buffer
	Arenas  []Arena   // in the order in which devices first appear
	Shared  int       // in-place pairs that were granted
	Start   []int64   // first sub-step of each step, counted from the beginning, and the number of all sub-steps
	// Waits lists, per step, the steps on other lanes that it has to wait for, the last of each lane; what its own lane and
	// those imply is left out. Nil where all steps are on lane 0.
	Waits [][]int

	roots []int // per value: the one whose storage it shares, itself otherwise
}

// Arena is one device's part of the plan, in bytes.
type Arena struct {
	Device     tensor.DeviceID
	Height     int64   // bytes that the arena needs
	LowerBound int64   // no plan needs less
	Naive      int64   // with a buffer of its own for everything
	Method     string  // what found the plan
	near       float64 // how many times its lower bound a plan that follows this one may be high
	// Placed lists everything that takes space, values first. A value that shares its memory with others, since they
	// overwrite it, stands for all of them.
	Placed []Placed
}

// Placed is a rectangle of an arena: bytes [Offset, Offset+Bytes) in the sub-steps [Lower, Upper).
type Placed struct {
	// Step and Index are those of a step's Buffers, the first where it stands for all of them (NoReuse); for values Step is
	// -1 and Index that of Problem.Values.
	Step, Index   int
	Bytes, Offset int64
	Lower, Upper  int64
}

// ErrProblem is wrapped by errors about problems that make no sense.
var ErrProblem = errors.New("bad schedule")

// Make plans the memory of p: one arena per device. verify checks every arena with memplan.Verify. The search budget is
// that of memplan's heuristics; a context only stops it.
func Make(ctx context.Context, p *Problem, verify bool) (*Plan, error) {
	if p == nil {
		return nil, fmt.Errorf("%w: it is nil", ErrProblem)
	}
	if ctx == nil {
		ctx = context.Background()
	}
	lives, base, err := liveness(p)
	if err != nil {
		return nil, err
	}
	o, err := happens(p)
	if err != nil {
		return nil, err
	}
	plan := &Plan{Values: make([]int64, len(p.Values)), Buffers: make([][]int64, len(p.Steps)), Start: base}
	var t *touches
	if o != nil {
		t, plan.Waits = o.touched(p), o.waits
	}
	plan.Shared = shareInPlace(p, lives, o, t)
	var devices []tensor.DeviceID
	seen := map[tensor.DeviceID]bool{}
	note := func(d tensor.DeviceID) {
		if d = d.Canonical(); !seen[d] {
			seen[d] = true
			devices = append(devices, d)
		}
	}
	for _, v := range p.Values {
		if v.Planned {
			note(v.Device)
		}
	}
	for i := range p.Steps {
		plan.Buffers[i] = make([]int64, len(p.Steps[i].Buffers))
		for _, b := range p.Steps[i].Buffers {
			note(b.Device)
		}
	}
	for _, d := range devices {
		k := packer{p: p, lives: lives, base: base, device: d, arena: Arena{Device: d}, o: o, t: t}
		if err := k.pack(ctx, plan, verify); err != nil {
			return nil, fmt.Errorf("device %v: %w", d, err)
		}
		plan.Arenas = append(plan.Arenas, k.arena)
	}
	plan.roots = make([]int, len(p.Values))
	for i := range p.Values {
		plan.roots[i] = find(lives, i)
		if !p.Values[i].Planned {
			plan.Values[i] = -1
		}
	}
	if verify && o != nil {
		if err := Verify(p, plan); err != nil {
			return nil, err
		}
	}
	return plan, nil
}

// Covers reports whether a plan that was made for p is right for q as well: q has the same values and steps, with the same
// lifetimes, and nothing in it is larger. O(values + ports + buffers).
func (p *Problem) Covers(q *Problem) bool {
	return q != nil && slices.EqualFunc(p.Values, q.Values, func(a, b Value) bool {
		return a.Device == b.Device && a.Planned == b.Planned && a.Keep == b.Keep && a.Bytes >= b.Bytes
	}) && slices.EqualFunc(p.Steps, q.Steps, func(a, b Step) bool {
		return max(a.Substeps, 1) == max(b.Substeps, 1) && a.Lane == b.Lane && a.Barrier == b.Barrier && a.NoReuse == b.NoReuse &&
			slices.Equal(a.Inputs, b.Inputs) && slices.Equal(a.Outputs, b.Outputs) && slices.Equal(a.InPlace, b.InPlace) &&
			slices.EqualFunc(a.Buffers, b.Buffers, func(x, y Buffer) bool {
				return x.First == y.First && x.Last == y.Last && x.Align == y.Align && x.Device == y.Device && x.Bytes >= y.Bytes
			})
	})
}

// Places reports whether the plan that was made for p is the one for q: all that takes room in it is the same.
func (p *Problem) Places(q *Problem) bool {
	return q != nil && slices.EqualFunc(p.Values, q.Values, func(a, b Value) bool {
		return a == b || !a.Planned && !b.Planned && a.Device == b.Device && a.Keep == b.Keep
	}) && slices.EqualFunc(p.Steps, q.Steps, func(a, b Step) bool {
		return a.Substeps == b.Substeps && a.Lane == b.Lane && a.Barrier == b.Barrier && a.NoReuse == b.NoReuse && slices.Equal(a.Inputs, b.Inputs) &&
			slices.Equal(a.Outputs, b.Outputs) && slices.Equal(a.InPlace, b.InPlace) && slices.Equal(a.Buffers, b.Buffers)
	})
}
