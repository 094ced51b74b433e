package place

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/reorder"
)

// Views are the names of operators that give a row-major tensor another shape. They cost nothing: the result lies where
// the operand lies.
var Views = []string{"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Dropout"}

// IsView reports whether a node is one of Views with nothing but that to do.
func IsView(n *graph.Node) bool {
	return n.Is(Views...) && (len(n.Outputs) == 1 || n.Outputs[1] == nil) && !(n.Is("Dropout") && Drops(n))
}

// Drops reports whether a Dropout may drop something: its training mode is not known to be off.
func Drops(n *graph.Node) bool {
	v := n.Input(2)
	if v == nil {
		return n.Op.Since < 7 && n.Int("is_test", 0) == 0
	}
	return !v.IsConst() || v.Const.Len() != 1 || v.Const.DType != tensor.Bool || v.Const.Bytes()[0] != 0
}

// WantOutputs asks that values are made where the caller wants the group's outputs, also through views.
func (p *Plan) WantOutputs() {
	for i, v := range p.Sub.Outputs {
		if v.Producer == nil || p.Where[v.ID].Slot >= 0 || p.Want[v.ID].Slot >= 0 {
			continue
		}
		m := Memory{Slot: len(p.Slots), Size: p.Bytes(v)}
		p.Slots = append(p.Slots, Slot{Kind: Output, Index: i, first: -1})
		for _, u := range p.behind(v) {
			p.Want[u.ID] = m
		}
	}
}

// behind returns v and the chain of values that it is a view of, as far as each has no other reader and is not wanted
// elsewhere: the producer of the last one can make it where v has to be.
func (p *Plan) behind(v *graph.Value) []*graph.Value {
	list := []*graph.Value{v}
	for n := v.Producer; IsView(n) && n.Inputs[0].Format == n.Outputs[0].Format; {
		src := n.Inputs[0]
		if src.Producer == nil || !src.HasOneUse() || src.IsOutput() || p.Want[src.ID].Slot >= 0 || p.Bytes(src) != p.Bytes(v) {
			break
		}
		list = append(list, src)
		n = src.Producer
	}
	return list
}

// channelBlock returns the number of channels, the second dim, in a block of a format's layout: 1 where it is row-major, 0
// for layouts that are neither row-major nor blocked by channels alone.
func channelBlock(f graph.Format, rank int) int {
	if f == graph.HostFormat {
		return 1
	}
	d, err := f.Layout.Describe(rank)
	if err != nil || len(d.Blocks) != 1 || d.Blocks[0].Dim != 1 || d.Order[1] != 1 {
		return 0
	}
	return d.Blocks[0].Size
}

// ChannelSlice returns the first of the channels that a Slice with constant bounds takes from images [N, C, H, W], leaving
// everything else alone.
func ChannelSlice(n *graph.Node) (start int, ok bool) {
	x, y := n.Inputs[0].Type.Shape, n.Outputs[0].Type.Shape
	if n.Op.Since < 10 || len(x) != 4 || len(y) != 4 {
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
	c, ok4 := x[1].Const()
	_, ok5 := y[1].Const()
	if axis < 0 {
		axis += 4
	}
	if !ok1 || !ok2 || !ok3 || !ok4 || !ok5 || axis != 1 || step != 1 {
		return 0, false
	}
	if s < 0 {
		s += c
	}
	return int(min(max(s, 0), c)), true
}

// wholeChannels reports whether count channels of images of these dims, from start on, are contiguous: whole blocks of one
// image.
func wholeChannels(f graph.Format, dims []int, start, count int) bool {
	b := channelBlock(f, len(dims))
	return b > 0 && dims[0] == 1 && start%b == 0 && (count%b == 0 || start+count == dims[1])
}

// ViewChannels makes y the channels of the float32 images x from start on, where these are contiguous and nobody wants y
// elsewhere. It reports whether it did.
func (p *Plan) ViewChannels(x, y *graph.Value, start int) bool {
	d := p.Dims[x.ID]
	return wholeChannels(x.Format, d, start, p.Dims[y.ID][1]) && p.Part(y, x, start*d[2]*d[3]*4)
}

// A Gather emits a choice of channels of blocked images (reorder.NewGather): how many, of how many pixels, from what to what.
type Gather func(images, pixels int, sources []reorder.Source, table []reorder.Channel, reads []Memory, dst Memory) error

// TakeChannels makes y the channels of the blocked float32 images x from start on: a view as ViewChannels has it, or by gather.
func (p *Plan) TakeChannels(x, y *graph.Value, start int, gather Gather) error {
	if p.ViewChannels(x, y, start) {
		return nil
	}
	d, table := p.Dims[x.ID], make([]reorder.Channel, p.Dims[y.ID][1])
	for c := range table {
		table[c] = reorder.Channel{Channel: start + c}
	}
	return gather(d[0], d[2]*d[3], []reorder.Source{{C: d[1]}}, table, []Memory{p.In(x)}, p.Out(y))
}
