package fuse

import (
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/property"
)

// ShuffleName is the name of the property Shuffle.
const ShuffleName = "channel-shuffle"

// Shuffle returns the property of channel shuffles, Reshape-Transpose-Reshape: float32 images [N, C, H, W] as
// [N, g, C/g, H, W], the second and third axes exchanged, and back.
func Shuffle() property.SubgraphProperty {
	return property.Found(ShuffleName, 3, func(n *graph.Node) []*graph.Node {
		b, c, _ := shuffleAt(n)
		if b == nil {
			return nil
		}
		return []*graph.Node{n, b, c}
	})
}

// shuffleAt returns the nodes of a shuffle that begins with n, and the number of groups.
func shuffleAt(n *graph.Node) (b, c *graph.Node, groups int) {
	if !n.Is("Reshape") || len(n.Inputs[0].Type.Shape) != 4 || n.Inputs[0].Type.DType != tensor.Float32 {
		return nil, nil, 0
	}
	if b = Next(n.Outputs[0]); b == nil || !b.Is("Transpose") {
		return nil, nil, 0
	}
	if c = Next(b.Outputs[0]); c == nil || !c.Is("Reshape") {
		return nil, nil, 0
	}
	x, m, y := n.Inputs[0].Type.Shape, n.Outputs[0].Type.Shape, c.Outputs[0].Type.Shape
	if len(m) != 5 || !x.Equal(y) || !m[0].Equal(x[0]) || !m[3].Equal(x[2]) || !m[4].Equal(x[3]) ||
		!slices.Equal(Perm(b, 5), []int{0, 2, 1, 3, 4}) {
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

// ShuffleParts returns the operand of a fused shuffle that is the image, and the number of groups; nil where the body is no
// shuffle.
func ShuffleParts(fused *graph.Node) (x *graph.Value, groups int) {
	for m := range fused.Regions[0].Graph.Nodes() {
		if b, _, g := shuffleAt(m); b != nil {
			return Outer(fused, m.Inputs[0]), g
		}
	}
	return nil, 0
}

// ShuffleSignatures is the one signature of a fused shuffle: image and result in a format, the rest row-major.
func ShuffleSignatures(fused *graph.Node, name string, f graph.Format) ([]graph.Signature, *property.Reason) {
	x, _ := ShuffleParts(fused)
	if x == nil {
		return nil, property.Because(property.Veto, "body of %v is no shuffle", fused)
	}
	s := graph.Signature{Name: name, Outputs: []graph.Port{graph.Fixed(f)}}
	for _, v := range fused.Inputs {
		port := graph.Fixed(graph.HostFormat)
		if v == x {
			port = graph.Fixed(f)
		}
		s.Inputs = append(s.Inputs, port)
	}
	return []graph.Signature{s}, nil
}
