package place

import (
	"bytes"
	"errors"
	"slices"

	"github.com/carve-dev/carve/graph"
)

// A finished Plan serves smaller values of its symbols as well, where everything stays at its place: only nodes that see other
// dims have steps of other sizes, which are emitted again. That is how a sequence that grows by one in each run is planned at a
// small part of the cost.

// ErrElsewhere is returned by Again where something would have to lie elsewhere, or take other steps.
var ErrElsewhere = errors.New("other dims are placed in another way")

// Reach is what some symbols have to do with a Plan. Again works in it: it is used by one goroutine at a time.
type Reach struct {
	Nodes  []int          // numbers in the plan's order of those that see dims, or numbers that were read, with one of the symbols
	values []*graph.Value // whose dims or numbers change
	same   [][2]int       // ids of values that lie at one place and have one size
	parts  bool           // a value that stays as it is lies beside ones that do not
	sees   [][]int        // for each of Nodes: the ids of the values for which it is there
	ranks  int            // of values together
	room   room
}

// room is what a Plan whose nodes are emitted again is made in, by value.
type room struct {
	dims        [][]int
	sizes       []int
	where       []Memory
	moves, open []bool
}

// emission is where a node's steps, and the slots that were made with them, are in a Plan.
type emission struct{ step, steps, slot, slots int }

// again is the state of a Plan whose nodes are emitted again.
type again struct {
	of         *Plan
	step, slot int // the next ones
	labels     bool
	failed     bool
	moves      []bool // by value: it has other dims, or numbers
	open       []bool // by value: it lies in a part of something else, which is not known yet
}

// ReachOf returns what symbols have to do with p. Cost: O(V+E).
func (p *Plan) ReachOf(symbols map[string]bool) *Reach {
	r := &Reach{}
	seen, matters := make([]bool, len(p.Dims)), make([]bool, len(p.Dims))
	note := func(v *graph.Value) {
		if shape := mentions(v.Type.Shape, symbols); !seen[v.ID] && (shape || mentions(v.Dims, symbols)) {
			seen[v.ID], matters[v.ID] = true, shape || p.told[v.ID]
			r.values, r.ranks = append(r.values, v), r.ranks+len(v.Type.Shape)
		}
	}
	var all []*graph.Value
	all = append(all, p.Sub.Inputs...)
	for v := range p.Sub.Constants() {
		all = append(all, v)
	}
	for _, n := range p.Order {
		for _, v := range n.Outputs {
			if v != nil {
				all = append(all, v)
			}
		}
	}
	for _, v := range all {
		note(v)
	}
	remade := map[*graph.Node]bool{}
	for i, n := range p.Order {
		var sees []int
		for _, list := range [2][]*graph.Value{n.Inputs, n.Outputs} {
			for _, v := range list {
				if v != nil && matters[v.ID] && !slices.Contains(sees, v.ID) {
					sees = append(sees, v.ID)
				}
			}
		}
		if sees != nil {
			r.Nodes, r.sees = append(r.Nodes, i), append(r.sees, sees)
			remade[n] = true
		}
	}
	first := make([]int, len(p.Slots)) // the value that is placed in it first, by slot, 1 more than its id
	for _, v := range all {
		m := p.Where[v.ID]
		if m.Slot < 0 {
			continue
		}
		switch k := first[m.Slot] - 1; {
		case k < 0:
			first[m.Slot] = v.ID + 1
		case !seen[v.ID] && !seen[k]:
		case m == p.Where[k]:
			r.same = append(r.same, [2]int{k, v.ID})
		default:
			kind := p.Slots[m.Slot].Kind
			r.parts = r.parts || (kind == Buffer || kind == Output) && (!remade[v.Producer] || !seen[k])
		}
	}
	return r
}

func mentions(dims []graph.Dim, symbols map[string]bool) bool {
	for _, d := range dims {
		if _, ok := d.Const(); ok {
			continue
		}
		set := map[string]bool{}
		d.Symbols(set)
		for s := range set {
			if symbols[s] {
				return true
			}
		}
	}
	return false
}

// of makes the room what p has.
func (x *room) of(p *Plan) {
	x.dims, x.sizes, x.where = append(x.dims[:0], p.Dims...), append(x.sizes[:0], p.sizes...), append(x.where[:0], p.Where...)
	if x.moves == nil {
		x.moves, x.open = make([]bool, len(p.Dims)), make([]bool, len(p.Dims))
	}
	clear(x.moves)
	clear(x.open)
}

