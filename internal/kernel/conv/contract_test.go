package conv_test

import (
	"fmt"
	"math"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/kernel/conv"
	"github.com/carve-dev/carve/internal/kernel/isa"
)

var _ = Describe("contracts", func() {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())

	onTargets("weights may start at any byte", func(target isa.Target) {
		p, err := conv.NewConv(target, conv.Spec{N: 1, C: 17, OC: 18, Map: conv.Map{H: 3, W: 3, Kernel: [2]int{3, 3}}})
		Expect(err).NotTo(HaveOccurred())
		weights := make([]float32, 18*17*9)
		for i := range weights {
			weights[i] = float32(i + 1)
		}
		raw := conv.Float32s(weights)
		aligned, shifted := make([]float32, p.WeightFloats()), make([]float32, p.WeightFloats())
		Expect(p.PackWeights(aligned, raw, 0, p.PackChunks())).To(Succeed())
		for by := 1; by < 4; by++ {
			moved := append(make([]byte, by), raw...)
			clear(shifted)
			Expect(p.PackWeights(shifted, moved[by:], 0, p.PackChunks())).To(Succeed())
			Expect(shifted).To(Equal(aligned))
		}
		// Output channel 17, input channel 16, last tap: second blocks of both, lanes 1 and 0.
		Expect(aligned[((3*9)+8)*256+0*16+1]).To(Equal(float32(18 * 17 * 9)))
	})

	onTargets("NaN stays NaN through limits, and missing lanes stay zero beside NaN and Inf", func(target isa.Target) {
		for _, groups := range []int{1, 5} {
			p, err := conv.NewConv(target, conv.Spec{N: 1, C: 5, OC: 5, Groups: groups, Map: conv.Map{H: 1, W: 20, Kernel: [2]int{1, 1}}, Epilogue: conv.Epilogue{Lo: 0.5, Hi: 6}})
			Expect(err).NotTo(HaveOccurred())
			t := conv.Tensors{Src: make([]float32, 320), Dst: make([]float32, 320), Weights: make([]float32, p.WeightFloats())}
			w := make([]float32, 25)
			for i := range w {
				w[i] = 1
			}
			Expect(p.PackWeights(t.Weights, conv.Float32s(w), 0, p.PackChunks())).To(Succeed())
			t.Src[16*3], t.Src[16*7] = nan, inf
			Expect(p.Run(0, p.Chunks(), &t)).To(Succeed())
			Expect(math.IsNaN(float64(t.Dst[16*3]))).To(BeTrue())
			Expect(t.Dst[16*7]).To(Equal(float32(6)))
			Expect(t.Dst[16*8]).To(Equal(float32(0.5)))
			for i, v := range t.Dst {
				if i%16 >= 5 {
					Expect(v).To(BeZero(), "float %d", i)
				}
			}
		}
	})

	onTargets("the residual may be the destination", func(target isa.Target) {
		p, err := conv.NewConv(target, conv.Spec{N: 1, C: 16, OC: 16, Map: conv.Map{H: 5, W: 17, Kernel: [2]int{3, 3}, Pad: [4]int{1, 1, 1, 1}}, Epilogue: conv.Epilogue{Residual: true}})
		Expect(err).NotTo(HaveOccurred())
		t := conv.Tensors{Src: randomFloats(16 * 85), Residual: randomFloats(16 * 85), Weights: randomFloats(p.WeightFloats()), Dst: make([]float32, 16*85)}
		Expect(p.Run(0, p.Chunks(), &t)).To(Succeed())
		want := t.Dst
		t.Dst = t.Residual
		Expect(p.Run(0, p.Chunks(), &t)).To(Succeed())
		Expect(t.Dst).To(Equal(want))
	})

	for _, shape := range [][2]int{{1, 3}, {10, 3}, {1, 1}} {
		groups, kernel := shape[0], shape[1]
		It(fmt.Sprintf("instruction sets give the same bits, in %d groups, %d taps wide", groups, kernel), func() {
			var results [][]float32
			src, weights := randomFloats(80*19*23), randomFloats(80*80*9)
			for _, target := range isa.Targets()[1:] {
				pad := kernel / 2
				p, err := conv.NewConv(target, conv.Spec{N: 1, C: 80, OC: 80, Groups: groups, Map: conv.Map{H: 19, W: 23, Kernel: [2]int{kernel, kernel}, Pad: [4]int{pad, pad, pad, pad}}})
				Expect(err).NotTo(HaveOccurred())
				t := conv.Tensors{Src: src, Weights: make([]float32, p.WeightFloats()), Dst: make([]float32, 80*19*23)}
				Expect(p.PackWeights(t.Weights, conv.Float32s(weights), 0, p.PackChunks())).To(Succeed())
				Expect(p.Run(0, p.Chunks(), &t)).To(Succeed())
				results = append(results, t.Dst)
			}
			for _, r := range results {
				Expect(bitEqual(results[0], r)).To(Succeed())
			}
		})
	}
})
