package fewconv_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"os/exec"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/cpuid"
	"github.com/carve-dev/carve/internal/kernel/asm"
	"github.com/carve-dev/carve/internal/kernel/conv"
	"github.com/carve-dev/carve/internal/kernel/fewconv"
	"github.com/carve-dev/carve/internal/kernel/guard"
	"github.com/carve-dev/carve/internal/kernel/isa"
)

var _ = It("generated files are up to date", func(ctx SpecContext) {
	err := asm.Verify(ctx, "gen.go", "gen_neon.go", "gen_planar.go")
	if errors.Is(err, exec.ErrNotFound) {
		Skip("no go command")
	}
	Expect(err).NotTo(HaveOccurred())
})

// buffers are those of the running spec.
var buffers guard.Set

// guarded returns n floats with a page behind them, or in front, that faults.
func guarded(r *rand.Rand, n int) []float32 {
	GinkgoHelper()
	b, err := buffers.New(n, []guard.Side{guard.End, guard.Start}[r.IntN(2)], DeferCleanup)
	Expect(err).NotTo(HaveOccurred())
	return b.Data
}

// random returns a convolution of any kind.
func random(r *rand.Rand) fewconv.Spec {
	between := func(lo, hi int) int { return lo + r.IntN(hi-lo+1) }
	s := fewconv.Spec{N: between(1, 2), C: between(1, 50), OC: between(1, 3)}
	s.H, s.W = between(1, 9), between(1, 40)
	for i := range 2 {
		s.Kernel[i], s.Stride[i], s.Dilate[i] = between(1, 5), between(1, 3), between(1, 3)
	}
	s.Pad = [4]int{between(-1, 6), between(-1, 6)}
	s.OH, s.OW = between(1, 9), between(1, 40)
	if s.Pad[0] < 0 && s.OH > s.H || s.Pad[1] < 0 && s.OW > s.W { // what lies outside of the source is read nowhere
		s.OH, s.OW = 1, 1
	}
	if r.IntN(3) == 0 {
		s.SrcImage = 16*((s.C+15)/16)*s.H*s.W + 16*r.IntN(3)
	}
	return s
}

// at returns the place in a blocked source of a pixel of a channel.
func at(s *fewconv.Spec, n, c, y, x int) int {
	image := s.SrcImage
	if image == 0 {
		image = 16 * ((s.C + 15) / 16) * s.H * s.W
	}
	return n*image + ((c/16*s.H+y)*s.W+x)*16 + c%16
}

var _ = Describe("a plan", func() {
	It("computes convolutions of one to three results, of any size and window, the same bits by every set of instructions and however it is divided", func() {
		r := rand.New(rand.NewPCG(1, 2))
		for range 300 {
			s := random(r)
			blocks := (s.C + 15) / 16
			src := guarded(r, at(&s, s.N-1, 16*blocks-1, s.H-1, s.W-1)+1)
			weights := guarded(r, 16*blocks*s.Kernel[0]*s.Kernel[1]*s.OC)
			weight := func(o, c, ky, kx int) int {
				return (((c/16*s.Kernel[0]+ky)*s.Kernel[1]+kx)*s.OC+o)*16 + c%16
			}
			number := func(c int) float32 { // zero behind the last channel
				if c >= s.C {
					return 0
				}
				return r.Float32()*2 - 1
			}
			for c := range 16 * blocks {
				for i := range s.N * s.H * s.W {
					src[at(&s, i/s.W/s.H, c, i/s.W%s.H, i%s.W)] = number(c)
				}
				for i := range s.OC * s.Kernel[0] * s.Kernel[1] {
					weights[weight(i%s.OC, c, i/s.OC/s.Kernel[1], i/s.OC%s.Kernel[1])] = number(c)
				}
			}
			var fused []float32
			for _, t := range isa.Targets() {
				t.Caches = cpuid.Caches{{Bytes: 32 << 10}, {Bytes: []int{4 << 10, 1 << 20}[r.IntN(2)]}}
				p, err := fewconv.New(t, s)
				Expect(err).NotTo(HaveOccurred())
				Expect(p.WeightFloats()).To(Equal(len(weights)))
				dst := guarded(r, s.N*s.OC*s.OH*s.OW)
				for lo := 0; lo < p.Chunks(); {
					hi := lo + 1 + r.IntN(p.Chunks()-lo)
					p.Run(lo, hi, dst, src, weights)
					lo = hi
				}
				for i, got := range dst {
					n, o, y, x := i/s.OW/s.OH/s.OC, i/s.OW/s.OH%s.OC, i/s.OW%s.OH, i%s.OW
					want, bound := 0.0, 0.0
					for k := range s.C * s.Kernel[0] * s.Kernel[1] {
						c, ky, kx := k/s.Kernel[1]/s.Kernel[0], k/s.Kernel[1]%s.Kernel[0], k%s.Kernel[1]
						iy, ix := y*s.Stride[0]-s.Pad[0]+ky*s.Dilate[0], x*s.Stride[1]-s.Pad[1]+kx*s.Dilate[1]
						if iy >= 0 && iy < s.H && ix >= 0 && ix < s.W {
							term := float64(src[at(&s, n, c, iy, ix)]) * float64(weights[weight(o, c, ky, kx)])
							want, bound = want+term, bound+math.Abs(term)
						}
					}
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

	It("refuses other numbers of results and sizes that are none", func() {
		s := fewconv.Spec{N: 1, C: 1, OC: 4, Map: conv.Map{H: 1, W: 1, OH: 1, OW: 1, Kernel: [2]int{1, 1}, Stride: [2]int{1, 1}, Dilate: [2]int{1, 1}}}
		_, err := fewconv.New(isa.Host(), s)
		Expect(err).To(MatchError(fewconv.ErrShape))
		s.OC, s.Stride[1] = 1, 0
		_, err = fewconv.New(isa.Host(), s)
		Expect(err).To(MatchError(fewconv.ErrShape))
		s.Kernel, s.Stride[1], s.Dilate[1] = [2]int{1, 3}, 1, 1<<62 // distances that cannot be added up
		_, err = fewconv.New(isa.Host(), s)
		Expect(err).To(MatchError(conv.ErrShape))
	})

	It("panics on memory that is too short, and chunks that are none", func() {
		s := fewconv.Spec{N: 1, C: 16, OC: 1, Map: conv.Map{H: 1, W: 4, OH: 1, OW: 4, Kernel: [2]int{1, 1}, Stride: [2]int{1, 1}, Dilate: [2]int{1, 1}}}
		p, err := fewconv.New(isa.Host(), s)
		Expect(err).NotTo(HaveOccurred())
		dst, src, w := make([]float32, 4), make([]float32, 64), make([]float32, 16)
		Expect(func() { p.Run(0, 1, dst[:3], src, w) }).To(Panic())
		Expect(func() { p.Run(0, 1, dst, src[:63], w) }).To(Panic())
		Expect(func() { p.Run(0, 1, dst, src, w[:15]) }).To(Panic())
		Expect(func() { p.Run(0, 2, dst, src, w) }).To(Panic())
		Expect(func() { p.Run(0, 1, dst, src, w) }).NotTo(Panic())
	})
})
