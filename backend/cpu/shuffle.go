package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/kernel/reorder"
	"github.com/carve-dev/carve/property"
)

// shuffle fuses a channel shuffle, Reshape-Transpose-Reshape, into one choice of channels that the blocked layout can do:
// [N, C, H, W] as [N, g, C/g, H, W], the second and third axes exchanged, and back.
type shuffle struct{}

// Name implements property.SubgraphProperty.
func (*shuffle) Name() string { return "channel-shuffle" }

// NewSelector implements property.SubgraphProperty.
func (*shuffle) NewSelector(*graph.Graph) property.Selector { return &shuffleSelector{} }

type shuffleSelector struct{ a, b, c *graph.Node }

// parseShuffle returns the nodes of a shuffle that begins with n, and the number of groups.
func parseShuffle(n *graph.Node) (b, c *graph.Node, groups int) {
	if !n.Is("Reshape") || !is4D(n.Inputs[0]) {
		return nil, nil, 0
	}
	b = next(n.Outputs[0])
	if b == nil || !b.Is("Transpose") {
		return nil, nil, 0
	}
	if c = next(b.Outputs[0]); c == nil || !c.Is("Reshape") {
		return nil, nil, 0
	}
	x, m, y := n.Inputs[0].Type.Shape, n.Outputs[0].Type.Shape, c.Outputs[0].Type.Shape
	if len(m) != 5 || !x.Equal(y) || !m[0].Equal(x[0]) || !m[3].Equal(x[2]) || !m[4].Equal(x[3]) {
		return nil, nil, 0
	}
	for i, p := range permOf(b, 5) {
		if p != [...]int{0, 2, 1, 3, 4}[i] {
			return nil, nil, 0
		}
	}
	g, ok1 := m[1].Const()
	per, ok2 := m[2].Const()
	ch, ok3 := x[1].Const()
	if !ok1 || !ok2 || !ok3 || g*per != ch {
		return nil, nil, 0
	}
	return b, c, int(g)
}

func (s *shuffleSelector) Select(seed *graph.Node) bool {
	s.a = seed
	s.b, s.c, _ = parseShuffle(seed)
	return s.b != nil
}
func (s *shuffleSelector) SelectInput(_, _ *graph.Node) bool { return false }
func (s *shuffleSelector) SelectOutput(_, output *graph.Node) bool {
	return output == s.b || output == s.c
}
func (s *shuffleSelector) Filter(candidates []*graph.Node) []*graph.Node {
	if len(candidates) != 3 {
		return nil
	}
	return candidates
}
func (s *shuffleSelector) Reset() {}

// image returns the operand of a fused shuffle that is the image, and the shuffle's parts.
func shuffleParts(n *graph.Node) (x *graph.Value, groups int) {
	for m := range n.Regions[0].Graph.Nodes() {
		if b, _, g := parseShuffle(m); b != nil {
			return outer(n, m.Inputs[0]), g
		}
	}
	return nil, 0
}

func shuffleSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	x, _ := shuffleParts(n)
	if x == nil {
		return nil, property.Because(property.Veto, "body is no shuffle")
	}
	s := graph.Signature{Name: "nchw16c", Outputs: []graph.Port{graph.Fixed(blocked)}}
	for _, v := range n.Inputs {
		f := rowMaj
		if v == x {
			f = blocked
		}
		s.Inputs = append(s.Inputs, graph.Fixed(f))
	}
	return []graph.Signature{s}, nil
}

func planShuffle(p *planner, n *graph.Node) error {
	x, groups := shuffleParts(n)
	d := p.dims[x.ID]
	per := d[1] / groups
	table := make([]reorder.Channel, d[1])
	for c := range table {
		table[c] = reorder.Channel{Channel: c%groups*per + c/groups}
	}
	return p.gather(d[0], d[2]*d[3], []reorder.Source{{C: d[1]}}, table, []memory{p.in(x)}, p.out(n.Outputs[0]))
}

// Slices and splits of channels in the blocked layout.

// channelSlice returns the range of channels that a Slice with constant bounds takes and leaves everything else alone.
func channelSlice(n *graph.Node) (start int, ok bool) {
	if n.Op.Since < 10 || !is4D(n.Inputs[0]) || !is4D(n.Outputs[0]) {
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

// takeChannels emits the choice of count channels from start on.
func (p *planner) takeChannels(x, y *graph.Value, start int) error {
	d, count := p.dims[x.ID], p.dims[y.ID][1]
	src := p.in(x)
	if start%16 == 0 && (count%16 == 0 || start+count == d[1]) && d[0] == 1 && p.want[y.ID].slot < 0 {
		p.bindValue(y, memory{src.slot, src.off + start*d[2]*d[3]*4, p.bytes(y)})
		return nil
	}
	table := make([]reorder.Channel, count)
	for c := range table {
		table[c] = reorder.Channel{Channel: start + c}
	}
	return p.gather(d[0], d[2]*d[3], []reorder.Source{{C: d[1]}}, table, []memory{src}, p.out(y))
}

func init() { register("pattern:channel-shuffle", operator{shuffleSignatures, planShuffle}) }
