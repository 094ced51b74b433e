package conv_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/carve-dev/carve/internal/kernel/conv"
	"github.com/carve-dev/carve/internal/kernel/isa"
)

// pairRow is a convolution with a single tap from c to oc channels of size by size pixels, and a depthwise one behind it.
type pairRow struct{ images, c, oc, size, taps, stride int }

func (r pairRow) spec() conv.PairSpec {
	pad := r.taps / 2
	limits := conv.Epilogue{Lo: 0, Hi: 6}
	return conv.PairSpec{
		Point: conv.Spec{N: r.images, C: r.c, OC: r.oc, Map: conv.Map{H: r.size, W: r.size, Kernel: [2]int{1, 1}}, Epilogue: limits},
		Depth: conv.Spec{N: r.images, C: r.oc, OC: r.oc, Groups: r.oc, Epilogue: limits,
			Map: conv.Map{H: r.size, W: r.size, Kernel: [2]int{r.taps, r.taps}, Stride: [2]int{r.stride, r.stride}, Pad: [4]int{pad, pad, pad, pad}}},
	}
}

// BenchmarkPair measures pairs by turns with their two convolutions apart.
func BenchmarkPair(b *testing.B) {
	for _, r := range []pairRow{
		{1, 16, 96, 112, 3, 2}, {1, 16, 64, 112, 3, 2}, {1, 16, 64, 160, 3, 2}, {1, 24, 144, 56, 3, 1}, {1, 24, 144, 56, 3, 2}, {1, 24, 72, 56, 5, 2},
		{1, 40, 240, 28, 5, 1}, {1, 32, 192, 28, 3, 1}, {1, 64, 384, 14, 3, 1}, {1, 160, 960, 7, 3, 1}, {4, 24, 144, 56, 3, 1}, {8, 32, 192, 28, 3, 1}, {8, 96, 576, 14, 3, 1},
	} {
		for _, target := range slices.Backward(isa.Targets()[1:]) {
			b.Run(fmt.Sprintf("target=%v/%d-%d@%d/k=%d/s=%d/n=%d", target, r.c, r.oc, r.size, r.taps, r.stride, r.images), func(b *testing.B) { benchPair(b, target, r) })
		}
	}
}

func benchPair(b *testing.B, target isa.Target, r pairRow) {
	s := r.spec()
	p, err := conv.NewPair(target, s)
	if err != nil {
		b.Fatal(err)
	}
	t, one := pairTensors(p, &s)
	apart, err := newApart(target, &s, t)
	if err != nil {
		b.Fatal(err)
	}
	var took, ratio []float64
	for b.Loop() {
		start := time.Now()
		if err := p.Run(0, p.Chunks(), one, t); err != nil {
			b.Fatal(err)
		}
		unit := time.Since(start).Seconds()
		start = time.Now()
		if err := apart.run(); err != nil {
			b.Fatal(err)
		}
		took, ratio = append(took, unit), append(ratio, unit/time.Since(start).Seconds())
	}
	slices.Sort(took)
	slices.Sort(ratio)
	b.ReportMetric(took[len(took)/2]*1e6, "µs-median")
	b.ReportMetric(ratio[len(ratio)/2], "of-apart")
}
