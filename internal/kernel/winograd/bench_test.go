package winograd_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/carve-dev/carve/internal/kernel/conv"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/winograd"
)

// BenchmarkWinograd runs a convolution by F(2), by F(4) and by package conv by turns on one goroutine, and reports the ratios of
// their least times.
func BenchmarkWinograd(b *testing.B) {
	for _, target := range slices.Backward(isa.Targets()[1:]) {
		for _, r := range [][3]int{{64, 64, 56}, {128, 128, 28}, {256, 256, 14}, {512, 512, 7}, {512, 512, 14}, {256, 512, 28}, {64, 64, 224}, {32, 32, 112}, {16, 64, 55}, {48, 192, 13}, {160, 320, 14}, {32, 64, 149}} {
			b.Run(fmt.Sprintf("target=%v/%d-%d@%d", target, r[0], r[1], r[2]), func(b *testing.B) {
				s := conv.Spec{N: 1, C: r[0], OC: r[1], Map: conv.Map{H: r[2], W: r[2], Kernel: [2]int{3, 3}, Pad: [4]int{1, 1, 1, 1}}, Epilogue: conv.Epilogue{Hi: float32(math.Inf(1))}}
				runs := []func(){}
				src, dst := numbers(blocked(r[0])*r[2]*r[2]), numbers(blocked(r[1])*r[2]*r[2])
				direct, err := conv.NewConv(target, s)
				if err != nil {
					b.Fatal(err)
				}
				dt := conv.Tensors{Src: src, Dst: dst, Weights: numbers(direct.WeightFloats()), Bias: numbers(direct.BiasFloats())}
				runs = append(runs, func() { _ = direct.Run(0, direct.Chunks(), &dt) })
				for _, m := range []int{winograd.F2, winograd.F4} {
					p, err := winograd.NewPlan(target, m, s, 1)
					if err != nil {
						b.Fatal(err)
					}
					t, work := dt, numbers(p.Workspace())
					t.Weights = numbers(p.WeightFloats())
					runs = append(runs, func() {
						if err := p.Run(0, p.Chunks(), work, &t); err != nil {
							b.Fatal(err)
						}
					})
				}
				least := []float64{math.Inf(1), math.Inf(1), math.Inf(1)}
				for b.Loop() {
					for i, run := range runs {
						start := time.Now()
						run()
						least[i] = min(least[i], time.Since(start).Seconds())
					}
				}
				b.ReportMetric(least[0]*1e6, "µs-direct")
				b.ReportMetric(least[1]/least[0], "F2/direct")
				b.ReportMetric(least[2]/least[0], "F4/direct")
				b.ReportMetric(float64(winograd.Best(target, s)), "best")
			})
		}
	}
}

func numbers(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(i%17)/16 - 0.5
	}
	return x
}

// BenchmarkPack transforms weights on one goroutine; the rate is that of the transformed ones.
func BenchmarkPack(b *testing.B) {
	for _, target := range slices.Backward(isa.Targets()[1:]) {
		for _, m := range []int{winograd.F2, winograd.F4} {
			for _, channels := range []int{64, 512} {
				b.Run(fmt.Sprintf("target=%v/F%d/%d", target, m, channels), func(b *testing.B) {
					w, err := winograd.NewWeights(target, m, channels, channels)
					if err != nil {
						b.Fatal(err)
					}
					src, dst := conv.Float32s(numbers(9*channels*channels)), numbers(w.Floats())
					b.SetBytes(int64(4 * w.Floats()))
					for b.Loop() {
						if err := w.Pack(dst, src, 0, w.Chunks()); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}
