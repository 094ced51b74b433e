package fewconv_test

import (
	"fmt"
	"testing"

	"github.com/carve-dev/carve/internal/kernel/conv"
	"github.com/carve-dev/carve/internal/kernel/fewconv"
	"github.com/carve-dev/carve/internal/kernel/isa"
)

// BenchmarkRun computes convolutions of published networks' kinds, and says what rate the multiply-adds of their definition have.
func BenchmarkRun(b *testing.B) {
	for _, x := range []struct{ c, oc, size, kernel int }{{64, 1, 256, 3}, {64, 3, 256, 3}, {64, 3, 250, 3}, {32, 3, 256, 9}, {320, 3, 64, 3}, {128, 3, 256, 3}, {64, 1, 256, 1}, {256, 2, 64, 1}} {
		pad := (x.kernel - 1) / 2
		s := fewconv.Spec{N: 1, C: x.c, OC: x.oc, Map: conv.Map{H: x.size, W: x.size, OH: x.size, OW: x.size, Kernel: [2]int{x.kernel, x.kernel}, Stride: [2]int{1, 1}, Dilate: [2]int{1, 1}, Pad: [4]int{pad, pad, pad, pad}}}
		p, err := fewconv.New(isa.Host(), s)
		if err != nil {
			b.Fatal(err)
		}
		src, w, dst := make([]float32, x.c*x.size*x.size), make([]float32, p.WeightFloats()), make([]float32, x.oc*x.size*x.size)
		b.Run(fmt.Sprintf("%d to %d, %dx%d, %d", x.c, x.oc, x.size, x.size, x.kernel), func(b *testing.B) {
			for b.Loop() {
				p.Run(0, p.Chunks(), dst, src, w)
			}
			b.ReportMetric(float64(2*x.oc*x.c*x.size*x.size*x.kernel*x.kernel)*float64(b.N)/1e9/b.Elapsed().Seconds(), "GFLOP/s")
		})
	}
}
