package gpugroup

import (
	"fmt"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/gpukernel"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// spreadMost is the most places of a window: each is a term of the sum that a pixel is.
const spreadMost = 128

// spread is a transposed convolution of one or two spatial dims: a product makes a window of each pixel, and each pixel of the
// result is the sum of what windows have for it.
type spread struct {
	n, in, out  int // images, channels by group
	groups      int
	size, wide  [2]int // height and width of the operand, and of the result
	kernel      [2]int
	stride, dil [2]int
	begin       [2]int
	bias        bool
}

// spreadOf returns a transposed convolution of static shapes.
func spreadOf(n *graph.Node) (s spread, err error) {
	x, w := dims(n.Inputs[0]), dims(n.Inputs[1])
	if len(x) < 3 || len(x) > 4 || len(w) != len(x) {
		return s, fmt.Errorf("one or two spatial dims, found %v and %v", x, w)
	}
	win, err := graph.ConvAttrs(n, w[2:])
	if err != nil {
		return s, err
	}
	out, begin, _, err := win.ResolveTranspose(x[2:])
	if err != nil {
		return s, err
	}
	s = spread{n: x[0], groups: win.Group, bias: n.Input(2) != nil,
		size: [2]int{1, 1}, wide: [2]int{1, 1}, kernel: [2]int{1, 1}, stride: [2]int{1, 1}, dil: [2]int{1, 1}}
	if s.groups < 1 || x[1]%s.groups != 0 || w[0] != x[1] {
		return s, fmt.Errorf("%d groups of weights %v", s.groups, w)
	}
	s.in, s.out = x[1]/s.groups, w[1]
	first := 4 - len(x) // of one dim, the second is meant
	for i := range len(x) - 2 {
		k := first + i
		s.size[k], s.wide[k], s.kernel[k], s.stride[k], s.dil[k], s.begin[k] = x[2+i], out[i], w[2+i], win.Strides[i], win.Dilations[i], begin[i]
		if out[i] < 1 || w[2+i] < 1 || w[2+i] > spreadMost {
			return s, fmt.Errorf("windows of %v to %v", w[2:], out)
		}
	}
	if s.kernel[0]*s.kernel[1] > spreadMost {
		return s, fmt.Errorf("windows of %v", w[2:])
	}
	return s, nil
}

// product returns the product that makes windows [N, H, W, group, kernel, filter].
func (s *spread) product() gpukernel.ProductShape {
	window := s.kernel[0] * s.kernel[1] * s.out
	p := gpukernel.ProductShape{M: s.n * s.size[0] * s.size[1], K: s.in, N: window, Batch1: s.groups}
	p.A = gpukernel.Matrix{Type: gpukernel.F32, Stride: s.in * s.groups, Batch1: s.in}
	p.B = gpukernel.Matrix{Type: gpukernel.F32, Stride: window, Batch1: s.in * window}
	p.C = gpukernel.Matrix{Type: gpukernel.F32, Stride: window * s.groups, Batch1: window}
	return p
}

// program adds up what windows have for each pixel, and a bias.
func (s *spread) program() *gpukernel.Program {
	p := &gpukernel.Program{}
	windows := p.Input("windows", gpukernel.F32, s.n, s.size[0], s.size[1], s.groups, s.kernel[0], s.kernel[1], s.out)
	shape := []int{s.n, s.wide[0], s.wide[1], s.groups, s.out}
	if s.kernel == s.stride && s.dil == [2]int{1, 1} && s.begin == [2]int{} && s.wide == [2]int{s.size[0] * s.stride[0], s.size[1] * s.stride[1]} {
		// Windows lie side by side.
		return s.image(p, p.Reshape(p.Transpose(windows, 0, 1, 4, 2, 5, 3, 6), shape...))
	}
	var sum gpukernel.Value
	for ky := range s.kernel[0] {
		rows := s.pixel(p, 0, ky, 4)
		for kx := range s.kernel[1] {
			at := func(k int) gpukernel.Along {
				return gpukernel.Along{Index: p.Constant(gpukernel.I32, fmt.Sprint(k)), Within: true}
			}
			own := func(axis int) gpukernel.Along { return gpukernel.Along{Axis: axis, Index: gpukernel.NoValue} }
			v := p.Pick(windows, shape, own(0), gpukernel.Along{Index: rows}, gpukernel.Along{Index: s.pixel(p, 1, kx, 3)}, own(3), at(ky), at(kx), own(4))
			if ky+kx == 0 {
				sum = v
			} else {
				sum = p.Scalar(gpukernel.F32, "$0 + $1", sum, v)
			}
		}
	}
	return s.image(p, sum)
}

// pixel returns, for each place of the result along a dim, the pixel whose window has place k there, as a value of so many dims;
// what is out of range where there is none.
func (s *spread) pixel(p *gpukernel.Program, dim, k, rank int) gpukernel.Value {
	shape := make([]int, rank)
	for i := range shape {
		shape[i] = 1
	}
	shape[0] = s.wide[dim]
	by := s.begin[dim] - k*s.dil[dim]
	text := fmt.Sprintf("($0 + %[1]d < 0 || ($0 + %[1]d) %% %[2]d != 0 ? %[3]d : ($0 + %[1]d) / %[2]d)", by, s.stride[dim], s.size[dim])
	return p.Scalar(gpukernel.I32, text, p.Reshape(p.Iota(s.wide[dim]), shape...))
}

// image adds the bias to pixels [N, H, W, group, filter], and makes them the output.
func (s *spread) image(p *gpukernel.Program, v gpukernel.Value) *gpukernel.Program {
	v = p.Reshape(v, s.n, s.wide[0], s.wide[1], s.groups*s.out)
	if s.bias {
		v = p.Scalar(gpukernel.F32, "$0 + $1", v, p.Input("bias", gpukernel.F32, s.groups*s.out))
	}
	p.Output(v, "image")
	return p
}

func spreadSignature(d *Device, n, one *graph.Node) (graph.Signature, *property.Reason) {
	here := d.format(graph.RowMajor)
	s, err := spreadOf(one)
	if err == nil {
		_, err = gpukernel.Product("k", d.Kernels, s.product())
	}
	if err == nil {
		_, err = gpukernel.Render("k", d.Kernels, s.program())
	}
	if err != nil {
		return graph.Signature{}, property.Because(property.ShapeReason, "%v", err)
	}
	l, _ := images(len(n.Inputs[0].Type.Shape))
	last := d.format(l)
	sig := graph.Signature{Name: "spread", Inputs: []graph.Port{graph.Fixed(last), graph.Fixed(last)}, Outputs: []graph.Port{graph.Fixed(last)}}
	for range n.Inputs[2:] {
		sig.Inputs = append(sig.Inputs, graph.Fixed(here))
	}
	return sig, nil
}

func planSpread(p *planner, n *graph.Node, _ tail) error {
	s, err := spreadOf(n)
	if err != nil {
		return err
	}
	shape := s.product()
	product, err := gpukernel.Product("product", p.d, shape)
	if err != nil {
		return err
	}
	windows := p.Temp(shape.M * shape.N * s.groups * 4)
	if err := p.emit(1, product, map[string]place.Memory{"a": p.In(n.Inputs[0]), "b": p.In(n.Inputs[1]), "c": windows}); err != nil {
		return err
	}
	move, err := gpukernel.Render("spread", p.d, s.program())
	if err != nil {
		return err
	}
	buffers := map[string]place.Memory{"windows": windows, "image": p.Out(n.Outputs[0])}
	if s.bias {
		buffers["bias"] = p.In(n.Inputs[2])
	}
	return p.emit(0, move, buffers)
}
