package exec

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/memplan/schedule"
)

// Spec is a block for concrete values of the symbols: instances, sizes, and the memory plan. It is immutable but for
// the note of its last use.
type Spec struct {
	used     atomic.Int64 // Machine.clock
	frames   atomic.Int64 // of sessions
	dropped  atomic.Bool  // from the cache
	block    *Block
	bindings graph.Bindings
	dims     [][]int // concrete shape per slot; nil where it is not known
	sizes    []int64 // physical bytes per slot
	content  []*tensor.Tensor
	inst     []backend.Instance // per step
	reqs     []backend.Requirements
	consts   [][]*tensor.Tensor // per step, of groups: RunArgs.Constants
	moves    []convert.Move
	inner    [][]*Spec           // per step and region
	rooms    [][]tensor.DeviceID // per step, of the host scheduler's: where its regions' arenas are, in the order of the step's buffers
	loops    []*loopSpec         // per step; nil for those that are no loops
	awaited  []bool              // steps on other lanes that somebody waits for; nil where there are none
	tails    []int               // the last step of each lane, -1 for none
	plan     *schedule.Plan
	picky    bool              // a port asks for more alignment than its dtype does
	problem  *schedule.Problem // what plan was made for; kept for the bounds
	pace     pace
}

// specialize makes the instances and the memory plan of a block.
func (m *Machine) specialize(ctx context.Context, b *Block, bind graph.Bindings) (*Spec, error) {
	s := &Spec{block: b, bindings: bind, dims: make([][]int, len(b.Slots)), sizes: make([]int64, len(b.Slots)),
		content: make([]*tensor.Tensor, len(b.Slots)), inst: make([]backend.Instance, len(b.Steps)),
		reqs: make([]backend.Requirements, len(b.Steps)), consts: make([][]*tensor.Tensor, len(b.Steps)), moves: make([]convert.Move, len(b.Steps)), inner: make([][]*Spec, len(b.Steps)), rooms: make([][]tensor.DeviceID, len(b.Steps)), loops: make([]*loopSpec, len(b.Steps))}
	if err := s.shapes(m); err != nil {
		return nil, err
	}
	for i := range b.Steps {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := m.specializeStep(ctx, s, i); err != nil {
			return nil, err
		}
	}
	if err := s.makePlan(ctx, m); err != nil {
		return nil, err
	}
	s.findWaits()
	return s, nil
}

// shapes evaluates the shapes of all values that follow from the symbols.
func (s *Spec) shapes(m *Machine) error {
	ranks := 0
	for _, sl := range s.block.Slots {
		ranks += len(sl.Value.Type.Shape)
	}
	room := make([]int, ranks)
	for i, sl := range s.block.Slots {
		v := sl.Value
		switch sl.Kind {
		case SlotConst:
			s.dims[i] = v.Const.Shape
			continue
		case SlotDims:
			t, err := v.EvalDims(s.bindings)
			if err != nil {
				return err
			}
			s.content[i], s.dims[i] = t, t.Shape
			continue
		case SlotPlanned, SlotDynamic, SlotInput:
		}
		if !v.Type.IsTensor() || !v.Type.Shape.Known() {
			continue
		}
		rank := len(v.Type.Shape)
		dims, err := v.Type.Shape.Eval(s.bindings, room[:0:rank])
		if errors.Is(err, graph.ErrUnbound) && sl.Kind != SlotPlanned {
			continue // known at run time
		}
		if err != nil {
			return valueError(v, err)
		}
		s.dims[i], room = dims, room[rank:]
		if sl.Kind == SlotPlanned {
			if s.sizes[i], err = m.env.Transfer.Registry.Size(v.Format, v.Type.DType, dims); err == nil {
				err = m.fits(v.Format.Device, s.sizes[i])
			}
			if err != nil {
				return valueError(v, err)
			}
		}
	}
	return nil
}

// valueError blames the node that makes a value.
func valueError(v *graph.Value, err error) error {
	err = fmt.Errorf("value %v %v: %w", v, v.Type, err)
	n := v.Producer
	if n == nil {
		return err
	}
	name := n.Backend
	for n.IsCarve(graph.OpSubgraph) && n.Regions[0].Graph.Outputs[v.Index].Producer != nil {
		n = n.Regions[0].Graph.Outputs[v.Index].Producer
	}
	if name == "" {
		name = hostName
	}
	return BlameNodes(n.ModelNodes(), name, err)
}

