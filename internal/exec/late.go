package exec

import (
	"context"
	"slices"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/memplan/schedule"
)

// A late group is one whose shapes depend on data and whose backend cannot do without them: its Specialize answers
// graph.ErrUnbound. It is specialised in the run, when its operands are there, for the shapes that they have. Its results lie
// outside of the plan, like all values whose shape depends on data, and its buffers in memory of the session's, which late
// groups share, since they run one after another.

// lateInstance is a late group for the shapes of its operands.
type lateInstance struct {
	key      uint64
	shapes   [][]int // of the operands; nil for omitted ones
	contents []int64 // of the operands that the shapes depend on, one after the other
	bindings graph.Bindings
	inst     backend.Instance
	reqs     backend.Requirements
	args     *backend.RunArgs
	plan     *schedule.Plan
	results  [][]int
}

// lateKept are the instances that a frame keeps of a late group, by the shapes of its operands: these repeat where data does, as in loops, and
// lengths that a loop has gone through come again in the next run.
type lateKept struct {
	latest *lateInstance
	at     map[uint64]int // in list, by what key says
	list   []*lateInstance
	next   int // of those that made place for others
	nodes  int // of all of them
}

// A session keeps instances for as many nodes as mostLateNodes, of a group no more than mostLate, or mostNative where a library or a device has
// some of what they consist of, and some of every group.
const (
	mostLateNodes = 1 << 14
	mostLate      = 1 << 10
	mostNative    = 32
	leastLate     = 4
)

// key returns a number that tells what an instance is made for from most of what others are.
func (f *frame) key(st *Step, a *backend.RunArgs) uint64 {
	const prime = 1<<40 + 0x1b3
	h := uint64(0xcbf29ce484222325)
	mix := func(x int64) { h = (h ^ uint64(x) ^ h>>29) * prime }
	for _, t := range a.Inputs {
		if t != nil {
			for _, d := range t.Shape {
				mix(int64(d))
			}
		}
	}
	for _, x := range f.read {
		mix(x)
	}
	for _, s := range st.needs {
		mix(f.found[s])
	}
	return h
}

// add keeps an instance. Where there are as many as there may be it takes another one's place, these by turns: of lengths that come again in
// the order in which they came, the oldest are not those that will come last.
func (k *lateKept) add(s *Session, st *Step, key uint64, l *lateInstance) {
	most, nodes := mostLate, st.Node.Regions[0].Graph.NumNodes()
	if st.info.Threads || !deviceOf(st.backend).IsHost() {
		most = mostNative
	}
	full := len(k.list) >= most || s.lateNodes+nodes > mostLateNodes
	old, again := k.at[key]
	switch {
	case again:
		k.list[old] = l
	case !full || len(k.list) < leastLate:
		s.lateNodes += nodes
		k.nodes += nodes
		if k.at == nil {
			k.at = map[uint64]int{}
		}
		k.at[key] = len(k.list)
		k.list = append(k.list, l)
	default:
		const stride = 0x9e3779b1
		k.next = (k.next + stride) % len(k.list)
		delete(k.at, k.list[k.next].key)
		k.at[key] = k.next
		k.list[k.next] = l
	}
	l.key = key
}

// isLate reports whether group i waits for the shapes of its operands.
func (s *Spec) isLate(i int) bool { return s.block.Steps[i].Kind == StepGroup && s.inst[i] == nil }

// requirements returns those of the instance that a group runs.
func (f *frame) requirements(i int) *backend.Requirements {
	if f.s.isLate(i) && len(f.late) > 0 && f.late[i].latest != nil {
		return &f.late[i].latest.reqs
	}
	return &f.s.reqs[i]
}

// bindings returns the symbols that a group's shapes may speak of.
func (f *frame) bindings(i int) graph.Bindings {
	if f.s.isLate(i) && len(f.late) > 0 && f.late[i].latest != nil {
		return f.late[i].latest.bindings
	}
	return f.s.bindings
}

// runLate specialises a late group, makes room for its results, and runs it. Operands are in a.
func (f *frame) runLate(ctx context.Context, i int, st *Step, a *backend.RunArgs) error {
	l, err := f.lateInstance(ctx, i, st, a)
	if err != nil {
		if ctx.Err() != nil || f.session.m.env.Strict {
			return err
		}
		if err = f.runInstance(ctx, i, f.session.m.fallback(ctx, st, f.s.bindings, err), a); err != nil {
			return &failure{st, err, true}
		}
		return nil
	}
	f.settled(st, l)
	copy(l.args.Inputs, a.Inputs)
	for k, slot := range st.out {
		if slot < 0 {
			continue
		}
		if l.args.Outputs[k], err = f.allocOutput(st, k, f.s.block.Slots[slot].Value.Type.DType, l.results[k]); err != nil {
			return err
		}
	}
	if err := f.lateBuffers(st, l); err != nil {
		return err
	}
	l.args.Trace = a.Trace
	err = f.runInstance(ctx, i, l.inst, l.args)
	clear(l.args.Inputs) // which would live as long as the instance
	clear(l.args.Outputs)
	return err
}

