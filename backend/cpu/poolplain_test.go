package cpu_test

import (
	"context"
	"errors"
	"math"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// windowed is a random window over axes of an image: attributes, its size, and how many places it has along each axis.
type windowed struct {
	attrs       []any
	kernel, out []int64
}

func (m *model) windowOver(dims []int, most int) windowed {
	var w windowed
	var begin, end, stride, dilate []int64
	for _, d := range dims {
		k, s := m.between(1, min(most, d)), m.between(1, 3)
		e := 1
		if k > 1 && m.chance(3) {
			e = max(1, min(m.between(1, 3), (d-1)/(k-1)))
		}
		a, b := m.between(0, k/2), m.between(0, k/2)
		w.kernel, stride, dilate, begin, end = append(w.kernel, int64(k)), append(stride, int64(s)), append(dilate, int64(e)), append(begin, int64(a)), append(end, int64(b))
		w.out = append(w.out, int64((d+a+b-(k-1)*e-1)/s+1))
	}
	w.attrs = []any{strides(stride...), dilations(dilate...), pads(append(begin, end...)...)}
	return w
}

// image returns dims of one to three axes.
func (m *model) imageDims(axes int) []int {
	out := []int{}
	for range axes {
		out = append(out, m.between(1, []int{0, 40, 12, 6}[axes]))
	}
	return out
}

func times(dims []int64) int {
	n := 1
	for _, d := range dims {
		n *= int(d)
	}
	return n
}

var _ = Describe("MaxPool that says where it found its results", func() {
	It("agrees with the reference kernels", seeds(60, func(m *model) {
		dims := m.imageDims(m.between(1, 3))
		shape := append([]int{m.between(1, 2), m.between(1, 5)}, dims...)
		t := m.floats(shape...)
		if m.chance(2) { // equal ones, zeros of both signs, and what is no number
			for i, s := 0, tensor.Of[float32](t); i < len(s); i++ {
				s[i] = pick(m, 0, float32(math.Copysign(0, -1)), 1, -1, float32(math.Inf(-1)), float32(math.Inf(1)), s[i])
				if m.chance(20) {
					s[i] = pick(m, float32(math.NaN()), math.Float32frombits(0xffc00001))
				}
			}
		}
		x := m.feed(t)
		switch m.r.IntN(5) {
		case 0:
			x = m.op("Cast", x, to(tensor.Float64))
		case 1:
			r := m.op("Clip", x, m.scalar(-5), m.scalar(5))
			x = m.op("Cast", m.op("Where", m.op("IsNaN", r), m.scalar(0), r), to(pick(m, tensor.Int8, tensor.Uint8)))
		}
		w := m.windowOver(dims, 4)
		out := m.ops("MaxPool", 2, append([]any{x, kernel(w.kernel...), graph.IntAttr("ceil_mode", int64(m.r.IntN(2))), graph.IntAttr("storage_order", int64(m.r.IntN(2)))}, w.attrs...)...)
		if m.chance(4) {
			out = out[1:]
		}
		m.sample(out...)
	}))

	It("runs in every way between convolutions, and what undoes it", func() {
		m := newModel(1)
		x := m.op("Relu", m.op("Conv", m.input(2, 3, 12, 10), m.constant(20, 3, 3, 3), pads(1, 1, 1, 1)))
		out := m.ops("MaxPool", 2, x, kernel(2, 2), strides(2, 2))
		y := m.op("Conv", m.op("MaxUnpool", m.op("Neg", out[0]), out[1], kernel(2, 2), strides(2, 2)), m.constant(7, 20, 3, 3))
		m.check(y, out[1])
	})
})

var _ = Describe("MaxUnpool", func() {
	It("agrees with the reference kernels, wherever elements belong", seeds(60, func(m *model) {
		shape, natural := []int{m.between(1, 2), m.between(1, 5)}, []int{}
		var ks, ss, ps []int64
		for _, d := range m.imageDims(m.between(1, 3)) {
			k, s := m.between(1, 4), m.between(1, 3)
			p := m.between(0, (k-1)/2)
			ks, ss, ps, shape, natural = append(ks, int64(k)), append(ss, int64(s)), append(ps, int64(p)), append(shape, d), append(natural, (d-1)*s+k-2*p)
		}
		plane, size := 1, 1
		for i, d := range natural {
			plane, size = plane*d, size*shape[i+2]
		}
		at, astray := make([]int64, shape[0]*shape[1]*size), m.chance(3)
		for i := range at {
			at[i] = int64(i/size*plane + m.r.IntN(plane))
			if astray && m.chance(9) {
				at[i] = int64(m.r.IntN(shape[0] * shape[1] * plane))
			}
		}
		x := operand(m, shape...)
		if m.chance(3) {
			x = m.op("Cast", x, to(pick(m, tensor.Float64, tensor.Float16)))
		}
		in := []any{x, m.feed(tensor.From(at, shape...))}
		if m.chance(3) {
			list := []int64{int64(shape[0]), int64(shape[1])}
			for _, d := range natural {
				list = append(list, int64(d+m.between(0, 3)))
			}
			in = append(in, m.ints(list...))
		}
		m.sample(m.op("MaxUnpool", append(in, kernel(ks...), strides(ss...), pads(append(ps, ps...)...))...))
	}))

	It("refuses places that there are not", func(ctx SpecContext) {
		m := newModel(1)
		x, at := m.input(1, 2, 2), m.feed(tensor.From([]int64{0, 3, 4, 7}, 1, 2, 2))
		m.g.SetOutputs(m.op("MaxUnpool", x, at, kernel(2), strides(2)))
		p, err := carve.Compile(ctx, carve.FromGraph(m.g), &carve.Options{Backends: []backend.Config{{Name: "cpu"}}})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(p.Close)
		for _, bad := range []int64{8, -1, math.MaxInt64, math.MinInt64} {
			m.feeds[at.Name] = tensor.From([]int64{0, 3, 4, bad}, 1, 2, 2)
			_, err = p.Run(context.Background(), m.feeds)
			var out *backend.RangeError
			Expect(errors.As(err, &out)).To(BeTrue(), "%v", err)
			Expect([]int64{out.Value, out.Min, out.Max}).To(Equal([]int64{bad, 0, 7}))
		}
	})
})

var _ = Describe("AffineGrid", func() {
	It("agrees with the reference kernels", seeds(40, func(m *model) {
		axes := m.between(2, 3)
		size := []int64{int64(m.between(1, 3)), int64(m.between(1, 4))}
		for range axes {
			size = append(size, int64(pick(m, 1, 2, 5, 16, 33)))
		}
		theta := small(m, pick(m, tensor.Float32, tensor.Float64), int(size[0]), axes, axes+1)
		sizes := m.ints(size...)
		if m.chance(2) {
			sizes = m.feed(tensor.From(size))
		}
		m.sample(m.op("AffineGrid", theta, sizes, graph.IntAttr("align_corners", int64(m.r.IntN(2)))))
	}))
})

var _ = Describe("Col2Im", func() {
	It("agrees with the reference kernels", seeds(60, func(m *model) {
		dims := m.imageDims(m.between(1, 3))
		w := m.windowOver(dims, 5)
		image := []int64{}
		for _, d := range dims {
			image = append(image, int64(d))
		}
		x := operand(m, m.between(1, 2), m.between(1, 5)*times(w.kernel), times(w.out))
		if m.chance(4) {
			x = m.op("Cast", x, to(tensor.Float64))
		}
		m.sample(m.op("Col2Im", append([]any{x, m.ints(image...), m.ints(w.kernel...)}, w.attrs...)...))
	}))

	It("of blocks beside each other agrees with the reference kernels", seeds(30, func(m *model) {
		image, kernel, out, dims := []int64{}, []int64{}, 1, m.between(1, 3)
		for range dims {
			k, n := m.between(1, 6), pick(m, 1, 2, 5, 9)
			image, kernel, out = append(image, int64(k*n)), append(kernel, int64(k)), out*n
		}
		taps := 1
		for _, k := range kernel {
			taps *= int(k)
		}
		x := operand(m, m.between(1, 2), m.between(1, 3)*taps, out)
		if m.chance(4) {
			x = m.op("Cast", x, to(tensor.Float64))
		}
		m.sample(m.op("Col2Im", x, m.ints(image...), m.ints(kernel...), strides(kernel...)))
	}))

	It("of images that are added up in bands agrees with the reference kernels", seeds(4, func(m *model) {
		height, width, stride := m.between(120, 140), m.between(140, 160), m.between(1, 4)
		across := func(in, kernel int) int { return (in+2-kernel)/stride + 1 }
		x := m.input(1, 2*3*4, across(height, 3)*across(width, 4))
		m.sample(m.op("Col2Im", x, m.ints(int64(height), int64(width)), m.ints(3, 4), strides(int64(stride), int64(stride)), pads(1, 1, 1, 1)))
	}))
})

var _ = Describe("DeformConv", func() {
	DescribeTable("gives what the reference kernels give where there is nothing to sum up", func(ctx SpecContext, x, w, offsets []int) {
		m := newModel(1)
		y := m.op("DeformConv", m.input(x...), m.constant(w...), m.input(offsets...), m.constant(w[0]))
		m.g.SetOutputs(y)
		p, err := carve.Compile(ctx, carve.FromGraph(m.g), &carve.Options{Backends: []backend.Config{{Name: "cpu"}}})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(p.Close)
		got, err := p.Run(ctx, m.feeds)
		Expect(err).NotTo(HaveOccurred())
		Expect(tensor.Of[float32](got[y.Name].(*tensor.Tensor))).To(Equal(tensor.Of[float32](m.known[y])))
	},
		Entry("without channels", []int{2, 0, 5, 5}, []int{4, 0, 3, 3}, []int{2, 18, 3, 3}),
		Entry("without pixels and channels", []int{0, 0, 5, 5}, []int{4, 0, 3, 3}, []int{0, 18, 3, 3}))

	It("is refused where its windows have no taps", func() {
		m := newModel(1)
		Expect(m.try("DeformConv", 1, []*graph.Value{m.input(1, 2, 5, 5), m.constant(4, 2, 0, 3), m.input(1, 0, 6, 3)})).To(BeNil())
	})

	It("agrees with the reference kernels", seeds(120, func(m *model) {
		dims := m.imageDims(2)
		w := m.windowOver(dims, 4)
		groups, offsets := pick(m, 1, 1, 2, 3), pick(m, 1, 1, 2, 4)
		per := pick(m, 1, 3, 8, 16, 20) * offsets
		n, c, oc, taps := m.between(1, 2), per*groups, groups*pick(m, 1, 3, 16, 17, 32), times(w.kernel)
		weights := m.scaled(1/math.Sqrt(float64(per*taps)), oc, per, int(w.kernel[0]), int(w.kernel[1]))
		if m.chance(3) {
			weights = m.op("Neg", m.input(oc, per, int(w.kernel[0]), int(w.kernel[1])))
		}
		oh, ow := int(w.out[0]), int(w.out[1])
		in := []any{operand(m, n, c, dims[0], dims[1]), weights, operand(m, n, 2*offsets*taps, oh, ow), nil, nil}
		if m.chance(2) {
			in[3] = operand(m, oc)
		}
		if m.chance(2) {
			in[4] = m.op("Sigmoid", operand(m, n, offsets*taps, oh, ow))
		}
		pick(m, m.sample, m.sampleDouble)(m.op("DeformConv", append(append(in, w.attrs...), group(groups), graph.IntAttr("offset_group", int64(offsets)))...))
	}))

	It("runs in every way behind a convolution that makes its offsets", func() {
		m := newModel(1)
		x := m.op("Relu", m.op("Conv", m.input(1, 3, 9, 11), m.constant(40, 3, 3, 3), pads(1, 1, 1, 1)))
		offsets := m.op("Conv", x, m.scaled(0.05, 18, 40, 3, 3), pads(1, 1, 1, 1))
		mask := m.op("Sigmoid", m.op("Conv", x, m.scaled(0.05, 9, 40, 3, 3), pads(1, 1, 1, 1)))
		m.check(m.op("Relu", m.op("DeformConv", x, m.scaled(0.05, 48, 40, 3, 3), offsets, m.constant(48), mask, pads(1, 1, 1, 1))))
	})
})

var _ = Describe("LpPool and GlobalLpPool", func() {
	It("agree with the reference kernels", seeds(40, func(m *model) {
		dims := m.imageDims(m.between(1, 3))
		x := operand(m, append([]int{m.between(1, 2), m.between(1, 5)}, dims...)...)
		w := m.windowOver(dims, 4)
		y := x
		if m.chance(3) {
			y = m.op("Cast", x, to(tensor.Float64))
		}
		m.sample(m.op("GlobalLpPool", x, graph.IntAttr("p", int64(m.between(1, 2)))),
			m.op("LpPool", append([]any{y, kernel(w.kernel...), graph.IntAttr("p", int64(m.between(1, 5))), graph.IntAttr("ceil_mode", int64(m.r.IntN(2)))}, w.attrs...)...))
	}))
})
