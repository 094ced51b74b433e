package place

import (
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/kernel/reorder"
)

// ConcatAxis returns the axis of a Concat, counted from the front.
func ConcatAxis(n *graph.Node) int {
	axis := int(n.Int("axis", 1))
	if axis < 0 {
		axis += len(n.Outputs[0].Type.Shape)
	}
	return axis
}

// OnBlocks reports whether the channels of all operands of a Concat but the last fall on blocks of its result's layout.
func (p *Plan) OnBlocks(n *graph.Node) bool {
	y := n.Outputs[0]
	b := block(y.Format, len(p.Dims[y.ID]))
	if b < 2 {
		return b == 1
	}
	for _, v := range n.Inputs[:len(n.Inputs)-1] {
		if p.Dims[v.ID][1]%b != 0 {
			return false
		}
	}
	return true
}

// ConcatParts returns where the operands of a Concat begin in its result, in bytes, if each of them is contiguous there:
// nothing is in front of the axis, and in a blocked layout channels fall on blocks. ok is false otherwise.
func (p *Plan) ConcatParts(n *graph.Node) (parts []int, ok bool) {
	y := n.Outputs[0]
	for _, d := range p.Dims[y.ID][:ConcatAxis(n)] {
		if d != 1 {
			return nil, false
		}
	}
	if !p.OnBlocks(n) {
		return nil, false
	}
	off := 0
	for _, v := range n.Inputs {
		parts = append(parts, off)
		off += p.Bytes(v)
	}
	return parts, off == p.Bytes(y)
}

// WantConcats decides which values are made directly in the result of a Concat that reads them, and which results of a
// Concat are the beginning of another's: a chain of concatenations that grow, as in DenseNet, shares one buffer. The
// longest concatenation gets its operands first. Operands have to begin at multiples of align bytes; those of nodes that
// may alias their own operand instead are left alone, but for views of what can be made there. WantOutputs comes before:
// operands of a Concat that is an output are made in the caller's memory.
func (p *Plan) WantConcats(align int, mayAlias func(*graph.Node) bool) {
	var list []*graph.Node
	for _, n := range slices.Backward(p.Order) {
		if n.Is("Concat") {
			list = append(list, n)
		}
	}
	slices.SortStableFunc(list, func(a, b *graph.Node) int { return len(b.Inputs) - len(a.Inputs) })
	byFirst := map[*graph.Value]*graph.Node{} // the longest Concat that begins with a value
	for _, n := range list {
		y := n.Outputs[0]
		parts, ok := p.ConcatParts(n)
		if !ok {
			continue
		}
		big := byFirst[n.Inputs[0]]
		if big != nil && p.Want[y.ID].Slot < 0 && y.Format == big.Outputs[0].Format && begins(n, big) {
			p.Want[y.ID] = p.Want[big.Outputs[0].ID].Part(0, p.Bytes(y))
			continue
		}
		if p.Want[y.ID].Slot < 0 {
			p.Want[y.ID] = p.Temp(p.Bytes(y))
		}
		p.wantParts(n, parts, align, mayAlias)
		if big == nil || len(big.Inputs) < len(n.Inputs) {
			byFirst[n.Inputs[0]] = n
		}
	}
}

// begins reports whether a Concat's operands are the first, but not all, of another's.
func begins(short, long *graph.Node) bool {
	k := len(short.Inputs)
	return k < len(long.Inputs) && slices.Equal(short.Inputs, long.Inputs[:k])
}

// wantParts asks for the operands of a Concat in its result.
func (p *Plan) wantParts(n *graph.Node, parts []int, align int, mayAlias func(*graph.Node) bool) {
	base := p.Want[n.Outputs[0].ID]
	for i, v := range n.Inputs {
		if v.Producer == nil || v.IsOutput() || p.Want[v.ID].Slot >= 0 || p.Where[v.ID].Slot >= 0 || (base.Off+parts[i])%align != 0 {
			continue
		}
		list := p.behind(v)
		if maker := list[len(list)-1].Producer; maker == nil || mayAlias(maker) {
			continue
		}
		for _, u := range list {
			p.Want[u.ID] = base.Part(parts[i], p.Bytes(v))
		}
	}
}

// ConcatChannels is the choice of channels that a Concat of blocked tensors is, for reorder.NewGather, and where its
// operands lie.
func (p *Plan) ConcatChannels(n *graph.Node) (sources []reorder.Source, table []reorder.Channel, reads []Memory) {
	for i, v := range n.Inputs {
		c := p.Dims[v.ID][1]
		sources = append(sources, reorder.Source{C: c})
		reads = append(reads, p.In(v))
		for k := range c {
			table = append(table, reorder.Channel{Tensor: i, Channel: k})
		}
	}
	return sources, table, reads
}
