package conv_test

import (
	"math/rand/v2"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/kernel/conv"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/testshare"
)

// apart are the two convolutions of a pair.
type apart struct {
	point, depth *conv.Plan
	x, y         conv.Tensors
}

// newApart plans the convolutions of a pair for the same operands; results lie in memory of their own.
func newApart(target isa.Target, s *conv.PairSpec, t *conv.PairTensors) (*apart, error) {
	point, err := conv.NewConv(target, s.Point)
	if err != nil {
		return nil, err
	}
	depth, err := conv.NewConv(target, s.Depth)
	if err != nil {
		return nil, err
	}
	n, oc, h, w := point.Shape()
	between := make([]float32, n*((oc+15)/16*16)*h*w)
	return &apart{point, depth,
		conv.Tensors{Src: t.Src, Weights: t.PointWeights, Bias: t.PointBias, Dst: between},
		conv.Tensors{Src: between, Weights: t.DepthWeights, Bias: t.DepthBias, Dst: make([]float32, len(t.Dst))}}, nil
}

func (a *apart) run() error {
	if err := a.point.Run(0, a.point.Chunks(), &a.x); err != nil {
		return err
	}
	return a.depth.Run(0, a.depth.Chunks(), &a.y)
}

// pairTensors returns operands for a pair, in memory without guards, and scratch memory.
func pairTensors(p *conv.Pair, s *conv.PairSpec) (*conv.PairTensors, []float32) {
	n, _, oh, ow := p.Shape()
	up := func(c int) int { return (c + 15) / 16 * 16 }
	a, b := p.WeightFloats()
	return &conv.PairTensors{Src: randomFloats(n * up(s.Point.C) * s.Point.H * s.Point.W), PointWeights: randomFloats(a), PointBias: randomFloats(up(s.Point.OC)),
		DepthWeights: randomFloats(b), DepthBias: randomFloats(up(s.Point.OC)), Dst: make([]float32, n*up(s.Point.OC)*oh*ow)}, make([]float32, p.Workspace())
}

// randomPair returns a pair of random sizes, mostly of several bands, with windows that reach past every edge or miss some.
func randomPair(r *rand.Rand) conv.PairSpec {
	var s conv.PairSpec
	h, w := 1+r.IntN(60), 1+r.IntN(130)
	c, oc := 1+r.IntN(70), 2+r.IntN(70)
	if oc%16 == 1 {
		oc++
	}
	n := 1 + r.IntN(2)
	limits := func() (e conv.Epilogue) {
		switch r.IntN(3) {
		case 0:
			e.Lo, e.Hi = 0, 6
		case 1:
			e.Post = func(tile []float32, _ int) { squarePlusBlock(tile, 0) }
		}
		return e
	}
	s.Point = conv.Spec{N: n, C: c, OC: oc, Map: conv.Map{H: h, W: w, Kernel: [2]int{1, 1}}, Epilogue: limits()}
	s.Depth = conv.Spec{N: n, C: oc, OC: oc, Groups: oc, Map: conv.Map{H: h, W: w}, Epilogue: limits()}
	for i := range 2 {
		s.Depth.Kernel[i], s.Depth.Stride[i], s.Depth.Dilate[i] = 1+r.IntN(5), 1+r.IntN(3), 1+r.IntN(2)
		s.Depth.Pad[i], s.Depth.Pad[i+2] = r.IntN(5)-1, r.IntN(5)-1
	}
	if r.IntN(2) == 0 {
		k := 3 + 2*r.IntN(2)
		s.Depth.Kernel, s.Depth.Dilate, s.Depth.Pad = [2]int{k, k}, [2]int{1, 1}, [4]int{k / 2, k / 2, k / 2, k / 2}
	}
	return s
}