// lateInstance returns the instance for the operands' shapes, the latest of the group from now on.
func (f *frame) lateInstance(ctx context.Context, i int, st *Step, a *backend.RunArgs) (*lateInstance, error) {
	if f.late == nil {
		f.late = make([]lateKept, len(f.s.block.Steps))
	}
	kept := &f.late[i]
	f.read = contentsOf(f.read[:0], st, a.Inputs)
	serves := func(l *lateInstance) bool {
		return matches(l.shapes, a.Inputs) && slices.Equal(l.contents, f.read) && f.holds(st, l)
	}
	if kept.latest != nil && serves(kept.latest) {
		return kept.latest, nil
	}
	key := f.key(st, a)
	if at, ok := kept.at[key]; ok && serves(kept.list[at]) {
		kept.latest = kept.list[at]
		return kept.latest, nil
	}
	l, err := f.specializeLate(ctx, st, a)
	if err != nil {
		return nil, err
	}
	kept.add(f.session, st, key, l)
	kept.latest = l
	return l, nil
}

// littleBuffers are bytes up to which buffers of a late group lie side by side: that they share memory is not worth the time to find out how.
const littleBuffers = 64 << 10

func (f *frame) specializeLate(ctx context.Context, st *Step, a *backend.RunArgs) (*lateInstance, error) {
	m, body := f.session.m, st.Node.Regions[0].Graph
	l := &lateInstance{contents: slices.Clone(f.read)}
	var err error
	if l.bindings, err = bindOperands(bindContents(f.known(st), st, a.Inputs), body, body.Inputs, a.Inputs); err != nil {
		return nil, err
	}
	for _, t := range a.Inputs {
		l.shapes = append(l.shapes, slices.Clone(t.Shape))
	}
	if err := st.shapes.Settle(l.bindings); err != nil {
		return nil, err
	}
	for _, v := range body.Outputs {
		dims, err := v.Type.Shape.Eval(l.bindings, []int{})
		if err != nil {
			return nil, err
		}
		l.results = append(l.results, dims)
	}
	if l.inst, err = instantiate(ctx, st.exe, l.bindings); err != nil {
		return nil, err
	}
	l.reqs = l.inst.Requirements()
	bytes := int64(0)
	for _, b := range l.reqs.Buffers {
		bytes += b.Bytes
	}
	problem := &schedule.Problem{Steps: []schedule.Step{{Substeps: max(l.reqs.Steps, 1), NoReuse: l.reqs.NoReuse || bytes <= littleBuffers}}}
	for _, b := range l.reqs.Buffers {
		problem.Steps[0].Buffers = append(problem.Steps[0].Buffers, schedule.Buffer{Bytes: b.Bytes, Align: b.Align, First: b.First, Last: b.Last, Device: deviceOf(st.backend)})
	}
	if l.plan, err = schedule.Make(ctx, problem, m.env.Verify); err != nil {
		return nil, err
	}
	l.args = &backend.RunArgs{Inputs: make([]*tensor.Tensor, len(a.Inputs)), Outputs: make([]*tensor.Tensor, len(a.Outputs)), Workers: a.Workers, Stream: a.Stream, Alloc: a.Alloc, Reserve: a.Reserve}
	for _, b := range l.reqs.Buffers {
		l.args.Buffers = append(l.args.Buffers, &tensor.Tensor{DType: tensor.Uint8, Shape: []int{int(b.Bytes)}, Device: deviceOf(st.backend)})
	}
	l.args.Constants, err = m.withForms(ctx, body, st.constants, l.reqs.Constants)
	return l, err
}

// lateBuffers points the buffers of an instance at memory of the session's, which grows where it has to.
func (f *frame) lateBuffers(st *Step, l *lateInstance) error {
	d, s := deviceOf(st.backend).Canonical(), f.session
	for _, a := range l.plan.Arenas {
		if a.Height <= s.late[d].Size {
			continue
		}
		dev := s.m.env.Transfer.Devices[d]
		if m, ok := s.late[d]; ok {
			s.release(dev, m)
			delete(s.late, d)
		}
		m, err := s.alloc(dev, a.Height)
		if err != nil {
			return err
		}
		s.late[d] = m
	}
	for k, t := range l.args.Buffers {
		off, m := l.plan.Buffers[0][k], s.late[d]
		if d.IsHost() {
			t.Data, t.Offset = m.Data[off:off+l.reqs.Buffers[k].Bytes:off+l.reqs.Buffers[k].Bytes], 0
		} else {
			t.Handle, t.Offset = m.Handle, int(off)
		}
	}
	return nil
}
