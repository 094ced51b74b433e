package cpu

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/pairs"
	"github.com/carve-dev/carve/internal/kernel/quant"
	"github.com/carve-dev/carve/internal/kernel/vec"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/internal/pool"
	"github.com/carve-dev/carve/property"
)

// executable is a compiled subgraph, generic in its symbols. It is immutable.
type executable struct {
	target  isa.Target
	pairs   pairs.Type // of what products are
	sub     *graph.Graph
	order   []*graph.Node
	ops     []operator // by node id
	threads int
	kernels place.Kernels // the user's

	mu    sync.Mutex
	kept  map[*graph.Node]any         // see keep
	links map[*graph.Node]*fuse.Links // see linksOf
	bases bases
}

// Close implements backend.Executable.
func (e *executable) Close() error { return nil }

// keep returns what is made of a node once, whatever shapes it is planned for.
func keep[T any](e *executable, n *graph.Node, make func() (T, error)) (T, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if v, ok := e.kept[n].(T); ok {
		return v, nil
	}
	v, err := make()
	if err == nil {
		if e.kept == nil {
			e.kept = map[*graph.Node]any{}
		}
		e.kept[n] = v
	}
	return v, err
}

// step is one sub-step of an instance.
type step struct {
	work   int // its part of the node's multiply-adds, see place.Plan.Step
	chunks int
	grain  int
	// body computes chunks [lo, hi); worker tells scratch areas apart.
	body func(st *state, worker, lo, hi int)
	// serial, where it is not nil, runs first, on the calling goroutine.
	serial func(st *state)
	flat   *flat // of an element-wise step; nil for others
}

// planner turns nodes into steps over slots for concrete shapes.
type planner struct {
	*place.Plan
	e       *executable
	target  isa.Target
	kernels vec.Kernels // of rows and elements, for the target

	integers quant.Kernels // of 8-bit integers, for the target
	steps    []step
	calls    int           // of users' kernels
	mayFail  bool          // by a step that finds something in the operands
	texts    map[int]texts // where strings lie, by value
}

// instance is a subgraph for concrete shapes.
type instance struct {
	steps  []step
	joined []joinedSteps // in order
	slots  []place.Slot
	reqs   backend.Requirements
	texts  []madeText
}

// Specialize implements backend.Executable.
func (e *executable) Specialize(ctx context.Context, b graph.Bindings) (backend.Instance, error) {
	if len(e.order) == 1 && chooses(e.order[0]) {
		return e.specializeChoosing(b)
	}
	if in := e.bases.similar(ctx, e, b); in != nil {
		return in, nil
	}
	p, in, err := e.specialize(ctx, b)
	if err != nil {
		return nil, err
	}
	e.bases.add(p, in)
	return in, nil
}

// specialize plans all nodes.
func (e *executable) specialize(ctx context.Context, b graph.Bindings) (*planner, *instance, error) {
	p, err := e.newPlanner(b)
	if err != nil {
		return nil, nil, err
	}
	p.Nothing = p.checkIndices
	if err := p.Each(ctx, p.settle, p.plan); err != nil {
		return nil, nil, err
	}
	in := &instance{joined: p.join(), steps: p.steps}
	in.slots, in.reqs, in.texts = p.Slots, p.Finish(), p.madeTexts()
	if p.calls > 0 || p.mayFail {
		place.KeepInputs(&in.reqs)
	}
	for _, x := range p.Reqs.Extends {
		in.reqs.Inputs[x.Input].Strided, in.reqs.Outputs[x.Output].Strided = true, true
	}
	return p, in, nil
}

// leastPast is the least result that goes past the caches: package reorder's of layouts are no smaller.
const leastPast = 8 << 20

// into returns the kernels that make a value at a place: past the caches from a quarter of the last one on, which is the share of one of several busy cores. What is
// read for such a result and what its reader writes displace it before it is read: on an AMD Zen 3 with 32 MiB of third cache a sum of 8 MiB and a
// function of it take 0.84 of their time, of 4 MiB 1.19.
func (p *planner) into(dst place.Memory) vec.Kernels {
	if p.past(dst) {
		return p.kernels.Past()
	}
	return p.kernels
}

