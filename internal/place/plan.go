package place

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/flops"
)

// Plan places the values of a subgraph of concrete shapes. It is used by one goroutine.
type Plan struct {
	Sub   *graph.Graph
	Order []*graph.Node
	Bind  graph.Bindings
	Dims  [][]int // by value id; see Resize
	// Where values lie, by id; Nowhere before they are placed.
	Where []Memory
	// Want is where the readers of values would like them to be made, by id.
	Want  []Memory
	Slots []Slot
	Node  *graph.Node // whose steps are emitted
	// Nothing, where it is not nil, is called by Each for nodes of whose results none has elements, in the place of emit.
	Nothing func(n *graph.Node) error
	// Reqs are complete when Finish has run. Users' of Plan may add to InPlace.
	Reqs backend.Requirements

	sizes     []int   // physical bytes, by value id
	told      []bool  // by value id: Ints was asked for its numbers
	room      []int   // for dims of values
	constants int     // of the subgraph
	flops     float64 // of Node; negative before they are counted
	unit      string  // see Unit
	first     *graph.Node
	work      []int // of the node's steps
	// Of estimates: every result has memory of its own, and over notes by node which operands it could have overwritten.
	estimate bool
	over     [][]int
	emitted  []emission // by number in Order
	touched  [][]int    // slots by step, in the order in which it names them
	names    []int      // room for them
	again    *again     // of a Plan whose nodes are emitted again
}

// New evaluates the shapes of a subgraph, whose nodes are given in an order of execution, and places its inputs and
// constants.
func New(sub *graph.Graph, order []*graph.Node, b graph.Bindings) (*Plan, error) {
	ids := sub.ValueIDs()
	p := &Plan{Sub: sub, Order: order, Bind: b, Dims: make([][]int, ids), Where: make([]Memory, ids), Want: make([]Memory, ids), sizes: make([]int, ids), told: make([]bool, ids)}
	for i := range ids {
		p.Where[i], p.Want[i] = Nowhere, Nowhere
	}
	ranks, slots := 0, len(sub.Inputs)
	for _, v := range sub.Inputs {
		ranks += len(v.Type.Shape)
	}
	for v := range sub.Constants() {
		ranks += len(v.Type.Shape)
		slots++
	}
	for _, n := range order {
		for _, v := range n.Outputs {
			if v != nil {
				ranks += len(v.Type.Shape)
			}
		}
	}
	p.room, p.Slots = make([]int, ranks), make([]Slot, 0, slots+len(order)) // one for most nodes, and one step
	p.Reqs.Labels, p.Reqs.Buffers = make([]backend.StepInfo, 0, len(order)), make([]backend.Buffer, 0, len(order))
	p.emitted, p.touched = make([]emission, 0, len(order)), make([][]int, 0, len(order))
	for i, v := range sub.Inputs {
		if err := p.eval(v); err != nil {
			return nil, err
		}
		p.newSlot(v, Slot{Kind: Input, Index: i})
	}
	i := 0
	for v := range sub.Constants() {
		if err := p.constant(v, i); err != nil {
			return nil, err
		}
		i++
	}
	p.constants = i
	for _, n := range order {
		for _, v := range n.Outputs {
			if v == nil {
				continue
			}
			if err := p.eval(v); err != nil {
				return nil, err
			}
		}
	}
	return p, nil
}

// constant places constant i, or dims that are known now.
func (p *Plan) constant(v *graph.Value, i int) error {
	if !v.IsDims() {
		p.Dims[v.ID] = v.Const.Shape
		if n, err := graph.PhysicalSize(v.Format, v.Type.DType, v.Const.Shape); err == nil { // those of opaque formats have none
			p.sizes[v.ID] = int(n)
		}
		p.newSlot(v, Slot{Kind: Const, Index: i})
		return nil
	}
	t, err := v.EvalDims(p.Bind)
	if err != nil {
		return err
	}
	if err := p.eval(v); err != nil {
		return err
	}
	p.newSlot(v, Slot{Kind: Data, Data: padded(t.Bytes())})
	return nil
}

