package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/conv"
	"github.com/carve-dev/carve/internal/kernel/quant"
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

// maxPoolPixels emits a MaxPool of images with their channels last: the larger of rows, then of neighbours.
func (p *planner) maxPoolPixels(m conv.Map, images, channels int, src, dst place.Memory, signed bool) {
	kernels, line := p.integers, m.W*channels
	work := p.scratch(line)
	p.emit(step{chunks: images * m.OH, grain: grainFor(float64(line*m.Kernel[0])/16 + float64(m.OW*m.Kernel[1])*10), body: func(st *state, worker, lo, hi int) {
		x, y, row := st.Bytes(src), st.Bytes(dst), work.bytes(st, worker)[:line]
		for i := lo; i < hi; i++ {
			image, oy := x[i/m.OH*m.H*line:][:m.H*line], i%m.OH
			some := false
			for ky := range m.Kernel[0] {
				iy := oy*m.Stride[0] + ky*m.Dilate[0] - m.Pad[0]
				if iy < 0 || iy >= m.H {
					continue
				}
				if from := image[iy*line:][:line]; some {
					kernels.Larger(row, row, from, signed)
				} else {
					copy(row, from)
					some = true
				}
			}
			out := y[i*m.OW*channels:][:m.OW*channels]
			for ox := range m.OW {
				pixel := out[ox*channels:][:channels]
				if !some || !largestPixel(kernels, &m, pixel, row, ox, signed) {
					fill(pixel, leastByte(signed))
				}
			}
		}
	}}, []place.Memory{src}, []place.Memory{dst, work.at})
}

// largestPixel writes the largest of the pixels of a row that a window sees. It reports whether there is one.
func largestPixel(kernels quant.Kernels, m *conv.Map, pixel, row []byte, ox int, signed bool) (some bool) {
	for kx := range m.Kernel[1] {
		ix := ox*m.Stride[1] + kx*m.Dilate[1] - m.Pad[1]
		if ix < 0 || ix >= m.W {
			continue
		}
		if from := row[ix*len(pixel):][:len(pixel)]; some {
			kernels.Larger(pixel, pixel, from, signed)
		} else {
			copy(pixel, from)
			some = true
		}
	}
	return some
}

// leastByte returns the smallest integer of a type.
func leastByte(signed bool) byte {
	if signed {
		return 128
	}
	return 0
}

func planPoolBytes(p *planner, n *graph.Node, m conv.Map) {
	x, y := n.Inputs[0], n.Outputs[0]
	d, signed := p.Dims[x.ID], x.Type.DType == tensor.Int8
	if x.Format == lastChannels {
		p.maxPoolPixels(m, d[0], d[1], p.In(x), p.Out(y), signed)
		return
	}
	p.maxPoolBytes(m, d[0]*d[1], p.In(x), p.Out(y), signed)
}
