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

// spread is a transposed convolution of one to three spatial dims, the last of which are meant where they are fewer: a product makes a window of each pixel, and each pixel of the
// result is the sum of what windows have for it.
type spread struct {
	n, in, out  int // images, channels by group
	groups      int
	size, wide  [3]int // depth, height and width of the operand, and of the result
	kernel      [3]int
	stride, dil [3]int
	begin       [3]int
	bias        bool
	typ         gpukernel.Type
}

// spreadOf returns a transposed convolution of static shapes.
func spreadOf(n *graph.Node) (s spread, err error) {
	x, w := dims(n.Inputs[0]), dims(n.Inputs[1])
	if len(x) < 3 || len(x) > 5 || len(w) != len(x) {
		return s, fmt.Errorf("one to three spatial dims, found %v and %v", x, w)
	}
	win, err := graph.ConvAttrs(n, w[2:])
	if err != nil {
		return s, err
	}
	out, begin, _, err := win.ResolveTranspose(x[2:])
	if err != nil {
		return s, err
	}
	s = spread{n: x[0], groups: win.Group, bias: n.Input(2) != nil, typ: keptAs(n.Inputs[0]),
		size: one3, wide: one3, kernel: one3, stride: one3, dil: one3}
	if s.groups < 1 || x[1]%s.groups != 0 || w[0] != x[1] {
		return s, fmt.Errorf("%d groups of weights %v", s.groups, w)
	}
	s.in, s.out = x[1]/s.groups, w[1]
	first := 5 - len(x)
	for i := range len(x) - 2 {
		k := first + i
		s.size[k], s.wide[k], s.kernel[k], s.stride[k], s.dil[k], s.begin[k] = x[2+i], out[i], w[2+i], win.Strides[i], win.Dilations[i], begin[i]
		if out[i] < 1 || w[2+i] < 1 || w[2+i] > spreadMost {
			return s, fmt.Errorf("windows of %v to %v", w[2:], out)
		}
	}
	if product3(s.kernel) > spreadMost {
		return s, fmt.Errorf("windows of %v", w[2:])
	}
	return s, nil
}

// one3 is what dims are that are not there.
var one3 = [3]int{1, 1, 1}

func product3(d [3]int) int { return d[0] * d[1] * d[2] }

// product returns the product that makes windows [N, D, H, W, group, kernel, filter].
func (s *spread) product() gpukernel.ProductShape {
	window := product3(s.kernel) * s.out
	p := gpukernel.ProductShape{M: s.n * product3(s.size), K: s.in, N: window, Batch1: s.groups}
	p.A = gpukernel.Matrix{Type: s.typ, Stride: s.in * s.groups, Batch1: s.in}
	p.B = gpukernel.Matrix{Type: s.typ, Stride: window, Batch1: s.in * window}
	p.C = gpukernel.Matrix{Type: s.typ, Stride: window * s.groups, Batch1: window}
	return p
}

// program adds up what windows have for each pixel, and a bias.
func (s *spread) program() *gpukernel.Program {
	p := &gpukernel.Program{}
	windows := p.Input("windows", s.typ, s.n, s.size[0], s.size[1], s.size[2], s.groups, s.kernel[0], s.kernel[1], s.kernel[2], s.out)
	shape := []int{s.n, s.wide[0], s.wide[1], s.wide[2], s.groups, s.out}
	beside := s.kernel == s.stride && s.dil == one3 && s.begin == [3]int{}
	for i := range 3 {
		beside = beside && s.wide[i] == s.size[i]*s.stride[i]
	}
	if beside { // windows lie side by side
		return s.image(p, p.Reshape(p.Transpose(windows, 0, 1, 5, 2, 6, 3, 7, 4, 8), shape...))
	}
	own := func(axis int) gpukernel.Along { return gpukernel.Along{Axis: axis, Index: gpukernel.NoValue} }
	at := func(k int) gpukernel.Along {
		return gpukernel.Along{Index: p.Constant(gpukernel.I32, fmt.Sprint(k)), Within: true}
	}
	var sum gpukernel.Value
	for kz := range s.kernel[0] {
		depths := s.pixel(p, 0, kz)
		for ky := range s.kernel[1] {
			rows := s.pixel(p, 1, ky)
			for kx := range s.kernel[2] {
				v := p.Pick(windows, shape, own(0), gpukernel.Along{Index: depths}, gpukernel.Along{Index: rows},
					gpukernel.Along{Index: s.pixel(p, 2, kx)}, own(4), at(kz), at(ky), at(kx), own(5))
				if kz+ky+kx == 0 {
					sum = v
				} else {
					sum = p.Scalar(s.typ, "$0 + $1", sum, v)
				}
			}
		}
	}
	return s.image(p, sum)
}

// pixel returns, for each place of the result along a dim, the pixel whose window has place k there, as a value of this dim and those
// behind it; what is out of range where there is none.
func (s *spread) pixel(p *gpukernel.Program, dim, k int) gpukernel.Value {
	shape := make([]int, 5-dim)
	for i := range shape {
		shape[i] = 1
	}
	shape[0] = s.wide[dim]
	by := s.begin[dim] - k*s.dil[dim]
	text := fmt.Sprintf("($0 + %[1]d < 0 || ($0 + %[1]d) %% %[2]d != 0 ? %[3]d : ($0 + %[1]d) / %[2]d)", by, s.stride[dim], s.size[dim])
	return p.Scalar(gpukernel.I32, text, p.Reshape(p.Iota(s.wide[dim]), shape...))
}

// image adds the bias to pixels [N, D, H, W, group, filter], and makes them the output.
func (s *spread) image(p *gpukernel.Program, v gpukernel.Value) *gpukernel.Program {
	v = p.Reshape(v, s.n, s.wide[0], s.wide[1], s.wide[2], s.groups*s.out)
	if s.bias {
		v = p.Scalar(s.typ, "$0 + $1", v, p.Input("bias", s.typ, s.groups*s.out))
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
	windows := p.Temp(shape.M * shape.N * s.groups * s.typ.Size())
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
