package mkl

import (
	"context"
	"fmt"
	"slices"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
)

// executable is a compiled subgraph, generic in its symbols. It is immutable but for Close.
type executable struct {
	b       *mkl
	sub     *graph.Graph
	order   []*graph.Node
	threads int
	team    *team
	closed  bool
}

// Close implements backend.Executable.
func (e *executable) Close() error {
	if !e.closed {
		e.closed = true
		e.b.l.teams.release(e.team)
	}
	return nil
}

// memory is a place: bytes [off, off+size) of a slot.
type memory struct {
	slot int // -1: nowhere
	off  int
	size int
}

var nowhere = memory{slot: -1}

// slotKind tells where a slot's bytes come from at run time.
type slotKind uint8

const (
	fromInput slotKind = iota
	fromOutput
	fromConst
	fromBuffer
	fromData // made by the planner: packed weights, tables
)

type slotInfo struct {
	kind        slotKind
	index       int // of the input, output, constant or buffer
	data        []byte
	keep        any // what data belongs to
	least       int // bytes that steps touch
	left        int // operands that still read something in it
	first, last int // steps that touch it first and last
	used        bool
}

// step is one sub-step of an instance: a primitive, or a function of carve's own.
type step struct {
	label     backend.StepInfo
	primitive *primitive
	args      []arg
	host      func(st *state) error
	sources   []memory // of host, where it needs a list of them
}

// arg is an argument of a primitive.
type arg struct {
	id    int32
	at    memory
	d     *desc
	write bool
}

// planner turns nodes into steps over slots for concrete shapes.
type planner struct {
	e     *executable
	b     *mkl
	l     *library
	bind  graph.Bindings
	where []memory // by value id
	dims  [][]int  // by value id
	slots []slotInfo
	steps []step
	want  []memory // by value id: where its reader would like it to be made
	node  *graph.Node
	reqs  backend.Requirements
}

// Specialize implements backend.Executable.
func (e *executable) Specialize(ctx context.Context, b graph.Bindings) (backend.Instance, error) {
	ids := e.sub.ValueIDs()
	p := &planner{e: e, b: e.b, l: e.b.l, bind: b, where: make([]memory, ids), dims: make([][]int, ids), want: make([]memory, ids)}
	for i := range p.where {
		p.where[i], p.want[i] = nowhere, nowhere
	}
	if err := p.boundary(); err != nil {
		return nil, err
	}
	p.placeConcats()
	p.placeOutputs()
	for _, n := range e.order {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		p.node = n
		op, _ := lookup(n)
		if err := op.plan(p, n); err != nil {
			return nil, fmt.Errorf("%v: %w", n, err)
		}
		for _, v := range n.Inputs {
			if v != nil && p.where[v.ID].slot >= 0 {
				p.slots[p.where[v.ID].slot].left--
			}
		}
		for _, v := range n.Outputs {
			if v != nil && p.where[v.ID].slot < 0 && (v.NumUses() > 0 || v.IsOutput()) {
				return nil, fmt.Errorf("%v: result %v was not planned", n, v)
			}
		}
	}
	return p.finish(), nil
}

