package fewconv_test

import (
	"math"
	"math/rand/v2"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/kernel/conv"
	"github.com/carve-dev/carve/internal/kernel/fewconv"
	"github.com/carve-dev/carve/internal/kernel/isa"
)

// randomPlanar returns a convolution at stride 1 of any kind, in groups or not, over one axis or two.
func randomPlanar(r *rand.Rand) (s fewconv.Spec, groups int) {
	between := func(lo, hi int) int { return lo + r.IntN(hi-lo+1) }
	groups = []int{1, 1, 2, 3}[r.IntN(4)]
	s = fewconv.Spec{N: between(1, 2), C: groups * between(1, 12/groups), OC: groups * between(1, 9/groups)}
	s.H, s.OH, s.W, s.OW = 1, 1, between(1, 300), between(1, 300)
	s.Kernel, s.Stride, s.Dilate = [2]int{1, between(1, 9)}, [2]int{1, 1}, [2]int{1, between(1, 4)}
	s.Pad[1] = between(-3, 40)
	if r.IntN(2) == 0 {
		s.H, s.OH, s.W, s.OW = between(1, 9), between(1, 9), between(1, 130), between(1, 130)
		s.Kernel[0], s.Dilate[0], s.Pad[0] = between(1, 4), between(1, 3), between(-1, 4)
	}
	if r.IntN(3) == 0 {
		s.SrcImage = s.C*s.H*s.W + r.IntN(9)
	}
	return s, groups
}

// planarAt is a result by its definition, and the sum of its terms' magnitudes.
func planarAt(s *fewconv.Spec, groups int, src, weights []float32, n, o, y, x int) (sum, bound float64) {
	channels, image := s.C/groups, s.SrcImage
	if image == 0 {
		image = s.C * s.H * s.W
	}
	for c := range channels {
		for i := range s.Kernel[0] * s.Kernel[1] {
			iy, ix := y-s.Pad[0]+i/s.Kernel[1]*s.Dilate[0], x-s.Pad[1]+i%s.Kernel[1]*s.Dilate[1]
			if iy < 0 || iy >= s.H || ix < 0 || ix >= s.W {
				continue
			}
			at := o/(s.OC/groups)*channels + c
			term := float64(src[n*image+(at*s.H+iy)*s.W+ix]) * float64(weights[(o*channels+c)*s.Kernel[0]*s.Kernel[1]+i])
			sum, bound = sum+term, bound+math.Abs(term)
		}
	}
	return sum, bound
}

