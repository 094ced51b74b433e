package winograd_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/kernel/conv"
	"github.com/carve-dev/carve/internal/kernel/guard"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/winograd"
)

// example is a convolution on random operands between guard pages.
type example struct {
	s       conv.Spec
	p       *winograd.Plan
	t       conv.Tensors
	work    []float32
	weights []float32 // as the model has them
	buffers []*guard.Buffer
	r       *rand.Rand
}

func blocked(c int) int { return (c + 15) / 16 * 16 }

// newExample plans F(m) of a spec and fills operands with normal deviates.
func newExample(target isa.Target, m int, s conv.Spec, bias bool, seed uint64) (*example, error) {
	p, err := winograd.NewPlan(target, m, s, 1)
	if err != nil {
		return nil, err
	}
	e := &example{s: s, p: p, r: rand.New(rand.NewPCG(seed, 5))}
	_, _, e.s.OH, e.s.OW = p.Shape()
	dst := blocked(s.OC) * e.s.OH * e.s.OW
	alloc := func(n int) []float32 {
		b, err := guard.New(n, guard.Side(seed%2))
		Expect(err).NotTo(HaveOccurred())
		e.buffers = append(e.buffers, b)
		return b.Data
	}
	distance := func(given, compact int) int { return max(given, compact) * (s.N - 1) }
	e.t.Src = alloc(distance(s.SrcImage, blocked(s.C)*s.H*s.W) + blocked(s.C)*s.H*s.W)
	e.t.Dst = alloc(distance(s.DstImage, dst) + dst)
	if s.Residual {
		e.t.Residual = alloc(distance(s.ResImage, dst) + dst)
	}
	e.t.Weights, e.work, e.weights = alloc(p.WeightFloats()), alloc(p.Workspace()), alloc(9*s.C*s.OC)
	for i := range e.weights {
		e.weights[i] = float32(e.r.NormFloat64())
	}
	if bias {
		e.t.Bias = alloc(p.BiasFloats())
		clear(e.t.Bias)
		e.random(e.t.Bias[:s.OC])
	}
	e.lanes(e.t.Src, s.C, s.H*s.W, s.SrcImage)
	e.lanes(e.t.Residual, s.OC, e.s.OH*e.s.OW, s.ResImage)
	w, err := winograd.NewWeights(target, m, s.OC, s.C)
	if err != nil {
		return nil, err
	}
	for i := w.Chunks() - 1; i >= 0; i-- {
		if err := w.Pack(e.t.Weights, conv.Float32s(e.weights), i, i+1); err != nil {
			return nil, err
		}
	}
	return e, nil
}

func (e *example) random(x []float32) {
	for i := range x {
		x[i] = float32(e.r.NormFloat64())
	}
}

// lanes fills blocked images of c channels, with zeros in lanes that have none.
func (e *example) lanes(x []float32, c, pixels, image int) {
	size := blocked(c) * pixels
	for at := 0; at < len(x); at += max(image, size) {
		one := x[at : at+size]
		for i := range one {
			if one[i] = 0; i/(16*pixels)*16+i%16 < c {
				one[i] = float32(e.r.NormFloat64())
			}
		}
	}
}

// source returns a source pixel, zero outside of the map.
func (e *example) source(n, c, y, x int) float64 {
	if y < 0 || x < 0 || y >= e.s.H || x >= e.s.W {
		return 0
	}
	return float64(e.t.Src[n*e.s.SrcImage+((c/16*e.s.H+y)*e.s.W+x)*16+c%16])
}

func (e *example) weight(oc, c, k int) float64 { return float64(e.weights[(oc*e.s.C+c)*9+k]) }

// finish is the definition of the epilogue.
func (e *example) finish(v float64, res float32, bias float64, oc int) float64 {
	v += bias
	if e.s.Residual {
		v += float64(res)
	}
	if e.s.Lo != 0 || e.s.Hi != 0 {
		v = math.Min(math.Max(v, float64(e.s.Lo)), float64(e.s.Hi))
	}
	if e.s.Post != nil {
		v = v*v + float64(1+oc/16)
	}
	return v
}

