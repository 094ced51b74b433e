// Package schedule turns a schedule of steps into buffers with lifetimes and asks memplan for their offsets: liveness,
// in-place, nested plans, one arena per device.
//
// Time is counted in sub-steps. A step of a cooperative group has several, and the group's own buffers live within them,
// so they are packed flat with everything else of the device; a group that forbids sharing (NoReuse) has its buffers side
// by side. The lower bound is that of the flattened buffers after aliasing, in aligned sizes; values that live elsewhere
// (inputs and outputs of the caller, constants) are not part of it.
//
// The package knows no graph. Backends may import it.
package schedule

import (
	"context"
	"errors"
	"fmt"

	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/memplan"
)

// Problem is what Make plans: values and the steps that make and read them, in the order of execution.
type Problem struct {
	Values []Value
	Steps  []Step
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
	Device   tensor.DeviceID // of Buffers
	InPlace  []Pair          // outputs that may overwrite inputs
	NoReuse  bool            // Buffers must not share memory with each other
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
}

// Pair names an output and an input by their indices in the step.
type Pair struct{ Output, Input int }

// Plan is where everything lies.
type Plan struct {
	Values  []int64   // offset in the device's arena; -1 for values that are not planned
	Buffers [][]int64 // per step and buffer
	Arenas  []Arena   // in the order in which devices first appear
	Shared  int       // in-place pairs that were granted
}

// Arena is one device's part of the plan, in bytes.
type Arena struct {
	Device     tensor.DeviceID
	Height     int64  // bytes that the arena needs
	LowerBound int64  // no plan needs less
	Naive      int64  // with a buffer of its own for everything
	Method     string // what found the plan
}

// ErrProblem is wrapped by errors about problems that make no sense.
var ErrProblem = errors.New("bad schedule")

// life is the lifetime of a value or of a class of values that share their storage.
type life struct {
	lo, hi int64 // half open; lo < 0: never defined
	bytes  int64
	parent int // of the class
	last   int // step of the last read, -1 for none
	made   int // step that makes it
}