// padded returns b with room behind the end for kernels.
func padded(b []byte) []byte { return append(b, make([]byte, 64)...)[:len(b)] }

func (p *Plan) newSlot(v *graph.Value, s Slot) {
	s.first, s.left = -1, int32(v.NumUses())
	p.Where[v.ID] = Memory{Slot: len(p.Slots), Size: p.Bytes(v)}
	p.Slots = append(p.Slots, s)
}

func (p *Plan) eval(v *graph.Value) error {
	rank := len(v.Type.Shape)
	dims, err := v.Type.Shape.Eval(p.Bind, p.room[:0:rank])
	if err != nil {
		return fmt.Errorf("value %v: %w", v, err)
	}
	p.room = p.room[rank:]
	return p.Resize(v, dims)
}

// Resize gives v these dims, for as long as it is planned piece by piece, say.
func (p *Plan) Resize(v *graph.Value, dims []int) error {
	n, err := graph.PhysicalSize(v.Format, v.Type.DType, dims)
	if err != nil && (v.Producer != nil || !errors.Is(err, graph.ErrOpaque)) { // inputs of opaque formats have no size, as constants
		return fmt.Errorf("value %v: %w", v, err)
	}
	p.Dims[v.ID], p.sizes[v.ID] = dims, int(n)
	return nil
}

// Bytes returns the physical size of v.
func (p *Plan) Bytes(v *graph.Value) int { return p.sizes[v.ID] }

// Ints returns the numbers of a small integer operand that are known when shapes are; nil for an absent one.
func (p *Plan) Ints(v *graph.Value) ([]int, error) {
	if v == nil {
		return nil, nil
	}
	if v.Dims == nil {
		return nil, fmt.Errorf("%v is not known at compile time", v)
	}
	if p.again == nil {
		p.told[v.ID] = true
	}
	out := make([]int, len(v.Dims))
	for i, d := range v.Dims {
		n, err := d.Eval(p.Bind)
		if err != nil {
			return nil, err
		}
		out[i] = int(n)
	}
	return out, nil
}

// Base returns p: planners of backends embed a Plan, and are asked for it.
func (p *Plan) Base() *Plan { return p }

// Each calls settle and then emit for every node in order, as the Plan's Node. settle says with View, Part, InPlace and
// Offer how the node's results lie with regard to its operands; all have their places when emit is called, which emits the
// node's steps; it is not where no result has elements, see Nothing. Each fails where emit does, and when the context ends.
func (p *Plan) Each(ctx context.Context, settle func(n *graph.Node), emit func(n *graph.Node) error) error {
	for _, n := range p.Order {
		if err := ctx.Err(); err != nil {
			return err
		}
		p.Node = n
		settle(n)
		for _, v := range n.Outputs {
			p.Out(v)
		}
		p.flops, p.work = -1, p.work[:0]
		at := emission{step: len(p.Reqs.Labels), slot: len(p.Slots)}
		does := emit
		if p.MakesNothing(n) {
			does = p.Nothing
		}
		if does != nil {
			if err := does(n); err != nil {
				return fmt.Errorf("%v: %w", n, err)
			}
		}
		at.steps, at.slots = len(p.Reqs.Labels), len(p.Slots)
		p.emitted = append(p.emitted, at)
		p.share(at.steps)
		p.unit, p.first = "", nil
		for _, v := range n.Inputs {
			if v != nil && p.Where[v.ID].Slot >= 0 {
				p.Slots[p.Where[v.ID].Slot].left--
			}
		}
	}
	return nil
}

// MakesNothing reports whether no output of a node has elements.
func (p *Plan) MakesNothing(n *graph.Node) bool {
	return !slices.ContainsFunc(n.Outputs, func(v *graph.Value) bool { return v != nil && !slices.Contains(p.Dims[v.ID], 0) })
}