// verify compares the result with the definition and the bound of the error.
func (e *example) verify(m int) error {
	s := &e.s
	ocs := []int{0, s.OC - 1, e.r.IntN(s.OC)}
	for n := range s.N {
		for y0 := 0; y0 < s.OH; y0 += m {
			for x0 := 0; x0 < s.OW; x0 += m {
				oc := ocs[e.r.IntN(len(ocs))]
				if err := e.verifyTile(m, n, oc, y0, x0); err != nil {
					return err
				}
			}
		}
		for oc := s.OC; oc < blocked(s.OC); oc++ {
			for i := range s.OH * s.OW {
				if v := e.t.Dst[n*s.DstImage+(oc/16*s.OH*s.OW+i)*16+oc%16]; v != 0 {
					return fmt.Errorf("lane of missing channel %d at %d is %g", oc, i, v)
				}
			}
		}
	}
	return nil
}

func (e *example) verifyTile(m, n, oc, y0, x0 int) error {
	s, side := &e.s, m+2
	d, g := make([][]float64, s.C), make([][]float64, s.C)
	sums := make([]float64, m*m)
	for c := range s.C {
		for i := range side * side {
			d[c] = append(d[c], e.source(n, c, y0+i/side-s.Pad[0], x0+i%side-s.Pad[1]))
		}
		for k := range 9 {
			g[c] = append(g[c], e.weight(oc, c, k))
			for i := range sums {
				sums[i] += d[c][(i/m+k/3)*side+i%m+k%3] * g[c][k]
			}
		}
	}
	bound := winograd.Bound(m, d, g)
	for i, sum := range sums {
		y, x := y0+i/m, x0+i%m
		if y >= s.OH || x >= s.OW {
			continue
		}
		at := ((oc/16*s.OH+y)*s.OW+x)*16 + oc%16
		var res float32
		if s.Residual {
			res = e.t.Residual[n*s.ResImage+at]
		}
		bias := 0.0
		if e.t.Bias != nil {
			bias = float64(e.t.Bias[oc])
		}
		got, want := float64(e.t.Dst[n*s.DstImage+at]), e.finish(sum, res, bias, oc)
		most := bound[i] + 3e-7*(math.Abs(sum)+math.Abs(bias)+math.Abs(float64(res)))
		if s.Post != nil {
			most *= 2*math.Sqrt(want-1) + 1
			most += 1e-6 * want
		}
		if !(math.Abs(got-want) <= most) {
			return fmt.Errorf("image %d, channel %d, pixel %d,%d: %g, want %g within %g", n, oc, y, x, got, want, most)
		}
	}
	return nil
}

func (e *example) run() error {
	for i := range e.t.Dst {
		e.t.Dst[i] = 12345
	}
	return e.p.Run(0, e.p.Chunks(), e.work, &e.t)
}

// sameInChunks runs chunk by chunk in a random order and compares with the result of the whole.
func (e *example) sameInChunks() error {
	whole := append([]float32(nil), e.t.Dst...)
	for i := range e.t.Dst {
		e.t.Dst[i] = 54321
	}
	for _, i := range e.r.Perm(e.p.Chunks()) {
		if err := e.p.Run(i, i+1, e.work, &e.t); err != nil {
			return err
		}
	}
	return e.same(whole, true)
}

// sameForThreads runs a plan for several threads and compares with the result of the one for one.
func (e *example) sameForThreads(target isa.Target, m, threads int) error {
	p, err := winograd.NewPlan(target, m, e.s, threads)
	if err != nil {
		return err
	}
	whole := append([]float32(nil), e.t.Dst...)
	for i := range e.t.Dst {
		e.t.Dst[i] = 54321
	}
	work, err := guard.New(p.Workspace(), guard.Side(threads%2))
	if err != nil {
		return err
	}
	for i := range p.Chunks() {
		if err := p.Run(i, i+1, work.Data, &e.t); err != nil {
			return err
		}
	}
	return errors.Join(e.same(whole, false), work.Check(), work.Free())
}

