package gpugroup

import (
	"fmt"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/gpukernel"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// convShape returns a convolution of one to three spatial dims in the kernels' terms. The node's shapes are static.
func convShape(n *graph.Node) (s gpukernel.ConvShape, err error) {
	x, w := dims(n.Inputs[0]), dims(n.Inputs[1])
	if len(x) < 3 || len(x) > 5 || len(w) != len(x) {
		return s, fmt.Errorf("one to three spatial dims, found %v and %v", x, w)
	}
	win, err := graph.ConvAttrs(n, w[2:])
	if err != nil {
		return s, err
	}
	_, begin, end, err := win.Resolve(x[2:])
	if err != nil {
		return s, err
	}
	s = gpukernel.ConvShape{N: x[0], H: 1, C: x[1], Filters: w[0], KernelH: 1, Groups: win.Group,
		Type: keptAs(n.Inputs[0]), Weights: keptAs(n.Inputs[1]), Result: keptAs(n.Outputs[0])}
	at := len(x) - 3 // the index of the dim along rows
	s.W, s.KernelW, s.StrideW, s.DilationW, s.PadLeft, s.PadRight = x[2+at], w[2+at], win.Strides[at], win.Dilations[at], begin[at], end[at]
	if at--; at >= 0 {
		s.H, s.KernelH, s.StrideH, s.DilationH, s.PadTop, s.PadBottom = x[2+at], w[2+at], win.Strides[at], win.Dilations[at], begin[at], end[at]
	}
	if at--; at >= 0 {
		s.Depth = gpukernel.Depth{In: x[2], Kernel: w[2], Stride: win.Strides[0], Dilation: win.Dilations[0], Front: begin[0], Back: end[0]}
	}
	if s.Groups < 1 || s.C%s.Groups != 0 || s.Filters%s.Groups != 0 || w[1] != s.C/s.Groups {
		return s, fmt.Errorf("%d groups of weights %v", s.Groups, w)
	}
	return s, nil
}

// depthwise names signatures of convolutions that are no products.
const depthwise = "depthwise"

func convSignature(d *Device, n, one *graph.Node) (graph.Signature, *property.Reason) {
	sig := graph.Signature{Name: "implicit-gemm"}
	s, err := convShape(one)
	if err == nil {
		_, err = gpukernel.Convolution("k", d.Kernels, s)
	}
	if err != nil {
		return sig, property.Because(property.ShapeReason, "%v", err)
	}
	if s.Direct() {
		sig.Name = depthwise
	}
	rank := len(n.Inputs[0].Type.Shape)
	last, _ := images(rank)
	weights := graph.RowMajor
	if g := weightGroups(s); fuse.IsConst(n.Inputs[1]) && packs(rank, g, s.Filters/g) {
		weights = weightLayout(rank, g, s.Filters/g)
	}
	sig.Inputs = []graph.Port{graph.Fixed(d.format(last)), graph.Fixed(d.format(weights))}
	for range n.Inputs[2:] {
		sig.Inputs = append(sig.Inputs, graph.Fixed(d.format(graph.RowMajor)))
	}
	sig.Outputs = []graph.Port{graph.Fixed(d.format(last))}
	return sig, nil
}

// weightGroups returns by how many groups weights are packed: those of a depthwise convolution lie as if there were one.
func weightGroups(s gpukernel.ConvShape) int {
	if s.Direct() {
		return 1
	}
	return s.Groups
}

func planConv(p *planner, n *graph.Node, t tail) error {
	s, err := convShape(n)
	if err != nil {
		return err
	}
	x, w, y := n.Inputs[0], n.Inputs[1], n.Outputs[0]
	if bias := n.Input(2); bias != nil {
		var with tail
		with.add(gpukernel.Step{Op: gpukernel.AddColumn, Operand: keptAs(bias)}, p.In(bias))
		t = t.behind(with)
	}
	s.Finish, s.Tile = t.steps, tileOf(n)
	if p.toLibrary(n) {
		if done, err := p.convByLibrary(n, s, t); done || err != nil {
			return err
		}
	}
	weights := p.In(w)
	if last, _ := images(len(w.Type.Shape)); w.Format.Layout.IsRowMajor() || w.Format.Layout == last {
		if weights, err = p.packWeights(w, s); err != nil {
			return err
		}
	}
	plan, err := gpukernel.Convolution("conv", p.d, s)
	if err != nil {
		return err
	}
	return p.emit(1, plan, p.bind(t, map[string]place.Memory{"a": p.In(x), "b": weights, "c": p.result(y, t)}))
}

// packWeights emits what brings weights into the order of the kernels in each run: row-major ones, or those in the order of a library.
func (p *planner) packWeights(w *graph.Value, s gpukernel.ConvShape) (place.Memory, error) {
	g := weightGroups(s)
	var prog gpukernel.Program
	depth, channels := max(s.Depth.Kernel, 1), s.C/s.Groups
	if w.Format.Layout.IsRowMajor() {
		x := prog.Input("w", keptAs(w), g, s.Filters/g, channels, depth, s.KernelH, s.KernelW)
		prog.Output(prog.Transpose(x, 0, 3, 4, 5, 2, 1), "packed")
	} else {
		x := prog.Input("w", keptAs(w), g, s.Filters/g, depth, s.KernelH, s.KernelW, channels)
		prog.Output(prog.Transpose(x, 0, 2, 3, 4, 5, 1), "packed")
	}
	plan, err := gpukernel.Render("pack", p.d, &prog)
	if err != nil {
		return place.Nowhere, err
	}
	at := p.Temp(p.Bytes(w))
	return at, p.emit(0, plan, map[string]place.Memory{"w": p.In(w), "packed": at})
}
