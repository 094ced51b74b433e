package main

import (
	"fmt"
	"math"

	"github.com/carve-dev/carve/internal/gpukernel"
)

// convolutionTasks are convolutions of resnet50, and depthwise ones of mobilenet_v2, by our kernel and, where it knows them, by the library.
func (b *bench) convolutionTasks(s sizes) []task {
	var list []task
	for _, p := range precisions() {
		for _, shape := range convolutions(s) {
			if p.name == "tf32" && shape.Groups > 1 {
				continue
			}
			shape.Type, shape.Result, shape.Precision = p.operand, p.result, p.rounds
			shape.Finish = []gpukernel.Step{{Op: gpukernel.AddColumn, Operand: gpukernel.F32}, {Op: gpukernel.Relu}}
			if p.operand == gpukernel.F32 {
				list = append(list, b.convolution(p, shape, true))
			}
			list = append(list, b.convolution(p, shape, false))
		}
	}
	return list
}

// convolutions are their shapes.
func convolutions(s sizes) []gpukernel.ConvShape {
	list := []gpukernel.ConvShape{
		{H: 224, C: 3, Filters: 64, KernelH: 7, StrideH: 2, PadTop: 3},
		{H: 56, C: 64, Filters: 64, KernelH: 3, PadTop: 1}, {H: 56, C: 64, Filters: 256, KernelH: 1},
		{H: 28, C: 128, Filters: 128, KernelH: 3, PadTop: 1}, {H: 28, C: 512, Filters: 128, KernelH: 1},
		{H: 14, C: 256, Filters: 256, KernelH: 3, PadTop: 1}, {H: 14, C: 256, Filters: 1024, KernelH: 1},
		{H: 7, C: 512, Filters: 512, KernelH: 3, PadTop: 1}, {H: 7, C: 2048, Filters: 512, KernelH: 1},
		{H: 112, C: 96, Filters: 96, Groups: 96, KernelH: 3, StrideH: 2, PadTop: 1}, {H: 14, C: 576, Filters: 576, Groups: 576, KernelH: 3, PadTop: 1},
	}
	if s.window > 0 {
		list = []gpukernel.ConvShape{list[0], list[1], list[9]}
	}
	for i := range list {
		c := &list[i]
		if s.window > 0 {
			c.H, c.C, c.Filters, c.Groups = min(c.H, s.window), min(c.C, s.channels), min(c.Filters, s.channels), min(c.Groups, s.channels)
		}
		c.N, c.W, c.KernelW, c.StrideW, c.PadLeft, c.PadBottom, c.PadRight = s.images, c.H, c.KernelH, c.StrideH, c.PadTop, c.PadTop, c.PadTop
	}
	return list
}

func (b *bench) convolution(p precision, s gpukernel.ConvShape, library bool) task {
	h, w := s.Out()
	groups := max(s.Groups, 1)
	image, weights, out := s.N*s.H*s.W*s.C, s.KernelH*s.KernelW*s.C/groups*s.Filters, s.N*h*w*s.Filters
	name := fmt.Sprintf("%d×%d² %d→%d, %d×%d/%d", s.N, s.H, s.C, s.Filters, s.KernelH, s.KernelW, max(s.StrideH, 1))
	if groups > 1 {
		name += fmt.Sprintf(", %d groups", groups)
	}
	t := task{
		taskName: taskName{Part: convolutionPart, Name: name, Side: "carve", Precision: p.name},
		inputs:   map[string]operand{"a": {s.Type, image}, "b": {s.Type, weights}, "operand0": {gpukernel.F32, s.Filters}}, result: "c", out: operand{s.Result, out},
		bytes: float64((image+weights)*s.Type.Size() + out*s.Result.Size()), tolerance: p.tolerance,
		want: func(in map[string][]byte, i int) float64 { return convolved(s, library, in, i) },
		plan: func() (*gpukernel.Plan, error) { return gpukernel.Convolution("convolution", b.device, s) },
	}
	if groups == 1 {
		t.operations = 2 * float64(out) * float64(s.KernelH*s.KernelW*s.C)
	}
	if library {
		t.Side, t.library, t.plan = dnnName, b.byConvolutions(s), nil
	}
	return t
}

// convolved computes one element of a convolution of one group, or of a depthwise one. Filters are the outermost dim of weights where they
// are a library's, else the innermost.
func convolved(s gpukernel.ConvShape, filtersFirst bool, in map[string][]byte, i int) float64 {
	h, w := s.Out()
	f, x, y, n := i%s.Filters, i/s.Filters%w, i/s.Filters/w%h, i/s.Filters/w/h
	channels, first := s.C/max(s.Groups, 1), 0
	if s.Groups > 1 {
		first = f
	}
	sum := element(in["operand0"], gpukernel.F32, f)
	for kh := range s.KernelH {
		for kw := range s.KernelW {
			ih, iw := y*max(s.StrideH, 1)-s.PadTop+kh, x*max(s.StrideW, 1)-s.PadLeft+kw
			if ih < 0 || ih >= s.H || iw < 0 || iw >= s.W {
				continue
			}
			pixel, tap := ((n*s.H+ih)*s.W+iw)*s.C+first, kh*s.KernelW+kw
			for c := range channels {
				at := (tap*channels+c)*s.Filters + f
				if filtersFirst {
					at = (f*s.KernelH*s.KernelW+tap)*channels + c
				}
				sum += element(in["a"], s.Type, pixel+c) * element(in["b"], s.Type, at)
			}
		}
	}
	return math.Max(sum, 0)
}
