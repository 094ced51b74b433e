package cpu_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

var _ = Describe("normalisation of blocked images over groups of channels", func() {
	// between convolutions puts a normalisation with what comes behind it between two, which want blocked images.
	between := func(m *model, make func(x *graph.Value, c int) *graph.Value, c int, dims ...int) *graph.Value {
		kernel := []int{1, 1, 1}[:len(dims)]
		x := m.input(append([]int{m.between(1, 3), 16}, dims...)...)
		x = m.op("Conv", x, m.scaled(0.5, append([]int{c, 16}, kernel...)...), m.constant(c))
		return m.op("Conv", make(x, c), m.scaled(0.3, append([]int{16, c}, kernel...)...))
	}
	tails := []func(m *model, x *graph.Value) *graph.Value{
		func(m *model, x *graph.Value) *graph.Value { return x },
		func(m *model, x *graph.Value) *graph.Value { return m.op("Relu", x) },
		func(m *model, x *graph.Value) *graph.Value { return m.op("Clip", x, m.scalar(-0.5), m.scalar(0.75)) },
		func(m *model, x *graph.Value) *graph.Value { return m.op("Mul", x, m.op("Sigmoid", x)) },
		func(m *model, x *graph.Value) *graph.Value { return m.op("Softplus", x) },
		func(m *model, x *graph.Value) *graph.Value { return m.op("Pow", m.op("Relu", x), m.scalar(2)) },
	}
	norm := func(m *model, x *graph.Value, g, c int) *graph.Value {
		eps := graph.FloatAttr("epsilon", 0.01)
		groups := graph.IntAttr("num_groups", int64(g))
		switch m.r.IntN(4) {
		case 0:
			return m.op("InstanceNormalization", x, operand(m, c), operand(m, c), eps)
		case 1: // as exporters write it
			parted := m.op("Reshape", x, m.ints(0, int64(g), -1))
			y := m.op("InstanceNormalization", parted, m.constant(g), m.constant(g), eps)
			y = m.op("Reshape", y, m.op("Shape", x))
			shape := append([]int{c}, make([]int, len(x.Type.Shape)-2)...)
			for i := range shape[1:] {
				shape[1+i] = 1
			}
			return m.op("Add", m.op("Mul", y, m.constant(shape...)), m.constant(shape...))
		case 2:
			m.version(18)
			return m.op("GroupNormalization", x, operand(m, g), operand(m, g), eps, groups)
		}
		return m.op("GroupNormalization", x, operand(m, c), operand(m, c), eps, groups)
	}

	It("agrees with the reference kernels", seeds(40, func(m *model) {
		g, per := m.between(1, 5), m.between(1, 20)
		dims := [][]int{{m.between(1, 9), m.between(1, 9)}, {m.between(40, 60), m.between(40, 90)}, {m.between(1, 4), m.between(1, 5), m.between(1, 5)}}[m.r.IntN(3)]
		tail := tails[m.r.IntN(len(tails))]
		m.sample(between(m, func(x *graph.Value, c int) *graph.Value { return tail(m, norm(m, x, g, c)) }, g*per, dims...))
	}))

	It("of row-major images has what comes behind it in the same node, too", seeds(24, func(m *model) {
		g, per := m.between(1, 5), m.between(1, 20)
		x := m.input(m.between(1, 3), g*per, pick(m, m.between(1, 9), m.between(300, 5000)))
		m.sample(tails[m.r.IntN(len(tails))](m, norm(m, x, g, g*per)))
	}))

	It("keeps the blocked layout, and what comes behind it in the same node", func() {
		m := newModel(1)
		y := between(m, func(x *graph.Value, c int) *graph.Value {
			x = m.op("GroupNormalization", x, m.constant(c), m.constant(c), graph.IntAttr("num_groups", 4))
			return m.op("Mul", x, m.op("Sigmoid", x))
		}, 40, 12, 12)
		m.sample(y)
		Expect(m.steps).To(Equal([]string{"Conv", "scale-tail", "scale-tail", "scale-tail", "Conv"}))
	})

	It("takes a number of channels that the scale alone tells", func() {
		m := newModel(1)
		of := graph.TensorType(tensor.Float32, graph.Shape{graph.D(1), graph.Sym("C"), graph.D(5), graph.D(3)})
		x := m.op("Pow", m.feedAs(of, m.floats(1, 8, 5, 3)), m.scalar(2))
		m.check(m.op("Relu", m.op("GroupNormalization", x, m.constant(8), m.constant(8), graph.IntAttr("num_groups", 4))))
	})

	It("loses nothing where the mean is far from zero", seeds(4, func(m *model) {
		c := 20
		m.sample(between(m, func(x *graph.Value, c int) *graph.Value {
			x = m.op("Add", x, m.scalar(100))
			return m.op("InstanceNormalization", x, m.constant(c), m.constant(c), graph.FloatAttr("epsilon", 1))
		}, c, 50, 50))
	}))
})

