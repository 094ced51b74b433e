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

// randomLine returns a convolution over one axis of any kind.
func randomLine(r *rand.Rand) fewconv.Spec {
	between := func(lo, hi int) int { return lo + r.IntN(hi-lo+1) }
	s := fewconv.Spec{N: between(1, 2), C: between(1, 20), OC: between(1, 9)}
	s.H, s.OH, s.W, s.OW = 1, 1, between(1, 300), between(1, 300)
	s.Kernel, s.Stride, s.Dilate = [2]int{1, between(1, 9)}, [2]int{1, 1}, [2]int{1, between(1, 4)}
	s.Pad[1] = between(-3, 40)
	return s
}

// lineOf is a result by its definition, and the sum of its terms' magnitudes.
func lineOf(s *fewconv.Spec, src, weights []float32, n, o, x int) (sum, bound float64) {
	for c := range s.C {
		for k := range s.Kernel[1] {
			if at := x - s.Pad[1] + k*s.Dilate[1]; at >= 0 && at < s.W {
				term := float64(src[(n*s.C+c)*s.W+at]) * float64(weights[(o*s.C+c)*s.Kernel[1]+k])
				sum, bound = sum+term, bound+math.Abs(term)
			}
		}
	}
	return sum, bound
}

var _ = Describe("a Line", func() {
	It("computes convolutions over one axis, of any size and window, the same bits by every set of instructions and however it is divided", func() {
		r := rand.New(rand.NewPCG(3, 4))
		for range 120 {
			s := randomLine(r)
			src, weights := guarded(r, s.N*s.C*s.W), guarded(r, s.OC*s.C*s.Kernel[1])
			for _, list := range [][]float32{src, weights} {
				for i := range list {
					list[i] = r.Float32()*2 - 1
				}
			}
			var fused []float32
			for _, t := range isa.Targets() {
				p, err := fewconv.NewLine(t, s)
				Expect(err).NotTo(HaveOccurred())
				dst, scratch := guarded(r, s.N*s.OC*s.OW), guarded(r, p.Scratch())
				for i := range scratch { // what is left of others counts nowhere
					scratch[i] = float32(math.NaN())
				}
				for lo := 0; lo < p.Chunks(); {
					hi := lo + 1 + r.IntN(p.Chunks()-lo)
					p.Run(lo, hi, dst, src, weights, scratch)
					lo = hi
				}
				for i, got := range dst {
					want, bound := lineOf(&s, src, weights, i/s.OW/s.OC, i/s.OW%s.OC, i%s.OW)
					Expect(float64(got)).To(BeNumerically("~", want, 1e-5*bound), "%v %+v: %d", t, s, i)
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

	It("computes long ones in chunks", func() {
		s := fewconv.Spec{N: 1, C: 32, OC: 1, Map: conv.Map{H: 1, W: 40000, OH: 1, OW: 40000, Kernel: [2]int{1, 7}, Stride: [2]int{1, 1}, Dilate: [2]int{1, 1}, Pad: [4]int{0, 3}}}
		p, err := fewconv.NewLine(isa.Host(), s)
		Expect(err).NotTo(HaveOccurred())
		Expect(p.Chunks()).To(BeNumerically(">", 4))
		src, weights := randomNumbers(s.C*s.W), randomNumbers(s.C*7)
		dst, scratch := make([]float32, s.OW), make([]float32, p.Scratch())
		for i := p.Chunks() - 1; i >= 0; i-- {
			p.Run(i, i+1, dst, src, weights, scratch)
		}
		for x := 0; x < s.OW; x += 37 {
			want, bound := lineOf(&s, src, weights, 0, 0, x)
			Expect(float64(dst[x])).To(BeNumerically("~", want, 1e-5*bound), "%d", x)
		}
	})

	It("refuses strides, rows and numbers that it is not for", func() {
		good := fewconv.Spec{N: 1, C: 1, OC: 4, Map: conv.Map{H: 1, W: 9, OH: 1, OW: 9, Kernel: [2]int{1, 3}, Stride: [2]int{1, 1}, Dilate: [2]int{1, 1}, Pad: [4]int{0, 1}}}
		_, err := fewconv.NewLine(isa.Host(), good)
		Expect(err).NotTo(HaveOccurred())
		for _, change := range []func(s *fewconv.Spec){
			func(s *fewconv.Spec) { s.Stride[1] = 2 }, func(s *fewconv.Spec) { s.H = 2 }, func(s *fewconv.Spec) { s.Kernel[0] = 2 }, func(s *fewconv.Spec) { s.OC = 0 },
			func(s *fewconv.Spec) { s.SrcImage = 9 }, func(s *fewconv.Spec) { s.Dilate[1] = 1 << 62 }, func(s *fewconv.Spec) { s.C, s.Dilate[1] = 1<<20, 1<<20 },
		} {
			s := good
			change(&s)
			_, err := fewconv.NewLine(isa.Host(), s)
			Expect(err).To(MatchError(fewconv.ErrShape), "%+v", s)
		}
	})

	It("panics on memory that is too short, and chunks that are none", func() {
		s := fewconv.Spec{N: 1, C: 2, OC: 1, Map: conv.Map{H: 1, W: 4, OH: 1, OW: 4, Kernel: [2]int{1, 1}, Stride: [2]int{1, 1}, Dilate: [2]int{1, 1}}}
		p, err := fewconv.NewLine(isa.Host(), s)
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