// share divides the node's FLOPs among its steps, the last before step end, by their work.
func (p *Plan) share(end int) {
	sum := 0
	for _, w := range p.work {
		sum += w
	}
	if sum == 0 {
		return
	}
	all, labels := p.FLOPs(), p.Reqs.Labels[end-len(p.work):end]
	for i, w := range p.work {
		labels[i].FLOPs = all * float64(w) / float64(sum)
	}
}

// FLOPs returns what the node whose steps are emitted does in one run, as package flops counts it; 0 where that is not known.
func (p *Plan) FLOPs() float64 {
	if p.flops < 0 {
		p.flops, _ = flops.OfArithmetic(p.Node, p.Bind)
		if p.first != nil {
			more, _ := flops.OfArithmetic(p.first, p.Bind)
			p.flops += more
		}
	}
	return p.flops
}

// Unit says that the steps of the node whose steps are emitted do what node first does as well, which has none: together they go by this name.
func (p *Plan) Unit(name string, first *graph.Node) { p.unit, p.first, p.flops = name, first, -1 }

// In returns where an operand lies.
func (p *Plan) In(v *graph.Value) Memory {
	if v == nil {
		return Nowhere
	}
	return p.Where[v.ID]
}

// Out gives a result its place: where its reader wants it, or a new buffer.
func (p *Plan) Out(v *graph.Value) Memory {
	if v == nil {
		return Nowhere
	}
	if m := p.Where[v.ID]; m.Slot >= 0 {
		return m
	}
	m := p.Want[v.ID]
	if m.Slot < 0 {
		m = p.Temp(p.Bytes(v))
	}
	p.Put(v, m)
	return m
}

// Put says that v lies at m.
func (p *Plan) Put(v *graph.Value, m Memory) {
	p.Where[v.ID] = m
	p.Slots[m.Slot].left += int32(v.NumUses())
	if v.IsOutput() && p.Slots[m.Slot].Kind != Output {
		p.Slots[m.Slot].left++ // never free for others
	}
}

// Temp returns n bytes of the arena, for steps that are about to be emitted.
func (p *Plan) Temp(n int) Memory {
	if p.again != nil {
		if slot, ok := p.slotAgain(Buffer); ok {
			return Memory{Slot: slot, Size: n}
		}
	}
	p.Slots = append(p.Slots, Slot{Kind: Buffer, Index: len(p.Reqs.Buffers), first: -1})
	p.Reqs.Buffers = append(p.Reqs.Buffers, backend.Buffer{Bytes: int64(n)})
	return Memory{Slot: len(p.Slots) - 1, Size: n}
}

// Own returns the place of bytes that the planner computed.
func (p *Plan) Own(b []byte) Memory {
	if p.again != nil {
		if slot, ok := p.slotAgain(Data); ok {
			p.Slots[slot].Data = b
			return Memory{Slot: slot, Size: len(b)}
		}
	}
	p.Slots = append(p.Slots, Slot{Kind: Data, Data: b, first: -1})
	return Memory{Slot: len(p.Slots) - 1, Size: len(b)}
}

// ConstantIn returns the place of a constant of the subgraph in format f, in which it takes size bytes. The requirements ask for
// it where it is another than the constant's own.
func (p *Plan) ConstantIn(v *graph.Value, f graph.Format, size int) Memory {
	m := p.Where[v.ID]
	if v.Format == f {
		return Memory{Slot: m.Slot, Off: m.Off, Size: size}
	}
	want := backend.ConstantForm{Index: p.Slots[m.Slot].Index, Format: f}
	k := slices.Index(p.Reqs.Constants, want)
	if p.again != nil {
		if slot, ok := p.slotAgain(Const); ok && k >= 0 && p.Slots[slot].Index == p.constants+k {
			return Memory{Slot: slot, Size: size}
		}
		p.again.failed = true
	}
	if k < 0 {
		k = len(p.Reqs.Constants)
		p.Reqs.Constants = append(p.Reqs.Constants, want)
	}
	p.Slots = append(p.Slots, Slot{Kind: Const, Index: p.constants + k, first: -1})
	return Memory{Slot: len(p.Slots) - 1, Size: size}
}

