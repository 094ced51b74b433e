package conv_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/carve-dev/carve/internal/kernel/conv"
	"github.com/carve-dev/carve/internal/kernel/gemm"
	"github.com/carve-dev/carve/internal/kernel/isa"
)

// peak measures the multiply-adds of 16 lanes per second of a register-only loop of an instruction set: the best of several tries.
func peak(target isa.Target) float64 {
	run, lanes := conv.Peak512, 16.0
	if target.Set == isa.AVX2 {
		run, lanes = conv.Peak256, 8
	}
	if target.Set == isa.Portable {
		return gemm.Peak(target, 10*time.Millisecond) * 1e9 / 2 / 16
	}
	if run == nil {
		return math.NaN()
	}
	best := 0.0
	for range 20 {
		const n = 40_000
		start := time.Now()
		run(n)
		best = max(best, 12*n*lanes/16/time.Since(start).Seconds())
	}
	return best
}

func randomFloats(n int) []float32 {
	r := rand.New(rand.NewPCG(3, 4))
	x := make([]float32, n+16)
	for i := range x {
		x[i] = r.Float32() - 0.5
	}
	return x[:n]
}

// benchPlan measures a plan on one goroutine and reports the share of the peak, counting padding as work.
func benchPlan(b *testing.B, target isa.Target, p *conv.Plan, src, dst int, steps float64, s *conv.Spec) {
	t := conv.Tensors{Src: randomFloats(src), Dst: randomFloats(dst), Weights: randomFloats(p.WeightFloats()), Bias: randomFloats(p.BiasFloats())}
	if s.Residual {
		t.Residual = randomFloats(dst)
	}
	top := peak(target)
	best := math.Inf(1)
	b.ReportAllocs()
	for b.Loop() {
		start := time.Now()
		if err := p.Run(0, p.Chunks(), &t); err != nil {
			b.Fatal(err)
		}
		best = min(best, time.Since(start).Seconds())
	}
	top = max(top, peak(target))
	b.ReportMetric(steps/best/top*100, "%peak")
	b.ReportMetric(best*1e6, "µs-best")
	b.ReportMetric(float64(p.Chunks()), "chunks")
}

func BenchmarkConv(b *testing.B) {
	type row struct {
		ic, oc, h, k, stride, groups int
		planar                       bool
	}
	rows := []row{
		{64, 64, 56, 3, 1, 1, false}, {128, 128, 28, 3, 1, 1, false}, {256, 256, 14, 3, 1, 1, false}, {512, 512, 7, 3, 1, 1, false},
		{128, 128, 56, 3, 2, 1, false},
		{64, 256, 56, 1, 1, 1, false}, {256, 64, 56, 1, 1, 1, false}, {128, 512, 28, 1, 1, 1, false}, {512, 128, 28, 1, 1, 1, false},
		{1024, 256, 14, 1, 1, 1, false}, {256, 1024, 14, 1, 1, 1, false}, {2048, 512, 7, 1, 1, 1, false}, {512, 1024, 28, 1, 2, 1, false},
		{3, 64, 224, 7, 2, 1, true}, {3, 32, 224, 3, 2, 1, true}, {3, 64, 224, 3, 1, 1, true},
		{144, 144, 56, 3, 1, 144, false}, {384, 384, 14, 3, 1, 384, false}, {96, 96, 112, 3, 2, 96, false}, {960, 960, 7, 3, 1, 960, false},
		{240, 240, 28, 5, 1, 240, false}, {672, 672, 14, 5, 1, 672, false}, {240, 240, 28, 5, 2, 240, false}, {192, 192, 14, 7, 1, 192, false}, {192, 192, 28, 7, 2, 192, false},
		{16, 96, 112, 1, 1, 1, false}, {96, 24, 56, 1, 1, 1, false}, {24, 144, 56, 1, 1, 1, false}, {48, 48, 35, 3, 1, 1, false},
		{32, 16, 112, 1, 1, 1, false}, {64, 1, 56, 3, 1, 1, false}, {192, 32, 28, 3, 1, 1, false}, {128, 128, 28, 3, 1, 32, false}, {128, 128, 56, 3, 1, 32, false}, {256, 256, 28, 3, 1, 32, false}, {64, 64, 56, 3, 2, 32, false}, {256, 256, 14, 1, 1, 64, false},
	}
	for _, target := range slices.Backward(isa.Targets()) {
		for _, r := range rows {
			if target.Set == isa.Portable && r.h > 112 {
				continue
			}
			name := fmt.Sprintf("target=%v/k=%d/s=%d/%d-%d@%d", target, r.k, r.stride, r.ic, r.oc, r.h)
			if r.groups > 1 {
				name += fmt.Sprintf("/groups=%d", r.groups)
			}
			b.Run(name, func(b *testing.B) {
				s := conv.Spec{N: 1, C: r.ic, OC: r.oc, Groups: r.groups, Map: conv.Map{H: r.h, W: r.h, Kernel: [2]int{r.k, r.k}, Stride: [2]int{r.stride, r.stride}, Pad: [4]int{r.k / 2, r.k / 2, r.k / 2, r.k / 2}}}
				s.Hi = float32(math.Inf(1))
				if r.planar {
					s.Source = conv.Planar
				}
				p, err := conv.NewConv(target, s)
				if err != nil {
					b.Fatal(err)
				}
				_, _, oh, ow := p.Shape()
				blocks := func(c int) int { return (c + 15) / 16 }
				steps := float64(r.ic/r.groups) * float64(r.k*r.k*oh*ow) * float64(r.oc) / 16
				benchPlan(b, target, p, blocks(r.ic)*16*r.h*r.h, blocks(r.oc)*16*oh*ow, steps, &s)
			})
		}
	}
}

