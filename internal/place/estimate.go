package place

import (
	"context"
	"slices"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// Estimate goes through the nodes like Each, but only settles them, and returns what the values take: nothing is
// overwritten, since another order may do that elsewhere, but what could be is noted. WantOutputs and WantConcats come
// before, as when steps are planned. The Plan serves for nothing else afterwards.
func (p *Plan) Estimate(ctx context.Context, settle func(n *graph.Node)) (*backend.Footprint, error) {
	p.estimate, p.over = true, make([][]int, p.Sub.NodeIDs())
	p.Reqs.Buffers = slices.Grow(p.Reqs.Buffers, len(p.Order)) // one for most nodes
	if err := p.Each(ctx, settle, func(*graph.Node) error { return nil }); err != nil {
		return nil, err
	}
	ids := p.Sub.ValueIDs()
	f := &backend.Footprint{Bytes: make([]int64, ids), Within: make([]int, ids), Overwrite: p.over}
	for i := range f.Within {
		f.Within[i] = i
	}
	whole := p.wholes()
	for i, m := range p.Where {
		if m.Slot < 0 || whole[m.Slot] < 0 {
			continue
		}
		f.Within[i] = whole[m.Slot]
		if f.Within[i] == i {
			f.Bytes[i] = aligned(p.capacity(m.Slot))
		}
	}
	return f, nil
}

// couldOverwrite notes that the node's result may take the place of operand in, with an order in which nobody reads it later.
func (p *Plan) couldOverwrite(in *graph.Value) {
	p.over[p.Node.ID] = append(p.over[p.Node.ID], in.ID)
}

// wholes returns for each slot of the arena the value that stands for its memory, the first that fills it; -1 for others.
func (p *Plan) wholes() []int {
	whole := make([]int, len(p.Slots))
	for i := range whole {
		whole[i] = -1
	}
	note := func(v *graph.Value) {
		if v == nil || p.Where[v.ID].Slot < 0 {
			return
		}
		m := p.Where[v.ID]
		if whole[m.Slot] < 0 && m.Pitch == 0 && m.Off == 0 && int64(m.Size) == p.capacity(m.Slot) {
			whole[m.Slot] = v.ID
		}
	}
	for _, v := range p.Sub.Inputs {
		note(v)
	}
	for _, n := range p.Order {
		for _, v := range n.Outputs {
			note(v)
		}
	}
	return whole
}

// capacity returns the bytes of a slot of the arena, -1 for one that lies elsewhere.
func (p *Plan) capacity(slot int) int64 {
	switch s := &p.Slots[slot]; s.Kind {
	case Input:
		return int64(p.Bytes(p.Sub.Inputs[s.Index]))
	case Output:
		return int64(p.Bytes(p.Sub.Outputs[s.Index]))
	case Buffer:
		return p.Reqs.Buffers[s.Index].Bytes
	case Const, Data:
	}
	return -1
}

func aligned(n int64) int64 { return (n + tensor.Alignment - 1) &^ (tensor.Alignment - 1) }
