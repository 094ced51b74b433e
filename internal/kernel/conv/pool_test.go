package conv_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/kernel/conv"
	"github.com/carve-dev/carve/internal/kernel/isa"
)

// checkPool compares a pool with the definition.
func checkPool(target isa.Target, s conv.PoolSpec, seed uint64, front, slice bool) error {
	r := rand.New(rand.NewPCG(seed, 1))
	p, err := conv.NewPool(target, s)
	if err != nil {
		return err
	}
	channels := (s.C + 15) / 16 * 16
	_, _, oh, ow := p.Shape()
	s.SrcImage, s.DstImage, s.ResImage = channels*s.H*s.W, channels*oh*ow, channels*oh*ow
	if slice {
		s.SrcImage, s.DstImage = s.SrcImage+16*s.H*s.W, s.DstImage+16*oh*ow
	}
	if p, err = conv.NewPool(target, s); err != nil {
		return err
	}
	src, res := newPlain(s.N, s.C, s.H, s.W).random(r), newPlain(s.N, s.C, oh, ow).random(r)
	for range r.IntN(2) * r.IntN(6) { // what a maximum keeps, and a sum
		*src.at(r.IntN(s.N), r.IntN(s.C), r.IntN(s.H), r.IntN(s.W)) = math.NaN()
	}
	x, free := guarded((s.N-1)*s.SrcImage+channels*s.H*s.W, front)
	defer free()
	z, freeRes := guarded(s.N*s.ResImage, front)
	defer freeRes()
	y, freeDst := guarded((s.N-1)*s.DstImage+channels*oh*ow, front)
	defer freeDst()
	src.blocked(x, s.SrcImage)
	res.blocked(z, s.ResImage)
	fill(y)
	t := conv.Tensors{Src: x, Dst: y, Residual: z}
	if err := p.Run(0, p.Chunks(), &t); err != nil {
		return err
	}
	want := naivePool(&s, src, oh, ow)
	want.finish(&s.Epilogue, res, nil)
	if err := compare(want, y, s.DstImage, 1e-5); err != nil {
		return err
	}
	whole := append([]float32(nil), y...)
	fill(y)
	for _, i := range r.Perm(p.Chunks()) {
		if err := p.Run(i, i+1, &t); err != nil {
			return err
		}
	}
	return bitEqual(whole, y)
}

var _ = Describe("NewPool", func() {
	onTargets("computes maxima and averages", func(target isa.Target) {
		r := rand.New(rand.NewPCG(7, 7))
		for done := 0; done < 150; {
			s := conv.PoolSpec{N: 1 + r.IntN(2), C: 1 + r.IntN(40), Map: randomMap(r, false), Pooling: conv.Pooling(r.IntN(3))}
			if r.IntN(3) == 0 {
				s.Residual, s.Lo, s.Hi = true, -1, 2
			}
			if r.IntN(3) == 0 {
				// A map longer than the window reaches, as with ceil_mode.
				s.OH, s.OW = 1+r.IntN(8), 1+r.IntN(20)
			}
			err := checkPool(target, s, r.Uint64(), r.IntN(2) == 0, r.IntN(3) == 0)
			if errors.Is(err, conv.ErrShape) {
				continue
			}
			Expect(err).NotTo(HaveOccurred(), "%+v", s)
			done++
		}
	})
})

