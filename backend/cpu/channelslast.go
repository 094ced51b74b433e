package cpu

import (
	"slices"

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

// nearTransposed is what a byte costs, in nanoseconds, that a convolution transposes while it is near: less than a conversion, and enough that
// what might as well be in one format as in the other has its channels last.
const nearTransposed = 0.03

// eitherFormat returns a signature with images of integers, operand i and the result, in each of their formats, best first.
func eitherFormat(s graph.Signature, n *graph.Node, i int) []graph.Signature {
	list := []graph.Signature{s}
	each := func(v *graph.Value, set func(s *graph.Signature, f graph.Format)) {
		if !isByteImage(v) {
			return
		}
		var all []graph.Signature
		for _, s := range list {
			for _, f := range []graph.Format{lastChannels, rowMaj} {
				made := s
				made.Inputs, made.Outputs = slices.Clone(s.Inputs), slices.Clone(s.Outputs)
				if set(&made, f); f == rowMaj {
					made.Extra += nearTransposed * float64(product(operators.AssumedDims(v)))
				}
				all = append(all, made)
			}
		}
		list = all
	}
	each(n.Inputs[i], func(s *graph.Signature, f graph.Format) { s.Inputs[i] = graph.Fixed(f) })
	each(n.Outputs[0], func(s *graph.Signature, f graph.Format) { s.Outputs[0] = graph.Fixed(f) })
	return list
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
