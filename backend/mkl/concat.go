package mkl

import (
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/reorder"
	"github.com/carve-dev/carve/property"
)

func concatAxis(n *graph.Node) int {
	axis := int(n.Int("axis", 1))
	if axis < 0 {
		axis += len(n.Outputs[0].Type.Shape)
	}
	return axis
}

// concatSignatures: along channels in the layout of activations, and row-major.
func concatSignatures(b *mkl, n *graph.Node) ([]graph.Signature, *property.Reason) {
	if !isF32(n.Inputs...) {
		return nil, wrongDType(n.Inputs[0])
	}
	rank := len(n.Outputs[0].Type.Shape)
	if rank == 0 || rank > 6 {
		return nil, property.Because(property.ShapeReason, "rank %d", rank)
	}
	plain := plainSignature(n)
	act := b.activations(rank)
	if concatAxis(n) != 1 || act == graph.HostFormat {
		return plain, nil
	}
	for i, v := range n.Inputs {
		c, ok := dimConst(v, 1)
		if !ok || b.block > 0 && c%b.block != 0 && i < len(n.Inputs)-1 && (b.block != gatherBlock || rank != 4) {
			return plain, nil
		}
	}
	return append([]graph.Signature{graph.UniformSignature("channels", n, act)}, plain...), nil
}

// concatParts returns the places, in bytes, of a Concat's operands in its result where each of them is contiguous there:
// nothing is in front of the axis, and channels fall on blocks. ok is false otherwise.
func (p *planner) concatParts(n *graph.Node) (parts []int, ok bool) {
	y := n.Outputs[0]
	blocked := y.Format != graph.HostFormat
	if blocked && p.b.block == 0 || product(p.dims[y.ID][:concatAxis(n)]) != 1 {
		return nil, false
	}
	off := 0
	for i, v := range n.Inputs {
		if blocked && i < len(n.Inputs)-1 && p.dims[v.ID][1]%p.b.block != 0 {
			return nil, false
		}
		parts = append(parts, off)
		off += p.bytes(v)
	}
	return parts, off == p.bytes(y)
}

