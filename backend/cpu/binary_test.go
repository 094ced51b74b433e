package cpu_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// broadcastTo returns a shape that broadcasts to one of a rank: any dims become 1, leading ones may be missing.
func broadcastTo(m *model, shape []int) []int {
	var out []int
	for _, d := range shape {
		if m.chance(2) {
			d = 1
		}
		out = append(out, d)
	}
	return out[m.between(0, len(out)):]
}

// operand adds an operand of a shape: an input, a constant, or the result of a node.
func operand(m *model, shape ...int) *graph.Value {
	GinkgoHelper()
	switch m.r.IntN(3) {
	case 0:
		return m.constant(shape...)
	case 1:
		return m.input(shape...)
	}
	return m.op("Neg", m.input(shape...))
}

// away keeps numbers off zero, so that quotients stay small.
func away(m *model, v *graph.Value) *graph.Value {
	GinkgoHelper()
	return m.op("Add", m.op("Abs", v), m.scalar(0.5))
}

var arithmetic = []string{"Add", "Sub", "Mul", "Div", "Max", "Min"}

var _ = Describe("binary operators", func() {
	It("broadcast as the reference kernels do", seeds(80, func(m *model) {
		shape := make([]int, m.between(0, 5))
		for i := range shape {
			shape[i] = pick(m, 1, 2, 3, 5, 17)
		}
		if m.chance(12) && len(shape) > 0 {
			shape[m.r.IntN(len(shape))] = 0
		}
		a, b := shape, broadcastTo(m, shape)
		if m.chance(3) {
			a = broadcastTo(m, shape)
		}
		if m.chance(2) {
			a, b = b, a
		}
		op := pick(m, arithmetic...)
		x, y := operand(m, a...), operand(m, b...)
		if op == "Div" {
			y = away(m, y)
		}
		m.sample(m.op(op, x, y))
	}))

	It("broadcast to images in the blocked layout", seeds(80, func(m *model) {
		n, c, h, w := m.between(1, 3), m.between(2, 40), m.between(1, 5), m.between(1, 5)
		x := m.op("Conv", m.input(n, 5, h, w), m.constant(c, 5, 1, 1))
		shape := pick(m, []int{}, []int{1}, []int{1, c, 1, 1}, []int{c, 1, 1}, []int{n, c, 1, 1}, []int{n, 1, 1, 1}, []int{1, 1, h, w},
			[]int{w}, []int{h, 1}, []int{n, c, h, w}, []int{1, c, h, w}, []int{n, c, 1, w}, []int{1, 1, 1, 1, 1})
		y := operand(m, shape...)
		if len(shape) == 4 && shape[2] == 1 && shape[3] == 1 && shape[1] == c && m.chance(2) {
			z := m.op("GlobalAveragePool", x)
			if shape[0] == n {
				y = m.op("Sigmoid", z)
			}
		}
		op := pick(m, arithmetic...)
		if op == "Div" {
			y = away(m, y)
		}
		out := m.op(op, x, y)
		if op != "Div" && m.chance(2) {
			out = m.op(op, y, x)
		}
		if len(m.known[out].Shape) == 4 {
			out = m.op("Conv", out, m.constant(3, c, 1, 1))
		}
		m.sample(out)
	}))

	It("divide by small and great constants", func() {
		m := newModel(1)
		x := m.op("Conv", m.input(1, 5, 2, 2), m.constant(7, 5, 1, 1))
		var out []*graph.Value
		for _, d := range []float32{1e-40, 1e-38, 3e38, 0, -0.3} {
			out = append(out, m.op("Div", m.op("Mul", x, m.scalar(1e-3)), m.scalar(d)))
		}
		m.check(out...)
	})

	It("read a value twice", func() {
		m := newModel(1)
		x := m.op("Neg", m.input(2, 5, 3, 3))
		m.check(m.op("Add", x, x), m.op("Sub", x, x))
	})

	It("compute integers", seeds(30, func(m *model) {
		shape := []int{m.between(1, 3), m.between(1, 4), m.between(1, 5)}
		ints := func(shape []int) *graph.Value {
			t, err := tensor.New(pick(m, tensor.Int64), shape...)
			Expect(err).NotTo(HaveOccurred())
			for i, s := 0, tensor.Of[int64](t); i < len(s); i++ {
				s[i] = int64(m.between(-9, 9))
			}
			return m.feed(t)
		}
		a, b := ints(shape), ints(broadcastTo(m, shape))
		op := pick(m, arithmetic...)
		if m.chance(2) {
			a, b = m.op("Cast", a, graph.IntAttr("to", 6)), m.op("Cast", b, graph.IntAttr("to", 6))
		}
		m.sample(m.op(op, a, b))
	}))
})

