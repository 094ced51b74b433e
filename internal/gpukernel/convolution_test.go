package gpukernel_test

import (
	"fmt"
	"math/rand/v2"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/gpukernel"
)

// convolve computes a convolution in float64; images lie without gaps, results with the stride of the shape.
func convolve(s gpukernel.ConvShape, image, weights, bias, residual []float64) []float64 {
	oh, ow := s.Out()
	od, deep, kd := s.Depth.Out(), max(s.Depth.In, 1), max(s.Depth.Kernel, 1)
	g := max(s.Groups, 1)
	cg, fg, stride := s.C/g, s.Filters/g, max(s.ResultStride, s.Filters)
	out := make([]float64, s.N*od*oh*ow*stride)
	// window is what a filter makes of the window of an output.
	window := func(n, z, y, x, f int) (sum float64) {
		for at := range kd * s.KernelH * s.KernelW {
			id := z*max(s.Depth.Stride, 1) - s.Depth.Front + at/(s.KernelH*s.KernelW)*max(s.Depth.Dilation, 1)
			ih := y*max(s.StrideH, 1) - s.PadTop + at/s.KernelW%s.KernelH*max(s.DilationH, 1)
			iw := x*max(s.StrideW, 1) - s.PadLeft + at%s.KernelW*max(s.DilationW, 1)
			if id < 0 || id >= deep || ih < 0 || ih >= s.H || iw < 0 || iw >= s.W {
				continue
			}
			for c := range cg {
				w := ((f/fg*kd*s.KernelH*s.KernelW+at)*cg+c)*fg + f%fg
				if s.Direct() {
					w = at*s.C + f
				}
				sum += image[(((n*deep+id)*s.H+ih)*s.W+iw)*s.C+f/fg*cg+c] * weights[w]
			}
		}
		return sum
	}
	for pixel := range s.N * od * oh * ow {
		for f := range s.Filters {
			sum := window(pixel/(od*oh*ow), pixel/(oh*ow)%od, pixel/ow%oh, pixel%ow, f)
			if len(s.Finish) > 0 {
				sum = max(sum+bias[f]+residual[pixel*s.Filters+f], 0)
			}
			out[pixel*stride+f] = sum
		}
	}
	return out
}