func (m *Machine) specializeStep(ctx context.Context, s *Spec, i int) error {
	st := &s.block.Steps[i]
	switch st.Kind {
	case StepGroup:
		if err := m.contradictsRegion(s, st); err != nil { // if it is run at all: the reference kernels say what is wrong
			s.inst[i], s.consts[i] = &interpreter{m: m, body: st.Node.Regions[0].Graph, bindings: s.bindings}, st.constants
			s.reqs[i] = s.inst[i].Requirements()
			return nil
		}
		inst, err := instantiate(ctx, st.exe, s.bindings)
		if err == nil {
			s.consts[i], err = m.withForms(ctx, st.Node.Regions[0].Graph, st.constants, inst.Requirements().Constants)
		}
		if err != nil && st.dynamic && errors.Is(err, graph.ErrUnbound) {
			s.reqs[i], s.consts[i] = backend.Requirements{Steps: 1}, st.constants
			return nil // specialised when the shapes are known: see late.go
		}
		if err != nil {
			if ctx.Err() != nil || m.env.Strict {
				return stepError(st, err)
			}
			inst, s.consts[i] = m.fallback(ctx, st, s.bindings, err), st.constants
		}
		s.inst[i], s.reqs[i] = inst, inst.Requirements()
		s.picky = s.picky || picky(s.reqs[i].Inputs) || picky(s.reqs[i].Outputs)
		for _, b := range s.reqs[i].Buffers {
			if err := m.fits(deviceOf(st.backend), b.Bytes); err != nil {
				return bufferError(st, &s.reqs[i], b.First, err)
			}
		}
	case StepConvert:
		if s.dims[st.in[0]] == nil || st.dynamic {
			return nil // planned when the shape is known
		}
		move, err := m.prepare(ctx, st, st.Node.Inputs[0].Type.DType, s.dims[st.in[0]])
		if err != nil {
			return stepError(st, err)
		}
		s.moves[i] = move
	case StepHost:
		for _, r := range st.regions {
			inner, err := m.specialize(ctx, r, s.bindings)
			if err != nil {
				return err
			}
			s.inner[i] = append(s.inner[i], inner)
		}
		var err error
		s.loops[i], err = m.planLoop(s, i)
		return err
	}
	return nil
}

// picky reports whether a port asks for an alignment of its own.
func picky(ports []backend.PortUse) bool {
	return slices.ContainsFunc(ports, func(p backend.PortUse) bool { return p.Align > 1 })
}

// instantiate is Specialize of a backend, whose panic becomes an error.
func instantiate(ctx context.Context, exe backend.Executable, b graph.Bindings) (inst backend.Instance, err error) {
	defer func() {
		if r := recover(); r != nil {
			inst, err = nil, fmt.Errorf("specialize: panic: %v", r)
		}
	}()
	return exe.Specialize(ctx, b)
}

// bufferError blames the node that makes a buffer of a group.
func bufferError(st *Step, r *backend.Requirements, sub int, err error) error {
	if sub < len(r.Labels) {
		return BlameNodes(r.Labels[sub].Origins, st.Node.Backend, err)
	}
	return stepError(st, err)
}

// planned is a memory plan, and what it was made for.
type planned struct {
	problem *schedule.Problem
	plan    *schedule.Plan
}

// makePlan asks for offsets of everything in the block: values, the groups' buffers, and the arenas of regions.
func (s *Spec) makePlan(ctx context.Context, m *Machine) error {
	b := s.block
	prob := &schedule.Problem{Values: make([]schedule.Value, len(b.Slots)), Steps: make([]schedule.Step, 0, len(b.Steps))}
	for i, sl := range b.Slots {
		prob.Values[i] = schedule.Value{Bytes: s.sizes[i], Device: sl.Value.Format.Device, Planned: sl.Kind == SlotPlanned && sl.direct < 0}
	}
	for _, o := range b.Outputs {
		prob.Values[o].Keep = true
	}
	for i := range b.Steps {
		prob.Steps = append(prob.Steps, s.scheduleStep(i))
	}
	if b == m.main {
		prob.Known = m.env.Arenas
	}
	if s.problem = prob; s.planOfBounds(m) {
		return nil
	}
	if last, ok := m.planned.Load(b); ok {
		if last.(*planned).problem.Places(prob) {
			s.plan, s.problem = last.(*planned).plan, nil
			return nil
		}
		prob.Like = last.(*planned).plan
	}
	plan, err := schedule.Make(ctx, prob, m.env.Verify)
	if err != nil {
		return fmt.Errorf("memory plan: %w", err)
	}
	prob.Like = nil
	m.planned.Store(b, &planned{prob, plan})
	if s.plan = plan; b != m.main || len(m.env.Bounds) == 0 || m.bound != nil {
		s.problem = nil
	}
	return nil
}

