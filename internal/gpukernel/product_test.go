package gpukernel_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/gpukernel"
	"github.com/carve-dev/carve/internal/gpukernel/fibre"
)

// productCase is a product with operands that lie close together.
type productCase struct {
	m, n, k, batch0, batch1 int
	a, c                    gpukernel.Type
	transposed              bool
	precision               gpukernel.Precision
	finish                  []gpukernel.Step
	device                  gpukernel.Device
}

func (p productCase) String() string {
	return fmt.Sprintf("%d×(%d,%d,%d)_%s_%s_t%v_p%d_m%v", p.batch0*p.batch1, p.m, p.n, p.k, p.a, p.c, p.transposed, p.precision, p.device.Matrix)
}

func (p productCase) shape() gpukernel.ProductShape {
	s := gpukernel.ProductShape{
		M: p.m, N: p.n, K: p.k, Batch0: p.batch0, Batch1: p.batch1,
		A:           gpukernel.Matrix{Type: p.a, Stride: p.k, Batch0: p.batch1 * p.m * p.k, Batch1: p.m * p.k},
		B:           gpukernel.Matrix{Type: p.a, Stride: p.n, Batch0: 0, Batch1: p.k * p.n}, // one set for all of the outer batch
		C:           gpukernel.Matrix{Type: p.c, Stride: p.n, Batch0: p.batch1 * p.m * p.n, Batch1: p.m * p.n},
		TransposedB: p.transposed, Precision: p.precision, Finish: p.finish,
	}
	if p.transposed {
		s.B.Stride = p.k
	}
	return s
}

// want computes the product in float64.
func (p productCase) want(a, b, bias, residual []float64) []float64 {
	c := make([]float64, p.batch0*p.batch1*p.m*p.n)
	for z := range p.batch0 * p.batch1 {
		for m := range p.m {
			for n := range p.n {
				sum := 0.0
				for k := range p.k {
					at := (z%p.batch1)*p.k*p.n + k*p.n + n
					if p.transposed {
						at = (z%p.batch1)*p.k*p.n + n*p.k + k
					}
					sum += a[(z*p.m+m)*p.k+k] * b[at]
				}
				at := (z*p.m+m)*p.n + n
				for _, s := range p.finish {
					switch s.Op {
					case gpukernel.AddColumn:
						sum += bias[n]
					case gpukernel.AddMatrix:
						sum += residual[at]
					case gpukernel.Relu:
						sum = max(sum, 0)
					case gpukernel.Gelu:
						sum = 0.5 * sum * (1 + math.Erf(sum/math.Sqrt2))
					}
				}
				c[at] = sum
			}
		}
	}
	return c
}