var _ = Describe("Convolution", func() {
	const f32, f16, bf16 = gpukernel.F32, gpukernel.F16, gpukernel.BF16
	fused := []gpukernel.Step{{Op: gpukernel.AddColumn, Operand: f32}, {Op: gpukernel.AddMatrix, Operand: f32}, {Op: gpukernel.Relu}}

	It("computes what the definition says", func(ctx SpecContext) {
		square := func(n, h, c, f, k, stride, pad int) gpukernel.ConvShape {
			return gpukernel.ConvShape{N: n, H: h, W: h + 1, C: c, Filters: f, KernelH: k, KernelW: k, StrideH: stride, StrideW: stride,
				PadTop: pad, PadLeft: pad, PadBottom: pad, PadRight: pad, Type: f32, Result: f32}
		}
		with := func(s gpukernel.ConvShape, edit func(*gpukernel.ConvShape)) gpukernel.ConvShape {
			edit(&s)
			return s
		}
		cases := []gpukernel.ConvShape{
			square(1, 1, 1, 1, 1, 1, 0),
			square(2, 9, 8, 12, 3, 1, 1),
			square(1, 13, 3, 17, 7, 2, 3),
			square(2, 7, 16, 33, 1, 1, 0),
			square(2, 7, 16, 33, 1, 2, 0),
			with(square(2, 8, 8, 16, 3, 2, 1), func(s *gpukernel.ConvShape) { s.Finish = fused }),
			with(square(1, 8, 12, 18, 3, 1, 1), func(s *gpukernel.ConvShape) { s.Groups, s.Finish, s.PadBottom = 3, fused, 0 }),
			with(square(1, 11, 4, 8, 3, 1, 2), func(s *gpukernel.ConvShape) { s.DilationH, s.DilationW, s.ResultStride = 2, 3, 13 }),
			with(square(1, 8, 8, 16, 3, 1, 1), func(s *gpukernel.ConvShape) { s.Type, s.Result, s.Finish = f16, f16, fused }),
			with(square(1, 8, 3, 16, 3, 2, 1), func(s *gpukernel.ConvShape) { s.Type, s.Result, s.Finish = bf16, f32, fused }),
			with(square(2, 8, 16, 24, 3, 1, 1), func(s *gpukernel.ConvShape) { s.Precision, s.Finish = gpukernel.TF32, fused }),
			with(square(2, 8, 16, 24, 3, 1, 1), func(s *gpukernel.ConvShape) { s.Precision, s.Finish = gpukernel.RoundedF16, fused }),
			with(square(1, 9, 5, 17, 3, 2, 1), func(s *gpukernel.ConvShape) { s.Precision = gpukernel.RoundedBF16 }),
			// volumes
			with(square(2, 5, 3, 7, 3, 1, 1), func(s *gpukernel.ConvShape) {
				s.Depth, s.Finish = gpukernel.Depth{In: 4, Kernel: 2, Stride: 2, Front: 1}, fused
			}),
			with(square(1, 4, 8, 12, 2, 1, 0), func(s *gpukernel.ConvShape) {
				s.Groups, s.Depth = 2, gpukernel.Depth{In: 7, Kernel: 3, Dilation: 2, Front: 2, Back: 1}
			}),
			with(square(1, 4, 4, 4, 1, 1, 0), func(s *gpukernel.ConvShape) { s.Groups, s.Depth = 4, gpukernel.Depth{In: 3, Kernel: 2} }),
			with(square(2, 3, 16, 20, 1, 1, 0), func(s *gpukernel.ConvShape) { s.Depth = gpukernel.Depth{In: 3} }),
			// depthwise
			square(2, 9, 8, 8, 3, 1, 1), square(1, 5, 5, 5, 5, 2, 2), square(1, 5, 12, 12, 3, 2, 1),
		}
		for i := len(cases) - 3; i < len(cases); i++ {
			cases[i].Groups = cases[i].C
		}
		cases[len(cases)-1].Finish = fused
		cases = append(cases, with(cases[len(cases)-1], func(s *gpukernel.ConvShape) { s.Type, s.Result = f16, bf16 }))

		processors := len(cases)
		cases = append(cases, square(2, 9, 8, 12, 3, 1, 1), square(1, 13, 3, 17, 7, 2, 3), square(2, 7, 16, 33, 1, 2, 0),
			with(square(1, 8, 12, 18, 3, 1, 1), func(s *gpukernel.ConvShape) { s.Groups, s.Finish, s.PadBottom = 3, fused, 0 }),
			with(square(1, 11, 4, 8, 3, 1, 2), func(s *gpukernel.ConvShape) { s.DilationH, s.DilationW, s.ResultStride = 2, 3, 13 }),
			with(square(2, 5, 3, 9, 3, 1, 1), func(s *gpukernel.ConvShape) {
				s.Depth, s.Finish = gpukernel.Depth{In: 6, Kernel: 3, Stride: 2, Dilation: 2, Front: 1, Back: 2}, fused
			}))

		var plans []*gpukernel.Plan
		for i, s := range cases {
			d := gpukernel.NVIDIA(90, []int{1, 132}[i%2])
			if i >= processors {
				d = gpukernel.Device{Processors: 2, Local: 32 << 10, LocalTotal: 32 << 10, Vector: 8}
			}
			plan, err := gpukernel.Convolution(fmt.Sprintf("convolution%d", i), d, s)
			Expect(err).NotTo(HaveOccurred())
			plans = append(plans, plan)
		}
		program := start(ctx, plans...)
		r := rand.New(rand.NewPCG(3, 4))
		for i, s := range cases {
			what := fmt.Sprintf("%d %+v", i, s)
			h, w := s.Out()
			pixels := s.N * s.Depth.Out() * h * w
			g := max(s.Groups, 1)
			image := random(r, s.Type, s.N*max(s.Depth.In, 1)*s.H*s.W*s.C)
			weights := random(r, s.Type, max(s.Depth.Kernel, 1)*s.KernelH*s.KernelW*(s.C/g)*s.Filters)
			bias, residual := random(r, f32, s.Filters), random(r, f32, pixels*s.Filters)
			stride := max(s.ResultStride, s.Filters)
			length := pixels*stride - (stride - s.Filters) // nothing belongs to it behind the last pixel
			c := poison(s.Result, length)
			for at := range length { // what lies between pixels is another's and has to stay
				if at%stride >= s.Filters {
					copy(c[at*s.Result.Size():], encode(s.Result, []float64{0}))
				}
			}
			Expect(program.Run(plans[i], map[string][]byte{"a": encode(s.Type, image), "b": encode(s.Type, weights), "c": c,
				"operand0": encode(f32, bias), "operand1": encode(f32, residual)})).To(Succeed(), what)
			tolerance := map[gpukernel.Type]float64{f32: 1e-5, f16: 2e-3, bf16: 1e-2}[s.Result]
			image, weights = rounded(s.Precision, image), rounded(s.Precision, weights)
			near(what, decode(s.Result, c), convolve(s, image, weights, bias, residual)[:length], tolerance)
		}
	})

	It("refuses shapes that have no kernel", func() {
		for _, s := range []gpukernel.ConvShape{
			{},
			{N: 1, H: 2, W: 2, C: 3, Filters: 4, KernelH: 3, KernelW: 1, Type: f32, Result: f32},
			{N: 1, H: 2, W: 2, C: 3, Filters: 4, KernelH: 1, KernelW: 1, Groups: 2, Type: f32, Result: f32},
			{N: 1, H: 2, W: 2, C: 3, Filters: 4, KernelH: 1, KernelW: 1, Type: f32, Result: gpukernel.I32},
			{N: 1, H: 2, W: 2, C: 3, Filters: 4, KernelH: 1, KernelW: 1, PadTop: -1, Type: f32, Result: f32},
			{N: 1, H: 2, W: 2, C: 3, Filters: 4, KernelH: 1, KernelW: 1, Type: f32, Result: f32, Depth: gpukernel.Depth{In: 2, Kernel: 3}},
			{N: 1, H: 2, W: 2, C: 3, Filters: 4, KernelH: 1, KernelW: 1, Type: f32, Result: f32, Depth: gpukernel.Depth{In: 2, Front: -1}},
			{N: 1 << 20, H: 1 << 20, W: 1 << 20, C: 3, Filters: 4, KernelH: 1, KernelW: 1, Type: f32, Result: f32},
		} {
			_, err := gpukernel.Convolution("c", gpukernel.NVIDIA(90, 132), s)
			Expect(err).To(MatchError(gpukernel.ErrUnsupported))
		}
	})
})
