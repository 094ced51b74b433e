package cpu

import (
	"context"
	"errors"
	"fmt"
	"unsafe"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/pool"
)

// executable is a compiled subgraph, generic in its symbols. It is immutable.
type executable struct {
	sub     *graph.Graph
	order   []*graph.Node
	threads int
	kernels map[string]backend.KernelProvider // the user's, by pattern
}

// Close implements backend.Executable.
func (e *executable) Close() error { return nil }

// memory is a place: bytes [off, off+size) of a slot.
type memory struct {
	slot int // -1: nowhere
	off  int
	size int
}

// slotKind tells where a slot's bytes come from at run time.
type slotKind uint8

const (
	fromInput slotKind = iota
	fromOutput
	fromConst
	fromBuffer
	fromData // made by the planner: dims values, tables
)

type slotInfo struct {
	kind  slotKind
	index int // of the input, output, constant or buffer
	data  []byte
	left  int // operands that still read something in it
	first int // step that writes it first
	last  int // step that touches it last
	used  bool
}

// step is one sub-step of an instance.
type step struct {
	label  backend.StepInfo
	chunks int
	grain  int
	// body computes chunks [lo, hi); worker tells scratch areas apart.
	body func(st *state, worker, lo, hi int)
	// serial, where it is not nil, runs first, on the calling goroutine.
	serial func(st *state)
}

// planner turns nodes into steps over slots for concrete shapes.
type planner struct {
	e     *executable
	bind  graph.Bindings
	where []memory // by value id
	dims  [][]int  // by value id
	slots []slotInfo
	steps []step
	want  []memory // by value id: where its reader would like it to be made
	node  *graph.Node
	reqs  backend.Requirements
	calls int // of users' kernels
}

// instance is a subgraph for concrete shapes.
type instance struct {
	steps []step
	slots []slotInfo
	reqs  backend.Requirements
}

// Specialize implements backend.Executable.
func (e *executable) Specialize(ctx context.Context, b graph.Bindings) (backend.Instance, error) {
	p := &planner{e: e, bind: b, where: make([]memory, e.sub.ValueIDs()), dims: make([][]int, e.sub.ValueIDs()), want: make([]memory, e.sub.ValueIDs())}
	for i := range p.where {
		p.where[i].slot, p.want[i].slot = -1, -1
	}
	if err := p.boundary(); err != nil {
		return nil, err
	}
	if err := p.shapes(); err != nil {
		return nil, err
	}
	p.placeConcats()
	p.placeOutputs()
	for _, n := range e.order {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := p.plan(n); err != nil {
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

// plan emits the steps of a node; none where there is nothing to compute.
func (p *planner) plan(n *graph.Node) error {
	p.node = n
	op, _ := p.e.lookup(n)
	if !p.nothing(n) {
		return op.plan(p, n)
	}
	for _, v := range n.Outputs {
		p.out(v)
	}
	return nil
}

// nothing reports whether all results of a node are empty. Kernels need not know of such shapes. A user's kernel is called
// all the same.
func (p *planner) nothing(n *graph.Node) bool {
	if n.IsCarve(graph.OpFused) && p.e.kernels[n.Str("pattern", "")] != nil {
		return false
	}
	for _, v := range n.Outputs {
		if v != nil && p.bytes(v) != 0 {
			return false
		}
	}
	return true
}

// boundary makes slots of inputs, outputs, constants and dims values.
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
			p.newSlot(v, slotInfo{kind: fromData, data: append(t.Bytes(), make([]byte, 64)...)[:len(t.Bytes())]})
		} else {
			p.dims[v.ID] = v.Const.Shape
			p.newSlot(v, slotInfo{kind: fromConst, index: i})
		}
		i++
	}
	return nil
}