// same compares bits with another result. Between images lies what was there before, where gaps is set.
func (e *example) same(want []float32, gaps bool) error {
	size := blocked(e.s.OC) * e.s.OH * e.s.OW
	for i, v := range want {
		between := i%max(e.s.DstImage, size) >= size
		if between && gaps && (v != 12345 || e.t.Dst[i] != 54321) {
			return fmt.Errorf("float %d between images was written", i)
		}
		if !between && math.Float32bits(v) != math.Float32bits(e.t.Dst[i]) {
			return fmt.Errorf("float %d is %g and %g", i, v, e.t.Dst[i])
		}
	}
	return nil
}

func (e *example) free() error {
	var errs []error
	for _, b := range e.buffers {
		errs = append(errs, b.Check(), b.Free())
	}
	return errors.Join(errs...)
}

func squarePlusBlock(run []float32, block int) {
	for i, v := range run {
		run[i] = v*v + float32(1+block)
	}
}

// randomSpec returns a spec of maps of up to 30 pixels, with any padding and epilogue.
func randomSpec(r *rand.Rand) conv.Spec {
	s := conv.Spec{N: 1 + r.IntN(2), C: 1 + r.IntN(50), OC: 1 + r.IntN(90),
		Map: conv.Map{H: 1 + r.IntN(30), W: 1 + r.IntN(30), Kernel: [2]int{3, 3}, Pad: [4]int{1, 1, 1, 1}}}
	if r.IntN(6) == 0 {
		s.H, s.W = 2+r.IntN(3), 200+r.IntN(200)
	}
	if r.IntN(3) == 0 {
		for i := range s.Pad {
			s.Pad[i] = r.IntN(9) - 1
		}
	}
	s.Residual = r.IntN(3) == 0
	limits := [][2]float32{{0, 0}, {0, float32(math.Inf(1))}, {-0.5, 0.75}, {0.25, 2}, {float32(math.Inf(-1)), 0.5}}
	l := limits[r.IntN(len(limits))]
	s.Lo, s.Hi = l[0], l[1]
	if r.IntN(6) == 0 {
		s.Post = squarePlusBlock
	}
	return s
}

// spread puts room between images.
func spread(s *conv.Spec, r *rand.Rand) error {
	p, err := conv.NewConv(isa.Target{}, *s)
	if err != nil {
		return err
	}
	_, _, oh, ow := p.Shape()
	s.SrcImage, s.DstImage, s.ResImage = blocked(s.C)*s.H*s.W, blocked(s.OC)*oh*ow, blocked(s.OC)*oh*ow
	if r.IntN(3) == 0 {
		s.SrcImage, s.DstImage, s.ResImage = s.SrcImage+160, s.DstImage+320, s.ResImage+16
	}
	return nil
}