// past reports whether what is written to a place goes past the caches.
func (p *planner) past(dst place.Memory) bool {
	return dst.Size >= max(p.target.LastCache()/4, leastPast)
}

// newPlanner returns a planner that knows where outputs and operands of concatenations belong.
func (e *executable) newPlanner(b graph.Bindings) (*planner, error) {
	plan, err := place.New(e.sub, e.order, b)
	if err != nil {
		return nil, err
	}
	p := &planner{Plan: plan, e: e, target: e.target, kernels: vec.For(e.target), integers: quant.For(e.target), steps: make([]step, 0, len(e.order))}
	p.WantOutputs()
	p.WantConcats(1, func(n *graph.Node) bool { return place.IsView(n) || n.Is("Slice", "Split") }, p.takesStrided)
	return p, nil
}

// Estimate implements backend.Estimator.
func (c cpu) Estimate(ctx context.Context, sub *graph.Graph, b graph.Bindings, o backend.CompileOptions) (*backend.Footprint, error) {
	e, err := c.compile(sub, o)
	if err != nil {
		return nil, err
	}
	p, err := e.newPlanner(b)
	if err != nil {
		return nil, err
	}
	f, err := p.Estimate(ctx, p.settle)
	if err == nil {
		p.withinSources(f)
	}
	return f, err
}

// settle says how a node's results lie with regard to its operands.
func (p *planner) settle(n *graph.Node) {
	if op := &p.e.ops[n.ID]; op.Settle != nil && !p.nothing(n) {
		op.Settle(p, n)
	}
}

// needsAxis are operators that go along an axis of their first operand: there is none where a run makes that a scalar, whose rank was unknown before.
var needsAxis = map[string]bool{"Softmax": true, "LogSoftmax": true, "Hardmax": true, "LpNormalization": true, "LayerNormalization": true, "RMSNormalization": true,
	"ArgMax": true, "ArgMin": true, "Gather": true, "GatherElements": true, "ScatterElements": true, "Scatter": true, "Split": true, "TopK": true, "CumSum": true, "DFT": true}

// plan emits the steps of a node; none where there is nothing to compute.
func (p *planner) plan(n *graph.Node) error {
	if needsAxis[n.Op.Name] && len(p.Dims[n.Inputs[0].ID]) == 0 {
		return property.Because(property.ShapeReason, "an axis of the scalar %v", n.Inputs[0])
	}
	if err := p.checkStrided(n); err != nil {
		return err
	}
	if p.nothing(n) {
		return p.checkIndices(n)
	}
	return p.e.ops[n.ID].Plan(p, n)
}

// nothing reports whether all results of a node are empty. Kernels need not know of such shapes. A user's kernel is called
// all the same.
func (p *planner) nothing(n *graph.Node) bool {
	if p.e.kernels.Has(n) {
		return false
	}
	for _, v := range n.Outputs {
		if v != nil && (p.Bytes(v) != 0 || isText(v)) {
			return false
		}
	}
	return true
}

// inPlace gives out the place of in where nothing else reads it any more; it reports whether it did. Where in is an input
// of the group and out an output, it leaves the choice to the planner of the whole.
func (p *planner) inPlace(out, in *graph.Value) bool {
	p.Offer(out, in)
	return p.InPlace(out, in)
}

// overFirst settles operators that may overwrite their first operand.
func overFirst(p *planner, n *graph.Node) { p.inPlace(n.Outputs[0], n.Inputs[0]) }

// copyStep emits a copy of a value of that many bytes.
func (p *planner) copyStep(dst, src place.Memory, size int) {
	const part = 1 << 16
	p.emit(step{chunks: ceilDiv(size, part), body: func(st *state, _, lo, hi int) {
		st.Copy(dst, src, lo*part, min(hi*part, size))
	}}, []place.Memory{src}, []place.Memory{dst})
}