var _ = Describe("Product", func() {
	var (
		none  []gpukernel.Step
		relu  = []gpukernel.Step{{Op: gpukernel.AddColumn, Operand: gpukernel.F32}, {Op: gpukernel.AddMatrix, Operand: gpukernel.F32}, {Op: gpukernel.Relu}}
		gelu  = []gpukernel.Step{{Op: gpukernel.AddColumn, Operand: gpukernel.F32}, {Op: gpukernel.Gelu}}
		plain = gpukernel.NVIDIA(75, 4)
		hop   = gpukernel.NVIDIA(90, 132)
		few   = gpukernel.NVIDIA(90, 1) // few processors: large tiles
		open  = gpukernel.Generic(8, 32<<10)
		wide  = gpukernel.Device{Processors: 2, Local: 32 << 10, LocalTotal: 32 << 10, Vector: 16}
		half  = gpukernel.Device{Processors: 8, Local: 32 << 10, LocalTotal: 32 << 10, Narrow: true}
		small = gpukernel.Device{Processors: 64, Local: 32 << 10, LocalTotal: 32 << 10, Vector: 8}
	)
	const f32, f16, bf16, f64 = gpukernel.F32, gpukernel.F16, gpukernel.BF16, gpukernel.F64
	double := []gpukernel.Step{{Op: gpukernel.AddColumn, Operand: f64}, {Op: gpukernel.AddMatrix, Operand: f64}, {Op: gpukernel.Gelu}}

	It("computes what the definition says, at sizes about those of tiles", func(ctx SpecContext) {
		cases := []productCase{
			{1, 1, 1, 1, 1, f32, f32, false, 0, none, hop},
			{129, 131, 17, 1, 1, f32, f32, false, 0, relu, few},
			{130, 132, 36, 1, 1, f32, f32, false, 0, gelu, few},
			{128, 128, 64, 1, 1, f32, f32, false, 0, none, few},
			{33, 65, 67, 2, 3, f32, f32, false, 0, relu, hop},
			{7, 36, 512, 1, 1, f32, f32, false, 0, gelu, hop},
			{65, 33, 29, 1, 2, f32, f32, true, 0, relu, hop},
			{130, 68, 20, 1, 1, f32, f32, true, 0, none, few},
			{37, 41, 43, 1, 1, f32, f32, false, 0, relu, open},
			{37, 41, 43, 1, 1, f16, f32, false, 0, relu, open},
			{66, 70, 50, 1, 1, bf16, bf16, false, 0, none, plain},
			{130, 260, 72, 1, 1, f16, f16, false, 0, none, few},
			{130, 260, 72, 1, 1, bf16, f32, false, 0, relu, few},
			{129, 131, 33, 1, 1, f16, f32, false, 0, gelu, few},
			{65, 72, 40, 2, 2, bf16, bf16, true, 0, relu, hop},
			{33, 67, 35, 1, 1, f16, f32, true, 0, gelu, hop},
			{17, 24, 512, 1, 1, f16, f16, false, 0, relu, hop},
			{130, 132, 36, 1, 1, f32, f32, false, gpukernel.TF32, relu, few},
			{31, 37, 41, 1, 2, f32, f32, false, gpukernel.TF32, none, hop},
			{70, 72, 44, 1, 1, f32, f32, true, gpukernel.TF32, gelu, hop},
			{1, 8, 16, 1, 1, f32, f32, true, gpukernel.TF32, none, hop},
			{130, 132, 36, 1, 1, f32, f32, false, gpukernel.RoundedF16, relu, few}, {130, 132, 36, 1, 1, f32, f32, true, gpukernel.RoundedBF16, none, few},
			{31, 37, 41, 1, 2, f32, f32, false, gpukernel.RoundedBF16, none, hop}, {33, 67, 35, 2, 2, f32, f32, true, gpukernel.RoundedF16, gelu, hop},
			{17, 24, 512, 1, 1, f32, f32, false, gpukernel.RoundedF16, relu, hop}, {65, 129, 31, 1, 1, f32, f32, false, gpukernel.RoundedF16, relu, plain},
			{37, 41, 43, 1, 1, f32, f32, false, gpukernel.RoundedF16, relu, half}, {130, 132, 36, 1, 2, f32, f32, false, gpukernel.RoundedBF16, none, half},
			{33, 65, 67, 1, 1, f32, f32, true, gpukernel.RoundedF16, gelu, half}, {9, 36, 512, 1, 1, f32, f32, false, gpukernel.RoundedF16, none, half},
			{31, 33, 29, 1, 1, f32, f32, false, gpukernel.TF32, none, half}, {31, 33, 29, 1, 1, f16, f32, false, gpukernel.RoundedBF16, none, half},
			// double precision
			{37, 41, 43, 2, 3, f64, f64, false, 0, double, hop}, {130, 68, 36, 1, 1, f64, f64, true, 0, none, few}, {1, 1, 1, 1, 1, f64, f64, false, 0, none, hop},
			{17, 24, 512, 1, 1, f64, f64, false, gpukernel.TF32, double, hop}, {65, 129, 31, 1, 1, f64, f64, false, 0, none, plain},
			// processors
			{37, 41, 43, 2, 3, f32, f32, false, 0, relu, wide}, {1, 16, 5, 1, 1, f32, f32, false, 0, gelu, wide},
			{9, 33, 64, 1, 2, f32, f16, false, 0, none, wide}, {3, 4, 7, 1, 1, f32, f32, false, 0, relu, wide},
			{5, 3, 7, 1, 1, f32, f32, false, 0, relu, wide}, {257, 9, 11, 1, 1, f32, f32, false, 0, relu, small},
		}
		others := map[int]gpukernel.Type{} // types of second operands: either one, or both, are kept in the precision's
		for _, p := range []productCase{
			{m: 37, n: 41, k: 43, precision: gpukernel.RoundedF16, finish: relu}, {m: 130, n: 136, k: 40, precision: gpukernel.RoundedBF16},
			{m: 33, n: 64, k: 72, transposed: true, precision: gpukernel.RoundedF16, finish: gelu}, {m: 9, n: 36, k: 512, precision: gpukernel.RoundedBF16},
			{m: 1, n: 1, k: 1, precision: gpukernel.RoundedF16},
		} {
			p.batch0, p.batch1, p.c, p.device = 1, 2, f32, half
			kept := p.precision.Half()
			for _, types := range [][2]gpukernel.Type{{f32, kept}, {kept, f32}, {kept, kept}} {
				p.a, others[len(cases)] = types[0], types[1]
				cases = append(cases, p)
			}
		}
		var plans []*gpukernel.Plan
		for i, p := range cases {
			shape := p.shape()
			shape.B.Type = cmp.Or(others[i], p.a)
			plan, err := gpukernel.Product(fmt.Sprintf("product%d", i), p.device, shape)
			Expect(err).NotTo(HaveOccurred())
			plans = append(plans, plan)
		}
		program := start(ctx, plans...)
		r := rand.New(rand.NewPCG(1, 2))
		for i, p := range cases {
			a := random(r, p.a, p.batch0*p.batch1*p.m*p.k)
			right := cmp.Or(others[i], p.a)
			b := random(r, right, p.batch1*p.k*p.n)
			real := f32
			if p.a == f64 {
				real = f64
			}
			bias := random(r, real, p.n)
			residual := random(r, real, p.batch0*p.batch1*p.m*p.n)
			c := poison(p.c, len(residual))
			buffers := map[string][]byte{"a": encode(p.a, a), "b": encode(right, b), "c": c}
			if len(p.finish) > 0 {
				buffers["operand0"] = encode(real, bias)
				buffers["operand1"] = encode(real, residual)
			}
			Expect(program.Run(plans[i], buffers)).To(Succeed(), p.String())
			tolerance := 1e-5
			if p.device.Matrix && p.a != f64 || p.device.Narrow && p.precision != gpukernel.TF32 && (p.a == f32 || right == f32) {
				a, b = rounded(p.precision, a), rounded(p.precision, b)
			}
			switch p.c {
			case f16:
				tolerance = 2e-3
			case bf16:
				tolerance = 1e-2
			case f64:
				tolerance = 1e-13
			}
			near(p.String(), decode(p.c, c), p.want(a, b, bias, residual), tolerance)
		}
	})

	It("gives the same kernels and tiles for the same shapes", func() {
		p := productCase{512, 768, 3072, 1, 1, f32, f32, false, gpukernel.TF32, gelu, hop}
		text := func() string {
			plan, err := gpukernel.Product("product", p.device, p.shape())
			Expect(err).NotTo(HaveOccurred())
			return gpukernel.Source(gpukernel.CUDA, fibre.Kernels(plan)...)
		}
		Expect(text()).To(Equal(text()))
	})

	It("splits the depth where tiles are too few for the processors, and only there", func() {
		for m, launches := range map[int]int{32: 2, 8192: 1} {
			plan, err := gpukernel.Product("product", hop, productCase{m, 256, 8192, 1, 1, f32, f32, false, 0, gelu, hop}.shape())
			Expect(err).NotTo(HaveOccurred())
			Expect(plan.Launches).To(HaveLen(launches))
			Expect(plan.Scratch).To(HaveLen(launches - 1))
		}
	})

	It("keeps within the local memory of the device", func() {
		for _, local := range []int{8 << 10, 16 << 10, 32 << 10, 48 << 10} {
			d := gpukernel.Generic(16, local)
			s := productCase{1000, 1000, 1000, 1, 1, f32, f32, false, 0, nil, d}.shape()
			tiles, err := gpukernel.Tiles(d, s)
			Expect(err).NotTo(HaveOccurred())
			for _, t := range tiles {
				s.Tile = t.Name()
				plan, err := gpukernel.Product("product", d, s)
				Expect(err).NotTo(HaveOccurred())
				Expect(plan.Launches[0].Kernel.Arena).To(BeNumerically("<=", local))
			}
		}
	})

	DescribeTable("has tiles of different names, the first of which is the one of a shape without a name", func(d gpukernel.Device, m, n, least int) {
		s := productCase{m, n, 1024, 1, 1, f32, f32, false, 0, nil, d}.shape()
		tiles, err := gpukernel.Tiles(d, s)
		Expect(err).NotTo(HaveOccurred())
		Expect(len(tiles)).To(BeNumerically(">=", least))
		kernels := map[string]bool{}
		for i, t := range tiles {
			s.Tile = t.Name()
			plan, err := gpukernel.Product("product", d, s)
			Expect(err).NotTo(HaveOccurred())
			text := gpukernel.Source(gpukernel.CUDA, plan.Launches[0].Kernel)
			Expect(kernels).NotTo(HaveKey(text), t.Name())
			kernels[text] = true
			for _, other := range []string{"", "of another shape"} {
				s.Tile = other
				first, err := gpukernel.Product("product", d, s)
				Expect(err).NotTo(HaveOccurred())
				if own := gpukernel.Source(gpukernel.CUDA, first.Launches[0].Kernel); i == 0 {
					Expect(own).To(Equal(text))
				} else {
					Expect(own).NotTo(Equal(text), t.Name())
				}
			}
			if i > 0 {
				Expect(t.Share()).To(BeNumerically(">=", tiles[i-1].Share()))
			}
		}
	},
		Entry("of a graphics processor", hop, 1000, 1000, 6),
		Entry("of a small product", hop, 30, 64, 6),
		Entry("of a processor", gpukernel.Device{Processors: 2, Local: 1 << 15, LocalTotal: 1 << 15, Vector: 16}, 1000, 1000, 6),
		Entry("of a processor and few rows", gpukernel.Device{Processors: 2, Local: 1 << 15, LocalTotal: 1 << 15, Vector: 16}, 3, 16, 1),
	)

	DescribeTable("refuses", func(edit func(*gpukernel.ProductShape), d gpukernel.Device) {
		s := productCase{8, 8, 8, 1, 1, f32, f32, false, 0, nil, hop}.shape()
		edit(&s)
		_, err := gpukernel.Product("product", d, s)
		Expect(err).To(MatchError(gpukernel.ErrUnsupported))
	},
		Entry("no rows", func(s *gpukernel.ProductShape) { s.M = 0 }, hop),
		Entry("what overflows", func(s *gpukernel.ProductShape) { s.M, s.N = 1<<20, 1<<20 }, hop),
		Entry("integers", func(s *gpukernel.ProductShape) { s.A.Type, s.B.Type = gpukernel.I32, gpukernel.I32 }, hop),
		Entry("double precision in single", func(s *gpukernel.ProductShape) { s.A.Type, s.B.Type = f64, f64 }, hop),
		Entry("double precision where there is none", func(s *gpukernel.ProductShape) { s.A.Type, s.B.Type, s.C.Type = f64, f64, f64 }, open),
		Entry("operands of two types", func(s *gpukernel.ProductShape) { s.A.Type = f16 }, hop),
		Entry("a device without local memory", func(*gpukernel.ProductShape) {}, gpukernel.Generic(1, 0)),
	)
})
