package main

import (
	"fmt"
	"math"

	"github.com/carve-dev/carve/internal/gpukernel"
)

// convTasks are convolutions of resnet50 at a batch of 32, and depthwise ones of mobilenet_v2.
func (b *bench) convTasks() []task {
	shapes := []gpukernel.ConvShape{
		{H: 224, C: 3, Filters: 64, KernelH: 7, StrideH: 2, PadTop: 3},
		{H: 56, C: 64, Filters: 64, KernelH: 3, PadTop: 1}, {H: 56, C: 64, Filters: 256, KernelH: 1},
		{H: 28, C: 128, Filters: 128, KernelH: 3, PadTop: 1}, {H: 28, C: 512, Filters: 128, KernelH: 1},
		{H: 14, C: 256, Filters: 256, KernelH: 3, PadTop: 1}, {H: 14, C: 256, Filters: 1024, KernelH: 1},
		{H: 7, C: 512, Filters: 512, KernelH: 3, PadTop: 1}, {H: 7, C: 2048, Filters: 512, KernelH: 1},
		{H: 112, C: 96, Filters: 96, Groups: 96, KernelH: 3, StrideH: 2, PadTop: 1}, {H: 14, C: 576, Filters: 576, Groups: 576, KernelH: 3, PadTop: 1},
	}
	var list []task
	for _, k := range productKinds() {
		for _, s := range shapes {
			if k.name == "tf32" && s.Groups > 1 {
				continue
			}
			s.N, s.W, s.KernelW, s.StrideW, s.PadLeft, s.PadBottom, s.PadRight = 32, s.H, s.KernelH, s.StrideH, s.PadTop, s.PadTop, s.PadTop
			s.Type, s.Result, s.Precision = k.operand, k.result, k.precision
			s.Finish = []gpukernel.Step{{Op: gpukernel.AddColumn, Operand: gpukernel.F32}, {Op: gpukernel.Relu}}
			list = append(list, b.convTask(k, s))
		}
	}
	return list
}

func (b *bench) convTask(k productKind, s gpukernel.ConvShape) task {
	plan, err := gpukernel.Convolution("convolution", b.device, s)
	h, w := s.Out()
	groups := max(s.Groups, 1)
	image, weights, out := s.N*s.H*s.W*s.C, s.KernelH*s.KernelW*s.C/groups*s.Filters, s.N*h*w*s.Filters
	t := task{
		name: fmt.Sprintf("%s %d×%d² %d→%d, %d×%d/%d, %d groups", k.name, s.N, s.H, s.C, s.Filters, s.KernelH, s.KernelW, max(s.StrideH, 1), groups),
		plan: plan, err: err, inputs: map[string]operand{"a": {s.Type, image}, "b": {s.Type, weights}, "operand0": {gpukernel.F32, s.Filters}},
		result: "c", out: operand{s.Result, out}, bytes: float64((image+weights)*s.Type.Size() + out*s.Result.Size()), tolerance: k.tolerance,
		want: func(in map[string][]byte, i int) float64 { return convolved(s, in, i) },
	}
	if groups == 1 {
		t.operations = 2 * float64(out) * float64(s.KernelH*s.KernelW*s.C)
	}
	return t
}

// convolved computes one element of a convolution of one group, or of a depthwise one.
func convolved(s gpukernel.ConvShape, in map[string][]byte, i int) float64 {
	h, w := s.Out()
	f, x, y, n := i%s.Filters, i/s.Filters%w, i/s.Filters/w%h, i/s.Filters/w/h
	sum := element(in["operand0"], gpukernel.F32, f)
	for kh := range s.KernelH {
		for kw := range s.KernelW {
			ih, iw := y*max(s.StrideH, 1)-s.PadTop+kh, x*max(s.StrideW, 1)-s.PadLeft+kw
			if ih < 0 || ih >= s.H || iw < 0 || iw >= s.W {
				continue
			}
			pixel, window := ((n*s.H+ih)*s.W+iw)*s.C, kh*s.KernelW+kw
			if s.Groups > 1 {
				sum += element(in["a"], s.Type, pixel+f) * element(in["b"], s.Type, window*s.C+f)
				continue
			}
			for c := range s.C {
				sum += element(in["a"], s.Type, pixel+c) * element(in["b"], s.Type, (window*s.C+c)*s.Filters+f)
			}
		}
	}
	return math.Max(sum, 0)
}
