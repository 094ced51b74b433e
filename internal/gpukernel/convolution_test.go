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
	g := max(s.Groups, 1)
	cg, fg, stride := s.C/g, s.Filters/g, max(s.ResultStride, s.Filters)
	out := make([]float64, s.N*oh*ow*stride)
	for n := range s.N {
		for y := range oh {
			for x := range ow {
				for f := range s.Filters {
					sum := 0.0
					for kh := range s.KernelH {
						for kw := range s.KernelW {
							ih := y*max(s.StrideH, 1) - s.PadTop + kh*max(s.DilationH, 1)
							iw := x*max(s.StrideW, 1) - s.PadLeft + kw*max(s.DilationW, 1)
							if ih < 0 || ih >= s.H || iw < 0 || iw >= s.W {
								continue
							}
							for c := range cg {
								w := weights[(((f/fg*s.KernelH+kh)*s.KernelW+kw)*cg+c)*fg+f%fg]
								if cg == 1 && fg == 1 && g > 1 { // the weights of a depthwise one lie by place
									w = weights[(kh*s.KernelW+kw)*s.C+f]
								}
								sum += image[((n*s.H+ih)*s.W+iw)*s.C+f/fg*cg+c] * w
							}
						}
					}
					pixel := (n*oh+y)*ow + x
					if len(s.Finish) > 0 {
						sum = max(sum+bias[f]+residual[pixel*s.Filters+f], 0)
					}
					out[pixel*stride+f] = sum
				}
			}
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
			with(square(1, 11, 4, 8, 3, 1, 2), func(s *gpukernel.ConvShape) { s.DilationH, s.DilationW, s.ResultStride = 2, 3, 13 }))

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
			oh, ow := s.Out()
			g := max(s.Groups, 1)
			image := random(r, s.Type, s.N*s.H*s.W*s.C)
			weights := random(r, s.Type, s.KernelH*s.KernelW*(s.C/g)*s.Filters)
			bias, residual := random(r, f32, s.Filters), random(r, f32, s.N*oh*ow*s.Filters)
			stride := max(s.ResultStride, s.Filters)
			length := s.N*oh*ow*stride - (stride - s.Filters) // nothing belongs to it behind the last pixel
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
			{N: 1 << 20, H: 1 << 20, W: 1 << 20, C: 3, Filters: 4, KernelH: 1, KernelW: 1, Type: f32, Result: f32},
		} {
			_, err := gpukernel.Convolution("c", gpukernel.NVIDIA(90, 132), s)
			Expect(err).To(MatchError(gpukernel.ErrUnsupported))
		}
	})
})
