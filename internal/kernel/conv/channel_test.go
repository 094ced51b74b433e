package conv_test

import (
	"math"
	"math/rand/v2"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/kernel/conv"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/testshare"
)

var _ = Describe("NewGlobalPool", func() {
	onTargets("reduces each channel", func(target isa.Target) {
		r := rand.New(rand.NewPCG(8, 8))
		for range testshare.Of(60) {
			n, c, hw := 1+r.IntN(3), 1+r.IntN(50), 1+r.IntN(70)
			pooling := conv.Pooling(r.IntN(2))
			channels := (c + 15) / 16 * 16
			srcImage, dstImage := channels*hw, channels
			if r.IntN(2) == 0 {
				srcImage, dstImage = srcImage+16*hw, dstImage+16
			}
			g, err := conv.NewGlobalPool(target, n, c, hw, pooling, srcImage, dstImage)
			Expect(err).NotTo(HaveOccurred())
			front := r.IntN(2) == 0
			src, free := guarded((n-1)*srcImage+channels*hw, front)
			dst, freeDst := guarded((n-1)*dstImage+channels, front)
			x := newPlain(n, c, 1, hw).random(r)
			x.blocked(src, srcImage)
			fill(dst)
			for _, i := range r.Perm(g.Chunks()) {
				Expect(g.Run(i, i+1, dst, src)).To(Succeed())
			}
			want := naivePool(&conv.PoolSpec{N: n, C: c, Map: conv.Map{H: 1, W: hw, Kernel: [2]int{1, hw}}, Pooling: pooling}, x, 1, 1)
			Expect(compare(want, dst, dstImage, 1e-5)).To(Succeed(), "%d images, %d channels, %d pixels, pooling %d", n, c, hw, pooling)
			free()
			freeDst()
		}
	})
	onTargets("reduces maps longer than one call", func(target isa.Target) {
		const hw = 1<<17 + 5
		src, dst := make([]float32, 16*hw), make([]float32, 16)
		for i := range hw {
			src[16*i+3] = float32(i % 4)
		}
		src[16*(hw-1)+5] = 7
		for pooling, want := range map[conv.Pooling][2]float64{conv.Average: {1.5, 7.0 / hw}, conv.Max: {3, 7}} {
			g, err := conv.NewGlobalPool(target, 1, 16, hw, pooling, 0, 0)
			Expect(err).NotTo(HaveOccurred())
			Expect(g.Run(0, g.Chunks(), dst, src)).To(Succeed())
			Expect(dst[3]).To(BeNumerically("~", want[0], 1e-4))
			Expect(dst[5]).To(BeNumerically("~", want[1], 1e-6))
			Expect(dst[0]).To(BeZero())
		}
	})
	It("turns down what it cannot do", func() {
		_, err := conv.NewGlobalPool(isa.Host(), 1, 0, 1, conv.Max, 0, 0)
		Expect(err).To(MatchError(conv.ErrShape))
		_, err = conv.NewGlobalPool(isa.Host(), 1, 1, 1, conv.AveragePadded, 0, 0)
		Expect(err).To(MatchError(conv.ErrUnsupported))
		g, err := conv.NewGlobalPool(isa.Host(), 1, 17, 2, conv.Max, 0, 0)
		Expect(err).NotTo(HaveOccurred())
		Expect(g.Run(0, 1, make([]float32, 31), make([]float32, 64))).To(MatchError(conv.ErrBuffer))
		Expect(g.Run(0, 1, make([]float32, 32), make([]float32, 63))).To(MatchError(conv.ErrBuffer))
		Expect(g.Run(0, 2, make([]float32, 32), make([]float32, 64))).To(MatchError(conv.ErrShape))
	})
})