var _ = Describe("unary operators", func() {
	ops := []string{"Exp", "Log", "Tanh", "Sigmoid", "Erf", "Sqrt", "Reciprocal", "Abs", "Neg", "HardSwish", "Softplus", "Mish", "Floor",
		"Ceil", "Round", "Relu", "LeakyRelu", "Elu", "Selu", "Celu", "HardSigmoid", "Swish", "Gelu"}
	for _, op := range ops {
		It("agree with the reference kernels: "+op, func() {
			m := newModel(uint64(len(op)))
			x := m.input(3, 7, 2, 3)
			if op == "Log" || op == "Sqrt" || op == "Reciprocal" {
				x = away(m, x)
			}
			y := m.op(op, x)
			z := m.op(op, m.op("Conv", x, m.constant(5, 7, 1, 1)))
			if op == "Log" || op == "Sqrt" || op == "Reciprocal" || op == "Floor" || op == "Ceil" || op == "Round" {
				z = m.op(op, m.op("MaxPool", x, kernel(1, 1)))
			}
			m.check(y, z, m.op(op, m.feed(m.floats())), m.op(op, m.input(0, 3)))
		})
	}

	It("take parameters", func() {
		m := newModel(1)
		x := m.input(300)
		alpha, beta, gamma := graph.FloatAttr("alpha", 0.7), graph.FloatAttr("beta", 0.3), graph.FloatAttr("gamma", 1.7)
		m.check(m.op("LeakyRelu", x, alpha), m.op("Elu", x, alpha), m.op("Selu", x, alpha, gamma), m.op("Celu", x, alpha),
			m.op("HardSigmoid", x, alpha, beta), m.op("Swish", x, alpha), m.op("Gelu", x, graph.StringAttr("approximate", "tanh")),
			m.op("Clip", x), m.op("Clip", x, m.scalar(1), m.scalar(-1)), m.op("Clip", x, nil, m.scalar(0.5)))
	})

	It("of NaN, infinities and zeros agree with the reference kernels", func() {
		m := newModel(1)
		inf := m.op("Div", m.input(4), m.data(tensor.From([]float32{0, 0, 0, 0}, 4)))
		nan := m.op("Sub", inf, inf)
		x := m.op("Concat", inf, nan, m.op("Mul", m.input(3), m.scalar(0)), axis(0))
		var out []*graph.Value
		for _, op := range []string{"Exp", "Tanh", "Sigmoid", "Erf", "Sqrt", "Reciprocal", "Abs", "Neg", "Relu", "Floor", "Round"} {
			out = append(out, m.op(op, x))
		}
		m.check(append(out, m.op("Clip", x, m.scalar(-1), m.scalar(1)), m.op("Max", x, m.scalar(0)), m.op("Min", m.scalar(0), x))...)
	})
})

var _ = Describe("Pow", func() {
	It("agrees with the reference kernels", func() {
		m := newModel(1)
		x := away(m, m.input(3, 5))
		var out []*graph.Value
		for _, e := range []float32{2, 3, 0.5, -0.5, -1, 0, 1, 1.7} {
			out = append(out, m.op("Pow", x, m.scalar(e)))
		}
		m.check(append(out, m.op("Pow", x, m.input(5)), m.op("Pow", m.scalar(2), m.input(600)), m.op("Pow", x, m.constant(2, 1, 1)))...)
	})

	It("by exponents of a run, of any type, agrees with the reference kernels", seeds(60, func(m *model) {
		shape := m.shape(m.between(1, 3), 1, 5)
		shape[len(shape)-1] = pick(m, 1, 3, 300)
		of := func(dt tensor.DType, shape []int, low int) *graph.Value {
			t, err := tensor.New(dt, shape...)
			Expect(err).NotTo(HaveOccurred())
			v := make([]float64, t.Len())
			for i := range v {
				v[i] = float64(m.between(low, 5))
				if dt == tensor.Float32 && m.chance(2) {
					v[i] += 0.25
				} else if low == -5 && m.chance(50) && dt != tensor.Float32 { // an odd one that float32 does not hold
					v[i] = 1<<25 + 1
				}
			}
			Expect(tensor.Encode(t, v)).To(Succeed())
			return m.feed(t)
		}
		x, e := shape, pick(m, shape, broadcastTo(m, shape), []int{})
		if m.chance(4) {
			x, e = e, x
		}
		low := -5
		base := pick(m, tensor.Float32, tensor.Float32, tensor.Int32, tensor.Int64)
		kind := pick(m, tensor.Float32, tensor.Int32, tensor.Int64)
		if base != tensor.Float32 && kind == tensor.Float32 {
			low = 1 // integers of infinities and NaN differ
		}
		m.sample(m.op("Pow", m.op("Cast", of(tensor.Int64, x, max(low, -3)), to(base)), of(kind, e, low)))
	}))

	It("of integers by one whole float32 agrees with the reference kernels, also where float64 does not hold them", seeds(40, func(m *model) {
		v, bits := make([]int64, 300), m.between(1, 62)
		for i := range v {
			v[i] = m.r.Int64N(1<<bits) - 1<<bits/2
		}
		y := float32(m.between(0, 4))
		if bits > 60/max(int(y), 1) { // beyond int64 the results of processors differ
			y = 1
		}
		m.sample(m.op("Pow", m.feed(tensor.From(v)), m.feed(tensor.Scalar(y))))
	}))
})
