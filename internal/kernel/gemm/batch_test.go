package gemm_test

import (
	"math"
	"math/rand/v2"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/kernel/gemm"
	"github.com/carve-dev/carve/internal/kernel/guard"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/testshare"
)

var _ = Describe("RunBatch", func() {
	It("gives the bits that Run gives, product by product, and writes nothing else", func() {
		rng := rand.New(rand.NewPCG(11, 12))
		for _, target := range isa.Targets() {
			for range testshare.Of(400) {
				s := gemm.Spec{M: 1 + rng.IntN(50), N: 1 + rng.IntN(70), K: rng.IntN(50), B: gemm.Layout(rng.IntN(3)), Bias: rng.IntN(2) > 0, Residual: rng.IntN(2) > 0}
				s.LDA, s.LDC, s.LDR = s.K+rng.IntN(3)/2, s.N+rng.IntN(3), s.N+rng.IntN(3)
				target.Caches[1].Bytes = rng.IntN(3) * 24 << 10 // of which batches are more, or less
				plan, err := gemm.NewPlan(target, s)
				Expect(err).NotTo(HaveOccurred())
				const products = 3
				var at gemm.Batch
				sizes := [4]int{s.M * s.LDA, max(gemm.PackedLen(s.K, s.N), s.K*s.N), s.M * s.LDC, s.M * s.LDR}
				for i := range products {
					for j, list := range []*[]int{&at.A, &at.B, &at.C, &at.Res} {
						*list = append(*list, (products-1-i)*(sizes[j]+5)+rng.IntN(5))
					}
				}
				random := func(n int) []float32 {
					x := make([]float32, n)
					for i := range x {
						x[i] = rng.Float32()*2 - 1
					}
					return x
				}
				x := gemm.Args{A: random(products * (sizes[0] + 5)), B: random(products * (sizes[1] + 5)), Bias: random(s.N), Res: random(products * (sizes[3] + 5)), C: random(products * (sizes[2] + 5))}
				y := x
				y.C = append([]float32(nil), x.C...)
				for i := range products {
					plan.Run(0, plan.Chunks(), gemm.Args{A: x.A[at.A[i]:], B: x.B[at.B[i]:], Bias: x.Bias, Res: x.Res[at.Res[i]:], C: x.C[at.C[i]:]})
				}
				cut := rng.IntN(products*plan.Chunks() + 1)
				plan.RunBatch(0, cut, y, at)
				plan.RunBatch(cut, products*plan.Chunks(), y, at)
				for i := range x.C {
					Expect(math.Float32bits(y.C[i])).To(Equal(math.Float32bits(x.C[i])), "%v %+v: C[%d]", target, s, i)
				}
			}
		}
	})

	It("reads and writes up to forbidden pages, and no further", func() {
		rng := rand.New(rand.NewPCG(13, 14))
		for _, target := range isa.Targets() {
			for i := range testshare.Of(300) {
				s := gemm.Spec{M: 1 + rng.IntN(20), N: 1 + rng.IntN(40), K: 1 + rng.IntN(30), B: gemm.Layout(rng.IntN(2)), Bias: i%2 > 0, Residual: i%3 > 0}
				p := newProduct(s, rng, guard.Side(i%2))
				plan, err := gemm.NewPlan(target, s)
				Expect(err).NotTo(HaveOccurred())
				zero := []int{0}
				plan.RunBatch(0, plan.Chunks(), p.args, gemm.Batch{A: zero, B: zero, C: zero, Res: zero})
				Expect(p.verify(s.N)).To(Succeed(), "%v %+v", target, s)
				p.free()
			}
		}
	})

	It("computes products whose operands are larger than the first-level cache, up to forbidden pages", func() {
		rng := rand.New(rand.NewPCG(15, 16))
		for _, target := range isa.Targets() {
			for i := range 60 {
				target.Caches[1].Bytes = i % 2 * 160 << 10 // of which products are more, or less
				s := gemm.Spec{M: 20 + rng.IntN(220), N: 1 + rng.IntN(80), K: 60 + rng.IntN(200), B: gemm.Rows, Bias: i%2 > 0, Residual: i%3 > 0, Clip: i%5 > 3, Lo: -1, Hi: 1}
				p := newProduct(s, rng, guard.Side(i%2))
				plan, err := gemm.NewPlan(target, s)
				Expect(err).NotTo(HaveOccurred())
				zero := []int{0}
				plan.RunBatch(0, plan.Chunks(), p.args, gemm.Batch{A: zero, B: zero, C: zero, Res: zero})
				Expect(p.verify(s.N)).To(Succeed(), "%v %+v", target, s)
				p.free()
			}
		}
	})

	It("panics where a product lies beyond its slice", func() {
		for _, target := range isa.Targets() {
			plan, err := gemm.NewPlan(target, gemm.Spec{M: 4, N: 16, K: 8, B: gemm.Rows})
			Expect(err).NotTo(HaveOccurred())
			x := gemm.Args{A: make([]float32, 32), B: make([]float32, 128), C: make([]float32, 64)}
			for j := range 3 {
				starts := [3]int{}
				starts[j] = 1
				at := gemm.Batch{A: starts[:1], B: starts[1:2], C: starts[2:]}
				Expect(func() { plan.RunBatch(0, 1, x, at) }).To(Panic(), "%v operand %d", target, j)
			}
		}
	})
})
