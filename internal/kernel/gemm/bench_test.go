package gemm_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/carve-dev/carve/internal/kernel/gemm"
	"github.com/carve-dev/carve/internal/kernel/isa"
)

// filled returns n floats that are no zero page.
func filled(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(i%7) - 3
	}
	return x
}

// BenchmarkGemm reports, for one core, the share of the multiply-add peak measured before and after (%peak) and, where B is
// large against the work, the rate at which B is read (GB/s).
func BenchmarkGemm(b *testing.B) {
	for _, target := range isa.Targets() {
		for _, s := range []gemm.Spec{
			{M: 504, N: 512, K: 512}, {M: 128, N: 768, K: 768}, {M: 128, N: 3072, K: 768}, {M: 128, N: 768, K: 3072},
			{M: 197, N: 768, K: 768}, {M: 1008, N: 1024, K: 1024}, {M: 64, N: 80, K: 48}, {M: 32, N: 128, K: 128},
			{M: 1, N: 768, K: 768}, {M: 1, N: 4096, K: 4096}, {M: 4, N: 768, K: 768}, {M: 7, N: 768, K: 768},
			{M: 128, N: 64, K: 128, B: gemm.Rows, LDA: 128, LDB: 768, LDC: 768}, {M: 128, N: 128, K: 64, LDA: 768},
			{M: 512, N: 512, K: 512, B: gemm.Rows}, {M: 256, N: 4096, K: 1024, B: gemm.Rows}, {M: 12_544, N: 64, K: 147},
			{M: 1, N: 1024, K: 64, B: gemm.Columns}, {M: 1, N: 4096, K: 4096, B: gemm.Columns}, {M: 4, N: 768, K: 768, B: gemm.Columns},
		} {
			b.Run(fmt.Sprintf("%v/%v/%dx%dx%d", target, s.B, s.M, s.N, s.K), func(b *testing.B) {
				plan, err := gemm.NewPlan(target, s)
				if err != nil {
					b.Fatal(err)
				}
				f := plan.Spec()
				x := gemm.Args{A: filled(f.M * f.LDA), B: filled(max(gemm.PackedLen(f.K, f.N), f.N*f.LDB, f.K*f.LDB)), C: filled(f.M * f.LDC)}
				peak := gemm.Peak(target, 15*time.Millisecond)
				b.ReportAllocs()
				best := math.Inf(1)
				for b.Loop() {
					t := time.Now()
					plan.Run(0, plan.Chunks(), x)
					best = min(best, float64(time.Since(t).Nanoseconds()))
				}
				peak = max(peak, gemm.Peak(target, 15*time.Millisecond))
				b.ReportMetric(100*2*float64(plan.Cost())/best/peak, "%peak")
				b.ReportMetric(4*float64(f.N*f.K)/best, "GB/s")
				b.ReportMetric(float64(plan.Chunks()), "chunks")
			})
		}
	}
}

// BenchmarkDouble is BenchmarkGemm for float64, whose peak is half of that of float32.
func BenchmarkDouble(b *testing.B) {
	for _, target := range isa.Targets() {
		for _, s := range []gemm.Spec{
			{M: 504, N: 512, K: 512}, {M: 128, N: 768, K: 768}, {M: 128, N: 768, K: 3072}, {M: 1, N: 768, K: 768},
			{M: 256, N: 64, K: 576, B: gemm.Rows}, {M: 128, N: 128, K: 64, B: gemm.Rows},
		} {
			s.Double = true
			b.Run(fmt.Sprintf("%v/%v/%dx%dx%d", target, s.B, s.M, s.N, s.K), func(b *testing.B) {
				plan, err := gemm.NewPlan(target, s)
				if err != nil {
					b.Fatal(err)
				}
				x := gemm.Doubles{A: make([]float64, s.M*s.K), B: make([]float64, s.K*(s.N+7)), C: make([]float64, s.M*s.N)}
				for i := range x.A {
					x.A[i] = float64(i%7) - 3
				}
				for i := range x.B {
					x.B[i] = float64(i%5) - 2
				}
				best := math.Inf(1)
				for b.Loop() {
					t := time.Now()
					plan.RunDouble(0, plan.Chunks(), x)
					best = min(best, float64(time.Since(t).Nanoseconds()))
				}
				peak := gemm.Peak(target, 15*time.Millisecond) / 2
				b.ReportMetric(100*2*float64(plan.Cost())/best/peak, "%peak")
				b.ReportMetric(2*float64(plan.Cost())/best, "GFLOP/s")
			})
		}
	}
}

// BenchmarkPack reports the rate at which B is read by the packers.
func BenchmarkPack(b *testing.B) {
	for _, n := range []int{768, 4096} {
		src, dst := filled(n*n), filled(gemm.PackedLen(n, n))
		b.Run(fmt.Sprintf("rows/%d", n), func(b *testing.B) {
			b.SetBytes(int64(4 * n * n))
			for b.Loop() {
				gemm.PackB(isa.Host(), dst, src, n, n, n)
			}
		})
		b.Run(fmt.Sprintf("columns/%d", n), func(b *testing.B) {
			b.SetBytes(int64(4 * n * n))
			for b.Loop() {
				gemm.PackBT(isa.Host(), dst, src, n, n, n)
			}
		})
		b.Run(fmt.Sprintf("copy/%d", n), func(b *testing.B) {
			b.SetBytes(int64(4 * n * n))
			for b.Loop() {
				copy(dst, src)
			}
		})
	}
}
