package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
)

// Images of 8-bit integers with their channels last, as convolutions on integers read them: between such, element-wise operators
// and pooling, nothing is transposed. Both ends of a convolution may be row-major too, which it transposes while they are near.

// lastChannels is the format of such images.
var lastChannels = graph.On(graph.NHWC)

// isByteImage reports whether v is an image of 8-bit integers over two axes.
func isByteImage(v *graph.Value) bool { return isByte(v) && len(v.Type.Shape) == 4 }

// eitherFormat makes ports of images of integers variables, each its own: operand i, and the result.
func eitherFormat(s *graph.Signature, n *graph.Node, i int) {
	either := func(v *graph.Value, port *graph.Port) {
		if isByteImage(v) {
			*port = graph.Variable(len(s.Vars))
			s.Vars = append(s.Vars, []graph.Format{lastChannels, rowMaj})
		}
	}
	either(n.Inputs[i], &s.Inputs[i])
	either(n.Outputs[0], &s.Outputs[0])
}

// followBytes has those operands that are chosen, and the result, in one format: channels last or row-major.
func followBytes(n *graph.Node, chosen func(i int) bool) []graph.Signature {
	s := operators.RowMajor(n)
	if !isByteImage(n.Outputs[0]) {
		return s
	}
	for i, v := range n.Inputs {
		if chosen(i) {
			if !isByteImage(v) {
				return operators.RowMajor(n)
			}
			s[0].Inputs[i] = graph.Variable(0)
		}
	}
	s[0].Name, s[0].Outputs[0], s[0].Vars = "neutral", graph.Variable(0), [][]graph.Format{{lastChannels, rowMaj}}
	return s
}

// concatPixels emits a Concat of the channels of images with their channels last.
func (p *planner) concatPixels(n *graph.Node, dst place.Memory) {
	y := p.Dims[n.Outputs[0].ID]
	pixels, at := y[0]*y[2]*y[3], 0
	for _, v := range n.Inputs {
		c := p.Dims[v.ID][1]
		p.strided(copySpec{dims: []int{pixels, c}, src: []int{c, 1}, dst: []int{y[1], 1}, dstOff: at, size: 1}, p.In(v), dst)
		at += c
	}
}
