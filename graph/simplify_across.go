package graph

import (
	"slices"

	"github.com/carve-dev/carve/graph/tensor"
)

// mostPlanes is the most channels of images whose rows or columns become channels.
const mostPlanes = 4

// convolveAlong makes a convolution of few channels whose kernel is as high or as wide as the image one along the other axis, whose channels are the rows or
// columns, as text classifiers (Kim, doi:10.3115/v1/D14-1181) convolve words and others whole spectra:
//
//	Conv of [N, 1, H, W] by [M, 1, K, W]  ⇒  Conv of [N, W, 1, H] by [M, W, 1, K]
func (s *simplifier) convolveAlong() error {
	return s.each(func(n *Node) error {
		x, weights := n.Input(0), n.Input(1)
		if !n.Is("Conv") || x == nil || weights == nil || weights.Const == nil || len(x.Type.Shape) != 4 || n.Int("group", 1) != 1 {
			return nil
		}
		y, w, image := n.Outputs[0], weights.Const, x.Type.Shape
		if w.Rank() != 4 || w.DType != tensor.Float32 || !w.IsCompact() || w.Shape[1] > mostPlanes || int64(w.NumBytes()) > s.o.MaxFold || x.Format != y.Format || len(y.Type.Shape) != 4 || !s.canView(y.Type.Shape) {
			return nil
		}
		win, err := ConvAttrs(n, w.Shape[2:])
		if err != nil || win.AutoPad != PadExplicit {
			return nil
		}
		covers := func(axis int) bool {
			k := win.Kernel[axis]
			return k*w.Shape[1] >= 8 && image[2+axis].Is(int64(k)) && win.Begin[axis] == 0 && win.End[axis] == 0
		}
		dims := slices.Clone(image)
		channels := D(w.Shape[1] * win.Kernel[0])
		var along int
		switch {
		case covers(1) && w.Shape[1] == 1 && win.Kernel[0] > 1:
			along, channels = 0, image[3]
		case covers(0) && win.Kernel[1] > 1:
			along = 1
		default:
			return nil
		}
		dims[1], dims[2], dims[3] = channels, D(1), image[2+along]
		if !s.canView(dims) {
			return nil
		}
		rows := x
		if along == 0 { // of what was one channel: columns come second
			t := s.g.AddNode(NodeSpec{Op: Op{Name: "Transpose"}, Attrs: []Attr{IntsAttr("perm", channelsSecond(4)...)}, Inputs: []*Value{x}, Outputs: []string{""}, Origins: []string{}})
			rows = t.Outputs[0]
			rows.Type, rows.Format = x.Type, x.Format
			rows.Type.Shape = dims
			s.stale(t)
		} else {
			rows = s.view(x, dims)
		}
		s.convolveRows(n, &win, along, rows)
		return nil
	})
}

// convolveRows makes n a convolution along one axis of its window, of an image of one row.
func (s *simplifier) convolveRows(n *Node, win *Window, along int, rows *Value) {
	y, w := n.Outputs[0], n.Inputs[1]
	one := func(list []int, of int64) []int64 { return []int64{of, int64(list[along])} }
	n.Attrs = n.Attrs.With(IntsAttr("kernel_shape", one(win.Kernel, 1)...)).With(IntsAttr("strides", one(win.Strides, 1)...)).
		With(IntsAttr("dilations", one(win.Dilations, 1)...)).With(IntsAttr("pads", 0, int64(win.Begin[along]), 0, int64(win.End[along])))
	n.SetOperand(0, rows)
	n.SetOperand(1, s.g.AddConst(w.Name, rowWeights(w.Const, along)))
	shape := y.Type.Shape
	image := Shape{shape[0], shape[1], D(1), shape[2+along]}
	y.Type.Shape = image
	back := s.view(y, shape)
	s.replace(y, back)
	back.Producer.SetOperand(0, y)
	s.stale(n)
	s.changes++
}

// rowWeights returns weights [M, C, H, W] as [M, W, 1, H], C being 1, where they are convolved along axis 0, and as [M, C·H, 1, W] along the other.
func rowWeights(w *tensor.Tensor, along int) *tensor.Tensor {
	m, c, h, width := w.Shape[0], w.Shape[1], w.Shape[2], w.Shape[3]
	src := tensor.Elements[float32](w)
	if along == 1 {
		return tensor.From(src, m, c*h, 1, width)
	}
	dst := make([]float32, len(src))
	inPieces(m, h*width, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			for k := range h {
				for j, x := range src[(i*h+k)*width:][:width] {
					dst[(i*width+j)*h+k] = x
				}
			}
		}
	})
	return tensor.From(dst, m, width, 1, h)
}