// InPlace lets out overwrite in where nothing else reads in any more. It reports whether out lies there.
func (p *Plan) InPlace(out, in *graph.Value) bool {
	if out == nil {
		return false
	}
	m := p.Where[in.ID]
	if at := p.Where[out.ID]; at.Slot >= 0 || p.Want[out.ID].Slot >= 0 {
		return at.Slot >= 0 && at == m
	}
	if m.Slot < 0 || p.Slots[m.Slot].Kind != Buffer || m.Off != 0 || m.Size != p.Bytes(out) ||
		int64(m.Size) != p.Reqs.Buffers[p.Slots[m.Slot].Index].Bytes {
		return false
	}
	if p.estimate {
		p.couldOverwrite(in)
		return false
	}
	if p.Slots[m.Slot].left != 1 {
		return false
	}
	p.Put(out, m)
	return true
}

// Offer leaves the choice to let out overwrite in to the planner of the whole, where in is an input of the group that
// nothing else reads any more and out is an output of it.
func (p *Plan) Offer(out, in *graph.Value) {
	if out == nil || p.Where[out.ID].Slot >= 0 {
		return
	}
	m, w := p.Where[in.ID], p.Want[out.ID]
	if m.Slot < 0 || w.Slot < 0 {
		return
	}
	from, to := &p.Slots[m.Slot], &p.Slots[w.Slot]
	if from.Kind != Input || to.Kind != Output || m.Off != 0 || w.Off != 0 || m.Size != w.Size || w.Pitch != 0 {
		return
	}
	if p.estimate {
		p.couldOverwrite(in)
	} else if from.left == 1 {
		p.Reqs.InPlace = append(p.Reqs.InPlace, backend.InPlace{Output: to.Index, Input: from.Index})
	}
}

// View makes out a view of in, both in the same format and of one size. It reports false where out has to be made
// elsewhere, and copied: where its reader wants it in another place, or in lies in strided rows and the node is not one of
// Views, whose readers WantConcats has asked.
func (p *Plan) View(out, in *graph.Value) bool {
	m, size := p.Where[in.ID], p.Bytes(out)
	if m.Pitch != 0 && !IsView(p.Node) {
		return false
	}
	m, ok := m.Rows(0, size, size, 1)
	return ok && p.lie(out, m)
}

// ViewOr makes out a view of in, both of one size, or, where out lies elsewhere, has copied emit a copy of so many bytes.
func (p *Plan) ViewOr(out, in *graph.Value, copied func(dst, src Memory, size int)) {
	if !p.View(out, in) {
		copied(p.Out(out), p.In(in), p.Bytes(out))
	}
}

// Part makes out the bytes from off on of the memory in which in lies. It reports false where out has to be made elsewhere.
func (p *Plan) Part(out, in *graph.Value, off int) bool {
	m, size := p.Where[in.ID], p.Bytes(out)
	return off >= 0 && off+size <= m.Size && p.lie(out, m.Part(off, size))
}

// lie puts v at m, unless it has a place already or is wanted elsewhere. It reports whether v lies there.
func (p *Plan) lie(v *graph.Value, m Memory) bool {
	if p.again != nil {
		return p.lieAgain(v, m)
	}
	if at := p.Where[v.ID]; at.Slot >= 0 {
		return at == m
	}
	if w := p.Want[v.ID]; m.Slot < 0 || w.Slot >= 0 && w != m {
		return false
	}
	p.Put(v, m)
	return true
}

