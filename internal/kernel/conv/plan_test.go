package conv_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/cpuid"
	"github.com/carve-dev/carve/internal/kernel/conv"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/pairs"
	"github.com/carve-dev/carve/internal/testshare"
)

// layoutCase is how one comparison lays its tensors out.
type layoutCase struct {
	seed  uint64
	front bool // guard pages before the buffers, not behind
	slice bool // tensors are channel slices of bigger ones
	bias  bool
	post  bool
	// inexact is a comparison of sums in float16 within the bound of their rounding.
	inexact bool
}

// sliced makes the tensors of a spec channel slices of bigger ones.
func sliced(target isa.Target, s *conv.Spec, srcChannels, dstChannels int) error {
	probe, err := conv.NewConv(target, *s)
	if err != nil {
		return err
	}
	_, _, oh, ow := probe.Shape()
	s.SrcImage = (srcChannels + 16) * s.H * s.W
	s.DstImage = (dstChannels + 32) * oh * ow
	s.ResImage = (dstChannels + 16) * oh * ow
	return nil
}

// squarePlusBlock is a user's epilogue that makes padded lanes not zero: v² + 1, and the number of the block.
func squarePlusBlock(tile []float32, block int) {
	for i, v := range tile {
		tile[i] = v*v + float32(1+block)
	}
}

// definition is the epilogue of one element, nil for none.
func (l *layoutCase) definition() func(v float64, channel int) float64 {
	if !l.post {
		return nil
	}
	return func(v float64, channel int) float64 { return v*v + float64(1+channel/16) }
}

// packReversed packs weights chunk by chunk from the last to the first, so that chunks cannot lean on each other.
func packReversed(p *conv.Plan, packed, raw []float32) error {
	for i := range packed {
		packed[i] = float32(math.NaN())
	}
	for i := p.PackChunks() - 1; i >= 0; i-- {
		if err := p.PackWeights(packed, conv.Float32s(raw), i, i+1); err != nil {
			return err
		}
	}
	return nil
}

// tolerance bounds the difference of a result that so many products of numbers of about 1 were added up to.
func (l *layoutCase) tolerance(terms float64) float64 {
	if l.inexact { // chains of 64, whose roundings, of up to 2^-11 of a sum of about 8, are as often up as down
		return 4 * 0x1p-11 * 8 * math.Sqrt(terms)
	}
	return 3e-6*math.Sqrt(terms) + 2e-6
}

// checkConv compares a plan with the definition, on buffers between guard pages, whole and cut into chunks.
func checkConv(target isa.Target, s conv.Spec, l layoutCase) error {
	r := rand.New(rand.NewPCG(l.seed, 1))
	groups := max(1, s.Groups)
	if l.post {
		s.Post = squarePlusBlock
	}
	srcChannels, dstChannels := sourceChannels(&s), (s.OC+15)/16*16
	if l.slice {
		if err := sliced(target, &s, srcChannels, dstChannels); err != nil {
			return err
		}
	}
	p, err := conv.NewConv(target, s)
	if err != nil {
		return err
	}
	_, _, oh, ow := p.Shape()
	image := func(given, c, h, w int) int {
		if given != 0 {
			return given
		}
		return c * h * w
	}
	srcImage, dstImage, resImage := image(s.SrcImage, srcChannels, s.H, s.W), image(s.DstImage, dstChannels, oh, ow), image(s.ResImage, dstChannels, oh, ow)
	need := func(image, c, h, w int) int { return (s.N-1)*image + c*h*w }
	src := newPlain(s.N, s.C, s.H, s.W).random(r)
	res := newPlain(s.N, s.OC, oh, ow).random(r)
	weights := newPlain(s.OC*(s.C/groups), 1, s.Kernel[0], s.Kernel[1]).random(r)
	if s.Pairs == pairs.Float16 && target.Float16() && !l.inexact { // whose sums would round in an order that tiles decide
		src.small()
		weights.small()
	}
	biases := make([]float64, dstChannels)
	if l.bias {
		for i := range s.OC {
			biases[i] = float64(float32(r.NormFloat64()))
		}
	}
	var frees []func()
	defer func() {
		for _, f := range frees {
			f()
		}
	}()
	alloc := func(n int) []float32 {
		b, free := guarded(n, l.front)
		frees = append(frees, free)
		return b
	}
	t := conv.Tensors{
		Src: alloc(need(srcImage, srcChannels, s.H, s.W)), Dst: alloc(need(dstImage, dstChannels, oh, ow)),
		Weights: alloc(p.WeightFloats()), Residual: alloc(need(resImage, dstChannels, oh, ow)),
	}
	src.source(&s, t.Src, srcImage)
	res.blocked(t.Residual, resImage)
	if l.bias {
		t.Bias = alloc(p.BiasFloats())
		for i, b := range biases {
			t.Bias[i] = float32(b)
		}
	}
	raw := alloc(len(weights.v))
	weights.planar(raw, s.Kernel[0]*s.Kernel[1])
	if err := packReversed(p, t.Weights, raw); err != nil {
		return err
	}
	if s.Pairs != pairs.Float32 {
		weights.rounded(s.Pairs)
	}
	fill(t.Dst)
	if err := p.Run(0, p.Chunks(), &t); err != nil {
		return err
	}
	want := naiveConv(&s, src, weights.v, biases, oh, ow)
	want.finish(&s.Epilogue, res, l.definition())
	terms := float64(s.C / groups * s.Kernel[0] * s.Kernel[1])
	if err := compare(want, t.Dst, dstImage, l.tolerance(terms)); err != nil {
		return err
	}
	return sameInChunks(p, &t, r)
}