var _ = Describe("Plan", func() {
	for _, target := range isa.Targets() {
		for _, m := range []int{winograd.F2, winograd.F4} {
			It(fmt.Sprintf("computes convolutions by F(%d) within the bound of the error, the same bits however they are cut (%v)", m, target), func() {
				r := rand.New(rand.NewPCG(uint64(m), 1))
				count := 120
				if target.Set == isa.Portable {
					count = 30
				}
				for done := 0; done < count; {
					s := randomSpec(r)
					if err := spread(&s, r); err != nil { // an empty destination
						continue
					}
					e, err := newExample(target, m, s, r.IntN(2) == 0, uint64(done))
					Expect(err).NotTo(HaveOccurred())
					Expect(e.run()).To(Succeed())
					what := fmt.Sprintf("%+v", s.Map)
					Expect(e.verify(m)).To(Succeed(), what)
					Expect(e.sameInChunks()).To(Succeed(), what)
					Expect(e.sameForThreads(target, m, 2+r.IntN(30))).To(Succeed(), what)
					Expect(e.free()).To(Succeed(), what)
					done++
				}
			})
		}
	}

	It("gives the same bits with every set of vectors", func() {
		for seed := range uint64(20) {
			r := rand.New(rand.NewPCG(seed, 9))
			s := randomSpec(r)
			if spread(&s, r) != nil {
				continue
			}
			var first []float32
			for _, target := range isa.Targets()[1:] {
				e, err := newExample(target, []int{2, 4}[seed%2], s, true, seed)
				Expect(err).NotTo(HaveOccurred())
				Expect(e.run()).To(Succeed())
				if first == nil {
					first = append(first, e.t.Dst...)
				}
				Expect(e.same(first, false)).To(Succeed())
				Expect(e.free()).To(Succeed())
			}
		}
	})

	DescribeTable("has chunks for all threads, and no more of them than it needs for caches otherwise", func(c, size, threads, chunks int) {
		target := isa.Target{}
		target.Caches[1].Bytes = 2 << 20
		p, err := winograd.NewPlan(target, winograd.F4, conv.Spec{N: 1, C: c, OC: c, Map: conv.Map{H: size, W: size, Kernel: [2]int{3, 3}, Pad: [4]int{1, 1, 1, 1}}}, threads)
		Expect(err).NotTo(HaveOccurred())
		Expect(p.Chunks()).To(Equal(chunks))
	},
		Entry("one thread", 64, 56, 1, 3), Entry("tiles in as many blocks as threads", 64, 56, 2, 4), Entry("tiles and channels", 64, 56, 16, 14),
		Entry("two groups of channels, which two threads share", 256, 14, 2, 2), Entry("channels", 256, 14, 16, 16), Entry("blocks of tiles and all channels", 128, 28, 16, 16))

	It("writes over its residual, and allocates nothing", func() {
		s := conv.Spec{N: 1, C: 64, OC: 80, Map: conv.Map{H: 28, W: 28, Kernel: [2]int{3, 3}, Pad: [4]int{1, 1, 1, 1}}, Epilogue: conv.Epilogue{Residual: true}}
		e, err := newExample(isa.Host(), winograd.F4, s, true, 1)
		Expect(err).NotTo(HaveOccurred())
		Expect(e.run()).To(Succeed())
		want := append([]float32(nil), e.t.Dst...)
		copy(e.t.Dst, e.t.Residual)
		e.t.Residual = e.t.Dst
		Expect(e.p.Run(0, e.p.Chunks(), e.work, &e.t)).To(Succeed())
		Expect(e.same(want, false)).To(Succeed())
		Expect(testing.AllocsPerRun(3, func() { _ = e.p.Run(0, e.p.Chunks(), e.work, &e.t) })).To(BeZero())
		Expect(e.free()).To(Succeed())
	})

	It("keeps NaN through limits", func() {
		for _, target := range isa.Targets() {
			s := conv.Spec{N: 1, C: 16, OC: 16, Map: conv.Map{H: 16, W: 16, Kernel: [2]int{3, 3}, Pad: [4]int{1, 1, 1, 1}}, Epilogue: conv.Epilogue{Lo: 0, Hi: 6}}
			e, err := newExample(target, winograd.F4, s, false, 1)
			Expect(err).NotTo(HaveOccurred())
			e.t.Src[16*(16*5+5)] = float32(math.NaN())
			Expect(e.run()).To(Succeed())
			Expect(math.IsNaN(float64(e.t.Dst[16*(16*5+5)]))).To(BeTrue())
			Expect(e.t.Dst[16*(16*10+10)]).To(And(BeNumerically(">=", 0), BeNumerically("<=", 6)))
			Expect(e.free()).To(Succeed())
		}
	})

	It("are chosen on small maps too, where products read weights as fast as they come", func() {
		for _, target := range isa.Targets() {
			if target.Set != isa.AVX2 {
				continue
			}
			for _, r := range []struct{ channels, side, m int }{
				{64, 56, winograd.F4}, {256, 20, winograd.F4}, {64, 20, winograd.F4}, {256, 14, winograd.F2}, {512, 10, winograd.F2}, {384, 8, winograd.F2},
				{512, 7, winograd.F2}, {1024, 16, winograd.F2}, {64, 7, 0}, {512, 4, 0},
			} {
				s := conv.Spec{N: 1, C: r.channels, OC: r.channels, Map: conv.Map{H: r.side, W: r.side, Kernel: [2]int{3, 3}, Pad: [4]int{1, 1, 1, 1}}}
				Expect(winograd.Best(target, s)).To(Equal(r.m), "%d channels of %d", r.channels, r.side)
			}
		}
	})

	It("turns down what does not fit, and buffers that are too short", func() {
		fits := conv.Spec{N: 1, C: 16, OC: 16, Map: conv.Map{H: 8, W: 8, Kernel: [2]int{3, 3}}}
		for _, change := range []func(s *conv.Spec){
			func(s *conv.Spec) { s.Kernel[0] = 1 }, func(s *conv.Spec) { s.Stride[1] = 2 }, func(s *conv.Spec) { s.Dilate[0] = 2 },
			func(s *conv.Spec) { s.Groups = 4 }, func(s *conv.Spec) { s.Transposed = true }, func(s *conv.Spec) { s.Source = conv.Planar },
		} {
			s := fits
			change(&s)
			_, err := winograd.NewPlan(isa.Host(), winograd.F2, s, 1)
			Expect(err).To(MatchError(conv.ErrUnsupported))
			Expect(winograd.Best(isa.Host(), s)).To(BeZero())
		}
		_, err := winograd.NewPlan(isa.Host(), 3, fits, 1)
		Expect(err).To(MatchError(conv.ErrShape))
		p, err := winograd.NewPlan(isa.Host(), winograd.F2, fits, 1)
		Expect(err).NotTo(HaveOccurred())
		t := conv.Tensors{Src: make([]float32, 1024), Dst: make([]float32, 576), Weights: make([]float32, p.WeightFloats())}
		work := make([]float32, p.Workspace())
		Expect(p.Run(0, p.Chunks(), work, &t)).To(Succeed())
		Expect(p.Run(0, p.Chunks()+1, work, &t)).To(MatchError(conv.ErrShape))
		Expect(p.Run(0, p.Chunks(), work[1:], &t)).To(MatchError(conv.ErrBuffer))
		t.Dst = t.Dst[1:]
		Expect(p.Run(0, p.Chunks(), work, &t)).To(MatchError(conv.ErrBuffer))
	})
})

