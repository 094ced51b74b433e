package gemm_test

import (
	"math"
	"math/rand/v2"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/kernel/gemm"
	"github.com/carve-dev/carve/internal/kernel/guard"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/pairs"
)

// rounded returns a number as a type has it.
func rounded(y pairs.Type, x float32) float64 {
	if y == pairs.BFloat16 {
		return float64(pairs.Low(uint32(pairs.Round(x))))
	}
	return half(float64(x))
}

// half rounds a number to float16, to nearest, ties to even.
func half(x float64) float64 {
	if x == 0 {
		return x
	}
	unit := math.Ldexp(1, max(math.Ilogb(x), -14)-10)
	if x = math.RoundToEven(x/unit) * unit; math.Abs(x) > 65504 {
		return math.Copysign(math.Inf(1), x)
	}
	return x
}

// halfSum returns what NEON makes of products of float16: of 128 numbers at a time those of even and of odd place are added up in float16, and
// their sum to one in float32.
func halfSum(start float32, k int, product func(l int) (a, b float64)) float32 {
	for from := 0; from < k; from += 128 {
		var sums [2]float64
		for l := from; l < min(k, from+128); l++ {
			a, b := product(l)
			sums[l%2] = half(math.FMA(a, b, sums[l%2]))
		}
		start += float32(half(sums[0] + sums[1]))
	}
	return start
}

// pairsProduct is a product of 16 bits under test: a product whose matrices hold words, and the numbers that C must have on a target.
func pairsProduct(t isa.Target, y pairs.Type, s gemm.Spec, k int, transposed bool, rng *rand.Rand, side guard.Side) *product {
	s.Pairs, s.B, s.K = y, gemm.Packed, pairs.Words(k)
	p := &product{spec: s}
	buffer := func(n int) []float32 {
		b, err := guard.New(n, side)
		Expect(err).NotTo(HaveOccurred())
		p.bufs = append(p.bufs, b)
		return b.Data
	}
	numbers := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = rng.Float32()*2 - 1
		}
		return x
	}
	a, b := numbers(s.M*k), numbers(k*s.N)
	p.args.A, p.args.B = buffer(s.M*s.K), buffer(gemm.PackedLen(s.K, s.N))
	y.Matrix(t, pairs.OfFloats(p.args.A), a, s.M, k, k)
	at := func(l, j int) float32 { return b[l*s.N+j] }
	if transposed {
		at = func(l, j int) float32 { return b[j*k+l] }
		gemm.PackPairsT(t, y, pairs.OfFloats(p.args.B), b, k, s.N, k)
	} else {
		gemm.PackPairs(t, y, pairs.OfFloats(p.args.B), b, k, s.N, s.N)
	}
	if s.Bias {
		p.args.Bias = buffer(s.N)
		copy(p.args.Bias, numbers(s.N))
	}
	if s.Residual {
		p.args.Res = buffer(s.M * s.N)
		copy(p.args.Res, numbers(s.M*s.N))
	}
	p.args.C = buffer(s.M * s.N)
	p.c = p.bufs[len(p.bufs)-1]
	for i := range s.M {
		for j := range s.N {
			sum, size := 0.0, 0.0
			add := func(v float64) { sum += v; size += math.Abs(v) }
			if s.Bias {
				add(float64(p.args.Bias[j]))
			}
			if y == pairs.Float16 && t.Float16() {
				sum = float64(halfSum(float32(sum), k, func(l int) (float64, float64) {
					size += math.Abs(rounded(y, a[i*k+l]) * rounded(y, at(l, j)))
					return rounded(y, a[i*k+l]), rounded(y, at(l, j))
				}))
			} else {
				for l := range k {
					add(rounded(y, a[i*k+l]) * rounded(y, at(l, j)))
				}
			}
			if s.Residual {
				add(float64(p.args.Res[i*s.N+j]))
			}
			if s.Clip {
				sum = max(float64(s.Lo), min(float64(s.Hi), sum))
			}
			p.want, p.tol = append(p.want, sum), append(p.tol, size*float64(k+3)*0x1p-24+1e-30)
		}
	}
	return p
}

// onTypes calls do with the types of 16 bits, for each target whose kernels multiply them.
func onTypes(do func(t isa.Target, y pairs.Type)) {
	onTargets(func(t isa.Target) {
		for _, y := range []pairs.Type{pairs.BFloat16, pairs.Float16} {
			if y.On(t) {
				do(t, y)
			}
		}
	})
}

var _ = Describe("A product of bfloat16 or float16", func() {
	It("is that of the rounded numbers, at every height and width, without touching what lies outside", func() {
		rng := rand.New(rand.NewPCG(1, 2))
		onTypes(func(target isa.Target, y pairs.Type) {
			for m := 1; m <= 17; m++ {
				for _, n := range []int{1, 15, 16, 17, 33, 48, 64, 65, 97, 144} {
					s := gemm.Spec{M: m, N: n, Bias: rng.IntN(2) == 0, Residual: rng.IntN(2) == 0}
					if rng.IntN(2) == 0 {
						s.Clip, s.Lo, s.Hi = true, -0.5, float32(math.Inf(1))
					}
					pairsProduct(target, y, s, 1+rng.IntN(24), rng.IntN(2) == 0, rng, guard.Side(rng.IntN(2))).check(target)
				}
			}
		})
	})

	It("is that of every K", func() {
		rng := rand.New(rand.NewPCG(3, 4))
		onTypes(func(target isa.Target, y pairs.Type) {
			for _, k := range []int{1, 2, 3, 7, 8, 9, 31, 32, 33, 100, 127, 128, 129, 1536, 3073, 5001, 9000} {
				for _, m := range []int{1, 7}[:1+min(1, 4000/k)] {
					pairsProduct(target, y, gemm.Spec{M: m, N: 21, Bias: true, Residual: true}, k, k%3 == 0, rng, guard.End).check(target)
				}
			}
		})
	})

	It("has the same bits for every division of chunks and rows", func() {
		rng := rand.New(rand.NewPCG(7, 8))
		for _, y := range []pairs.Type{pairs.BFloat16, pairs.Float16} {
			p := pairsProduct(isa.Host(), y, gemm.Spec{M: 26, N: 70, Bias: true}, 1601, false, rng, guard.End)
			plan, err := gemm.NewPlan(isa.Host(), p.spec)
			Expect(err).NotTo(HaveOccurred())
			Expect(plan.Chunks()).To(BeNumerically(">", 1))
			plan.Run(0, plan.Chunks(), p.args)
			Expect(p.verify(p.spec.N)).To(Succeed())
			again := p.args
			again.C = make([]float32, p.spec.M*p.spec.N)
			for _, i := range rng.Perm(plan.Chunks()) {
				plan.Run(i, i+1, again)
			}
			Expect(again.C).To(Equal(p.args.C))
			one := p.spec
			one.M = 1
			row, err := gemm.NewPlan(isa.Host(), one)
			Expect(err).NotTo(HaveOccurred())
			for i := range p.spec.M {
				x := gemm.Args{A: p.args.A[i*one.K:], B: p.args.B, Bias: p.args.Bias, C: make([]float32, one.N)}
				row.Run(0, row.Chunks(), x)
				Expect(x.C).To(Equal(p.args.C[i*one.N:][:one.N]), "row %d", i)
			}
			p.free()
		}
	})
})