var _ = Describe("a Planar", func() {
	It("computes convolutions at stride 1, of any size, window and groups, the same bits by every set of instructions and however it is divided", func() {
		r := rand.New(rand.NewPCG(3, 4))
		for range 150 {
			s, groups := randomPlanar(r)
			image := max(s.SrcImage, s.C*s.H*s.W)
			src, weights := guarded(r, (s.N-1)*image+s.C*s.H*s.W), guarded(r, s.OC*s.C/groups*s.Kernel[0]*s.Kernel[1])
			for _, list := range [][]float32{src, weights} {
				for i := range list {
					list[i] = r.Float32()*2 - 1
				}
			}
			var fused []float32
			for _, t := range isa.Targets() {
				p, err := fewconv.NewPlanar(t, s, groups)
				Expect(err).NotTo(HaveOccurred())
				dst, scratch := guarded(r, s.N*s.OC*s.OH*s.OW), guarded(r, p.Scratch())
				for i := range scratch { // what is left of others counts nowhere
					scratch[i] = float32(math.NaN())
				}
				for lo := 0; lo < p.Chunks(); {
					hi := lo + 1 + r.IntN(p.Chunks()-lo)
					p.Run(lo, hi, dst, src, weights, scratch)
					lo = hi
				}
				for i, got := range dst {
					want, bound := planarAt(&s, groups, src, weights, i/s.OW/s.OH/s.OC, i/s.OW/s.OH%s.OC, i/s.OW%s.OH, i%s.OW)
					Expect(float64(got)).To(BeNumerically("~", want, 1e-5*bound), "%v %+v in %d groups: %d", t, s, groups, i)
				}
				if t.Set == isa.Portable {
					continue
				}
				if fused != nil {
					Expect(slices.Equal(dst, fused)).To(BeTrue(), "%v %+v", t, s)
				}
				fused = slices.Clone(dst)
			}
		}
	})

	DescribeTable("computes large ones in chunks", func(m conv.Map) {
		m.Stride, m.Dilate = [2]int{1, 1}, [2]int{1, 1}
		s := fewconv.Spec{N: 1, C: 8, OC: 1, Map: m}
		p, err := fewconv.NewPlanar(isa.Host(), s, 1)
		Expect(err).NotTo(HaveOccurred())
		Expect(p.Chunks()).To(BeNumerically(">", 2))
		src, weights := randomNumbers(s.C*s.H*s.W), randomNumbers(s.C*s.Kernel[0]*s.Kernel[1])
		dst, scratch := make([]float32, s.OH*s.OW), make([]float32, p.Scratch())
		for i := p.Chunks() - 1; i >= 0; i-- {
			p.Run(i, i+1, dst, src, weights, scratch)
		}
		for i := 0; i < len(dst); i += 37 {
			want, bound := planarAt(&s, 1, src, weights, 0, 0, i/s.OW, i%s.OW)
			Expect(float64(dst[i])).To(BeNumerically("~", want, 1e-5*bound), "%d", i)
		}
	},
		Entry("lines", conv.Map{H: 1, W: 80000, OH: 1, OW: 80000, Kernel: [2]int{1, 7}, Pad: [4]int{0, 3}}),
		Entry("images", conv.Map{H: 200, W: 300, OH: 200, OW: 300, Kernel: [2]int{3, 5}, Pad: [4]int{1, 2}}))

	It("refuses strides, groups and numbers that it is not for", func() {
		good := fewconv.Spec{N: 1, C: 2, OC: 4, Map: conv.Map{H: 2, W: 9, OH: 2, OW: 9, Kernel: [2]int{1, 3}, Stride: [2]int{1, 1}, Dilate: [2]int{1, 1}, Pad: [4]int{0, 1}}}
		_, err := fewconv.NewPlanar(isa.Host(), good, 2)
		Expect(err).NotTo(HaveOccurred())
		for _, change := range []func(s *fewconv.Spec, groups *int){
			func(s *fewconv.Spec, _ *int) { s.Stride[1] = 2 }, func(s *fewconv.Spec, _ *int) { s.Stride[0] = 2 }, func(s *fewconv.Spec, _ *int) { s.OC = 0 },
			func(s *fewconv.Spec, _ *int) { s.Dilate[1] = 1 << 62 }, func(s *fewconv.Spec, _ *int) { s.C, s.Dilate[1] = 1<<20, 1<<20 },
			func(_ *fewconv.Spec, groups *int) { *groups = 3 }, func(_ *fewconv.Spec, groups *int) { *groups = 0 },
		} {
			s, groups := good, 2
			change(&s, &groups)
			_, err := fewconv.NewPlanar(isa.Host(), s, groups)
			Expect(err).To(MatchError(fewconv.ErrShape), "%+v", s)
		}
	})

	It("panics on memory that is too short, and chunks that are none", func() {
		s := fewconv.Spec{N: 1, C: 2, OC: 1, Map: conv.Map{H: 1, W: 4, OH: 1, OW: 4, Kernel: [2]int{1, 1}, Stride: [2]int{1, 1}, Dilate: [2]int{1, 1}}}
		p, err := fewconv.NewPlanar(isa.Host(), s, 1)
		Expect(err).NotTo(HaveOccurred())
		dst, src, w, scratch := make([]float32, 4), make([]float32, 8), make([]float32, 2), make([]float32, p.Scratch())
		Expect(func() { p.Run(0, 1, dst[:3], src, w, scratch) }).To(Panic())
		Expect(func() { p.Run(0, 1, dst, src[:7], w, scratch) }).To(Panic())
		Expect(func() { p.Run(0, 1, dst, src, w[:1], scratch) }).To(Panic())
		Expect(func() { p.Run(0, 1, dst, src, w, scratch[1:]) }).To(Panic())
		Expect(func() { p.Run(0, 2, dst, src, w, scratch) }).To(Panic())
		Expect(func() { p.Run(0, 1, dst, src, w, scratch) }).NotTo(Panic())
	})
})

func randomNumbers(n int) []float32 {
	r := rand.New(rand.NewPCG(5, 6))
	x := make([]float32, n)
	for i := range x {
		x[i] = r.Float32()*2 - 1
	}
	return x
}