// placeConcats decides which values are made directly in the result of a Concat that reads them, and which results of a
// Concat are the beginning of another's: concatenations that grow share one buffer. The longest gets its operands first.
func (p *planner) placeConcats() {
	byFirst := map[*graph.Value]*graph.Node{} // the longest Concat that begins with a value
	var list []*graph.Node
	for i := len(p.e.order) - 1; i >= 0; i-- {
		if n := p.e.order[i]; n.Is("Concat") {
			list = append(list, n)
		}
	}
	slices.SortStableFunc(list, func(a, b *graph.Node) int { return len(b.Inputs) - len(a.Inputs) })
	for _, n := range list {
		y := n.Outputs[0]
		parts, ok := p.concatParts(n)
		if !ok || y.IsOutput() {
			continue
		}
		if big := byFirst[n.Inputs[0]]; big != nil && len(n.Inputs) < len(big.Inputs) && slices.Equal(n.Inputs, big.Inputs[:len(n.Inputs)]) &&
			p.want[y.ID].slot < 0 && y.Format == big.Outputs[0].Format {
			m := p.want[big.Outputs[0].ID]
			p.want[y.ID] = memory{m.slot, m.off, p.bytes(y)}
			continue
		}
		if p.want[y.ID].slot < 0 {
			p.want[y.ID] = memory{slot: p.buffer(p.bytes(y)), size: p.bytes(y)}
		}
		base := p.want[y.ID]
		seen := map[*graph.Value]bool{}
		for i, v := range n.Inputs {
			if v.Producer == nil || v.IsOutput() || p.want[v.ID].slot >= 0 || p.where[v.ID].slot >= 0 || seen[v] || mayAlias(v.Producer) ||
				(base.off+parts[i])%64 != 0 {
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

// mayAlias reports whether a node's result may lie in its operand's memory.
func mayAlias(n *graph.Node) bool {
	return isView(n) || n.Is("Slice", "Split", "Transpose") || n.IsCarve(graph.OpConvert)
}

func planConcat(p *planner, n *graph.Node) error {
	y := n.Outputs[0]
	dst := p.out(y)
	if parts, ok := p.concatParts(n); ok {
		for i, v := range n.Inputs {
			part := memory{dst.slot, dst.off + parts[i], p.bytes(v)}
			if part.size == 0 || p.in(v) == part {
				continue
			}
			if part.size%4 == 0 && dst.off%64 == 0 { // by all threads
				flat := []int{part.size / 4}
				if err := p.strided(flat, p.in(v), nil, part, nil); err == nil {
					continue
				}
			}
			p.copyStep(part, p.in(v))
		}
		return nil
	}
	axis := concatAxis(n)
	dy := p.dims[y.ID]
	if y.Format != graph.HostFormat && p.b.block > 0 && !p.onBlocks(n) {
		return p.gatherChannels(n, dst)
	}
	if y.Format != graph.HostFormat {
		return p.concatBy(n, axis, dst)
	}
	sy := tensor.CompactStrides(dy)
	at := 0
	for _, v := range n.Inputs {
		dv := p.dims[v.ID]
		size := 4
		for i, k := range dv {
			size += 4 * (k - 1) * sy[i]
		}
		if err := p.strided(dv, p.in(v), nil, memory{dst.slot, dst.off + 4*at*sy[axis], size}, sy); err != nil {
			return err
		}
		at += dv[axis]
	}
	return nil
}

// onBlocks reports whether all channels but the last operand's fall on blocks.
func (p *planner) onBlocks(n *graph.Node) bool {
	for _, v := range n.Inputs[:len(n.Inputs)-1] {
		if p.dims[v.ID][1]%p.b.block != 0 {
			return false
		}
	}
	return true
}

// concatBy emits the library's concatenation.
func (p *planner) concatBy(n *graph.Node, axis int, dst memory) error {
	var srcs []shape
	for _, v := range n.Inputs {
		srcs = append(srcs, p.shape(v))
	}
	pr, err := p.make(p.l.concat(axis, srcs, p.shape(n.Outputs[0])))
	if err != nil {
		return err
	}
	d, err := p.desc(p.shape(n.Outputs[0]))
	if err != nil {
		return err
	}
	args := []arg{{argDst, dst, d, true}}
	for i, v := range n.Inputs {
		s, err := p.desc(srcs[i])
		if err != nil {
			return err
		}
		args = append(args, arg{argMany + int32(i), p.in(v), s, false})
	}
	p.run(pr, 0, args...)
	return nil
}

// gatherBlock is the block of channels for which carve has a kernel that chooses channels: the library moves whole blocks
// only.
const gatherBlock = 16

// gatherChannels concatenates blocked tensors whose channels do not fall on blocks.
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

// gather emits a choice of channels of blocked tensors.
func (p *planner) gather(images, pixels int, sources []reorder.Source, table []reorder.Channel, reads []memory, dst memory) error {
	plan, err := reorder.NewGather(images, pixels, sources, table, 0)
	if err != nil {
		return err
	}
	at := len(p.steps)
	p.emit(step{sources: reads, host: func(st *state) error {
		list := st.lists[at]
		for i, m := range reads {
			list[i] = st.floats(m)
		}
		return plan.Run(0, plan.Chunks(), st.floats(dst), list)
	}}, reads, []memory{dst})
	return nil
}

// channelStart returns the first of the channels that a Slice with constant bounds takes, leaving everything else alone.
func channelStart(n *graph.Node) (start int, ok bool) {
	if n.Op.Since < 10 || len(n.Inputs[0].Type.Shape) != 4 || len(n.Outputs[0].Type.Shape) != 4 {
		return 0, false
	}
	one := func(i int, def int64) (int64, bool) {
		v := n.Input(i)
		if v == nil {
			return def, i > 2
		}
		if len(v.Dims) != 1 {
			return 0, false
		}
		return v.Dims[0].Const()
	}
	s, ok1 := one(1, 0)
	axis, ok2 := one(3, 0)
	step, ok3 := one(4, 1)
	c, ok4 := dimConst(n.Inputs[0], 1)
	_, ok5 := dimConst(n.Outputs[0], 1)
	if axis < 0 {
		axis += 4
	}
	if !ok1 || !ok2 || !ok3 || !ok4 || !ok5 || axis != 1 || step != 1 {
		return 0, false
	}
	if s < 0 {
		s += int64(c)
	}
	return int(min(max(s, 0), int64(c))), true
}

// takeChannels emits the choice of channels from start on, as a view where they are whole blocks of one image.
func (p *planner) takeChannels(x, y *graph.Value, start int) error {
	d, count := p.dims[x.ID], p.dims[y.ID][1]
	src, block := p.in(x), p.b.block
	if start%block == 0 && (count%block == 0 || start+count == d[1]) && d[0] == 1 && p.want[y.ID].slot < 0 {
		p.bindValue(y, memory{src.slot, src.off + start*d[2]*d[3]*4, p.bytes(y)})
		return nil
	}
	if block != gatherBlock {
		return property.Because(property.Layout, "channels %d to %d in %v", start, start+count, x.Format)
	}
	table := make([]reorder.Channel, count)
	for c := range table {
		table[c] = reorder.Channel{Channel: start + c}
	}
	return p.gather(d[0], d[2]*d[3], []reorder.Source{{C: d[1]}}, table, []memory{src}, p.out(y))
}

func init() { register("Concat", operator{concatSignatures, planConcat}) }