// Make plans the memory of p: one arena per device. verify checks every arena with memplan.Verify. The search budget is
// that of memplan's heuristics; a context only stops it.
func Make(ctx context.Context, p *Problem, verify bool) (*Plan, error) {
	lives, base, err := liveness(p)
	if err != nil {
		return nil, err
	}
	plan := &Plan{Values: make([]int64, len(p.Values)), Buffers: make([][]int64, len(p.Steps))}
	plan.Shared = shareInPlace(p, lives)
	var devices []tensor.DeviceID
	seen := map[tensor.DeviceID]bool{}
	note := func(d tensor.DeviceID) {
		if d.IsHost() {
			d = tensor.DeviceID{}
		}
		if !seen[d] {
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
		if len(p.Steps[i].Buffers) > 0 {
			note(p.Steps[i].Device)
		}
	}
	for _, d := range devices {
		a, err := packDevice(ctx, p, lives, base, d, plan, verify)
		if err != nil {
			return nil, fmt.Errorf("device %v: %w", d, err)
		}
		plan.Arenas = append(plan.Arenas, a)
	}
	for i := range p.Values {
		if !p.Values[i].Planned {
			plan.Values[i] = -1
		}
	}
	return plan, nil
}

// liveness returns the lifetimes of values and the first time of each step.
func liveness(p *Problem) ([]life, []int64, error) {
	lives := make([]life, len(p.Values))
	for i := range lives {
		lives[i] = life{lo: -1, parent: i, bytes: p.Values[i].Bytes, last: -1, made: -1}
	}
	base := make([]int64, len(p.Steps)+1)
	for i, s := range p.Steps {
		base[i+1] = base[i] + int64(max(s.Substeps, 1))
		for _, in := range s.Inputs {
			if in.Value < 0 {
				continue
			}
			if in.Value >= len(lives) || in.Last < 0 || in.Last >= max(s.Substeps, 1) {
				return nil, nil, fmt.Errorf("%w: step %d reads value %d until sub-step %d", ErrProblem, i, in.Value, in.Last)
			}
			l := &lives[in.Value]
			l.hi = max(l.hi, base[i]+int64(in.Last)+1)
			l.last = i
		}
		for _, out := range s.Outputs {
			if out.Value < 0 {
				continue
			}
			if out.Value >= len(lives) || out.First < 0 || out.First >= max(s.Substeps, 1) {
				return nil, nil, fmt.Errorf("%w: step %d writes value %d from sub-step %d", ErrProblem, i, out.Value, out.First)
			}
			l := &lives[out.Value]
			if l.made >= 0 {
				return nil, nil, fmt.Errorf("%w: value %d is made by steps %d and %d", ErrProblem, out.Value, l.made, i)
			}
			l.made, l.lo = i, base[i]+int64(out.First)
			l.hi = max(l.hi, base[i]+int64(max(out.Last, out.First))+1)
		}
	}
	end := base[len(p.Steps)]
	for i := range lives {
		l := &lives[i]
		if !p.Values[i].Planned {
			continue
		}
		if l.made < 0 {
			l.lo = 0 // it is there from the start
		}
		if p.Values[i].Keep {
			l.hi = end + 1
		}
		if l.hi > 0 && l.lo >= l.hi {
			return nil, nil, fmt.Errorf("%w: value %d is read before it is made", ErrProblem, i)
		}
	}
	return lives, base, nil
}

// shareInPlace merges the storage of outputs with the inputs that they may overwrite: planned inputs whose last reader is
// this step, of at least the output's size, on the same device. It returns how many pairs it granted.
func shareInPlace(p *Problem, lives []life) int {
	granted := 0
	for i, s := range p.Steps {
		taken := map[int]bool{}
		for _, pair := range s.InPlace {
			if pair.Output >= len(s.Outputs) || pair.Input >= len(s.Inputs) || pair.Output < 0 || pair.Input < 0 {
				continue
			}
			o, in := s.Outputs[pair.Output].Value, s.Inputs[pair.Input].Value
			if o < 0 || in < 0 || taken[o] || taken[in] {
				continue
			}
			vo, vi := &p.Values[o], &p.Values[in]
			if !vo.Planned || !vi.Planned || vi.Keep || vo.Device != vi.Device || lives[in].last != i || lives[o].made != i {
				continue
			}
			read := 0 // the same value at another port of the step would be read after it is overwritten
			for _, other := range s.Inputs {
				if other.Value == in {
					read++
				}
			}
			root := find(lives, in)
			if read != 1 || lives[root].bytes < vo.Bytes {
				continue
			}
			lives[o].parent = root
			lives[root].hi = max(lives[root].hi, lives[o].hi)
			taken[o], taken[in] = true, true
			granted++
		}
	}
	return granted
}

func find(lives []life, i int) int {
	for lives[i].parent != i {
		lives[i].parent = lives[lives[i].parent].parent
		i = lives[i].parent
	}
	return i
}

func packDevice(ctx context.Context, p *Problem, lives []life, base []int64, d tensor.DeviceID, plan *Plan, verify bool) (Arena, error) {
	same := func(x tensor.DeviceID) bool { return x == d || (x.IsHost() && d.IsHost()) }
	a := Arena{Device: d}
	var bufs []memplan.Buffer
	align := func(n int64) int64 { return (n + tensor.Alignment - 1) &^ (tensor.Alignment - 1) }
	at := make([]int, len(p.Values))
	for i, v := range p.Values {
		at[i] = -1
		if !v.Planned || !same(v.Device) {
			continue
		}
		a.Naive += align(v.Bytes)
		if l := lives[i]; l.parent == i && l.hi > l.lo && v.Bytes > 0 {
			at[i] = len(bufs)
			bufs = append(bufs, memplan.Buffer{Size: align(v.Bytes), Align: tensor.Alignment, Lower: l.lo, Upper: l.hi})
		}
	}
	first := make([]int, len(p.Steps))
	for i, s := range p.Steps {
		first[i] = len(bufs)
		if !same(s.Device) {
			continue
		}
		for _, b := range s.Buffers {
			lo, hi := base[i]+int64(b.First), base[i]+int64(b.Last)+1
			if s.NoReuse {
				lo, hi = base[i], base[i+1]
			}
			if b.First < 0 || b.Last < b.First || hi > base[i+1] || b.Bytes < 0 {
				return a, fmt.Errorf("%w: step %d has a buffer of %d bytes from %d to %d", ErrProblem, i, b.Bytes, b.First, b.Last)
			}
			a.Naive += align(b.Bytes)
			bufs = append(bufs, memplan.Buffer{Size: align(b.Bytes), Align: max(b.Align, tensor.Alignment), Lower: lo, Upper: hi})
		}
	}
	packed, err := memplan.Pack(ctx, bufs, &memplan.Options{Steps: searchSteps, Threads: 1})
	if err != nil {
		return a, err
	}
	a.Height, a.LowerBound, a.Method = packed.Height, packed.LowerBound, packed.Method
	if verify {
		if err := memplan.Verify(bufs, packed.Offsets, packed.Height); err != nil {
			return a, err
		}
	}
	for i, v := range p.Values {
		if v.Planned && same(v.Device) {
			if k := at[find(lives, i)]; k >= 0 {
				plan.Values[i] = packed.Offsets[k]
			}
		}
	}
	for i, s := range p.Steps {
		if same(s.Device) {
			for j := range s.Buffers {
				plan.Buffers[i][j] = packed.Offsets[first[i]+j]
			}
		}
	}
	return a, nil
}

// searchSteps is the budget of exact search where the heuristics do not meet the lower bound: a few milliseconds.
const searchSteps = 2000
