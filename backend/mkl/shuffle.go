package mkl

import (
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/property"
)

// shuffle fuses a channel shuffle, Reshape-Transpose-Reshape, into the library's primitive: [N, C, H, W] as [N, g, C/g, H, W],
// the second and third axes exchanged, and back.
type shuffle struct{}

// Name implements property.SubgraphProperty.
func (*shuffle) Name() string { return "channel-shuffle" }

// NewSelector implements property.SubgraphProperty.
func (*shuffle) NewSelector(*graph.Graph) property.Selector { return &listSelector{list: shuffleNodes} }

func shuffleNodes(n *graph.Node) []*graph.Node {
	b, c, _ := parseShuffle(n)
	if b == nil {
		return nil
	}
	return []*graph.Node{n, b, c}
}

// parseShuffle returns the nodes of a shuffle that begins with n, and the number of groups.
func parseShuffle(n *graph.Node) (b, c *graph.Node, groups int) {
	if !n.Is("Reshape") || len(n.Inputs[0].Type.Shape) != 4 || !isF32(n.Inputs[0]) {
		return nil, nil, 0
	}
	if b = next(n.Outputs[0]); b == nil || !b.Is("Transpose") {
		return nil, nil, 0
	}
	if c = next(b.Outputs[0]); c == nil || !c.Is("Reshape") {
		return nil, nil, 0
	}
	x, m, y := n.Inputs[0].Type.Shape, n.Outputs[0].Type.Shape, c.Outputs[0].Type.Shape
	if len(m) != 5 || !x.Equal(y) || !m[0].Equal(x[0]) || !m[3].Equal(x[2]) || !m[4].Equal(x[3]) ||
		!slices.Equal(permOf(b, 5), []int{0, 2, 1, 3, 4}) {
		return nil, nil, 0
	}
	g, ok1 := m[1].Const()
	per, ok2 := m[2].Const()
	ch, ok3 := x[1].Const()
	if !ok1 || !ok2 || !ok3 || g*per != ch || g < 1 {
		return nil, nil, 0
	}
	return b, c, int(g)
}

// shuffleParts returns the operand of a fused shuffle that is the image, and the number of groups.
func shuffleParts(n *graph.Node) (x *graph.Value, groups int) {
	for m := range n.Regions[0].Graph.Nodes() {
		if b, _, g := parseShuffle(m); b != nil {
			return outer(n, m.Inputs[0]), g
		}
	}
	return nil, 0
}

func shuffleSignatures(b *mkl, n *graph.Node) ([]graph.Signature, *property.Reason) {
	x, groups := shuffleParts(n)
	if x == nil {
		return nil, property.Because(property.Veto, "body is no shuffle")
	}
	act := b.activations(4)
	d := assumed(x)
	if why := refused(b.l.ask(b.answers, 0, b.l.shuffle(1, d[1]/groups, in(act.Layout, d)))); why != nil {
		return nil, why
	}
	s := graph.Signature{Name: "shuffle", Outputs: []graph.Port{graph.Fixed(act)}}
	for _, v := range n.Inputs {
		f := graph.HostFormat
		if v == x {
			f = act
		}
		s.Inputs = append(s.Inputs, graph.Fixed(f))
	}
	return []graph.Signature{s}, nil
}

func planShuffle(p *planner, n *graph.Node) error {
	x, groups := shuffleParts(n)
	pr, err := p.make(p.l.shuffle(1, p.dims[x.ID][1]/groups, p.shape(x)))
	if err != nil {
		return err
	}
	d, err := p.desc(p.shape(x))
	if err != nil {
		return err
	}
	p.run(pr, 0, arg{argSrc, p.in(x), d, false}, arg{argDst, p.out(n.Outputs[0]), d, true})
	return nil
}

func init() { register("pattern:channel-shuffle", operator{shuffleSignatures, planShuffle}) }