func (p *planner) newSlot(v *graph.Value, s slotInfo) {
	s.first = -1
	s.left = v.NumUses()
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

func (p *planner) shapes() error {
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

// bytes returns the physical size of v.
func (p *planner) bytes(v *graph.Value) int {
	n, err := graph.PhysicalSize(v.Format, v.Type.DType, p.dims[v.ID])
	if err != nil {
		return 0
	}
	return int(n)
}

// placeOutputs asks that values are made where the caller wants the group's outputs, also through views.
func (p *planner) placeOutputs() {
	for i, v := range p.e.sub.Outputs {
		if v.Producer == nil || p.where[v.ID].slot >= 0 || p.want[v.ID].slot >= 0 {
			continue
		}
		s := len(p.slots)
		p.slots = append(p.slots, slotInfo{kind: fromOutput, index: i, first: -1})
		m := memory{slot: s, size: p.bytes(v)}
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
		return memory{slot: -1}
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
func (p *planner) in(v *graph.Value) memory { return p.where[v.ID] }

// inPlace gives out the place of in where nothing else reads it any more; it reports whether it did. Where in is an input
// of the group and out an output, it leaves the choice to the planner of the whole.
func (p *planner) inPlace(out, in *graph.Value) bool {
	if out == nil || p.where[out.ID].slot >= 0 {
		return false
	}
	m := p.where[in.ID]
	if w := p.want[out.ID]; w.slot >= 0 {
		if m.slot >= 0 && p.slots[m.slot].kind == fromInput && p.slots[m.slot].left == 1 && p.slots[w.slot].kind == fromOutput && w.off == 0 &&
			m == (memory{m.slot, 0, w.size}) {
			p.reqs.InPlace = append(p.reqs.InPlace, backend.InPlace{Output: p.slots[w.slot].index, Input: p.slots[m.slot].index})
		}
		return false
	}
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
	w := p.want[out.ID]
	if w.slot < 0 || w == m {
		p.bindValue(out, memory{m.slot, m.off, p.bytes(out)})
		return
	}
	p.copyStep(p.out(out), memory{m.slot, m.off, p.bytes(out)})
}

func (p *planner) copyStep(dst, src memory) {
	const part = 1 << 16
	p.emit(step{chunks: (dst.size + part - 1) / part, body: func(st *state, _, lo, hi int) {
		d, s := st.bytes(dst), st.bytes(src)
		copy(d[lo*part:min(hi*part, len(d))], s[lo*part:min(hi*part, len(s))])
	}}, []memory{src}, []memory{dst})
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
	for _, list := range [][]memory{reads, writes} {
		for _, m := range list {
			if m.slot < 0 {
				continue
			}
			sl := &p.slots[m.slot]
			if !sl.used {
				sl.first, sl.used = at, true
			}
			sl.last = at
		}
	}
	p.steps = append(p.steps, s)
}

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
			r.Buffers[s.index].First, r.Buffers[s.index].Last = max(s.first, 0), max(s.last, 0)
			if !s.used {
				r.Buffers[s.index].Bytes = 0
			}
		}
	}
	if p.calls > 0 { // a user's kernel may fail, and the fallback reads the inputs then
		for i := range r.Inputs {
			r.Inputs[i].Last = r.Steps - 1
		}
	}
	for i := range p.steps {
		r.Labels = append(r.Labels, p.steps[i].label)
	}
	return &instance{steps: p.steps, slots: p.slots, reqs: p.reqs}
}

// Requirements implements backend.Instance.
func (in *instance) Requirements() backend.Requirements { return in.reqs }

// state is an instance bound to a session's memory.
type state struct {
	in  *instance
	mem [][]byte // by slot
	run *pool.Run
	ctx context.Context
	cur *step

	calls []*backend.KernelArgs // of users' kernels
	err   error                 // of the last one
}

var errShort = errors.New("storage is smaller than planned")

// Enqueue implements backend.Instance: it runs the steps and returns when they are done.
func (in *instance) Enqueue(ctx context.Context, a *backend.RunArgs) (device.Event, error) {
	st, ok := a.Local.(*state)
	if !ok || st.in != in {
		st = &state{in: in, mem: make([][]byte, len(in.slots))}
		a.Local = st
	}
	st.ctx, st.run, st.err = ctx, nil, nil
	if h, ok := a.Stream.(*device.HostStream); ok {
		st.run = h.Run
	}
	if err := st.bind(a); err != nil {
		return nil, err
	}
	for i := range in.steps {
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

// chunkPoll is how many chunks run between looks at the context.
const chunkPoll = 64

func runChunks(arg any, worker, lo, hi int) {
	st := arg.(*state)
	for lo < hi {
		if st.ctx.Err() != nil {
			return
		}
		next := min(lo+chunkPoll, hi)
		st.cur.body(st, worker, lo, next)
		lo = next
	}
}

// bind points slots at this run's memory.
func (st *state) bind(a *backend.RunArgs) error {
	for i := range st.in.slots {
		s := &st.in.slots[i]
		var t *tensor.Tensor
		switch s.kind {
		case fromInput:
			t = a.Inputs[s.index]
		case fromOutput:
			t = a.Outputs[s.index]
		case fromConst:
			t = a.Constants[s.index]
		case fromBuffer:
			t = a.Buffers[s.index]
		case fromData:
			st.mem[i] = s.data
			continue
		}
		if t == nil || t.Offset > len(t.Data) {
			return errShort
		}
		st.mem[i] = t.Data[t.Offset:]
	}
	return nil
}

// bytes returns a place's memory, nil where there is none.
func (st *state) bytes(m memory) []byte {
	if m.slot < 0 || m.size == 0 {
		return nil
	}
	return st.mem[m.slot][m.off : m.off+m.size]
}

// f32 returns a place's memory as float32, nil for no place.
func (st *state) f32(m memory) []float32 {
	return elementsOf[float32](st.bytes(m))
}

// of returns a place's memory as elements of T.
func of[T tensor.Element](st *state, m memory) []T {
	return elementsOf[T](st.bytes(m))
}

// elementsOf returns bytes as elements of T.
func elementsOf[T tensor.Element](b []byte) []T {
	var z T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(z)))
}

// grainFor returns the fewest chunks worth a call when each costs that many nanoseconds.
func grainFor(nanos float64) int {
	const worth = 5000
	if nanos >= worth {
		return 1
	}
	return int(worth/max(nanos, 1)) + 1
}