// scheduleStep describes step i for the planner.
func (s *Spec) scheduleStep(i int) schedule.Step {
	st, r := &s.block.Steps[i], &s.reqs[i]
	out := schedule.Step{Substeps: max(r.Steps, 1), NoReuse: r.NoReuse, Lane: s.lane(i), Barrier: st.barrier || s.lane(i) != st.lane,
		Inputs: make([]schedule.Port, 0, len(st.in)), Outputs: make([]schedule.Port, 0, len(st.out)), Buffers: make([]schedule.Buffer, 0, len(r.Buffers))}
	last := out.Substeps - 1
	for k, v := range st.in {
		port := schedule.Port{Value: v, Last: last}
		if k < len(r.Inputs) {
			port.First, port.Last = r.Inputs[k].First, r.Inputs[k].Last
		}
		out.Inputs = append(out.Inputs, port)
	}
	for k, v := range st.out {
		port := schedule.Port{Value: v, Last: last}
		if k < len(r.Outputs) {
			port.First, port.Last = r.Outputs[k].First, max(r.Outputs[k].Last, r.Outputs[k].First)
		}
		out.Outputs = append(out.Outputs, port)
	}
	for _, b := range r.Buffers {
		out.Buffers = append(out.Buffers, schedule.Buffer{Bytes: b.Bytes, Align: b.Align, First: b.First, Last: b.Last, Device: deviceOf(st.backend)})
	}
	for _, pair := range r.InPlace {
		out.InPlace = append(out.InPlace, schedule.Pair{Output: pair.Output, Input: pair.Input})
	}
	if st.Kind == StepHost {
		for _, d := range s.regionDevices(i) {
			// Regions run one after the other: they share one rectangle, the largest of their arenas.
			var most int64
			for _, inner := range s.inner[i] {
				most = max(most, inner.arenaOn(d))
			}
			s.rooms[i] = append(s.rooms[i], d)
			out.Buffers = append(out.Buffers, schedule.Buffer{Bytes: most, Device: d})
		}
		if l := s.loops[i]; l != nil {
			for _, x := range l.scratch {
				device := s.inner[i][0].block.Slots[x.slot].Value.Format.Device
				out.Buffers = append(out.Buffers, schedule.Buffer{Bytes: x.bytes, Device: device})
			}
		}
	}
	return out
}

// regionDevices returns the devices on which the regions of step i have arenas.
func (s *Spec) regionDevices(i int) []tensor.DeviceID {
	set := map[tensor.DeviceID]bool{}
	for _, inner := range s.inner[i] {
		for _, d := range inner.devices() {
			set[d] = true
		}
	}
	return sortedDevices(set)
}

// lane returns the lane that step i is on: the host's, where a stand-in runs it.
func (s *Spec) lane(i int) int {
	if isStandIn(s.inst[i]) {
		return 0
	}
	return s.block.Steps[i].lane
}

// findWaits notes, once the plan is made, which steps others wait for, and the last step of each lane.
func (s *Spec) findWaits() {
	s.tails = make([]int, len(s.block.lanes))
	for l := range s.tails {
		s.tails[l] = -1
	}
	if len(s.tails) == 1 {
		return
	}
	s.awaited = make([]bool, len(s.block.Steps))
	for i := range s.block.Steps {
		if l := s.lane(i); l > 0 {
			s.tails[l] = i
		}
		if s.plan.Waits == nil { // stand-ins run everything that was on a device
			continue
		}
		for _, w := range s.plan.Waits[i] {
			s.awaited[w] = true
		}
	}
}

func deviceOf(b backend.Backend) tensor.DeviceID {
	if ds := b.Devices(); len(ds) > 0 {
		return ds[0].ID().Canonical()
	}
	return tensor.DeviceID{}
}

// devices returns those that the plan has arenas on, the host first.
func (s *Spec) devices() []tensor.DeviceID {
	out := []tensor.DeviceID{{}}
	for _, a := range s.plan.Arenas {
		if !a.Device.IsHost() && a.Height > 0 {
			out = append(out, a.Device)
		}
	}
	slices.SortFunc(out, compareDevices)
	return out
}

// arenaOn returns the bytes of the arena on a device.
func (s *Spec) arenaOn(d tensor.DeviceID) int64 {
	for _, a := range s.plan.Arenas {
		if a.Device == d || a.Device.IsHost() && d.IsHost() {
			return a.Height
		}
	}
	return 0
}
