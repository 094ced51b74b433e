package gemm_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/kernel/gemm"
	"github.com/carve-dev/carve/internal/kernel/guard"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/pairs"
	"github.com/carve-dev/carve/internal/testshare"
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
	p.args.C = buffer((s.M-1)*max(s.LDC, s.N) + s.N)
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

// onTypes calls do with the types of 16 bits, for each target whose kernels multiply them, and for one with tiles as if it had none.
func onTypes(do func(t isa.Target, y pairs.Type)) {
	onTargets(func(t isa.Target) {
		for _, y := range []pairs.Type{pairs.BFloat16, pairs.Float16} {
			if y.On(t) {
				do(t, y)
			}
		}
		if t.BFloat16Tiles() {
			do(t.WithoutTiles(), pairs.BFloat16)
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
		onTypes(func(target isa.Target, y pairs.Type) {
			if target.Set == isa.Portable {
				return
			}
			p := pairsProduct(target, y, gemm.Spec{M: 70, N: 170, Bias: true, Residual: rng.IntN(2) == 0}, 1601, false, rng, guard.End)
			plan, err := gemm.NewPlan(target, p.spec)
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
			few := p.spec
			few.M = 1
			if target.BFloat16Tiles() && y == pairs.BFloat16 {
				few.M = 5 // tiles have no fewer than 4
			}
			rows, err := gemm.NewPlan(target, few)
			Expect(err).NotTo(HaveOccurred())
			for i := 0; i+few.M <= p.spec.M; i += few.M {
				x := gemm.Args{A: p.args.A[i*few.K:], B: p.args.B, Bias: p.args.Bias, C: make([]float32, few.M*few.N)}
				if few.Residual {
					x.Res = p.args.Res[i*few.N:]
				}
				rows.Run(0, rows.Chunks(), x)
				Expect(x.C).To(Equal(p.args.C[i*few.N:][:few.M*few.N]), "row %d", i)
			}
			p.free()
		})
	})

	It("is that of many rows and columns, of which the last fill no tile, wherever rows lie", func() {
		rng := rand.New(rand.NewPCG(9, 10))
		onTypes(func(target isa.Target, y pairs.Type) {
			for range testshare.Of(20) {
				s := gemm.Spec{M: 17 + rng.IntN(300), N: 1 + rng.IntN(200), Bias: rng.IntN(2) == 0, Residual: rng.IntN(3) == 0}
				if s.Clip = rng.IntN(3) == 0; s.Clip {
					s.Lo, s.Hi = -1, 1.5
				}
				s.LDC = s.N + rng.IntN(2)*rng.IntN(9)
				pairsProduct(target, y, s, 1+rng.IntN(700), rng.IntN(2) == 0, rng, guard.Side(rng.IntN(2))).check(target)
			}
		})
	})

	It("has its residual in the place of C, and hands each element to Post once", func() {
		rng := rand.New(rand.NewPCG(11, 12))
		onTypes(func(target isa.Target, y pairs.Type) {
			s := gemm.Spec{M: 77, N: 129, Bias: true, Residual: true}
			p := pairsProduct(target, y, s, 333, false, rng, guard.End)
			copy(p.args.C, p.args.Res)
			p.args.Res = p.args.C
			p.check(target)
			s.Residual = false
			p = pairsProduct(target, y, s, 333, false, rng, guard.End)
			p.spec.Post = func(c []float32, ldc, rows, cols int) {
				for i := range rows {
					for j := range cols {
						c[i*ldc+j] += 2
					}
				}
			}
			for i := range p.want {
				p.want[i] += 2
				p.tol[i] += 0x1p-20
			}
			p.check(target)
		})
	})
})

// BenchmarkPairs reports the rate of products of bfloat16, in multiply-adds of numbers, by tiles and without.
func BenchmarkPairs(b *testing.B) {
	host := isa.Host()
	if !host.BFloat16() {
		b.Skip("no bfloat16 here")
	}
	for name, target := range map[string]isa.Target{"host": host, "without tiles": host.WithoutTiles()} {
		for _, s := range []gemm.Spec{
			{M: 128, N: 768, K: 768}, {M: 128, N: 3072, K: 768}, {M: 128, N: 768, K: 3072}, {M: 197, N: 768, K: 768}, {M: 197, N: 768, K: 768, Residual: true},
			{M: 64, N: 128, K: 64}, {M: 64, N: 64, K: 128}, {M: 3136, N: 64, K: 64}, {M: 196, N: 256, K: 1024}, {M: 49, N: 2048, K: 512},
			{M: 1, N: 768, K: 768}, {M: 2, N: 768, K: 768}, {M: 4, N: 768, K: 768}, {M: 8, N: 768, K: 768}, {M: 16, N: 768, K: 768},
		} {
			b.Run(fmt.Sprintf("%s/%dx%dx%d/%t", name, s.M, s.N, s.K, s.Residual), func(b *testing.B) {
				s.K, s.Pairs = s.K/2, pairs.BFloat16
				plan, err := gemm.NewPlan(target, s)
				if err != nil {
					b.Fatal(err)
				}
				x := gemm.Args{A: make([]float32, s.M*s.K), B: make([]float32, gemm.PackedLen(s.K, s.N)), Res: make([]float32, s.M*s.N), C: make([]float32, s.M*s.N)}
				best := math.Inf(1)
				for b.Loop() {
					t := time.Now()
					plan.Run(0, plan.Chunks(), x)
					best = min(best, float64(time.Since(t).Nanoseconds()))
				}
				b.ReportMetric(2*float64(s.M*s.N*s.K)/best, "GMAC/s")
			})
		}
	}
}
