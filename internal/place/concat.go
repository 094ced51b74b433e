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

// ImageParts returns where the operands of a Concat of several images along their channels begin in each image of its
// result, and how large that is, in bytes. ok is false for other concatenations, and where channels do not fall on blocks.
func (p *Plan) ImageParts(n *graph.Node) (parts []int, image int, ok bool) {
	y := n.Outputs[0]
	d := p.Dims[y.ID]
	if len(d) < 2 || d[0] < 2 || ConcatAxis(n) != 1 || !p.OnBlocks(n) {
		return nil, 0, false
	}
	for _, v := range n.Inputs {
		parts = append(parts, image)
		image += p.Bytes(v) / d[0]
	}
	return parts, image, image > 0 && image == p.Bytes(y)/d[0]
}

// Images returns the place of the images of v in a place of larger ones at the given distance, off bytes behind the
// beginning of each.
func (p *Plan) Images(v *graph.Value, whole Memory, off, image int) Memory {
	n := p.Dims[v.ID][0]
	own := p.Bytes(v) / n
	m := Memory{Slot: whole.Slot, Off: whole.Off + off, Size: (n-1)*image + own, Image: image}
	if own == image || own == 0 {
		m.Size, m.Image = n*own, 0
	}
	return m
}

// WantConcats decides which values are made directly in the result of a Concat that reads them, and which results of a
// Concat are the beginning of another's: a chain of concatenations that grow, as in DenseNet, shares one buffer. The
// longest concatenation gets its operands first. Operands have to begin at multiples of align bytes; those of nodes that
// may alias their own operand instead are left alone, but for views of what can be made there. WantOutputs comes before:
// operands of a Concat that is an output are made in the caller's memory.
//
// apart reports whether a node's kernel reads or writes v, an operand or result, where its images lie apart: concatenations
// of several images are made in place by such kernels alone, and read by them. nil is for none.
func (p *Plan) WantConcats(align int, mayAlias func(*graph.Node) bool, apart func(n *graph.Node, v *graph.Value) bool) {
	var list []*graph.Node
	for _, n := range slices.Backward(p.Order) {
		if n.Is("Concat") {
			list = append(list, n)
		}
	}
	slices.SortStableFunc(list, func(a, b *graph.Node) int { return len(b.Inputs) - len(a.Inputs) })
	byFirst := map[*graph.Value]*graph.Node{} // the longest Concat that begins with a value
	for i, n := range list {
		y := n.Outputs[0]
		parts, ok := p.ConcatParts(n)
		if !ok {
			if parts, image, ok := p.ImageParts(n); ok && apart != nil {
				p.wantApart(n, list[i+1:], parts, image, align, apart)
			}
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

// wantApart asks for the operands of a Concat of several images in its result, and for the results of those among others
// that it begins with, as far as all who make and read them can do with that.
func (p *Plan) wantApart(n *graph.Node, others []*graph.Node, parts []int, image, align int, apart func(*graph.Node, *graph.Value) bool) {
	y := n.Outputs[0]
	if p.Want[y.ID].Image != 0 {
		return // the beginning of another, to which the operands belong
	}
	var short []*graph.Node // the concatenations that n begins with
	for _, m := range others {
		v := m.Outputs[0]
		if begins(m, n) && v.Format == y.Format && !v.IsOutput() && p.Want[v.ID].Slot < 0 &&
			!slices.ContainsFunc(v.Uses(), func(u graph.Use) bool { return !apart(u.Node, v) }) {
			short = append(short, m)
		}
	}
	fits := func(i int) bool {
		v := n.Inputs[i]
		if v.Producer == nil || v.IsOutput() || p.Want[v.ID].Slot >= 0 || p.Where[v.ID].Slot >= 0 || !apart(v.Producer, v) ||
			(p.Want[y.ID].Off+parts[i])%align != 0 || image%align != 0 {
			return false
		}
		in := 0
		for _, u := range v.Uses() {
			switch {
			case u.Node == n:
				in++
			case !slices.Contains(short, u.Node) && !apart(u.Node, v):
				return false
			}
		}
		return in == 1
	}
	for again := true; again; { // a short one that misses an operand would be copied for nothing
		before := len(short)
		short = slices.DeleteFunc(short, func(m *graph.Node) bool {
			for i := range m.Inputs {
				if !fits(i) {
					return true
				}
			}
			return false
		})
		again = len(short) < before
	}
	var made []int
	for i := range n.Inputs {
		if fits(i) {
			made = append(made, i)
		}
	}
	if len(made) == 0 {
		return
	}
	if p.Want[y.ID].Slot < 0 {
		p.Want[y.ID] = p.Temp(p.Bytes(y))
	}
	whole := p.Want[y.ID]
	for _, i := range made {
		p.Want[n.Inputs[i].ID] = p.Images(n.Inputs[i], whole, parts[i], image)
	}
	for _, m := range short {
		p.Want[m.Outputs[0].ID] = p.Images(m.Outputs[0], whole, 0, image)
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