// sameInChunks runs a plan chunk by chunk in a random order and compares with the result of the whole, which t.Dst holds.
func sameInChunks(p *conv.Plan, t *conv.Tensors, r *rand.Rand) error {
	whole := append([]float32(nil), t.Dst...)
	fill(t.Dst)
	for _, i := range r.Perm(p.Chunks()) {
		if err := p.Run(i, i+1, t); err != nil {
			return err
		}
	}
	return bitEqual(whole, t.Dst)
}

// canary fills what a kernel must not touch.
const canary = 12345

func fill(x []float32) {
	for i := range x {
		x[i] = canary
	}
}

func bitEqual(a, b []float32) error {
	for i := range a {
		if math.Float32bits(a[i]) != math.Float32bits(b[i]) {
			return fmt.Errorf("float %d is %g in one cut and %g in another", i, a[i], b[i])
		}
	}
	return nil
}

// compare checks a blocked result, its zero lanes and what lies between images.
func compare(want *plain, got []float32, image int, tol float64) error {
	blocks := (want.c + 15) / 16
	plane := want.h * want.w * 16
	for n := range want.n {
		for i := range blocks * plane {
			c, y, x := i/plane*16+i%16, i%plane/16/want.w, i/16%want.w
			v := float64(got[n*image+i])
			switch {
			case c >= want.c && v != 0:
				return fmt.Errorf("lane of missing channel %d at %d,%d is %g", c, y, x, v)
			case c < want.c:
				w := *want.at(n, c, y, i/16%(want.h*want.w)%want.w)
				if w != v && !(math.IsNaN(w) && math.IsNaN(v)) && !(math.Abs(w-v) <= tol*(1+math.Abs(w))) {
					return fmt.Errorf("image %d, channel %d, pixel %d,%d: %g, want %g", n, c, y, x, v, w)
				}
			}
		}
		if n+1 < want.n {
			for i := blocks * plane; i < image; i++ {
				if got[n*image+i] != canary {
					return fmt.Errorf("float %d behind image %d was written", i, n)
				}
			}
		}
	}
	return nil
}

// onTargets registers a spec per target of this machine. One that splits wide vectors plans as one that does not, too.
func onTargets(text string, body func(isa.Target)) {
	for _, t := range isa.Targets() {
		It(fmt.Sprintf("%s (%v)", text, t), func() {
			body(t)
			if t.Set == isa.AVX512 {
				t.Features ^= cpuid.Split512
				body(t)
			}
		})
	}
}

func randomMap(r *rand.Rand, transposed bool) conv.Map {
	m := conv.Map{H: 1 + r.IntN(9), W: 1 + r.IntN(20)}
	if r.IntN(6) == 0 { // a long line
		m = conv.Map{H: 1 + r.IntN(3), W: 40 + r.IntN(400)}
	}
	kernels := [][2]int{{1, 1}, {1, 1}, {3, 3}, {3, 3}, {3, 3}, {2, 2}, {1, 3}, {5, 1}, {5, 5}, {7, 7}, {2, 4}}
	m.Kernel = kernels[r.IntN(len(kernels))]
	for i := range 2 {
		m.Stride[i] = []int{1, 1, 1, 2, 2, 3}[r.IntN(6)]
		m.Dilate[i] = []int{1, 1, 1, 1, 2, 3}[r.IntN(6)]
	}
	if r.IntN(2) == 0 {
		for i := range m.Pad {
			m.Pad[i] = m.Dilate[i%2] * (m.Kernel[i%2] - 1) / 2
		}
	} else {
		for i := range m.Pad {
			m.Pad[i] = r.IntN(4)
			if r.IntN(12) == 0 && !transposed {
				m.Pad[i] = -r.IntN(2)
			}
		}
	}
	return m
}