// Step notes that the next step of the node reads and writes these places. work is its part of the node's multiply-adds, in
// whatever unit the node's steps have in common: the profile's FLOPs are divided by it. It is 0 for a step that multiplies
// nothing, and 1 for the only one that does.
func (p *Plan) Step(work int, reads, writes []Memory) {
	if p.again != nil {
		p.stepAgain(work, reads, writes)
		return
	}
	n := p.Node
	info := backend.StepInfo{Name: n.Name, Origins: n.Provenance()}
	if n.IsCarve(graph.OpFused) && n.Op.Domain == graph.CarveDomain {
		info.Op = n.Str("pattern", "")
	}
	if info.Op == "" {
		info.Op = n.Op.String()
	}
	if p.first != nil {
		info.Op, info.Origins = p.unit, slices.Concat(p.first.Provenance(), info.Origins)
	}
	p.work = append(p.work, work)
	at := len(p.Reqs.Labels)
	if cap(p.names)-len(p.names) < len(reads)+len(writes) {
		p.names = make([]int, 0, max(4*len(p.Order), len(reads)+len(writes)))
	}
	from := len(p.names)
	for _, ms := range [][]Memory{reads, writes} {
		for _, m := range ms {
			p.touch(m, at)
			p.names = append(p.names, m.Slot)
		}
	}
	p.touched = append(p.touched, p.names[from:len(p.names):len(p.names)])
	p.Reqs.Labels = append(p.Reqs.Labels, info)
}

func (p *Plan) touch(m Memory, at int) {
	if m.Slot < 0 {
		return
	}
	s := &p.Slots[m.Slot]
	if !s.used {
		s.first, s.used = int32(at), true
	}
	s.last = int32(at)
	s.least = max(s.least, m.Off+m.Size)
}

// Keep says that what lies at m has its memory in steps [first, last], too.
func (p *Plan) Keep(m Memory, first, last int) {
	if m.Slot < 0 {
		return
	}
	s := &p.Slots[m.Slot]
	if !s.used {
		s.first, s.used = int32(first), true
	}
	s.first, s.last, s.least = min(s.first, int32(first)), max(s.last, int32(last)), max(s.least, m.Off+m.Size)
}

// Life returns the steps that touch what lies at m, and others in its slot, first and last.
func (p *Plan) Life(m Memory) (first, last int) {
	if m.Slot < 0 || !p.Slots[m.Slot].used {
		return -1, -1
	}
	return int(p.Slots[m.Slot].first), int(p.Slots[m.Slot].last)
}

// Whole reports whether m is all of a buffer of the arena.
func (p *Plan) Whole(m Memory) bool {
	return m.Slot >= 0 && p.Slots[m.Slot].Kind == Buffer && m.Off == 0 && m.Pitch == 0 && int64(m.Size) == p.Reqs.Buffers[p.Slots[m.Slot].Index].Bytes
}

// Away says that the steps which touch a whole buffer have other memory for what lies there: the arena has none.
func (p *Plan) Away(m Memory) { p.Slots[m.Slot].away = true }

// Finish returns the requirements of the steps.
func (p *Plan) Finish() backend.Requirements {
	r := &p.Reqs
	r.Steps = len(r.Labels)
	r.Inputs = make([]backend.PortUse, len(p.Sub.Inputs))
	r.Outputs = make([]backend.PortUse, len(p.Sub.Outputs))
	for i, v := range p.Sub.Outputs {
		r.Outputs[i] = backend.PortUse{Bytes: int64(p.Bytes(v)), First: 0, Last: max(r.Steps-1, 0)}
	}
	for i := range p.Slots {
		s := &p.Slots[i]
		switch s.Kind {
		case Input:
			r.Inputs[s.Index] = backend.PortUse{Bytes: int64(p.Bytes(p.Sub.Inputs[s.Index])), Last: int(s.last)}
		case Output:
			r.Outputs[s.Index].First, r.Outputs[s.Index].Last = int(max(s.first, 0)), int(s.last)
		case Buffer:
			b := &r.Buffers[s.Index]
			b.First, b.Last = int(max(s.first, 0)), int(max(s.last, 0))
			if !s.used || s.away {
				b.Bytes = 0
			}
		case Const, Data: // the program's and the planner's own
		}
	}
	return *r
}