// checkPair compares a pair with its convolutions apart, bit by bit, on buffers between guard pages, whole and cut into chunks.
func checkPair(target isa.Target, s conv.PairSpec, r *rand.Rand) {
	GinkgoHelper()
	p, err := conv.NewPair(target, s)
	Expect(err).NotTo(HaveOccurred(), "%+v", s)
	t, _ := pairTensors(p, &s)
	if r.IntN(3) == 0 {
		t.PointBias, t.DepthBias = nil, nil
	}
	front := r.IntN(2) == 0
	for _, x := range []*[]float32{&t.Src, &t.PointWeights, &t.PointBias, &t.DepthWeights, &t.DepthBias, &t.Dst} {
		if *x == nil {
			continue
		}
		b, free := guarded(len(*x), front)
		copy(b, *x)
		*x = b
		defer free()
	}
	work, free := guarded(p.Workspace(), front)
	defer free()
	clearBehind(t, &s)
	two, err := newApart(target, &s, t)
	Expect(err).NotTo(HaveOccurred())
	Expect(two.run()).To(Succeed())
	fill(t.Dst)
	Expect(p.Run(0, p.Chunks(), work, t)).To(Succeed())
	Expect(bitEqual(two.y.Dst, t.Dst)).To(Succeed(), "%+v", s)
	fill(t.Dst)
	for _, i := range r.Perm(p.Chunks()) {
		fill(work)
		Expect(p.Run(i, i+1, work, t)).To(Succeed())
	}
	Expect(bitEqual(two.y.Dst, t.Dst)).To(Succeed(), "chunk by chunk, %+v", s)
}

// clearBehind makes zeros of what lies behind the last channels, as in every tensor of such layouts.
func clearBehind(t *conv.PairTensors, s *conv.PairSpec) {
	lanes := func(x []float32, channels, pixels int) {
		if channels%16 == 0 {
			return
		}
		image := (channels + 15) / 16 * 16 * pixels
		for ; len(x) >= image && image > 0; x = x[image:] {
			conv.ClearLanes(x[image-16*pixels:image], channels%16)
		}
	}
	lanes(t.Src, s.Point.C, s.Point.H*s.Point.W)
	lanes(t.PointBias, s.Point.OC, 1)
	lanes(t.DepthBias, s.Point.OC, 1)
	lanes(t.DepthWeights, s.Point.OC, s.Depth.Kernel[0]*s.Depth.Kernel[1])
}

var _ = Describe("pairs of a convolution with a single tap and a depthwise one", func() {
	onTargets("have the bits of the two apart", func(target isa.Target) {
		count := testshare.Of(200)
		if target.Set == isa.Portable {
			count = 8
		}
		r := rand.New(rand.NewPCG(5, 6))
		for done := 0; done < count; {
			s := randomPair(r)
			if _, err := conv.NewConv(target, s.Depth); err != nil { // no window fits
				continue
			}
			checkPair(target, s, r)
			done++
		}
	})

	onTargets("go through maps in bands", func(target isa.Target) {
		r := rand.New(rand.NewPCG(7, 8))
		for _, row := range []pairRow{{2, 24, 40, 112, 3, 2}, {1, 40, 24, 120, 5, 1}, {1, 8, 32, 300, 3, 1}} {
			checkPair(target, row.spec(), r)
		}
	})

	onTargets("say what they are not for", func(target isa.Target) {
		good := func() conv.PairSpec { return pairRow{1, 20, 40, 9, 3, 1}.spec() }
		for _, change := range []func(s *conv.PairSpec){
			func(s *conv.PairSpec) { s.Point.Stride = [2]int{2, 2} },
			func(s *conv.PairSpec) { s.Point.Residual = true },
			func(s *conv.PairSpec) { s.Depth.Residual = true },
			func(s *conv.PairSpec) { s.Depth.Groups = 1 },
			func(s *conv.PairSpec) { s.Point.OC, s.Depth.C, s.Depth.OC, s.Depth.Groups = 33, 33, 33, 33 },
		} {
			s := good()
			change(&s)
			_, err := conv.NewPair(target, s)
			Expect(err).To(MatchError(conv.ErrUnsupported))
		}
		s := good()
		s.Depth.H = 10
		_, err := conv.NewPair(target, s)
		Expect(err).To(MatchError(conv.ErrShape))
		s = good()
		p, err := conv.NewPair(target, s)
		Expect(err).NotTo(HaveOccurred())
		t, work := pairTensors(p, &s)
		Expect(p.Run(0, p.Chunks()+1, work, t)).To(MatchError(conv.ErrShape))
		Expect(p.Run(0, 1, work[1:], t)).To(MatchError(conv.ErrBuffer))
		t.Src = t.Src[1:]
		Expect(p.Run(0, 1, work, t)).To(MatchError(conv.ErrBuffer))
	})
})
