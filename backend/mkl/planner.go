package mkl

import (
	"context"
	"slices"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/place"
)

// executable is a compiled subgraph, generic in its symbols. It is immutable but for Close.
type executable struct {
	b       *mkl
	sub     *graph.Graph
	order   []*graph.Node
	threads int
	team    *team
	closed  bool
	kernels place.Kernels // the user's
}

// Close implements backend.Executable.
func (e *executable) Close() error {
	if !e.closed {
		e.closed = true
		e.b.l.teams.release(e.team)
	}
	return nil
}

// step is one sub-step of an instance: a primitive, or a function of carve's own.
type step struct {
	primitive *primitive
	args      []arg
	host      func(st *state) error
	sources   []place.Memory // of host, where it needs a list of them
}

// arg is an argument of a primitive.
type arg struct {
	id    int32
	at    place.Memory
	d     *desc
	write bool
}

// planner turns nodes into steps over slots for concrete shapes.
type planner struct {
	*place.Plan
	e       *executable
	b       *mkl
	l       *library
	threads int // most that a primitive is made for
	times   int // images that the node is planned for one by one; 1 where it is planned at once
	steps   []step
	calls   int // of users' kernels
}

// placeAlign is where operands of a concatenation may begin in its result: the library's kernels are at their best on
// whole cache lines.
const placeAlign = 64

// Specialize implements backend.Executable. A group of little work is planned again for one thread.
func (e *executable) Specialize(ctx context.Context, b graph.Bindings) (backend.Instance, error) {
	p, err := e.plan(ctx, b, e.threads)
	if err == nil && e.threads > 1 && p.nanos() <= soloGroupNanos {
		p, err = e.plan(ctx, b, 1)
	}
	if err != nil {
		return nil, err
	}
	shared := slices.ContainsFunc(p.steps, func(s step) bool { return s.primitive != nil && s.primitive.threads > 1 })
	in := &instance{e: e, steps: p.steps, slots: p.Slots, reqs: p.Finish(), solo: !shared, calls: p.calls}
	if p.calls > 0 {
		place.KeepInputs(&in.reqs)
	}
	return in, nil
}

// plan emits the steps of all nodes.
func (e *executable) plan(ctx context.Context, b graph.Bindings, threads int) (*planner, error) {
	p, err := e.newPlanner(b, threads)
	if err != nil {
		return nil, err
	}
	return p, p.Each(ctx, p.settle, p.node)
}

// newPlanner returns a planner that knows where outputs and operands of concatenations belong.
func (e *executable) newPlanner(b graph.Bindings, threads int) (*planner, error) {
	plan, err := place.New(e.sub, e.order, b)
	if err != nil {
		return nil, err
	}
	p := &planner{Plan: plan, e: e, b: e.b, l: e.b.l, threads: threads, times: 1}
	p.WantOutputs()
	p.WantConcats(placeAlign, mayAlias, p.takesStrided)
	return p, nil
}

// Estimate implements backend.Estimator. That a group of little work is planned for one thread is not known yet.
func (b *mkl) Estimate(ctx context.Context, sub *graph.Graph, bind graph.Bindings, o backend.CompileOptions) (*backend.Footprint, error) {
	e, err := b.prepare(sub, o)
	if err != nil {
		return nil, err
	}
	p, err := e.newPlanner(bind, threadsOf(o))
	if err != nil {
		return nil, err
	}
	return p.Estimate(ctx, p.settle)
}

// nanos estimates the time of the steps on one thread.
func (p *planner) nanos() float64 {
	sum := 0.0
	for i := range p.steps {
		if pr := p.steps[i].primitive; pr != nil {
			sum += pr.nanos
		}
	}
	return sum
}

// shape describes a value to the library.
func (p *planner) shape(v *graph.Value) shape {
	if v == nil {
		return shape{}
	}
	return shape{dims: p.Dims[v.ID], layout: v.Format.Layout, dtype: dtypeOf(v.Type.DType)}
}

// overFirst settles operators that may overwrite their first operand.
func overFirst(p *planner, n *graph.Node) { p.InPlace(n.Outputs[0], n.Inputs[0]) }

// copyStep copies a value of that many bytes.
func (p *planner) copyStep(dst, src place.Memory, size int) {
	p.emit(step{host: func(st *state) error {
		st.Copy(dst, src, 0, size)
		return nil
	}}, []place.Memory{src}, []place.Memory{dst})
}

// emit appends a step that reads and writes these places.
func (p *planner) emit(s step, reads, writes []place.Memory) {
	p.Step(0, reads, writes)
	p.steps = append(p.steps, s)
}

// run emits a primitive; arguments without a place are left out. Scratch memory comes with it.
func (p *planner) run(pr *primitive, args ...arg) {
	args = slices.DeleteFunc(args, func(a arg) bool { return a.at.Slot < 0 })
	if pr.scratchBytes > 0 {
		args = append(args, arg{argScratchpad, p.Temp(int(pr.scratchBytes)), pr.scratch, true})
	}
	var reads, writes []place.Memory
	for _, a := range args {
		if a.write {
			writes = append(writes, a.at)
		} else {
			reads = append(reads, a.at)
		}
	}
	work := 0
	if pr.product {
		work = 1
	}
	p.Step(work, reads, writes)
	p.steps = append(p.steps, step{primitive: pr, args: args})
}

// make returns the primitive of a recipe for the executable's threads or for one.
func (p *planner) make(r recipe) (*primitive, error) {
	if p.b.fail == "primitive" {
		return nil, errInjected
	}
	if r.product {
		r.ops = p.FLOPs() / float64(p.times)
	}
	return p.l.primitive(p.e.team, r.threads(p.threads), r)
}

// desc is the descriptor of a shape for an argument.
func (p *planner) desc(s shape) (*desc, error) { return p.l.desc(s) }
