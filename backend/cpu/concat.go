package cpu

import (
	"errors"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/reorder"
	"github.com/carve-dev/carve/property"
)

var errIndex = errors.New("index out of range")

// concatSignatures: in the blocked layout along channels, and row-major.
func concatSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	plain := plainSignature(n)
	axis := int(n.Int("axis", 1))
	if axis < 0 {
		axis += len(n.Outputs[0].Type.Shape)
	}
	if axis != 1 {
		return plain, nil
	}
	for _, v := range append([]*graph.Value{n.Outputs[0]}, n.Inputs...) {
		if _, ok := dimConst(v, 1); !ok || !is4D(v) {
			return plain, nil
		}
	}
	return append([]graph.Signature{graph.UniformSignature("nchw16c", n, blocked)}, plain...), nil
}

// concatLayout returns the places of a Concat's operands in its result where each of them is contiguous there: nothing is
// in front of the axis, and in the blocked layout channels fall on blocks. ok is false otherwise.
func (p *planner) concatLayout(n *graph.Node) (parts []int, ok bool) {
	y := n.Outputs[0]
	axis := int(n.Int("axis", 1))
	if axis < 0 {
		axis += len(p.dims[y.ID])
	}
	if product(p.dims[y.ID][:axis]) != 1 {
		return nil, false
	}
	off := 0
	for i, v := range n.Inputs {
		if y.Format == blocked && i < len(n.Inputs)-1 && p.dims[v.ID][1]%16 != 0 {
			return nil, false
		}
		parts = append(parts, off)
		off += p.bytes(v)
	}
	return parts, off == p.bytes(y)
}

// placeConcats decides which values are made directly in the result of a Concat that reads them, and which results of a
// Concat are the beginning of another's: a chain of concatenations that grow, as in DenseNet, shares one buffer. The
// longest concatenation gets its operands first.
func (p *planner) placeConcats() {
	byFirst := map[*graph.Value]*graph.Node{} // the longest Concat that begins with a value
	var list []*graph.Node
	for i := len(p.e.order) - 1; i >= 0; i-- {
		if n := p.e.order[i]; n.Is("Concat") {
			list = append(list, n)
		}
	}
	sortBySize(list, p)
	for _, n := range list {
		y := n.Outputs[0]
		parts, ok := p.concatLayout(n)
		if !ok {
			continue
		}
		if big := byFirst[n.Inputs[0]]; big != nil && len(n.Inputs) < len(big.Inputs) && samePrefix(n, big) && p.want[y.ID].slot < 0 &&
			!y.IsOutput() && y.Format == big.Outputs[0].Format {
			m := p.want[big.Outputs[0].ID]
			p.want[y.ID] = memory{m.slot, m.off, p.bytes(y)}
			continue
		}
		if p.want[y.ID].slot < 0 {
			if y.IsOutput() {
				continue
			}
			p.want[y.ID] = memory{slot: p.buffer(p.bytes(y)), size: p.bytes(y)}
		}
		base := p.want[y.ID]
		seen := map[*graph.Value]bool{}
		for i, v := range n.Inputs {
			if v.Producer == nil || v.IsOutput() || p.want[v.ID].slot >= 0 || p.where[v.ID].slot >= 0 || seen[v] || isView(v.Producer) || v.Producer.Is("Slice", "Split") {
				continue
			}
			seen[v] = true
			p.want[v.ID] = memory{base.slot, base.off + parts[i], p.bytes(v)}
		}
		if old := byFirst[n.Inputs[0]]; old == nil || len(old.Inputs) < len(n.Inputs) {
			byFirst[n.Inputs[0]] = n
		}
	}
}

func sortBySize(list []*graph.Node, p *planner) {
	for i := 1; i < len(list); i++ { // few concatenations; stable
		for j := i; j > 0 && len(list[j].Inputs) > len(list[j-1].Inputs); j-- {
			list[j], list[j-1] = list[j-1], list[j]
		}
	}
}

func samePrefix(short, long *graph.Node) bool {
	for i, v := range short.Inputs {
		if long.Inputs[i] != v {
			return false
		}
	}
	return true
}

func planConcat(p *planner, n *graph.Node) error {
	y := n.Outputs[0]
	dst := p.out(y)
	if parts, ok := p.concatLayout(n); ok {
		for i, v := range n.Inputs {
			part := memory{dst.slot, dst.off + parts[i], p.bytes(v)}
			if part.size == 0 || p.in(v) == part {
				continue
			}
			p.copyStep(part, p.in(v))
		}
		return nil
	}
	if y.Format == blocked {
		return p.gatherChannels(n, dst)
	}
	axis := int(n.Int("axis", 1))
	dy := p.dims[y.ID]
	if axis < 0 {
		axis += len(dy)
	}
	sy := tensor.CompactStrides(dy)
	at := 0
	for _, v := range n.Inputs {
		dv := p.dims[v.ID]
		p.strided(copySpec{dims: dv, src: tensor.CompactStrides(dv), dst: sy, dstOff: at * sy[axis], size: v.Type.DType.Size()}, p.in(v), dst)
		at += dv[axis]
	}
	return nil
}

// gatherChannels concatenates blocked tensors whose channels do not fall on blocks, or of several images.
func (p *planner) gatherChannels(n *graph.Node, dst memory) error {
	d := p.dims[n.Outputs[0].ID]
	var sources []reorder.Source
	var table []reorder.Channel
	var reads []memory
	for i, v := range n.Inputs {
		c := p.dims[v.ID][1]
		sources = append(sources, reorder.Source{C: c})
		reads = append(reads, p.in(v))
		for k := range c {
			table = append(table, reorder.Channel{Tensor: i, Channel: k})
		}
	}
	return p.gather(d[0], d[2]*d[3], sources, table, reads, dst)
}

// gather emits a choice of channels. Sources are looked up per run in scratch memory of the state.
func (p *planner) gather(images, hw int, sources []reorder.Source, table []reorder.Channel, reads []memory, dst memory) error {
	plan, err := reorder.NewGather(images, hw, sources, table, 0)
	if err != nil {
		return err
	}
	lists := newLists(len(reads))
	p.emit(step{chunks: plan.Chunks(), grain: grainFor(float64(dst.size) * 0.1 / float64(max(plan.Chunks(), 1))), body: func(st *state, _, lo, hi int) {
		list := lists.get()
		for i, m := range reads {
			(*list)[i] = st.f32(m)
		}
		if err := plan.Run(lo, hi, st.f32(dst), *list); err != nil {
			panic(err)
		}
		lists.put(list)
	}}, reads, []memory{dst})
	return nil
}

func init() { register("Concat", operator{concatSignatures, planConcat}) }