var _ = Describe("Weights", func() {
	It("come back from their transform", func() {
		for _, m := range []int{winograd.F2, winograd.F4} {
			w, err := winograd.NewWeights(isa.Host(), m, 19, 5)
			Expect(err).NotTo(HaveOccurred())
			r := rand.New(rand.NewPCG(1, 2))
			weights, back := make([]float32, 9*19*5), make([]float32, 9*19*5)
			for i := range weights {
				weights[i] = float32(r.NormFloat64())
			}
			packed := make([]float32, w.Floats())
			Expect(w.Pack(packed, conv.Float32s(weights), 0, w.Chunks())).To(Succeed())
			Expect(w.Unpack(conv.Float32s(back), packed, 0, w.Chunks())).To(Succeed())
			for i, v := range weights {
				Expect(back[i]).To(BeNumerically("~", v, 1e-6), "F(%d), weight %d", m, i)
			}
			Expect(w.Pack(packed, conv.Float32s(weights), 0, w.Chunks()+1)).To(MatchError(conv.ErrShape))
			Expect(w.Pack(packed[1:], conv.Float32s(weights), 0, 1)).To(MatchError(conv.ErrBuffer))
			Expect(w.Unpack(conv.Float32s(back)[1:], packed, 0, 1)).To(MatchError(conv.ErrBuffer))
		}
		_, err := winograd.NewWeights(isa.Host(), winograd.F4, 1<<40, 1<<40)
		Expect(err).To(MatchError(conv.ErrShape))
	})
})