// emit appends a step that reads and writes these places.
func (p *planner) emit(s step, reads, writes []place.Memory) {
	p.Step(s.work, reads, writes)
	p.steps = append(p.steps, s)
}

// Requirements implements backend.Instance.
func (in *instance) Requirements() backend.Requirements { return in.reqs }

// state is an instance bound to a session's memory.
type state struct {
	place.Storage
	in  *instance
	a   *backend.RunArgs
	run *pool.Run
	ctx context.Context
	cur *step

	joined *joinedSteps // that run
	alone  int          // which of their steps does, in a trace
	rooms  []byte       // of their results in a trace

	calls []*backend.KernelArgs // of users' kernels
	err   error                 // of the last one

	texts  [][]string            // those that the group makes, by value
	failed atomic.Pointer[error] // what a body has found wrong

	reserved atomic.Int64 // bytes of strings and rooms, told to RunArgs.Reserve
}

// fail ends the run with an error, for which the group's operands are to blame.
func (st *state) fail(err error) { st.failed.CompareAndSwap(nil, &err) }

// Enqueue implements backend.Instance: it runs the steps and returns when they are done.
func (in *instance) Enqueue(ctx context.Context, a *backend.RunArgs) (event device.Event, err error) {
	defer func() {
		if r := recover(); r != nil {
			if err = outOfRange(r); err == nil {
				panic(r)
			}
		}
	}()
	st, ok := a.Local.(*state)
	if !ok || st.in != in {
		st = &state{in: in, Storage: place.NewStorage(in.slots)}
		a.Local = st
	}
	st.ctx, st.run, st.err, st.a = ctx, nil, nil, a
	defer func() {
		if n := st.reserved.Swap(0); n > 0 {
			_ = a.Reserve(-n) // giving back does not fail
		}
		st.dropTexts()
		st.Unbind()
		st.rooms = nil
	}()
	if err := in.checkExtended(a); err != nil {
		return nil, err
	}
	if a.Workers != nil {
		st.run = a.Workers.Run
	}
	if err := errors.Join(st.BindTo(a), st.makeTexts()); err != nil {
		return nil, err
	}
	joined := in.joined
	for i := 0; i < len(in.steps); i++ {
		if len(joined) > 0 && joined[0].first == i {
			if err := st.runSteps(&joined[0]); err != nil {
				return nil, err
			}
			i, joined = joined[0].end-1, joined[1:]
			continue
		}
		s := &in.steps[i]
		if s.serial != nil {
			if s.serial(st); st.err != nil {
				return nil, st.err
			}
		}
		if s.chunks > 0 {
			st.cur = s
			st.run.For(s.chunks, s.grain, runChunks, st)
		}
		if found := st.failed.Swap(nil); found != nil {
			return nil, *found
		}
		if a.Trace != nil {
			a.Trace(i)
		}
		if i&7 == 7 || s.chunks > 64 {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return nil, nil
}

// outOfRange returns the *backend.RangeError that a step panicked with, here or in a worker; nil for another fault.
func outOfRange(r any) error {
	err, ok := r.(error)
	if !ok {
		return nil
	}
	var data *backend.RangeError
	if !errors.As(err, &data) {
		return nil
	}
	return data
}

// chunkPoll is how many chunks run between looks at the context, or as many as are worth a call.
const chunkPoll = 64

func runChunks(arg any, worker, lo, hi int) {
	st := arg.(*state)
	for some := max(chunkPoll, st.cur.grain); lo < hi; {
		if st.ctx.Err() != nil {
			return
		}
		next := min(lo+some, hi)
		st.cur.body(st, worker, lo, next)
		lo = next
	}
}

// of returns a place's memory as elements of T.
func of[T tensor.Element](st *state, m place.Memory) []T { return place.Elements[T](st.Bytes(m)) }

// grainFor returns the fewest chunks worth a call when each costs that many nanoseconds.
func grainFor(nanos float64) int {
	const worth = 5000
	if nanos >= worth {
		return 1
	}
	return int(worth/max(nanos, 1)) + 1
}
