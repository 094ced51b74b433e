package gpukernel_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/gpukernel"
)

var _ = Describe("Render", func() {
	const f32 = gpukernel.F32
	hop := gpukernel.NVIDIA(90, 132)

	DescribeTable("makes as few kernels as the data flow admits", func(kernels int, build func(p *gpukernel.Program)) {
		p := &gpukernel.Program{}
		build(p)
		plan, err := gpukernel.Render("k", hop, p)
		Expect(err).NotTo(HaveOccurred())
		Expect(plan.Launches).To(HaveLen(kernels))
		again, err := gpukernel.Render("k", hop, p)
		Expect(err).NotTo(HaveOccurred())
		for i, l := range plan.Launches {
			Expect(gpukernel.Source(gpukernel.CUDA, l.Kernel)).To(Equal(gpukernel.Source(gpukernel.CUDA, again.Launches[i].Kernel)))
		}
	},
		Entry("element by element, with movements", 1, func(p *gpukernel.Program) {
			x := p.Input("x", f32, 6, 8)
			y := p.Reshape(p.Transpose(x, 1, 0), 4, 12)
			p.Output(p.Pad(p.Concat(0, y, p.Scalar(f32, "relu_f32($0)", y)), p.Float(f32, 1), []int{1, 0}, []int{0, 2}), "y")
		}),
		Entry("Softmax", 1, func(p *gpukernel.Program) {
			*p = *softmaxProgram(f32, 100, 768)
		}),
		Entry("a norm after a sum, both of which are wanted", 1, func(p *gpukernel.Program) {
			x := p.Scalar(f32, "$0 + $1", p.Input("a", f32, 10, 64), p.Input("b", f32, 10, 64))
			p.Output(x, "sum")
			squares := p.Reduce(gpukernel.ReduceSum, p.Scalar(f32, "$0 * $0", x), 1)
			p.Output(p.Scalar(f32, "$0 / sqrt_f32($1)", x, squares), "y")
			p.Output(squares, "squares")
		}),
		Entry("rows that have another shape in the result", 1, func(p *gpukernel.Program) {
			x := p.Reshape(p.Input("x", f32, 4, 6, 8), 24, 8)
			sum := p.Reshape(p.Reduce(gpukernel.ReduceSum, x, 1), 4, 6, 1)
			p.Output(p.Scalar(f32, "$0 - $1", p.Reshape(x, 4, 6, 8), sum), "y")
		}),
		Entry("reductions of rows, then of columns", 2, func(p *gpukernel.Program) {
			x := p.Input("x", f32, 16, 64)
			rows := p.Scalar(f32, "$0 - $1", x, p.Reduce(gpukernel.ReduceMax, x, 1))
			p.Output(p.Reduce(gpukernel.ReduceSum, rows, 0), "y")
		}),
		Entry("a reduction that is read across", 2, func(p *gpukernel.Program) {
			x := p.Input("x", f32, 16, 16)
			p.Output(p.Scalar(f32, "$0 - $1", x, p.Transpose(p.Reduce(gpukernel.ReduceSum, x, 1), 1, 0)), "y")
		}),
		Entry("results of different sizes", 2, func(p *gpukernel.Program) {
			x := p.Input("x", f32, 16, 16)
			p.Output(p.Scalar(f32, "0 - $0", x), "y")
			p.Output(p.Slice(x, []int{4, 16}, []int{2, 0}, []int{1, 1}), "z")
		}),
	)

	It("keeps short rows in registers, so that they are read once", func() {
		plan, err := gpukernel.Render("k", hop, softmaxProgram(f32, 100, 768))
		Expect(err).NotTo(HaveOccurred())
		source := gpukernel.Source(gpukernel.CUDA, plan.Launches[0].Kernel)
		Expect(source[len(gpukernel.Source(gpukernel.CUDA)):]).To(SatisfyAll(ContainSubstring("LOAD4_f32("), Not(MatchRegexp(`(?s)LOAD4_f32\(.*LOAD4_f32\(`))))
	})

	It("cuts kernels that would grow long, and still ends", func() {
		p := &gpukernel.Program{}
		x := p.Input("x", f32, 64)
		for range 12 { // each quadruples what the one before costs
			y := p.Concat(0, x, p.Scalar(f32, "0 - $0", x))
			x = p.Scalar(f32, "$0 + $1", p.Slice(y, []int{64}, []int{0}, []int{2}), p.Slice(y, []int{64}, []int{1}, []int{2}))
		}
		p.Output(x, "y")
		plan, err := gpukernel.Render("k", hop, p)
		Expect(err).NotTo(HaveOccurred())
		Expect(len(plan.Launches)).To(BeNumerically(">", 1))
	})

	DescribeTable("refuses", func(build func(p *gpukernel.Program)) {
		p := &gpukernel.Program{}
		build(p)
		_, err := gpukernel.Render("k", gpukernel.Generic(8, 32<<10), p)
		Expect(err).To(MatchError(gpukernel.ErrUnsupported))
	},
		Entry("nothing", func(*gpukernel.Program) {}),
		Entry("what is empty", func(p *gpukernel.Program) { p.Output(p.Input("x", f32, 0), "y") }),
		Entry("what has no index of 32 bits", func(p *gpukernel.Program) { p.Output(p.Input("x", f32, 1<<20, 1<<20), "y") }),
		Entry("double precision where there is none", func(p *gpukernel.Program) { p.Output(p.Input("x", gpukernel.F64, 2), "y") }),
	)
})
