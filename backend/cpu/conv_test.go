package cpu_test

import (
	"slices"

	. "github.com/onsi/ginkgo/v2"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// convolution is a random window over a map.
type convolution struct {
	n, c, oc, groups int
	in, kernel       [2]int
	attrs            []graph.Attr
	bias, pool       bool
	moving           bool // weights may be inputs or results
}

// fixed returns weights or a bias.
func (v *convolution) fixed(m *model, shape ...int) *graph.Value {
	GinkgoHelper()
	if v.moving {
		return operand(m, shape...)
	}
	return m.constant(shape...)
}

// channels returns input channels, output channels and groups of one of the kinds that kernels differ by.
func channels(m *model) (c, oc, groups int) {
	switch m.r.IntN(6) {
	case 0: // read from NCHW
		return m.between(1, 4), m.between(1, 40), 1
	case 1: // depthwise
		c = m.between(1, 40)
		return c, c, c
	case 2: // groups that fall on blocks
		return 32, 32 * m.between(1, 2), 2
	case 3: // groups that do not
		g := m.between(2, 3)
		return g * m.between(1, 9), g * m.between(1, 9), g
	case 4: // depthwise with a multiplier
		c = m.between(2, 7)
		return c, c * 2, c
	}
	return m.between(5, 40), m.between(1, 40), 1
}

func (m *model) int64s(n, lo, hi int) []int64 {
	out := make([]int64, n)
	for i := range out {
		out[i] = int64(m.between(lo, hi))
	}
	return out
}

// window adds attributes of a window over two axes.
func (v *convolution) window(m *model) {
	v.kernel = [2]int{m.between(1, 4), m.between(1, 4)}
	if m.chance(3) {
		v.kernel = [2]int{1, 1}
	}
	v.in = [2]int{m.between(1, 12), m.between(1, 30)}
	d := []int64{1, 1}
	if m.chance(3) {
		d = m.int64s(2, 1, 2)
		v.attrs = append(v.attrs, dilations(d...))
	}
	for i := range 2 {
		v.in[i] = max(v.in[i], (v.kernel[i]-1)*int(d[i])+1)
	}
	if m.chance(2) {
		v.attrs = append(v.attrs, strides(m.int64s(2, 1, 3)...))
	}
	switch m.r.IntN(5) {
	case 0:
		v.attrs = append(v.attrs, graph.StringAttr("auto_pad", pick(m, "SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET")))
	case 1, 2:
		v.attrs = append(v.attrs, pads(m.int64s(4, 0, 2)...))
		if v.pool { // a window over pads alone has no mean
			k, l := v.kernel[0]-1, v.kernel[1]-1
			v.attrs[len(v.attrs)-1] = pads(int64(m.between(0, k)), int64(m.between(0, l)), int64(m.between(0, k)), int64(m.between(0, l)))
		}
	}
}

// build adds the convolution to m; x has v.c channels.
func (v *convolution) build(m *model, x *graph.Value) *graph.Value {
	GinkgoHelper()
	args := []any{x, v.fixed(m, v.oc, v.c/v.groups, v.kernel[0], v.kernel[1])}
	if v.bias {
		args = append(args, v.fixed(m, v.oc))
	}
	for _, a := range v.attrs {
		args = append(args, a)
	}
	if v.groups != 1 {
		args = append(args, group(v.groups))
	}
	return m.op("Conv", args...)
}

func randomConv(m *model) *convolution {
	v := &convolution{n: m.between(1, 3), bias: m.chance(2)}
	v.c, v.oc, v.groups = channels(m)
	v.window(m)
	return v
}

// activate adds an activation that kernels may take as a tail.
func activate(m *model, x *graph.Value) *graph.Value {
	GinkgoHelper()
	switch m.r.IntN(13) {
	case 0:
		return m.op("Relu", x)
	case 1:
		return m.op("Clip", x, m.scalar(0), m.scalar(6))
	case 2:
		return m.op("Clip", x, m.scalar(0.25), m.scalar(1.5)) // does not keep zero
	case 3:
		return m.op("Clip", x, nil, m.scalar(-0.5))
	case 4:
		return m.op("Sigmoid", x)
	case 5:
		return m.op("HardSwish", x)
	case 6:
		return m.op("LeakyRelu", x, graph.FloatAttr("alpha", 0.3))
	case 7:
		return m.op("Mul", x, m.op("Sigmoid", x))
	case 8:
		return m.op("Mul", m.op("Sigmoid", x), x)
	case 9:
		return m.op("Exp", m.op("Tanh", x))
	case 10:
		return m.op("Gelu", x)
	case 11:
		return m.op("PRelu", x, channelConstant(m, x))
	}
	return x
}

// channelConstant returns a constant of one number for each channel of images.
func channelConstant(m *model, x *graph.Value) *graph.Value {
	d := slices.Clone(m.known[x].Shape[1:])
	for i := range d[1:] {
		d[1+i] = 1
	}
	if m.chance(2) {
		d = append([]int{1}, d...)
	}
	return m.constant(d...)
}

var _ = Describe("Conv", func() {
	It("agrees with the reference kernels", seeds(40, func(m *model) {
		v := randomConv(m)
		m.sample(v.build(m, m.input(v.n, v.c, v.in[0], v.in[1])))
	}))

	It("agrees where weights are made in the run", seeds(30, func(m *model) {
		v := randomConv(m)
		v.moving = true
		y := v.build(m, m.input(v.n, v.c, v.in[0], v.in[1]))
		if m.chance(2) {
			y = m.op("Add", y, operand(m, m.known[y].Shape...))
		}
		m.sample(activate(m, y))
	}))

	It("takes activations and residuals as tails", seeds(50, func(m *model) {
		v := randomConv(m)
		x := m.input(v.n, v.c, v.in[0], v.in[1])
		y := v.build(m, x)
		r := m.input(m.known[y].Shape...)
		switch m.r.IntN(4) {
		case 0:
			y = m.op("Add", y, r)
		case 1:
			y = m.op("Add", m.op("Relu", r), y)
		case 2:
			y = m.op("Add", y, m.op("Mul", r, y)) // the residual depends on the convolution
		}
		m.sample(activate(m, y))
	}))

	It("runs in every way", func() {
		m := newModel(1)
		x := m.input(2, 3, 9, 11)
		a := m.op("Relu", m.op("Conv", x, m.constant(20, 3, 3, 3), m.constant(20), pads(1, 1, 1, 1)))
		b := m.op("Clip", m.op("Conv", a, m.constant(20, 1, 3, 3), m.constant(20), pads(1, 1, 1, 1), group(20)), m.scalar(0.5), m.scalar(6))
		c := m.op("Add", m.op("Conv", b, m.constant(20, 20, 1, 1)), a)
		d := m.op("Mul", c, m.op("Sigmoid", c))
		e := m.op("Conv", d, m.constant(32, 5, 3, 3), strides(2, 2), group(4))
		m.check(e)
	})

	It("of single pixels apart from each other agrees with the reference kernels", seeds(12, func(m *model) {
		g := m.between(1, 2)
		c, oc := 16*g*m.between(1, 2), 16*g*m.between(1, 6)
		if g == 1 {
			c, oc = m.between(1, 40), m.between(50, 90)
		}
		s := m.int64s(2, 1, 3)
		x := m.op("Relu", m.op("Conv", m.input(m.between(1, 2), 3, m.between(1, 12), m.between(1, 30)), m.constant(c, 3, 1, 1)))
		y := m.op("Conv", x, m.constant(oc, c/g, 1, 1), m.constant(oc), strides(s...), group(g))
		m.check(activate(m, m.op("Add", y, m.op("Conv", x, m.constant(oc, c, 1, 1), strides(s...)))))
	}))

	It("with limits that are both zero gives zeros", func() {
		m := newModel(1)
		m.check(m.op("Clip", m.op("Conv", m.input(1, 5, 4, 4), m.constant(7, 5, 3, 3)), m.scalar(0), m.scalar(0)))
	})

	It("of an empty batch gives an empty result", func() {
		m := newModel(1)
		y := m.op("Relu", m.op("Conv", m.input(0, 5, 4, 4), m.constant(7, 5, 3, 3)))
		m.check(y, m.op("GlobalAveragePool", y), m.op("MaxPool", y, kernel(2, 2)))
	})

	It("of a batch that is a symbol runs for every size", func() {
		m := newModel(1)
		x := m.feedAs(graph.TensorType(tensor.Float32, graph.Shape{graph.Sym("N"), graph.D(6), graph.Sym("H"), graph.Sym("W")}), m.floats(3, 6, 7, 5))
		y := m.op("Relu", m.op("Conv", x, m.constant(9, 6, 3, 3), pads(1, 1, 1, 1)))
		m.check(m.op("Concat", y, m.op("Sigmoid", y), axis(1)))
	})
})

var _ = Describe("ConvTranspose", func() {
	It("agrees with the reference kernels", seeds(40, func(m *model) {
		g := 1
		c, oc := m.between(1, 24), m.between(1, 24)
		if m.chance(3) {
			g = m.between(2, 3)
			c, oc = g*m.between(1, 6), g*m.between(1, 6)
		}
		k := [2]int{m.between(1, 4), m.between(1, 4)}
		x := m.input(m.between(1, 2), c, m.between(1, 7), m.between(1, 9))
		s := m.int64s(2, 1, 3)
		args := []any{x, m.constant(c, oc/g, k[0], k[1])}
		if m.chance(2) {
			args = append(args, m.constant(oc))
		}
		args = append(args, strides(s...), group(g))
		switch m.r.IntN(5) {
		case 0:
			args = append(args, graph.StringAttr("auto_pad", pick(m, "SAME_UPPER", "SAME_LOWER", "VALID")))
		case 1:
			args = append(args, graph.IntsAttr("output_padding", int64(m.r.IntN(int(s[0]))), int64(m.r.IntN(int(s[1])))))
		case 2:
			d := m.known[x].Shape
			args = append(args, graph.IntsAttr("output_shape", int64(d[2])*s[0]+int64(m.r.IntN(2)), int64(d[3])*s[1]+1))
		case 3:
			args = append(args, pads(int64(m.r.IntN(k[0])), int64(m.r.IntN(k[1])), 0, 0), dilations(m.int64s(2, 1, 2)...))
		}
		m.sample(activate(m, m.op("ConvTranspose", args...)))
	}))
})

var _ = Describe("Conv of few results", func() {
	It("agrees with the reference kernels, with what comes in front and behind", seeds(60, func(m *model) {
		v := &convolution{n: m.between(1, 3), c: m.between(5, 70), oc: m.between(1, 3), groups: 1, bias: m.chance(2)}
		v.window(m)
		x := operand(m, v.n, v.c, v.in[0], v.in[1])
		switch m.r.IntN(4) {
		case 0: // images that lie apart
			x = m.op("Concat", m.op("Relu", operand(m, v.n, 16, v.in[0], v.in[1])), m.op("MaxPool", x, kernel(1, 1)), axis(1))
			v.c += 16
		case 1:
			x = m.op("Relu", x)
		}
		y := v.build(m, x)
		if m.chance(3) {
			y = m.op("Add", y, operand(m, m.known[y].Shape...))
		}
		if y = activate(m, y); m.chance(3) {
			y = m.op("MaxPool", y, kernel(1, 1))
		}
		m.sample(y)
	}))

	It("runs in every way", func() {
		m := newModel(5)
		m.check(m.op("Sigmoid", m.op("Conv", m.input(2, 40, 9, 21), m.constant(2, 40, 3, 3), m.constant(2), pads(1, 1, 1, 1))))
	})
})

var _ = Describe("Conv of few channels and results", func() {
	It("agrees with the reference kernels, in groups or not, with what comes in front and behind", seeds(60, func(m *model) {
		g := pick(m, 1, 1, 2, 3, 4)
		v := &convolution{n: m.between(1, 3), c: g * m.between(1, 4/g), oc: g * m.between(1, 4/g), groups: g, bias: m.chance(2), moving: m.chance(4)}
		v.window(m)
		v.in[1] += pick(m, 0, 0, 150)
		x := operand(m, v.n, v.c, v.in[0], v.in[1])
		switch m.r.IntN(3) {
		case 0:
			x = m.op("Relu", x)
		case 1: // blocked in front
			x = m.op("Conv", operand(m, v.n, 24, v.in[0], v.in[1]), m.constant(v.c, 24, 1, 1))
		}
		y := v.build(m, x)
		if m.chance(3) {
			y = m.op("Add", y, operand(m, m.known[y].Shape...))
		}
		if y = activate(m, y); m.chance(3) {
			y = m.op("Conv", y, m.constant(20, v.oc, 1, 1))
		}
		m.sample(y)
	}))
})

var _ = Describe("ConvTranspose of few results", func() {
	It("agrees with the reference kernels over one to three axes", seeds(40, func(m *model) {
		rank := m.between(1, 3)
		c, oc := m.between(6, 80), m.between(1, 4)
		in, k := []int{m.between(1, 3), c}, []int{c, oc}
		var s, d, begin, more []int64
		for range rank {
			in, k = append(in, m.between(1, 24/rank)), append(k, m.between(1, 20/rank))
			s, d = append(s, int64(m.between(1, 5))), append(d, int64(m.between(1, 2)))
			begin, more = append(begin, int64(m.r.IntN(2))), append(more, int64(m.r.IntN(int(s[len(s)-1]))))
		}
		args := []any{m.input(in...), m.constant(k...)}
		if m.chance(2) {
			args = append(args, operand(m, oc))
		}
		args = append(args, strides(s...), graph.IntsAttr("output_padding", more...))
		if m.chance(2) {
			args = append(args, dilations(d...), pads(append(begin, make([]int64, rank)...)...))
		}
		m.sample(activate(m, m.op("ConvTranspose", args...)))
	}))
})

var _ = Describe("kernels of more than a thousand taps", func() {
	It("agree with the reference kernels", seeds(12, func(m *model) {
		k := []int{m.between(1025, 2100)}
		if m.chance(2) {
			k = []int{m.between(33, 40), m.between(33, 40)}
		}
		s, in := m.between(1, 40), []int{}
		transposed := m.chance(2)
		for _, n := range k {
			if transposed {
				in = append(in, m.between(1, 4))
			} else {
				in = append(in, n+m.between(0, 60))
			}
		}
		g := pick(m, 1, 2, 3)
		c, oc := g*m.between(1, 3), g*m.between(1, 3)
		if m.chance(3) {
			g, oc = c, c
		}
		steps := slices.Repeat([]int64{int64(s)}, len(k))
		x := m.input(append([]int{1, c}, in...)...)
		if transposed {
			m.check(m.op("ConvTranspose", x, m.constant(append([]int{c, oc / g}, k...)...), group(g), strides(steps...)))
			return
		}
		m.check(m.op("Conv", x, m.constant(append([]int{oc, c / g}, k...)...), group(g), strides(steps...)))
	}))
})

var _ = Describe("pooling", func() {
	It("agrees with the reference kernels", seeds(40, func(m *model) {
		v := &convolution{pool: true}
		v.window(m)
		x := m.input(m.between(1, 3), m.between(1, 40), v.in[0], v.in[1])
		args := []any{kernel(int64(v.kernel[0]), int64(v.kernel[1]))}
		for _, a := range v.attrs {
			args = append(args, a)
		}
		op := pick(m, "MaxPool", "AveragePool")
		if m.chance(2) {
			args = append(args, graph.IntAttr("ceil_mode", 1))
		}
		if op == "AveragePool" && m.chance(2) {
			args = append(args, graph.IntAttr("count_include_pad", 1))
		}
		y := m.op(op, append(args, x)...)
		m.sample(y, m.op("Exp", y))
	}))

	It("of whole maps agrees with the reference kernels", seeds(12, func(m *model) {
		x := m.op("Relu", m.input(m.between(1, 3), m.between(1, 40), m.between(1, 9), m.between(1, 9)))
		c := m.op("Conv", x, m.constant(m.between(1, 40), m.known[x].Shape[1], 1, 1))
		p := m.op(pick(m, "GlobalAveragePool", "GlobalMaxPool"), c)
		m.sample(p, m.op("Mul", c, m.op("Sigmoid", p)), m.op("Flatten", p))
	}))
})

var _ = Describe("BatchNormalization", func() {
	It("agrees with the reference kernels", seeds(16, func(m *model) {
		c := m.between(1, 40)
		shape := [][]int{{2, c}, {2, c, 5}, {1, c, 4, 3}, {3, c, 4, 5}, {2, c, 2, 3, 4}}[m.r.IntN(5)]
		x := m.op("Neg", m.input(shape...))
		known := m.chance(2)
		of := func() *graph.Value { // a statistic that is known when the model is compiled, or when it runs
			if known {
				return m.constant(c)
			}
			return m.input(c)
		}
		y := m.op("BatchNormalization", x, of(), of(), of(), m.op("Abs", of()), graph.FloatAttr("epsilon", 0.01))
		m.sample(activate(m, y))
	}))
})
