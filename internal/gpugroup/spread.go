package gpugroup

import (
	"fmt"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/gpukernel"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// spreadShape returns a transposed convolution whose windows do not overlap in the kernels' terms: each pixel, a row of the
// product, becomes a window. The node's shapes are static.
func spreadShape(n *graph.Node) (s gpukernel.ProductShape, err error) {
	x, w := dims(n.Inputs[0]), dims(n.Inputs[1])
	if len(x) != 4 || len(w) != 4 || n.Int("group", 1) != 1 || x[1] != w[0] {
		return s, fmt.Errorf("two spatial dims in one group, found %v and %v", x, w)
	}
	win, err := graph.ConvAttrs(n, w[2:])
	if err != nil {
		return s, err
	}
	out, begin, end, err := win.ResolveTranspose(x[2:])
	if err != nil {
		return s, err
	}
	for i := range 2 {
		if win.Strides[i] != win.Kernel[i] || win.Dilations[i] != 1 || begin[i] != 0 || end[i] != 0 || out[i] != x[2+i]*win.Kernel[i] {
			return s, fmt.Errorf("windows that overlap, or padding")
		}
	}
	s = gpukernel.ProductShape{M: x[0] * x[2] * x[3], K: x[1], N: w[1] * w[2] * w[3]}
	s.A = gpukernel.Matrix{Type: gpukernel.F32, Stride: s.K}
	s.B = gpukernel.Matrix{Type: gpukernel.F32, Stride: s.N}
	s.C = gpukernel.Matrix{Type: gpukernel.F32, Stride: s.N}
	return s, nil
}

// spreadProgram moves windows [N, H, W, kernel, filters] to where they belong, and adds a bias.
func spreadProgram(n *graph.Node) *gpukernel.Program {
	x, w := dims(n.Inputs[0]), dims(n.Inputs[1])
	p := &gpukernel.Program{}
	v := p.Input("windows", gpukernel.F32, x[0], x[2], x[3], w[2], w[3], w[1])
	v = p.Reshape(p.Transpose(v, 0, 1, 3, 2, 4, 5), x[0], x[2]*w[2], x[3]*w[3], w[1])
	if n.Input(2) != nil {
		v = p.Scalar(gpukernel.F32, "$0 + $1", v, p.Input("bias", gpukernel.F32, w[1]))
	}
	p.Output(v, "image")
	return p
}

func spreadSignature(d *Device, n, one *graph.Node) (graph.Signature, *property.Reason) {
	here, last := d.format(graph.RowMajor), d.format(graph.NHWC)
	sig := graph.Signature{Name: "spread", Inputs: []graph.Port{graph.Fixed(last), graph.Fixed(last)}, Outputs: []graph.Port{graph.Fixed(last)}}
	for range n.Inputs[2:] {
		sig.Inputs = append(sig.Inputs, graph.Fixed(here))
	}
	s, err := spreadShape(one)
	if err == nil {
		_, err = gpukernel.Product("k", d.Kernels, s)
	}
	if err == nil {
		_, err = gpukernel.Render("k", d.Kernels, spreadProgram(one))
	}
	if err != nil {
		return sig, property.Because(property.ShapeReason, "%v", err)
	}
	if !fuse.IsConst(n.Inputs[1]) {
		return sig, property.Because(property.Unsupported, "weights %v are not constant", n.Inputs[1])
	}
	return sig, nil
}

func planSpread(p *planner, n *graph.Node, _ tail) error {
	s, err := spreadShape(n)
	if err != nil {
		return err
	}
	product, err := gpukernel.Product("product", p.d, s)
	if err != nil {
		return err
	}
	windows := p.Temp(s.M * s.N * 4)
	if err := p.emit(1, product, map[string]place.Memory{"a": p.In(n.Inputs[0]), "b": p.In(n.Inputs[1]), "c": windows}); err != nil {
		return err
	}
	move, err := gpukernel.Render("spread", p.d, spreadProgram(n))
	if err != nil {
		return err
	}
	buffers := map[string]place.Memory{"windows": windows, "image": p.Out(n.Outputs[0])}
	if n.Input(2) != nil {
		buffers["bias"] = p.In(n.Inputs[2])
	}
	return p.emit(0, move, buffers)
}