// BenchmarkPackWeights counts bytes read plus bytes written.
func BenchmarkPackWeights(b *testing.B) {
	for _, r := range []struct{ ic, oc, k, groups int }{{512, 512, 3, 1}, {1024, 256, 1, 1}, {960, 960, 3, 960}, {64, 512, 7, 1}} {
		b.Run(fmt.Sprintf("k=%d/%d-%d", r.k, r.ic, r.oc), func(b *testing.B) {
			p, err := conv.NewConv(isa.Host(), conv.Spec{N: 1, C: r.ic, OC: r.oc, Groups: r.groups, Map: conv.Map{H: 7, W: 7, Kernel: [2]int{r.k, r.k}}})
			if err != nil {
				b.Fatal(err)
			}
			src := conv.Float32s(randomFloats(r.oc * (r.ic / r.groups) * r.k * r.k))
			dst := randomFloats(p.WeightFloats())
			b.SetBytes(int64(2 * len(src)))
			for b.Loop() {
				if err := p.PackWeights(dst, src, 0, p.PackChunks()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkNewConv is the time to plan.
func BenchmarkNewConv(b *testing.B) {
	for _, m := range []conv.Map{
		{H: 56, W: 56, Kernel: [2]int{3, 3}, Pad: [4]int{1, 1, 1, 1}}, {H: 56, W: 56, Kernel: [2]int{1, 1}},
		{H: 224, W: 224, Kernel: [2]int{7, 7}, Stride: [2]int{2, 2}, Pad: [4]int{3, 3, 3, 3}}, {H: 7, W: 7, Kernel: [2]int{3, 3}, Pad: [4]int{1, 1, 1, 1}},
		{H: 112, W: 112, Kernel: [2]int{1, 1}},
	} {
		b.Run(fmt.Sprintf("k=%d/%d", m.Kernel[0], m.H), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := conv.NewConv(isa.Host(), conv.Spec{N: 1, C: 64, OC: 64, Map: m}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkPool counts bytes of the source.
func BenchmarkPool(b *testing.B) {
	for _, target := range slices.Backward(isa.Targets()[1:]) {
		for _, r := range []struct {
			name string
			s    conv.PoolSpec
		}{
			{"max/k=3/s=2/64@112", conv.PoolSpec{C: 64, Map: conv.Map{H: 112, W: 112, Kernel: [2]int{3, 3}, Stride: [2]int{2, 2}, Pad: [4]int{1, 1, 1, 1}}}},
			{"max/k=2/s=2/64@112", conv.PoolSpec{C: 64, Map: conv.Map{H: 112, W: 112, Kernel: [2]int{2, 2}, Stride: [2]int{2, 2}}}},
			{"average/k=3/s=1/192@35", conv.PoolSpec{C: 192, Pooling: conv.Average, Map: conv.Map{H: 35, W: 35, Kernel: [2]int{3, 3}, Pad: [4]int{1, 1, 1, 1}}}},
		} {
			b.Run(fmt.Sprintf("target=%v/%s", target, r.name), func(b *testing.B) {
				r.s.N = 1
				p, err := conv.NewPool(target, r.s)
				if err != nil {
					b.Fatal(err)
				}
				_, c, oh, ow := p.Shape()
				t := conv.Tensors{Src: randomFloats(c * r.s.H * r.s.W), Dst: randomFloats(c * oh * ow)}
				b.SetBytes(int64(4 * len(t.Src)))
				for b.Loop() {
					if err := p.Run(0, p.Chunks(), &t); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		b.Run(fmt.Sprintf("target=%v/global/2048@7", target), func(b *testing.B) {
			g, err := conv.NewGlobalPool(target, 1, 2048, 49, conv.Average, 0, 0)
			if err != nil {
				b.Fatal(err)
			}
			src, dst := randomFloats(2048*49), randomFloats(2048)
			b.SetBytes(int64(4 * len(src)))
			for b.Loop() {
				if err := g.Run(0, g.Chunks(), dst, src); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("target=%v/scale/256@28", target), func(b *testing.B) {
			p, err := conv.NewScale(target, conv.ScaleSpec{N: 1, C: 256, HW: 28 * 28})
			if err != nil {
				b.Fatal(err)
			}
			t := conv.Tensors{Src: randomFloats(256 * 784), Dst: randomFloats(256 * 784), Weights: randomFloats(256), Bias: randomFloats(256)}
			b.SetBytes(int64(4 * len(t.Src)))
			for b.Loop() {
				if err := p.Run(0, p.Chunks(), &t); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("target=%v/transposed/k=2/s=2/128-64@28", target), func(b *testing.B) {
			s := conv.Spec{N: 1, C: 128, OC: 64, Transposed: true, Map: conv.Map{H: 28, W: 28, Kernel: [2]int{2, 2}, Stride: [2]int{2, 2}}}
			p, err := conv.NewConv(target, s)
			if err != nil {
				b.Fatal(err)
			}
			benchPlan(b, target, p, 128*784, 64*3136, 128*3136*4, &s)
		})
	}
}

// BenchmarkResize counts bytes of the result.
func BenchmarkResize(b *testing.B) {
	for _, target := range slices.Backward(isa.Targets()[1:]) {
		b.Run(fmt.Sprintf("target=%v/linear/64@56", target), func(b *testing.B) {
			a := conv.LinearAxis(28, 56, 0, conv.HalfPixel)
			p, err := conv.NewResize(target, 1, 64, 28, 28, a, a, 0, 0)
			if err != nil {
				b.Fatal(err)
			}
			src, dst := randomFloats(64*784), randomFloats(64*3136)
			b.SetBytes(int64(4 * len(dst)))
			for b.Loop() {
				if err := p.Run(0, p.Chunks(), dst, src); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("target=%v/linear/3@320/planes", target), func(b *testing.B) {
			a := conv.LinearAxis(300, 320, 0, conv.HalfPixel)
			p, err := conv.NewPlaneResize(1, 3, 300, 300, a, a)
			if err != nil {
				b.Fatal(err)
			}
			src, dst := randomFloats(3*300*300), randomFloats(3*320*320)
			b.SetBytes(int64(4 * len(dst)))
			for b.Loop() {
				if err := p.Run(0, p.Chunks(), dst, src); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