var _ = Describe("transpositions of channels between convolutions", func() {
	// rows puts a normalisation of pixels, which has their channels last, between two convolutions.
	rows := func(m *model, n, c, h, w int) *graph.Value {
		x := m.op("Conv", m.input(n, 5, h, w), m.constant(c, 5, 1, 1))
		x = m.op("Transpose", x, graph.IntsAttr("perm", 0, 2, 3, 1))
		x = m.op("LayerNormalization", x, m.constant(c), m.constant(c))
		return m.op("Conv", m.op("Transpose", x, graph.IntsAttr("perm", 0, 3, 1, 2)), m.constant(7, c, 1, 1))
	}

	It("agree with the reference kernels", seeds(30, func(m *model) {
		m.sample(rows(m, m.between(1, 3), pick(m, 16, 32, 48, m.between(1, 40)), m.between(1, 9), m.between(1, 9)))
	}))

	It("read and write blocks of channels where all are whole", func(ctx SpecContext) {
		conversions := func(c int) int {
			m := newModel(1)
			m.g.SetOutputs(rows(m, 1, c, 12, 12))
			cm := carve.FromGraph(m.g)
			defer cm.Close()
			p, err := carve.Compile(ctx, cm, &carve.Options{Backends: []backend.Config{{Name: "cpu"}}, Strict: true})
			Expect(err).NotTo(HaveOccurred())
			defer p.Close()
			r, err := p.Report(ctx, nil)
			Expect(err).NotTo(HaveOccurred())
			return r.Run.Count
		}
		Expect(conversions(32)).To(BeNumerically("<", conversions(33)))
	})
})

var _ = Describe("normalisation of images", func() {
	It("over channels whose number is open runs for every size", func() {
		for _, channels := range []int{5, 0} {
			m := newModel(1)
			of := graph.TensorType(tensor.Float32, graph.Shape{graph.Sym("N"), graph.Sym("C"), graph.Sym("W")})
			scale := graph.TensorType(tensor.Float32, graph.Shape{graph.Sym("C")})
			m.check(m.op("InstanceNormalization", m.feedAs(of, m.floats(2, channels, 9)), m.feedAs(scale, m.floats(channels)), m.feedAs(scale, m.floats(channels))))
		}
	})

	It("over channels whose number the scale alone tells runs", func() {
		m := newModel(1)
		of := graph.TensorType(tensor.Float32, graph.Shape{graph.Sym("N"), graph.Sym("C"), graph.Sym("H"), graph.Sym("W")})
		x := m.feedAs(of, m.floats(2, 8, 5, 3))
		m.check(m.op("InstanceNormalization", x, m.constant(8), m.constant(8)),
			m.op("GroupNormalization", x, m.constant(8), m.constant(8), graph.IntAttr("num_groups", 4)))
	})

	It("over groups of channels agrees with the reference kernels", seeds(24, func(m *model) {
		g, per := m.between(1, 4), m.between(1, 5)
		c := g * per
		shape := append([]int{m.between(1, 3), c}, m.shape(m.between(1, 3), 2, 5)...)
		x := operand(m, shape...)
		eps := graph.FloatAttr("epsilon", 0.01)
		switch m.r.IntN(3) {
		case 0:
			m.sample(m.op("InstanceNormalization", x, operand(m, c), operand(m, c), eps))
		case 1:
			m.version(18)
			m.sample(m.op("GroupNormalization", x, operand(m, g), operand(m, g), eps, graph.IntAttr("num_groups", int64(g))))
		case 2:
			m.sample(m.op("GroupNormalization", x, operand(m, c), operand(m, c), eps, graph.IntAttr("num_groups", int64(g))))
		}
	}))

	It("leaves rows of zeros", func() {
		m := newModel(1)
		rows := m.floats(70, 5)
		for i := 5; i < 70*5; i += 15 {
			clear(tensor.Of[float32](rows)[i:][:5])
		}
		x := m.feedAs(graph.TensorType(tensor.Float32, graph.ShapeOf(70, 5)), rows)
		m.check(m.op("LpNormalization", x, graph.IntAttr("p", 1)), m.op("LpNormalization", x))
		columns := m.op("Transpose", x)
		m.check(m.op("LpNormalization", columns, graph.IntAttr("axis", 0), graph.IntAttr("p", 1)), m.op("LpNormalization", columns, graph.IntAttr("axis", 0)))
	})

	It("of rows along any axes agrees with the reference kernels", seeds(60, func(m *model) {
		shape := m.shape(m.between(1, 4), 1, 9)
		axis := m.between(0, len(shape)-1)
		if m.chance(4) {
			shape[len(shape)-1] = pick(m, 63, 64, 1023, 1025)
		}
		shape[axis] = pick(m, 1, 2, 17, 33)
		x := operand(m, shape...)
		switch m.r.IntN(3) {
		case 0:
			m.sample(m.op("LpNormalization", x, graph.IntAttr("axis", int64(axis)), graph.IntAttr("p", int64(m.between(1, 2)))))
		case 1:
			axes := []int64{int64(axis)}
			for a := range shape {
				if a != axis && m.chance(2) {
					axes = append(axes, int64(a-len(shape)))
				}
			}
			m.sample(m.op("MeanVarianceNormalization", x, graph.IntsAttr("axes", axes...)))
		case 2:
			m.version(pick(m, 11, 13))
			m.sample(m.op("Hardmax", m.op("Round", x), graph.IntAttr("axis", int64(axis))))
		}
	}))

	It("over neighbouring channels agrees with the reference kernels", seeds(16, func(m *model) {
		x := operand(m, append([]int{m.between(1, 2), m.between(1, 9)}, m.shape(m.between(1, 3), 1, 5)...)...)
		args := []any{x, graph.IntAttr("size", int64(m.between(1, 6)))}
		if m.chance(2) {
			args = append(args, graph.FloatAttr("alpha", 0.3), graph.FloatAttr("beta", 0.6), graph.FloatAttr("bias", 1.5))
		}
		m.sample(m.op("LRN", args...))
	}))
})