var _ = Describe("NewScale", func() {
	onTargets("scales and shifts each channel, of each image or of all", func(target isa.Target) {
		r := rand.New(rand.NewPCG(9, 9))
		for range testshare.Of(60) {
			s := conv.ScaleSpec{N: 1 + r.IntN(3), C: 1 + r.IntN(50), HW: 1 + r.IntN(60)}
			channels := (s.C + 15) / 16 * 16
			if r.IntN(2) == 0 {
				s.ScaleImage, s.ShiftImage = channels, channels
			}
			if r.IntN(2) == 0 {
				s.Lo, s.Hi = 0.1, 6
			}
			s.Residual = r.IntN(2) == 0
			p, err := conv.NewScale(target, s)
			Expect(err).NotTo(HaveOccurred())
			x, res := newPlain(s.N, s.C, 1, s.HW).random(r), newPlain(s.N, s.C, 1, s.HW).random(r)
			factors, shifts := newPlain(s.N, s.C, 1, 1).random(r), newPlain(s.N, s.C, 1, 1).random(r)
			image := channels * s.HW
			front := r.IntN(2) == 0
			src, free := guarded(s.N*image, front)
			z, freeRes := guarded(s.N*image, front)
			dst, freeDst := guarded(s.N*image, front)
			w, freeW := guarded((s.N-1)*s.ScaleImage+channels, front)
			b, freeB := guarded((s.N-1)*s.ShiftImage+channels, front)
			x.blocked(src, image)
			res.blocked(z, image)
			if s.ScaleImage == 0 {
				factors.n, shifts.n = 1, 1
			}
			factors.blocked(w, channels)
			shifts.blocked(b, channels)
			t := conv.Tensors{Src: src, Dst: dst, Residual: z, Weights: w, Bias: b}
			if r.IntN(3) == 0 {
				t.Bias = nil
			}
			for _, i := range r.Perm(p.Chunks()) {
				Expect(p.Run(i, i+1, &t)).To(Succeed())
			}
			want := newPlain(s.N, s.C, 1, s.HW)
			for n := range s.N {
				for c := range s.C {
					for i := range s.HW {
						v := *x.at(n, c, 0, i) * *factors.at(n%factors.n, c, 0, 0)
						if t.Bias != nil {
							v += *shifts.at(n%shifts.n, c, 0, 0)
						}
						*want.at(n, c, 0, i) = v
					}
				}
			}
			want.finish(&s.Epilogue, res, nil)
			Expect(compare(want, dst, image, 1e-5)).To(Succeed(), "%+v", s)
			for _, f := range []func(){free, freeRes, freeDst, freeW, freeB} {
				f()
			}
		}
	})
	It("turns down empty and short ones", func() {
		_, err := conv.NewScale(isa.Host(), conv.ScaleSpec{N: 1, C: 1})
		Expect(err).To(MatchError(conv.ErrShape))
		p, err := conv.NewScale(isa.Host(), conv.ScaleSpec{N: 2, C: 1, HW: 1, ScaleImage: 16})
		Expect(err).NotTo(HaveOccurred())
		x := make([]float32, 32)
		Expect(p.Run(0, p.Chunks(), &conv.Tensors{Src: x, Dst: x, Weights: x[:31]})).To(MatchError(conv.ErrBuffer))
		Expect(p.Run(0, p.Chunks(), &conv.Tensors{Src: x, Dst: x, Weights: x})).To(Succeed())
	})
})

// resized runs a plan on one channel of one image of two rows.
func resized(target isa.Target, w int, y, x conv.ResizeAxis, in []float64) []float64 {
	const h = 2
	p, err := conv.NewResize(target, 1, 1, h, w, y, x, 0, 0)
	Expect(err).NotTo(HaveOccurred())
	src, free := guarded(16*h*w, false)
	defer free()
	(&plain{1, 1, h, w, in}).blocked(src, 0)
	n := len(y.First) * len(x.First)
	dst, freeDst := guarded(16*n, false)
	defer freeDst()
	Expect(p.Run(0, p.Chunks(), dst, src)).To(Succeed())
	out := make([]float64, n)
	for i := range out {
		out[i] = float64(dst[16*i])
	}
	return out
}

func haveValues(want ...float64) OmegaMatcher {
	return WithTransform(func(got []float64) float64 {
		if len(got) != len(want) {
			return math.Inf(1)
		}
		worst := 0.0
		for i := range got {
			worst = max(worst, math.Abs(got[i]-want[i]))
		}
		return worst
	}, BeNumerically("<", 1e-6))
}

