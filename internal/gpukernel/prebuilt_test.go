package gpukernel_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/gpukernel"
	"github.com/carve-dev/carve/internal/gpukernel/fibre"
)

// withoutCompiler is a device whose kernels are those that were compiled beforehand.
func withoutCompiler(processors int) gpukernel.Device {
	d := gpukernel.NVIDIA(90, processors)
	d.Prebuilt = true
	return d
}

var _ = Describe("Kernels compiled beforehand", func() {
	const f32 = gpukernel.F32
	column, matrix := gpukernel.Step{Op: gpukernel.AddColumn, Operand: f32}, gpukernel.Step{Op: gpukernel.AddMatrix, Operand: f32}
	relu, gelu := gpukernel.Step{Op: gpukernel.Relu}, gpukernel.Step{Op: gpukernel.Gelu}
	few, many := withoutCompiler(1), withoutCompiler(132)

	run := func(ctx SpecContext) *fibre.Program {
		GinkgoHelper()
		p, err := fibre.Start(ctx, GinkgoT().TempDir(), fibre.All, gpukernel.Prebuilt()...)
		if errors.Is(err, fibre.ErrNoCompiler) {
			Skip(err.Error())
		}
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(p.Close)
		return p
	}

	It("multiply what the definition says, at sizes about those of tiles", func(ctx SpecContext) {
		program := run(ctx)
		r := rand.New(rand.NewPCG(5, 6))
		used := map[string]int{}
		finishes := [][]gpukernel.Step{nil, {column, matrix, relu}, {column, gelu}, {column, matrix, gelu}, {gelu, matrix}, {matrix, column}}
		sizes := []int{1, 3, 4, 8, 31, 36, 63, 64, 65, 127, 128, 129, 132}
		cases := []productCase{{17, 24, 2048, 1, 1, f32, f32, false, 0, finishes[3], many}, {9, 33, 1000, 2, 1, f32, f32, false, 0, finishes[1], many},
			{256, 256, 20, 1, 1, f32, f32, false, 0, finishes[1], few}, {250, 251, 19, 1, 1, f32, f32, false, 0, finishes[1], few},
			{250, 256, 20, 1, 1, f32, f32, true, 0, finishes[1], few}, {251, 255, 19, 1, 1, f32, f32, true, 0, nil, few}}
		for i := range 40 {
			size := func() int { return sizes[r.IntN(len(sizes))] }
			cases = append(cases, productCase{size(), size(), size(), 1 + r.IntN(2), 1 + r.IntN(3), f32, f32, i%3 == 0, 0, finishes[i%len(finishes)],
				[]gpukernel.Device{few, many}[i%2]})
		}
		for _, p := range cases {
			s := p.shape()
			plan, err := gpukernel.Product("product", p.device, s)
			Expect(err).NotTo(HaveOccurred(), p.String())
			for _, l := range plan.Launches {
				used[l.Kernel.Name]++
			}
			a, b := random(r, f32, p.batch0*p.batch1*p.m*p.k), random(r, f32, p.batch1*p.k*p.n)
			bias, residual := random(r, f32, p.n), random(r, f32, p.batch0*p.batch1*p.m*p.n)
			c := poison(f32, len(residual))
			buffers := map[string][]byte{"a": encode(f32, a), "b": encode(f32, b), "c": c}
			for i, step := range p.finish {
				switch step.Op {
				case gpukernel.AddColumn:
					buffers[fmt.Sprintf("operand%d", i)] = encode(f32, bias)
				case gpukernel.AddMatrix:
					buffers[fmt.Sprintf("operand%d", i)] = encode(f32, residual)
				}
			}
			Expect(program.Run(plan, buffers)).To(Succeed(), p.String())
			near(p.String(), decode(f32, c), p.want(a, b, bias, residual), 1e-5)
		}
		for _, k := range gpukernel.Prebuilt() {
			if strings.HasPrefix(k.Name, "product") && !strings.Contains(k.Name, "windows") {
				Expect(used).To(HaveKey(k.Name))
			}
		}
	})

	It("convolve as the definition says", func(ctx SpecContext) {
		program := run(ctx)
		r := rand.New(rand.NewPCG(7, 8))
		used := map[string]int{}
		for i := range 80 {
			pick := func(list ...int) int { return list[r.IntN(len(list))] }
			s := gpukernel.ConvShape{N: pick(1, 2), H: pick(1, 5, 9, 14), W: pick(1, 4, 7, 13), C: pick(1, 3, 4, 8, 16), Filters: pick(1, 5, 8, 12, 64, 68), KernelH: pick(1, 2, 3),
				KernelW: pick(1, 3, 5), StrideH: pick(1, 2), StrideW: pick(1, 1, 2, 3), DilationH: pick(1, 1, 2), DilationW: pick(1, 1, 2), PadTop: pick(0, 1, 3), PadLeft: pick(0, 1, 2),
				PadBottom: pick(1, 4), PadRight: pick(2, 5), Type: f32, Result: f32}
			switch i % 4 {
			case 1:
				s.Groups, s.Filters = s.C, s.C // of single channels
			case 2:
				s.Groups = pick(1, s.C)
				s.Filters *= s.Groups
			case 3:
				s.PadTop, s.PadLeft, s.PadBottom, s.PadRight = 0, 0, 0, 0
				s.KernelH, s.KernelW = 1, 1
			}
			if i%3 > 0 {
				s.Finish = []gpukernel.Step{column, matrix, relu}
			}
			if i%5 == 0 {
				s.ResultStride = s.Filters + pick(0, 4, 5)
			}
			if i >= 76 { // large tiles
				s = gpukernel.ConvShape{N: 2, H: 12, W: 11, C: pick(3, 8), Filters: 128, KernelH: 3, KernelW: 3, Type: f32, Result: f32, PadTop: 1, PadLeft: 1, PadRight: 1, PadBottom: 1}
			}
			what := fmt.Sprintf("%d %+v", i, s)
			d := []gpukernel.Device{few, many}[i%2]
			if i >= 76 {
				d = few
			}
			plan, err := gpukernel.Convolution("convolution", d, s)
			if h, w := s.Out(); h < 1 || w < 1 {
				Expect(err).To(MatchError(gpukernel.ErrUnsupported))
				continue
			}
			Expect(err).NotTo(HaveOccurred(), what)
			for _, l := range plan.Launches {
				used[l.Kernel.Name]++
			}
			oh, ow := s.Out()
			image, weights := random(r, f32, s.N*s.H*s.W*s.C), random(r, f32, s.KernelH*s.KernelW*(s.C/max(s.Groups, 1))*s.Filters)
			bias, residual := random(r, f32, s.Filters), random(r, f32, s.N*oh*ow*s.Filters)
			want := convolve(s, image, weights, bias, residual)
			stride := max(s.ResultStride, s.Filters)
			want = want[:len(want)-(stride-s.Filters)]
			c := encode(f32, make([]float64, len(want)))
			Expect(program.Run(plan, map[string][]byte{"a": encode(f32, image), "b": encode(f32, weights), "c": c,
				"operand0": encode(f32, bias), "operand1": encode(f32, residual)})).To(Succeed(), what)
			near(what, decode(f32, c), want, 1e-5)
		}
		for _, name := range []string{"depthwise_1", "depthwise_4", "product_64x64_windows", "product_64x64_windows_whole", "product_128x128_windows", "product_128x128_windows_whole"} {
			Expect(used).To(HaveKey(name))
		}
	})

	It("attend as the definition says", func(ctx SpecContext) {
		program := run(ctx)
		r := rand.New(rand.NewPCG(9, 10))
		used := map[string]int{}
		for _, c := range []attentionCase{
			{1, 1, 1, 1, 1, 1, 1, f32, false, false, many},
			{2, 2, 1, 33, 67, 16, 20, f32, false, true, many},
			{1, 2, 2, 31, 33, 64, 64, f32, true, false, many},
			{1, 4, 2, 5, 131, 17, 9, f32, true, true, many},
			{1, 1, 1, 67, 5, 8, 8, f32, true, false, few}, // most queries see no key
			{1, 1, 1, 17, 40, 128, 128, f32, false, true, many},
			{1, 1, 1, 17, 35, 256, 127, f32, true, true, many},
		} {
			plan, err := gpukernel.Attention("attention", c.device, c.shape())
			Expect(err).NotTo(HaveOccurred())
			used[plan.Launches[0].Kernel.Name]++
			q, k := random(r, f32, c.batch*c.queries*c.heads*c.depth), random(r, f32, c.batch*c.keys*c.kv*c.depth)
			v, mask := random(r, f32, c.batch*c.keys*c.kv*c.width), random(r, f32, c.batch*c.keys)
			for j := range mask {
				if j%5 == 3 {
					mask[j] = math.Inf(-1)
				}
			}
			out := poison(f32, c.batch*c.queries*c.heads*c.width)
			Expect(program.Run(plan, map[string][]byte{"q": encode(f32, q), "k": encode(f32, k), "v": encode(f32, v),
				"mask": encode(f32, mask), "c": out})).To(Succeed(), fmt.Sprintf("%+v", c))
			near(fmt.Sprintf("%+v", c), decode(f32, out), c.want(q, k, v, mask), 1e-5)
		}
		Expect(used).To(HaveLen(2))
	})

	DescribeTable("are refused", func(err error) { Expect(err).To(MatchError(gpukernel.ErrUnsupported)) },
		Entry("for products of halves", failure(gpukernel.Product("k", few, productCase{8, 8, 8, 1, 1, gpukernel.F16, f32, false, 0, nil, few}.shape()))),
		Entry("for attention on halves", failure(gpukernel.Attention("k", few, attentionCase{1, 1, 1, 8, 8, 8, 8, gpukernel.F16, false, false, few}.shape()))),
		Entry("for wide attention", failure(gpukernel.Attention("k", few, attentionCase{1, 1, 1, 8, 8, 8, 200, f32, false, false, few}.shape()))),
		Entry("for single channels of halves", failure(gpukernel.Convolution("k", few, gpukernel.ConvShape{N: 1, H: 4, W: 4, C: 4, Filters: 4, Groups: 4,
			KernelH: 1, KernelW: 1, Type: gpukernel.F16, Result: f32}))),
		Entry("for a result with gaps that is finished otherwise", failure(gpukernel.Convolution("k", few, gpukernel.ConvShape{N: 1, H: 4, W: 4, C: 4, Filters: 4,
			KernelH: 1, KernelW: 1, Type: f32, Result: f32, ResultStride: 7, Finish: []gpukernel.Step{gelu}}))),
		Entry("for tables that a launch cannot pass", failure(gpukernel.Render("k", few, tableProgram(2000)))),
		Entry("for functions that the interpreter lacks", failure(gpukernel.Render("k", few, unknownProgram()))),
	)

	It("are the same ones each time, and take no more than a launch can pass", func() {
		Expect(gpukernel.Source(gpukernel.CUDA, gpukernel.Prebuilt()...)).To(Equal(gpukernel.Source(gpukernel.CUDA, gpukernel.Prebuilt()...)))
		plan, err := gpukernel.Render("k", few, tableProgram(8))
		Expect(err).NotTo(HaveOccurred())
		l := plan.Launches[0]
		passed := 0
		for i, p := range l.Kernel.Params {
			passed += max(8*len(l.Args[i].Data), 8)
			if len(l.Args[i].Data) > 0 {
				Expect(gpukernel.Source(gpukernel.CUDA)).To(ContainSubstring(fmt.Sprintf("u64 code[%d];\n} %s;", len(l.Args[i].Data), p.Type)))
			}
		}
		Expect(passed).To(BeNumerically("<=", 4096))
	})
})

func failure(_ *gpukernel.Plan, err error) error { return err }

// tableProgram reads a table of so many numbers.
func tableProgram(n int) *gpukernel.Program {
	p := &gpukernel.Program{}
	p.Output(p.Table(gpukernel.I32, make([]int, n)...), "y")
	return p
}

func unknownProgram() *gpukernel.Program {
	p := &gpukernel.Program{}
	p.Output(p.Scalar(gpukernel.F32, "gamma_f32($0)", p.Input("x", gpukernel.F32, 4)), "y")
	return p
}