var _ = Describe("Plan", func() {
	limits := [][2]float32{{0, 0}, {-2, -0.25}, {0, float32(math.Inf(1))}, {0, 1.5}, {-0.5, 0.75}, {0.25, 2}, {float32(math.Inf(-1)), 0.5}}

	fuzz := func(target isa.Target, count int, seed uint64, change func(r *rand.Rand, s *conv.Spec)) {
		r := rand.New(rand.NewPCG(seed, 2))
		for done := 0; done < testshare.Of(count); {
			s := conv.Spec{N: 1 + r.IntN(2), C: 1 + r.IntN(40), OC: 1 + r.IntN(70)}
			change(r, &s)
			if s.Map == (conv.Map{}) {
				s.Map = randomMap(r, s.Transposed)
			}
			lim := limits[r.IntN(len(limits))]
			s.Lo, s.Hi, s.Residual = lim[0], lim[1], r.IntN(3) == 0
			l := layoutCase{seed: r.Uint64(), front: r.IntN(2) == 0, slice: r.IntN(4) == 0, bias: r.IntN(2) == 0, post: r.IntN(8) == 0}
			err := checkConv(target, s, l)
			if errors.Is(err, conv.ErrShape) {
				continue // an empty destination
			}
			s.Post = nil
			Expect(err).NotTo(HaveOccurred(), "%+v %+v", s, l)
			done++
		}
	}

	onTargets("computes convolutions", func(target isa.Target) { fuzz(target, 150, 1, func(r *rand.Rand, s *conv.Spec) {}) })
	It("turns down kernels whose taps it would list for each pixel, before they fill memory", func() {
		s := conv.Spec{N: 1, C: 4, OC: 4, Map: conv.Map{H: 200, W: 200, Kernel: [2]int{255, 255}, Pad: [4]int{127, 127, 127, 127}}}
		_, err := conv.NewConv(isa.Host(), s)
		Expect(err).To(MatchError(conv.ErrUnsupported))
		for _, kernel := range [][2]int{{1 << 17, 1}, {1 << 11, 1 << 10}} {
			s.Map = conv.Map{H: 1 << 18, W: 1 << 12, Kernel: kernel}
			_, err = conv.NewConv(isa.Host(), s)
			Expect(err).To(MatchError(conv.ErrShape))
		}
	})
	onTargets("computes convolutions whose sums are in parts, and the same bits as of whole ones", func(target isa.Target) {
		whole := target
		target.Caches[0].Bytes, target.Caches[1].Bytes = 4<<10, 8<<10
		wide := target.Set == isa.AVX512 && !target.Features.Has(cpuid.Split512)
		if wide {
			target.Caches[0].Bytes, target.Caches[1].Bytes, whole.Caches[1].Bytes = 16<<10, 2<<20, 1<<20
		}
		inParts := 0
		fuzz(target, 60, 21, func(r *rand.Rand, s *conv.Spec) {
			s.C, s.OC, s.Transposed = 1+r.IntN(70), 1+r.IntN(140), r.IntN(8) == 0
			s.Map = randomMap(r, s.Transposed)
			if r.IntN(2) == 0 {
				s.Map = conv.Map{H: 1, W: 40 + r.IntN(400), Kernel: [2]int{1, 2 + r.IntN(3)}, Stride: [2]int{1, 1 + r.IntN(2)}}
			}
			p, err := conv.NewConv(target, *s)
			if err != nil || !conv.Parts(p) {
				return
			}
			inParts++
			q, err := conv.NewConv(whole, *s)
			Expect(err).NotTo(HaveOccurred())
			Expect(conv.Parts(q)).To(BeFalse())
			_, _, oh, ow := p.Shape()
			t := conv.Tensors{Src: randomFloats(s.N * (s.C + 15) / 16 * 16 * s.H * s.W), Weights: randomFloats(p.WeightFloats()), Dst: make([]float32, s.N*((s.OC+15)/16*16)*oh*ow)}
			Expect(q.Run(0, q.Chunks(), &t)).To(Succeed())
			Expect(sameInChunks(p, &t, r)).To(Succeed())
		})
		switch {
		case target.Set != isa.AVX2 && !wide:
			Expect(inParts).To(BeZero())
		case testshare.Share == 1: // a few cases may have none
			Expect(inParts).NotTo(BeZero())
		}
	})
	hasParts := func(set isa.Set, first, second int) func(conv.Spec, bool) {
		return func(s conv.Spec, want bool) {
			target := isa.Target{Set: set}
			target.Caches[0].Bytes, target.Caches[1].Bytes = first, second
			s.N = 1
			p, err := conv.NewConv(target, s)
			Expect(err).NotTo(HaveOccurred())
			Expect(conv.Parts(p)).To(Equal(want))
		}
	}
	DescribeTable("has sums in parts with AVX-512 and a large second cache", hasParts(isa.AVX512, 48<<10, 2<<20),
		Entry("where the first cache holds those of a block of channels", conv.Spec{C: 512, OC: 512, Map: conv.Map{H: 7, W: 7, Kernel: [2]int{3, 3}, Pad: [4]int{1, 1, 1, 1}}}, true),
		Entry("not where it holds all of a tile", conv.Spec{C: 32, OC: 64, Map: conv.Map{H: 112, W: 112, Kernel: [2]int{3, 3}}}, false),
		Entry("not where a block has more than it", conv.Spec{C: 256, OC: 512, Map: conv.Map{H: 64, W: 64, Kernel: [2]int{5, 5}, Stride: [2]int{2, 2}}}, false),
		Entry("not of a single tap", conv.Spec{C: 512, OC: 512, Map: conv.Map{H: 28, W: 28, Kernel: [2]int{1, 1}}}, false),
	)
	DescribeTable("has chunks for a dozen threads where sums are in parts", func(s conv.Spec) {
		target := isa.Target{Set: isa.AVX512}
		target.Caches[0].Bytes, target.Caches[1].Bytes = 48<<10, 2<<20
		s.N = 1
		p, err := conv.NewConv(target, s)
		Expect(err).NotTo(HaveOccurred())
		Expect(conv.Parts(p)).To(BeTrue())
		Expect(p.Chunks()).To(BeNumerically(">=", 12))
	},
		Entry("of few channel tiles", conv.Spec{C: 64, OC: 96, Map: conv.Map{H: 35, W: 35, Kernel: [2]int{3, 3}, Pad: [4]int{1, 1, 1, 1}}}),
		Entry("of few rows", conv.Spec{C: 192, OC: 192, Map: conv.Map{H: 17, W: 17, Kernel: [2]int{7, 1}, Pad: [4]int{3, 0, 3, 0}}}),
		Entry("of as many tiles", conv.Spec{C: 512, OC: 512, Map: conv.Map{H: 7, W: 7, Kernel: [2]int{3, 3}, Pad: [4]int{1, 1, 1, 1}}}),
	)
	DescribeTable("has no sums in parts with AVX-512 and a smaller one", hasParts(isa.AVX512, 48<<10, 1<<20),
		Entry("of any size", conv.Spec{C: 512, OC: 512, Map: conv.Map{H: 1, W: 3199, Kernel: [2]int{1, 3}, Stride: [2]int{1, 2}}}, false),
	)
	DescribeTable("has sums in parts with AVX2", hasParts(isa.AVX2, 32<<10, 512<<10),
		Entry("where neither the source nor the weights stay in the second cache", conv.Spec{C: 512, OC: 512, Map: conv.Map{H: 1, W: 3199, Kernel: [2]int{1, 3}, Stride: [2]int{1, 2}}}, true),
		Entry("where rows of the source do not stay beside the weights of a channel tile", conv.Spec{C: 128, OC: 256, Map: conv.Map{H: 112, W: 112, Kernel: [2]int{3, 3}, Stride: [2]int{2, 2}}}, true),
		Entry("where the weights of a channel tile are nearly as much as it", conv.Spec{C: 256, OC: 512, Map: conv.Map{H: 64, W: 64, Kernel: [2]int{5, 5}, Stride: [2]int{2, 2}}}, true),
		Entry("not where it holds both", conv.Spec{C: 256, OC: 512, Map: conv.Map{H: 28, W: 28, Kernel: [2]int{3, 3}, Pad: [4]int{1, 1, 1, 1}}}, false),
		Entry("not where it holds all weights", conv.Spec{C: 64, OC: 64, Map: conv.Map{H: 112, W: 112, Kernel: [2]int{3, 3}}}, false),
		Entry("not where it holds the source", conv.Spec{C: 512, OC: 512, Map: conv.Map{H: 7, W: 7, Kernel: [2]int{3, 3}, Pad: [4]int{1, 1, 1, 1}}}, false),
		Entry("not of groups", conv.Spec{C: 512, OC: 512, Groups: 2, Map: conv.Map{H: 1, W: 3199, Kernel: [2]int{1, 3}}}, false),
	)
	for _, y := range []pairs.Type{pairs.BFloat16, pairs.Float16} {
		onTargets(fmt.Sprintf("computes convolutions of %v", y), func(target isa.Target) {
			if !y.On(target) {
				Skip(fmt.Sprintf("%v has no kernels of %v", target, y))
			}
			fuzz(target, 50, 8, func(r *rand.Rand, s *conv.Spec) { s.Pairs = y })
			fuzz(target, 20, 9, func(r *rand.Rand, s *conv.Spec) { s.Pairs, s.Transposed = y, true })
			fuzz(target, 30, 10, func(r *rand.Rand, s *conv.Spec) {
				s.Pairs, s.Groups, s.Transposed = y, 2+r.IntN(4), r.IntN(4) == 0
				ic, oc := []int{1, 3, 4, 8, 16, 20, 32}[r.IntN(7)], []int{6, 12, 17, 48}[r.IntN(4)]
				s.C, s.OC = ic*s.Groups, oc*s.Groups
			})
		})
	}
	onTargets("computes convolutions of windows inside of their source by tiles", func(target isa.Target) {
		if !target.BFloat16Tiles() {
			Skip(fmt.Sprintf("%v has no tiles", target))
		}
		fuzz(target, 100, 12, func(r *rand.Rand, s *conv.Spec) {
			s.Pairs, s.C, s.OC = pairs.BFloat16, 1+r.IntN(300), 1+r.IntN(150)
			s.Map = randomMap(r, false)
			s.Pad = [4]int{}
			if r.IntN(4) == 0 {
				s.H, s.W, s.C = s.Kernel[0]+r.IntN(3), 60+r.IntN(300), 1+r.IntN(40)
			}
		})
		fuzz(target.WithoutTiles(), 40, 13, func(r *rand.Rand, s *conv.Spec) { s.Pairs = pairs.BFloat16 })
	})
	onTargets("computes convolutions of pixels by tiles", func(target isa.Target) {
		if !target.BFloat16Tiles() {
			Skip(fmt.Sprintf("%v has no tiles", target))
		}
		fuzz(target, 80, 11, func(r *rand.Rand, s *conv.Spec) {
			s.Pairs, s.Source, s.C, s.OC = pairs.BFloat16, conv.Pixels, 1+r.IntN(700), 1+r.IntN(200)
			s.Map = conv.Map{H: 1 + r.IntN(20), W: 1 + r.IntN(20), Kernel: [2]int{1, 1}}
		})
		_, err := conv.NewConv(target.WithoutTiles(), conv.Spec{N: 1, C: 16, OC: 16, Pairs: pairs.BFloat16, Source: conv.Pixels, Map: conv.Map{H: 3, W: 3, Kernel: [2]int{1, 1}}})
		Expect(err).To(MatchError(conv.ErrUnsupported))
	})
	onTargets("adds up in float16 within its roundings", func(target isa.Target) {
		for i, c := range []int{16, 100, 700} {
			s := conv.Spec{N: 1, C: c, OC: 20, Pairs: pairs.Float16, Map: conv.Map{H: 7, W: 9, Kernel: [2]int{1 + 2*(i%2), 1 + 2*(i%2)}}}
			Expect(checkConv(target, s, layoutCase{seed: uint64(i), bias: true, inexact: true})).To(Succeed())
		}
	})
	onTargets("computes convolutions of planar sources", func(target isa.Target) {
		fuzz(target, 60, 2, func(r *rand.Rand, s *conv.Spec) { s.Source, s.C = conv.Planar, 1+r.IntN(5) })
	})
	onTargets("computes rows of taps of planar sources, and taps of whole blocks of channels, in tiles of every number of pixels", func(target isa.Target) {
		seed := uint64(0)
		for _, kernel := range []int{2, 3, 5, 7, 16} {
			for width := 1; width <= 20; width++ {
				for _, c := range []int{1, 3, 16, 36} {
					seed++
					step := 1 + int(seed%2)
					s := conv.Spec{N: 1, C: c, OC: 20, Map: conv.Map{H: 5, W: step * width, Kernel: [2]int{kernel, kernel}, Stride: [2]int{step, step},
						Pad: [4]int{kernel / 2, kernel / 2, kernel / 2, kernel / 2}}}
					if c <= 3 {
						s.Source = conv.Planar
					}
					Expect(checkConv(target, s, layoutCase{seed: seed, front: seed%3 == 0, bias: true})).To(Succeed(), "%+v", s)
				}
			}
		}
	})
	onTargets("computes rows of taps of planar sources at every edge, into whole and half blocks", func(target isa.Target) {
		r := rand.New(rand.NewPCG(41, 42))
		for _, kernel := range []int{3, 5, 7} {
			for _, stride := range []int{1, 2} {
				for range testshare.Of(40) {
					pad := func() int { return r.IntN(kernel/2 + 1) }
					s := conv.Spec{N: 1 + r.IntN(2), C: 1 + r.IntN(4), OC: 8*(1+r.IntN(6)) - r.IntN(2)*r.IntN(8), Source: conv.Planar, Map: conv.Map{H: kernel + r.IntN(9), W: kernel + r.IntN(40),
						Kernel: [2]int{1 + r.IntN(kernel), kernel}, Stride: [2]int{1 + r.IntN(2), stride}, Dilate: [2]int{1 + r.IntN(2), 1}}}
					s.Pad = [4]int{pad(), pad(), pad(), pad()}
					if r.IntN(2) == 0 { // as most have it
						s.Kernel[0], s.Dilate[0], s.Pad = kernel, 1, [4]int{kernel / 2, kernel / 2, kernel / 2, kernel / 2}
					}
					if s.Dilate[0]*(s.Kernel[0]-1)+1 > s.H+s.Pad[0]+s.Pad[2] {
						s.Dilate[0] = 1
					}
					if s.Residual = r.IntN(4) == 0; r.IntN(2) == 0 {
						s.Lo, s.Hi = -0.5, 1
					}
					Expect(checkConv(target, s, layoutCase{seed: r.Uint64(), front: r.IntN(2) == 0, bias: r.IntN(3) > 0, post: r.IntN(8) == 0})).To(Succeed(), "%+v", s)
				}
			}
		}
	})
	onTargets("computes a single tap in tiles of every number of pixels", func(target isa.Target) {
		seed := uint64(0)
		for width := 1; width <= 30; width++ {
			for _, oc := range []int{7, 16, 32, 40, 80} {
				seed++
				step := 1 + int(seed%2)
				s := conv.Spec{N: 1, C: []int{5, 16, 36, 48}[seed%4], OC: oc, Map: conv.Map{H: 1 + 2*int(seed%3), W: step * width, Kernel: [2]int{1, 1}, Stride: [2]int{step, step}}}
				s.Lo, s.Hi, s.Residual = -1, 2, seed%5 == 0
				Expect(checkConv(target, s, layoutCase{seed: seed, front: seed%3 == 0, bias: true})).To(Succeed(), "%+v", s)
			}
		}
	})
	onTargets("computes depthwise convolutions", func(target isa.Target) {
		fuzz(target, 80, 3, func(r *rand.Rand, s *conv.Spec) { s.OC, s.Groups, s.Transposed = s.C, s.C, r.IntN(4) == 0 })
	})
	onTargets("computes depthwise rows of every width at every edge", func(target isa.Target) {
		seed := uint64(0)
		for _, kernel := range []int{3, 5, 7} {
			for _, stride := range []int{1, 2} {
				for _, ow := range []int{4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 28} {
					for left := range kernel/2 + 1 {
						for right := range kernel/2 + 1 {
							w := (ow-1)*stride + kernel - left - right
							seed++
							c := 5 + 16*int(seed%2)
							s := conv.Spec{N: 1, C: c, OC: c, Groups: c, Map: conv.Map{
								H: 2 + 2*kernel, W: w, Kernel: [2]int{kernel, kernel}, Stride: [2]int{stride, stride}, Pad: [4]int{1, left, 1, right}, Dilate: [2]int{1 + int(seed%3)/2, 1}}}
							if w < 1 {
								continue
							}
							Expect(checkConv(target, s, layoutCase{seed: seed, front: seed%2 == 0, bias: true})).To(Succeed(), "%+v", s)
						}
					}
				}
			}
		}
	})
	onTargets("computes rows of seven pixels, in pairs and at every edge", func(target isa.Target) {
		seed := uint64(0)
		for _, kernel := range []int{1, 3, 5} {
			for _, stride := range []int{1, 2} {
				for h := 2; h <= 5; h++ {
					for left := range kernel/2 + 1 {
						seed++
						s := conv.Spec{N: 1, C: 14 + int(seed%7), OC: 30 + int(seed%5), Epilogue: conv.Epilogue{Residual: seed%3 == 0}, Map: conv.Map{
							H: (h-1)*stride + 1, W: 6*stride + kernel - 2*left, Kernel: [2]int{kernel, kernel}, Stride: [2]int{stride, stride},
							Pad: [4]int{kernel / 2, left, kernel / 2, left}}}
						Expect(checkConv(target, s, layoutCase{seed: seed, front: seed%2 == 0, bias: true})).To(Succeed(), "%+v", s)
					}
				}
			}
		}
	})
	onTargets("computes convolutions with a single tap", func(target isa.Target) {
		r := rand.New(rand.NewPCG(11, 2))
		for i := range testshare.Of(120) {
			lim, groups := limits[r.IntN(len(limits))], 1+i%8/7
			s := conv.Spec{N: 1 + i%2, C: 1 + r.IntN(90), OC: 1 + r.IntN(70), Epilogue: conv.Epilogue{Lo: lim[0], Hi: lim[1], Residual: r.IntN(3) == 0},
				Map: conv.Map{H: 1 + r.IntN(9), W: 1 + r.IntN(70), Kernel: [2]int{1, 1}, Stride: [2]int{1 + i%3/2, 1 + i%5/4}}}
			if groups > 1 {
				s.Groups, s.C, s.OC = groups, 16*groups*(1+s.C/32), 16*groups*(1+s.OC/32)
			}
			l := layoutCase{seed: r.Uint64(), front: r.IntN(2) == 0, slice: r.IntN(4) == 0, bias: r.IntN(2) == 0, post: r.IntN(8) == 0}
			Expect(checkConv(target, s, l)).To(Succeed(), "%+v %+v", s, l)
		}
	})
	onTargets("computes grouped convolutions", func(target isa.Target) {
		fuzz(target, 80, 4, func(r *rand.Rand, s *conv.Spec) {
			s.Groups = 1 + r.IntN(6)
			ic, oc := []int{1, 3, 4, 8, 16, 20, 24, 32, 40}[r.IntN(9)], []int{1, 2, 4, 8, 16, 17, 24, 40, 48}[r.IntN(9)]
			s.C, s.OC = ic*s.Groups, oc*s.Groups
		})
	})
	onTargets("computes rows in parts where groups that fill no blocks have many channels", func(target isa.Target) {
		s := conv.Spec{C: 600, OC: 16, Groups: 2, N: 1, Map: conv.Map{H: 2, W: 61, Kernel: [2]int{7, 7}, Pad: [4]int{3, 3, 3, 3}}}
		Expect(checkConv(target, s, layoutCase{seed: 1, bias: true})).To(Succeed())
		s.Transposed, s.Stride = true, [2]int{2, 2}
		Expect(checkConv(target, s, layoutCase{seed: 2, bias: true})).To(Succeed())
	})
	onTargets("computes convolutions of groups of a few channels", func(target isa.Target) {
		fuzz(target, 90, 7, func(r *rand.Rand, s *conv.Spec) {
			s.Groups = 1 + r.IntN(20)
			s.C = s.Groups * []int{2, 4, 8}[r.IntN(3)]
			s.OC = s.C
		})
	})
	onTargets("computes transposed convolutions", func(target isa.Target) {
		fuzz(target, 80, 5, func(r *rand.Rand, s *conv.Spec) { s.Transposed = true })
	})
	onTargets("computes transposed convolutions with groups", func(target isa.Target) {
		fuzz(target, 40, 6, func(r *rand.Rand, s *conv.Spec) {
			s.Transposed, s.Groups = true, 1+r.IntN(4)
			s.C, s.OC = s.Groups*(1+r.IntN(20)), s.Groups*(1+r.IntN(20))
		})
	})
	onTargets("cuts a single long row for several threads", func(target isa.Target) {
		for _, s := range []conv.Spec{
			{N: 1, C: 128, OC: 128, Map: conv.Map{H: 1, W: 1600, Kernel: [2]int{1, 3}, Pad: [4]int{0, 1, 0, 1}}},
			{N: 1, C: 32, OC: 64, Transposed: true, Map: conv.Map{H: 1, W: 800, Kernel: [2]int{1, 4}, Stride: [2]int{1, 2}, Pad: [4]int{0, 1, 0, 1}}},
		} {
			p, err := conv.NewConv(target, s)
			Expect(err).NotTo(HaveOccurred())
			Expect(p.Chunks()).To(BeNumerically(">=", 4), "%+v", s)
		}
	})
	onTargets("cuts what is too long for one call along the input channels", func(target isa.Target) {
		s := conv.Spec{N: 1, C: 1800, OC: 33, Map: conv.Map{H: 5, W: 7, Kernel: [2]int{3, 3}, Pad: [4]int{1, 1, 1, 1}}}
		s.Lo, s.Hi, s.Residual = -20, 1000, true
		Expect(checkConv(target, s, layoutCase{seed: 9, bias: true})).To(Succeed())
		for _, y := range []pairs.Type{pairs.BFloat16, pairs.Float16} {
			if y == pairs.Float16 && !target.Float16() {
				continue // in float32, one product behind the other, 36,000 are beyond the tolerance
			}
			s.C, s.Pairs = 4000, y
			Expect(checkConv(target, s, layoutCase{seed: 10, bias: true})).To(Succeed())
		}
	})

	onTargets("adds what lies in the place of the results, where the input channels are cut too", func(target isa.Target) {
		r := rand.New(rand.NewPCG(13, 8))
		for range 3 {
			s := conv.Spec{N: 1, C: 900 + r.IntN(50), OC: 17 + r.IntN(30), Map: conv.Map{H: 4, W: 63, Kernel: [2]int{3, 3}, Pad: [4]int{1, 1, 1, 1}}}
			s.Residual = true
			p, err := conv.NewConv(target, s)
			Expect(err).NotTo(HaveOccurred())
			_, _, oh, ow := p.Shape()
			size := (s.OC + 15) / 16 * 16 * oh * ow
			t := conv.Tensors{Src: randomFloats((s.C + 15) / 16 * 16 * s.H * s.W), Weights: randomFloats(p.WeightFloats()), Residual: randomFloats(size), Dst: make([]float32, size)}
			Expect(p.Run(0, p.Chunks(), &t)).To(Succeed())
			want := t.Dst
			t.Dst = t.Residual
			Expect(p.Run(0, p.Chunks(), &t)).To(Succeed())
			tolerance := 0.0
			if target.Set == isa.Portable { // sums of few results have several parts, which end where channels are cut
				tolerance = 1e-3
			}
			for i := range want {
				if math.Abs(float64(t.Dst[i]-want[i])) > tolerance {
					Fail(fmt.Sprintf("%v for %v at %d, %+v", t.Dst[i], want[i], i, s))
				}
			}
		}
	})

	onTargets("computes single taps on maps of any size, with whatever comes behind sums", func(target isa.Target) {
		for i := range testshare.Of(40) {
			r := rand.New(rand.NewPCG(23, uint64(i)))
			s := conv.Spec{N: 1 + r.IntN(2), C: 1 + r.IntN(70), OC: 1 + r.IntN(70), Map: conv.Map{H: 1 + r.IntN(9), W: 1 + r.IntN(25), Kernel: [2]int{1, 1}}}
			switch r.IntN(4) {
			case 0:
				s.Lo, s.Hi = 0, float32(math.Inf(1))
			case 1:
				s.Lo, s.Hi = -0.5, 6
			case 2:
				s.Lo, s.Hi = float32(math.Inf(-1)), 1
			}
			s.Residual = r.IntN(4) == 0
			if r.IntN(4) == 0 { // pixels that do not lie beside each other
				s.Stride = [2]int{1 + r.IntN(2), 1 + r.IntN(2)}
			}
			Expect(checkConv(target, s, layoutCase{seed: uint64(i), front: r.IntN(2) == 0, slice: r.IntN(3) == 0, bias: r.IntN(2) == 0, post: r.IntN(6) == 0})).To(Succeed(), "%+v", s)
		}
	})

	onTargets("gives the same bits however chunks are cut, on small maps with a single tap", func(target isa.Target) {
		for i := range testshare.Of(12) {
			r := rand.New(rand.NewPCG(17, uint64(i)))
			s := conv.Spec{N: 1 + r.IntN(2), C: 1 + r.IntN(700), OC: 1 + r.IntN(700), Map: conv.Map{H: 1 + r.IntN(9), W: 1 + r.IntN(9), Kernel: [2]int{1, 1}}}
			p, err := conv.NewConv(target, s)
			Expect(err).NotTo(HaveOccurred())
			n, _, oh, ow := p.Shape()
			t := conv.Tensors{Src: randomFloats(n * ((s.C + 15) / 16 * 16 * s.H * s.W)), Weights: randomFloats(p.WeightFloats()), Dst: make([]float32, n*((s.OC+15)/16*16*oh*ow))}
			Expect(p.Run(0, p.Chunks(), &t)).To(Succeed())
			want := t.Dst
			t.Dst = make([]float32, len(want))
			for at := 0; at < p.Chunks(); {
				until := min(at+1+r.IntN(3), p.Chunks())
				Expect(p.Run(at, until, &t)).To(Succeed())
				at = until
			}
			Expect(slices.Equal(t.Dst, want)).To(BeTrue(), "%+v", s)
		}
	})
})