// Again makes a Plan for other values of the symbols that r is about, none of which is larger than p's. emit is called with
// it for those nodes of r that see other dims, in order, if there are any: it settles them, as Each has it, and emits their steps. p is finished,
// and stays as it is; where values lie in the other Plan is known until r is used again. The error wraps ErrElsewhere where p
// does not serve, and is emit's otherwise.
func (p *Plan) Again(b graph.Bindings, r *Reach, emit func(q *Plan, n *graph.Node) error) (*Plan, error) {
	if r.parts {
		return nil, ErrElsewhere
	}
	q := *p
	r.room.of(p)
	q.Bind, q.again = b, &again{of: p, moves: r.room.moves, open: r.room.open}
	q.Dims, q.sizes, q.Where, q.Slots = r.room.dims, r.room.sizes, r.room.where, slices.Clone(p.Slots)
	q.Reqs.Inputs, q.Reqs.Outputs = slices.Clone(p.Reqs.Inputs), slices.Clone(p.Reqs.Outputs)
	q.work, q.room = nil, make([]int, r.ranks)
	for _, v := range r.values {
		if err := q.move(p, v); err != nil {
			return nil, err
		}
	}
	for _, pair := range r.same {
		if q.sizes[pair[0]] != q.sizes[pair[1]] {
			return nil, ErrElsewhere
		}
	}
	for _, pair := range q.Reqs.InPlace {
		if p.Bytes(p.Sub.Inputs[pair.Input])-p.Bytes(p.Sub.Outputs[pair.Output]) != q.Bytes(p.Sub.Inputs[pair.Input])-q.Bytes(p.Sub.Outputs[pair.Output]) {
			return nil, ErrElsewhere
		}
	}
	for k, i := range r.Nodes {
		if !slices.ContainsFunc(r.sees[k], func(id int) bool { return q.again.moves[id] }) {
			continue
		}
		n, at := p.Order[i], p.emitted[i]
		q.Node, q.again.step, q.again.slot, q.work, q.flops = n, at.step, at.slot, q.work[:0], -1
		if err := emit(&q, n); err != nil {
			return nil, err
		}
		for _, v := range n.Outputs {
			q.again.failed = q.again.failed || v != nil && q.again.open[v.ID]
		}
		if q.again.failed || q.again.step != at.steps || q.again.slot != at.slots {
			return nil, ErrElsewhere
		}
		if !q.again.labels && slices.ContainsFunc(q.work, func(w int) bool { return w != 0 }) {
			q.Reqs.Labels, q.again.labels = slices.Clone(q.Reqs.Labels), true
		}
		q.share(at.steps)
		q.unit, q.first = "", nil
	}
	return &q, nil
}

// move gives v its other dims. Where it lies in a part of something else, lieAgain says where.
func (p *Plan) move(of *Plan, v *graph.Value) error {
	if v.IsDims() {
		return p.renumber(v)
	}
	rank := len(v.Type.Shape)
	dims, err := v.Type.Shape.Eval(p.Bind, p.room[:0:rank])
	if err != nil {
		return err
	}
	if slices.Equal(dims, of.Dims[v.ID]) {
		p.again.moves[v.ID] = p.told[v.ID]
		return nil
	}
	p.room = p.room[rank:]
	if err := p.Resize(v, dims); err != nil {
		return err
	}
	p.again.moves[v.ID] = true
	m := &p.Where[v.ID]
	if m.Slot < 0 {
		return nil
	}
	if m.Pitch != 0 || m.Off != 0 || m.Size != of.sizes[v.ID] {
		p.again.open[v.ID] = true
		return nil
	}
	m.Size = p.Bytes(v)
	s := &p.Slots[m.Slot]
	switch {
	case v.IsInput():
		s.least = min(s.least, m.Size)
		p.Reqs.Inputs[s.Index].Bytes = int64(m.Size)
	case s.Kind == Output && v == p.Sub.Outputs[s.Index]: // and no part of it
		s.least = min(s.least, m.Size)
		p.Reqs.Outputs[s.Index].Bytes = int64(m.Size)
	}
	return nil
}

// renumber gives a constant of dims its other numbers.
func (p *Plan) renumber(v *graph.Value) error {
	t, err := v.EvalDims(p.Bind)
	if err != nil {
		return err
	}
	s := &p.Slots[p.Where[v.ID].Slot]
	if bytes.Equal(t.Bytes(), s.Data) {
		return nil
	}
	s.Data = padded(t.Bytes())
	p.again.moves[v.ID] = p.told[v.ID]
	return nil
}

// lieAgain is lie of a Plan whose nodes are emitted again: a view stays one.
func (p *Plan) lieAgain(v *graph.Value, m Memory) bool {
	at := p.Where[v.ID]
	if at.Slot != m.Slot {
		return false
	}
	if p.again.moves[v.ID] {
		p.Where[v.ID], p.again.open[v.ID] = m, false
	} else if at != m {
		p.again.failed = true // whoever reads it has been planned for another place
	}
	return true
}

// slotAgain returns the next slot of a node that is emitted again; ok is false where it is of another kind.
func (p *Plan) slotAgain(kind Kind) (slot int, ok bool) {
	a := p.again
	if slot = a.slot; slot >= len(a.of.Slots) || a.of.Slots[slot].Kind != kind {
		a.failed = true
		return 0, false
	}
	a.slot++
	return slot, true
}

// stepAgain checks that the next step touches what it did.
func (p *Plan) stepAgain(work int, reads, writes []Memory) {
	a := p.again
	p.work = append(p.work, work)
	at := a.step
	a.step++
	if at >= len(a.of.touched) {
		a.failed = true
		return
	}
	list := a.of.touched[at]
	for _, ms := range [][]Memory{reads, writes} {
		for _, m := range ms {
			if len(list) == 0 || list[0] != m.Slot {
				a.failed = true
				return
			}
			list = list[1:]
			if m.Slot >= 0 && p.Slots[m.Slot].Kind == Buffer && !p.Slots[m.Slot].away && int64(m.Off+m.Size) > p.Reqs.Buffers[p.Slots[m.Slot].Index].Bytes {
				a.failed = true
				return
			}
		}
	}
	a.failed = a.failed || len(list) > 0
}

// NextStep returns the number of the step that is emitted next.
func (p *Plan) NextStep() int {
	if p.again != nil {
		return p.again.step
	}
	return len(p.Reqs.Labels)
}

// Same reports whether nothing changes with the symbols that r is about.
func (p *Plan) Same(r *Reach) bool { return len(r.values) == 0 }