// boundary evaluates shapes, and makes slots of inputs and constants.
func (p *planner) boundary() error {
	sub := p.e.sub
	for i, v := range sub.Inputs {
		if err := p.eval(v); err != nil {
			return err
		}
		p.newSlot(v, slotInfo{kind: fromInput, index: i})
	}
	i := 0
	for v := range sub.Constants() {
		if v.IsDims() {
			t, err := v.EvalDims(p.bind)
			if err != nil {
				return err
			}
			if err := p.eval(v); err != nil {
				return err
			}
			p.newSlot(v, slotInfo{kind: fromData, data: t.Bytes()})
		} else {
			p.dims[v.ID] = v.Const.Shape
			p.newSlot(v, slotInfo{kind: fromConst, index: i})
		}
		i++
	}
	for _, n := range p.e.order {
		for _, v := range n.Outputs {
			if v != nil {
				if err := p.eval(v); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (p *planner) newSlot(v *graph.Value, s slotInfo) {
	s.first, s.left = -1, v.NumUses()
	p.where[v.ID] = memory{slot: len(p.slots), size: p.bytes(v)}
	p.slots = append(p.slots, s)
}

func (p *planner) eval(v *graph.Value) error {
	dims, err := v.Type.Shape.Eval(p.bind, make([]int, 0, len(v.Type.Shape)))
	if err != nil {
		return fmt.Errorf("value %v: %w", v, err)
	}
	p.dims[v.ID] = dims
	if _, err := graph.PhysicalSize(v.Format, v.Type.DType, dims); err != nil {
		return fmt.Errorf("value %v: %w", v, err)
	}
	return nil
}

// bytes returns the physical size of v.
func (p *planner) bytes(v *graph.Value) int {
	n, err := graph.PhysicalSize(v.Format, v.Type.DType, p.dims[v.ID])
	if err != nil {
		return 0
	}
	return int(n)
}

// shape describes a value to the library.
func (p *planner) shape(v *graph.Value) shape {
	if v == nil {
		return shape{}
	}
	return shape{dims: p.dims[v.ID], layout: v.Format.Layout, dtype: dtypeOf(v.Type.DType)}
}

// placeOutputs asks that values are made where the caller wants the group's outputs, also through views.
func (p *planner) placeOutputs() {
	for i, v := range p.e.sub.Outputs {
		if v.Producer == nil || p.where[v.ID].slot >= 0 || p.want[v.ID].slot >= 0 {
			continue
		}
		m := memory{slot: len(p.slots), size: p.bytes(v)}
		p.slots = append(p.slots, slotInfo{kind: fromOutput, index: i, first: -1})
		p.want[v.ID] = m
		for n := v.Producer; n != nil && isView(n) && n.Inputs[0].Format == n.Outputs[0].Format; {
			src := n.Inputs[0]
			if src.Producer == nil || !src.HasOneUse() || p.want[src.ID].slot >= 0 || p.bytes(src) != m.size {
				break
			}
			p.want[src.ID] = m
			n = src.Producer
		}
	}
}

// out gives a result its place: where its reader wants it, or a new buffer.
func (p *planner) out(v *graph.Value) memory {
	if v == nil {
		return nowhere
	}
	if m := p.where[v.ID]; m.slot >= 0 {
		return m
	}
	m := p.want[v.ID]
	if m.slot < 0 {
		m = memory{slot: p.buffer(p.bytes(v)), size: p.bytes(v)}
	}
	p.bindValue(v, m)
	return m
}

// bindValue says that v lies at m.
func (p *planner) bindValue(v *graph.Value, m memory) {
	p.where[v.ID] = m
	p.slots[m.slot].left += v.NumUses()
	if v.IsOutput() && p.slots[m.slot].kind != fromOutput {
		p.slots[m.slot].left++ // never free for others
	}
}

// buffer makes a slot of n bytes in the arena.
func (p *planner) buffer(n int) int {
	p.slots = append(p.slots, slotInfo{kind: fromBuffer, index: len(p.reqs.Buffers), first: -1})
	p.reqs.Buffers = append(p.reqs.Buffers, backend.Buffer{Bytes: int64(n)})
	return len(p.slots) - 1
}

// temp returns n bytes of workspace for steps that are about to be emitted.
func (p *planner) temp(n int) memory { return memory{slot: p.buffer(n), size: n} }

// in returns where an operand lies.
func (p *planner) in(v *graph.Value) memory {
	if v == nil {
		return nowhere
	}
	return p.where[v.ID]
}

// inPlace gives out the place of in where nothing else reads it any more; it reports whether it did.
func (p *planner) inPlace(out, in *graph.Value) bool {
	if out == nil || p.where[out.ID].slot >= 0 || p.want[out.ID].slot >= 0 {
		return false
	}
	m := p.where[in.ID]
	if m.slot < 0 || p.slots[m.slot].kind != fromBuffer || p.slots[m.slot].left != 1 || m.off != 0 || m.size != p.bytes(out) ||
		int64(m.size) != p.reqs.Buffers[p.slots[m.slot].index].Bytes {
		return false
	}
	p.bindValue(out, m)
	return true
}

// alias makes out a view of in, both in the same format and of one size. Where out has to be made elsewhere, it is copied.
func (p *planner) alias(out, in *graph.Value) {
	m := p.where[in.ID]
	size := p.bytes(out)
	if w := p.want[out.ID]; w.slot >= 0 && w != m {
		p.copyStep(p.out(out), memory{m.slot, m.off, size})
		return
	}
	p.bindValue(out, memory{m.slot, m.off, size})
}

// copyStep copies bytes.
func (p *planner) copyStep(dst, src memory) {
	p.emit(step{host: func(st *state) error {
		copy(st.bytes(dst), st.bytes(src))
		return nil
	}}, []memory{src}, []memory{dst})
}

// touch notes that the step to be emitted reads or writes a place.
func (p *planner) touch(m memory, at int) {
	if m.slot < 0 {
		return
	}
	s := &p.slots[m.slot]
	if !s.used {
		s.first, s.used = at, true
	}
	s.last = at
	s.least = max(s.least, m.off+m.size)
}

// emit appends a step that reads and writes these places.
func (p *planner) emit(s step, reads, writes []memory) {
	at := len(p.steps)
	if s.label.Op == "" {
		n := p.node
		s.label.Name, s.label.Op, s.label.Origins = n.Name, n.Op.String(), n.Provenance()
		if n.IsCarve(graph.OpFused) {
			s.label.Op = n.Str("pattern", s.label.Op)
		}
	}
	for _, m := range reads {
		p.touch(m, at)
	}
	for _, m := range writes {
		p.touch(m, at)
	}
	p.steps = append(p.steps, s)
}

// run emits a primitive; arguments without a place are left out. Scratch memory comes with it.
func (p *planner) run(pr *primitive, flops float64, args ...arg) {
	args = slices.DeleteFunc(args, func(a arg) bool { return a.at.slot < 0 })
	if pr.scratchBytes > 0 {
		args = append(args, arg{argScratchpad, p.temp(int(pr.scratchBytes)), pr.scratch, true})
	}
	var reads, writes []memory
	for _, a := range args {
		if a.write {
			writes = append(writes, a.at)
		} else {
			reads = append(reads, a.at)
		}
	}
	s := step{primitive: pr, args: args}
	n := p.node
	s.label = backend.StepInfo{Name: n.Name, Op: n.Op.String(), Origins: n.Provenance(), FLOPs: flops}
	if n.IsCarve(graph.OpFused) {
		s.label.Op = n.Str("pattern", s.label.Op)
	}
	p.emit(s, reads, writes)
}

// make returns the primitive of a recipe for the executable's threads.
func (p *planner) make(r recipe) (*primitive, error) { return p.l.primitive(p.e.threads, r) }

// desc is the descriptor of a shape for an argument.
func (p *planner) desc(s shape) (*desc, error) { return p.l.desc(s) }

// finish fills in the requirements.
func (p *planner) finish() *instance {
	r := &p.reqs
	r.Steps = max(len(p.steps), 1)
	r.Inputs = make([]backend.PortUse, len(p.e.sub.Inputs))
	r.Outputs = make([]backend.PortUse, len(p.e.sub.Outputs))
	for i, v := range p.e.sub.Outputs {
		r.Outputs[i] = backend.PortUse{Bytes: int64(p.bytes(v)), First: 0, Last: r.Steps - 1}
	}
	for i := range p.slots {
		s := &p.slots[i]
		switch s.kind {
		case fromInput:
			r.Inputs[s.index] = backend.PortUse{Bytes: int64(p.bytes(p.e.sub.Inputs[s.index])), Last: s.last}
		case fromOutput:
			r.Outputs[s.index].First, r.Outputs[s.index].Last = max(s.first, 0), s.last
		case fromBuffer:
			b := &r.Buffers[s.index]
			b.First, b.Last = max(s.first, 0), max(s.last, 0)
			if !s.used {
				b.Bytes = 0
			}
		}
	}
	for i := range p.steps {
		r.Labels = append(r.Labels, p.steps[i].label)
	}
	return &instance{e: p.e, steps: p.steps, slots: p.slots, reqs: p.reqs}
}