var _ = Describe("NewResize", func() {
	square, wide := []float64{1, 2, 3, 4}, []float64{1, 2, 3, 4, 5, 6, 7, 8}

	onTargets("gives the results of the ONNX specification's examples", func(target isa.Target) {
		twice := func(c conv.Coordinates) conv.ResizeAxis { return conv.LinearAxis(2, 4, 0, c) }
		Expect(resized(target, 2, twice(conv.HalfPixel), twice(conv.HalfPixel), square)).To(haveValues(
			1, 1.25, 1.75, 2, 1.5, 1.75, 2.25, 2.5, 2.5, 2.75, 3.25, 3.5, 3, 3.25, 3.75, 4))
		third := 1.0 / 3
		Expect(resized(target, 2, twice(conv.AlignCorners), twice(conv.AlignCorners), square)).To(haveValues(
			1, 1+third, 2-third, 2, 2-third, 2, 2+third, 3-third, 2+third, 3-third, 3, 3+third, 3, 3+third, 4-third, 4))
		Expect(resized(target, 4, conv.LinearAxis(2, 1, 0.6, conv.HalfPixel), conv.LinearAxis(4, 2, 0.6, conv.HalfPixel), wide)).To(haveValues(8.0/3, 13.0/3))
		Expect(resized(target, 4, conv.LinearAxis(2, 1, 0.6, conv.AlignCorners), conv.LinearAxis(4, 2, 0.6, conv.AlignCorners), wide)).To(haveValues(1, 22.0/7))
		Expect(resized(target, 2, conv.NearestAxis(2, 4, 0, conv.HalfPixel, conv.RoundPreferFloor), conv.NearestAxis(2, 6, 0, conv.HalfPixel, conv.RoundPreferFloor), square)).To(haveValues(
			1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 3, 3, 3, 4, 4, 4))
		Expect(resized(target, 4, conv.NearestAxis(2, 1, 0.6, conv.HalfPixel, conv.RoundPreferFloor), conv.NearestAxis(4, 2, 0.6, conv.HalfPixel, conv.RoundPreferFloor), wide)).To(haveValues(1, 3))
	})

	DescribeTable("nearest tables",
		func(in, out int, scale float64, c conv.Coordinates, r conv.Rounding, want ...int) {
			a := conv.NearestAxis(in, out, scale, c, r)
			got := make([]int, len(a.First))
			for i, v := range a.First {
				got[i] = int(v)
			}
			Expect(got).To(Equal(want))
			Expect(a.Second).To(BeNil())
		},
		Entry("asymmetric, floor, twice", 2, 4, 0.0, conv.Asymmetric, conv.Floor, 0, 0, 1, 1),
		Entry("asymmetric, ceil, twice", 3, 6, 0.0, conv.Asymmetric, conv.Ceil, 0, 1, 1, 2, 2, 2),
		Entry("asymmetric, halves down", 3, 6, 0.0, conv.Asymmetric, conv.RoundPreferFloor, 0, 0, 1, 1, 2, 2),
		Entry("asymmetric, halves up", 3, 6, 0.0, conv.Asymmetric, conv.RoundPreferCeil, 0, 1, 1, 2, 2, 2),
		Entry("one output of half pixels", 4, 1, 0.0, conv.HalfPixel, conv.Floor, 1),
		Entry("one output of pytorch's half pixels", 4, 1, 0.0, conv.PytorchHalfPixel, conv.Floor, 0),
		Entry("one output of aligned corners", 4, 1, 0.0, conv.AlignCorners, conv.Floor, 0),
		Entry("on a pixel by a scale that was rounded down", 10, 14, float64(float32(1.4)), conv.Asymmetric, conv.Ceil, 0, 1, 2, 3, 3, 4, 5, 5, 6, 7, 8, 8, 9, 9),
		Entry("on a pixel by a scale that was rounded up", 10, 11, float64(float32(1.1)), conv.NearestHalfPixel, conv.Floor, 0, 1, 2, 3, 4, 5, 5, 6, 7, 8, 9),
		Entry("no output", 4, 0, 0.0, conv.AlignCorners, conv.Floor),
	)

	onTargets("resizes any number of channels and images", func(target isa.Target) {
		r := rand.New(rand.NewPCG(10, 10))
		for range testshare.Of(40) {
			n, c, h, w, oh, ow := 1+r.IntN(2), 1+r.IntN(40), 1+r.IntN(9), 1+r.IntN(9), 1+r.IntN(20), 1+r.IntN(20)
			coordinates := conv.Coordinates(r.IntN(4))
			nearest := r.IntN(2) == 0
			y, x := conv.LinearAxis(h, oh, 0, coordinates), conv.LinearAxis(w, ow, 0, coordinates)
			if nearest {
				rounding := conv.Rounding(r.IntN(4))
				y, x = conv.NearestAxis(h, oh, 0, coordinates, rounding), conv.NearestAxis(w, ow, 0, coordinates, rounding)
			}
			channels := (c + 15) / 16 * 16
			srcImage, dstImage := channels*h*w+16, channels*oh*ow+32
			p, err := conv.NewResize(target, n, c, h, w, y, x, srcImage, dstImage)
			Expect(err).NotTo(HaveOccurred())
			front := r.IntN(2) == 0
			src, free := guarded((n-1)*srcImage+channels*h*w, front)
			dst, freeDst := guarded((n-1)*dstImage+channels*oh*ow, front)
			in := newPlain(n, c, h, w).random(r)
			in.blocked(src, srcImage)
			fill(dst)
			for _, i := range r.Perm(p.Chunks()) {
				Expect(p.Run(i, i+1, dst, src)).To(Succeed())
			}
			want := newPlain(n, c, oh, ow)
			for i := range n {
				for k := range c {
					for yy := range oh {
						for xx := range ow {
							at := func(a, b int32) float64 { return *in.at(i, k, int(a), int(b)) }
							v := at(y.First[yy], x.First[xx])
							if !nearest {
								wy, wx := float64(y.Weight[yy]), float64(x.Weight[xx])
								v = (1-wy)*(1-wx)*v + (1-wy)*wx*at(y.First[yy], x.Second[xx]) +
									wy*(1-wx)*at(y.Second[yy], x.First[xx]) + wy*wx*at(y.Second[yy], x.Second[xx])
							}
							*want.at(i, k, yy, xx) = v
						}
					}
				}
			}
			Expect(compare(want, dst, dstImage, 1e-5)).To(Succeed())
			free()
			freeDst()

			planes, err := conv.NewPlaneResize(n, c, h, w, y, x)
			Expect(err).NotTo(HaveOccurred())
			src, free = guarded(n*c*h*w, front)
			dst, freeDst = guarded(n*c*oh*ow, front)
			in.planar(src, c*h*w)
			fill(dst)
			for _, i := range r.Perm(planes.Chunks()) {
				Expect(planes.Run(i, i+1, dst, src)).To(Succeed())
			}
			for i, v := range want.v {
				Expect(float64(dst[i])).To(BeNumerically("~", v, 1e-5*(1+math.Abs(v))))
			}
			free()
			freeDst()
		}
	})

	It("turns down tables that do not fit", func() {
		good := conv.LinearAxis(4, 4, 0, conv.HalfPixel)
		short := good
		short.Weight = short.Weight[:3]
		for _, axes := range [][2]conv.ResizeAxis{
			{good, short}, {good, conv.NearestAxis(4, 4, 0, conv.HalfPixel, conv.Floor)}, {good, conv.LinearAxis(5, 5, 0, conv.HalfPixel)}, {good, {}},
		} {
			_, err := conv.NewResize(isa.Host(), 1, 1, 4, 4, axes[0], axes[1], 0, 0)
			Expect(err).To(MatchError(conv.ErrShape))
			_, err = conv.NewPlaneResize(1, 1, 4, 4, axes[0], axes[1])
			Expect(err).To(MatchError(conv.ErrShape))
		}
		planes, err := conv.NewPlaneResize(1, 2, 4, 4, good, good)
		Expect(err).NotTo(HaveOccurred())
		Expect(planes.Run(0, 2, make([]float32, 31), make([]float32, 32))).To(MatchError(conv.ErrBuffer))
		Expect(planes.Run(0, 2, make([]float32, 32), make([]float32, 31))).To(MatchError(conv.ErrBuffer))
		Expect(planes.Run(1, 3, make([]float32, 32), make([]float32, 32))).To(MatchError(conv.ErrShape))
		p, err := conv.NewResize(isa.Host(), 1, 1, 4, 4, good, good, 0, 0)
		Expect(err).NotTo(HaveOccurred())
		x := make([]float32, 256)
		Expect(p.Run(0, 1, x[:255], x)).To(MatchError(conv.ErrBuffer))
		Expect(p.Run(0, 1, make([]float32, 256), x[:255])).To(MatchError(conv.ErrBuffer))
		Expect(p.Run(1, 3, make([]float32, 256), x)).To(MatchError(conv.ErrShape))
	})
})