var _ = Describe("errors", func() {
	square := func(h, w, k int) conv.Map { return conv.Map{H: h, W: w, Kernel: [2]int{k, k}} }

	DescribeTable("a spec is turned down",
		func(s conv.Spec, cause error) {
			_, err := conv.NewConv(isa.Host(), s)
			Expect(err).To(MatchError(cause))
			var typed *conv.Error
			Expect(errors.As(err, &typed)).To(BeTrue())
			Expect(typed.Op).To(Equal("plan"))
		},
		Entry("without images", conv.Spec{C: 1, OC: 1, Map: square(3, 3, 1)}, conv.ErrShape),
		Entry("without channels", conv.Spec{N: 1, OC: 1, Map: square(3, 3, 1)}, conv.ErrShape),
		Entry("with an empty map", conv.Spec{N: 1, C: 1, OC: 1, Map: square(0, 3, 1)}, conv.ErrShape),
		Entry("with an empty kernel", conv.Spec{N: 1, C: 1, OC: 1, Map: square(3, 3, 0)}, conv.ErrShape),
		Entry("with a kernel larger than the map", conv.Spec{N: 1, C: 1, OC: 1, Map: square(3, 3, 4)}, conv.ErrShape),
		Entry("with a negative stride", conv.Spec{N: 1, C: 1, OC: 1, Map: conv.Map{H: 3, W: 3, Kernel: [2]int{1, 1}, Stride: [2]int{-1, 1}}}, conv.ErrShape),
		Entry("with groups that do not divide", conv.Spec{N: 1, C: 4, OC: 6, Groups: 4, Map: square(3, 3, 1)}, conv.ErrShape),
		Entry("with negative groups", conv.Spec{N: 1, C: 4, OC: 4, Groups: -1, Map: square(3, 3, 1)}, conv.ErrShape),
		Entry("with huge sizes", conv.Spec{N: 1 << 20, C: 1 << 20, OC: 1 << 20, Map: square(1<<23, 1<<23, 1)}, conv.ErrShape),
		Entry("with overlapping images", conv.Spec{N: 2, C: 16, OC: 16, SrcImage: 16, Map: square(3, 3, 1)}, conv.ErrShape),
		Entry("with a planar source and groups", conv.Spec{N: 1, C: 4, OC: 4, Groups: 2, Source: conv.Planar, Map: square(3, 3, 1)}, conv.ErrUnsupported),
		Entry("with a planar source of many channels", conv.Spec{N: 1, C: 17, OC: 4, Source: conv.Planar, Map: square(3, 3, 1)}, conv.ErrUnsupported),
	)

	It("checks buffers and chunks before it runs", func() {
		p, err := conv.NewConv(isa.Host(), conv.Spec{N: 1, C: 16, OC: 16, Map: square(3, 3, 1)})
		Expect(err).NotTo(HaveOccurred())
		ok := conv.Tensors{Src: make([]float32, 144), Dst: make([]float32, 144), Weights: make([]float32, 256)}
		Expect(p.Run(0, p.Chunks(), &ok)).To(Succeed())
		for _, change := range []func(t *conv.Tensors){
			func(t *conv.Tensors) { t.Src = t.Src[:143] },
			func(t *conv.Tensors) { t.Dst = nil },
			func(t *conv.Tensors) { t.Weights = t.Weights[:255] },
			func(t *conv.Tensors) { t.Bias = make([]float32, 15) },
		} {
			bad := ok
			change(&bad)
			Expect(p.Run(0, p.Chunks(), &bad)).To(MatchError(conv.ErrBuffer))
		}
		Expect(p.Run(0, p.Chunks()+1, &ok)).To(MatchError(conv.ErrShape))
		Expect(p.PackWeights(ok.Weights, make([]byte, 1023), 0, 1)).To(MatchError(conv.ErrBuffer))
		Expect(p.PackWeights(ok.Weights[:255], make([]byte, 1024), 0, 1)).To(MatchError(conv.ErrBuffer))
		Expect(p.PackWeights(ok.Weights, make([]byte, 1024), 0, 2)).To(MatchError(conv.ErrShape))
	})

	It("does not allocate when it runs", func() {
		p, err := conv.NewConv(isa.Host(), conv.Spec{N: 1, C: 16, OC: 16, Map: square(3, 3, 1)})
		Expect(err).NotTo(HaveOccurred())
		t := conv.Tensors{Src: make([]float32, 144), Dst: make([]float32, 144), Weights: make([]float32, 256)}
		Expect(testing.AllocsPerRun(20, func() { _ = p.Run(0, p.Chunks(), &t) })).To(BeZero())
	})
})
