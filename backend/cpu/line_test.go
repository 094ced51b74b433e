package cpu_test

import (
	. "github.com/onsi/ginkgo/v2"

	"github.com/carve-dev/carve/graph"
)

// present returns operands of a node, without the nil ones.
func present(vs ...*graph.Value) []any {
	var out []any
	for _, v := range vs {
		if v != nil {
			out = append(out, v)
		}
	}
	return out
}

var _ = Describe("operators over one axis", func() {
	It("convolve as the reference kernels do", seeds(30, func(m *model) {
		c, oc, g := channels(m)
		k, d := m.between(1, 4), m.between(1, 2)
		x := operand(m, m.between(1, 3), c, m.between((k-1)*d+1, 20))
		var bias *graph.Value
		if m.chance(2) {
			bias = m.constant(oc)
		}
		args := append(present(x, operand(m, oc, c/g, k), bias), group(g), dilations(int64(d)), strides(int64(m.between(1, 3))))
		switch m.r.IntN(3) {
		case 0:
			args = append(args, pads(int64(m.between(0, 2)), int64(m.between(0, 2))))
		case 1:
			args = append(args, graph.StringAttr("auto_pad", pick(m, "SAME_UPPER", "SAME_LOWER", "VALID")))
		}
		y := activate(m, m.op("Conv", args...))
		if m.chance(3) {
			y = m.op("Add", y, operand(m, m.known[y].Shape...))
		}
		m.sample(y)
	}))

	It("convolve sound, of few channels, in pieces and as products as the reference kernels do", seeds(24, func(m *model) {
		c, oc, k, d := pick(m, 1, 1, m.between(2, 4)), pick(m, m.between(1, 80), m.between(120, 150)), m.between(1, 12), m.between(1, 2)
		x := operand(m, m.between(1, 2), c, m.between((k-1)*d+1, pick(m, 40, 9000)))
		var bias *graph.Value
		if m.chance(2) {
			bias = operand(m, oc)
		}
		args := append(present(x, operand(m, oc, c, k), bias), dilations(int64(d)), strides(int64(m.between(1, 5))))
		if m.chance(2) {
			args = append(args, pads(int64(m.between(0, 2*k)), int64(m.between(0, 2*k))))
		}
		m.sample(activate(m, m.op("Conv", args...)))
	}))

	It("convolve to few results at stride 1 as the reference kernels do, with what comes in front and behind", seeds(40, func(m *model) {
		c, oc, k, d := m.between(1, 70), m.between(1, 9), m.between(1, 12), m.between(1, 3)
		x := operand(m, m.between(1, 3), c, m.between((k-1)*d+1, pick(m, 60, 700)))
		if m.chance(3) {
			x = m.op("Relu", x)
		}
		var bias *graph.Value
		if m.chance(2) {
			bias = operand(m, oc)
		}
		args := append(present(x, operand(m, oc, c, k), bias), dilations(int64(d)))
		switch m.r.IntN(3) {
		case 0:
			args = append(args, pads(int64(m.between(0, 2*k)), int64(m.between(0, 2*k))))
		case 1:
			args = append(args, graph.StringAttr("auto_pad", pick(m, "SAME_UPPER", "SAME_LOWER", "VALID")))
		}
		y := m.op("Conv", args...)
		if m.chance(3) {
			y = m.op("Add", y, operand(m, m.known[y].Shape...))
		}
		m.sample(activate(m, y))
	}))

	It("convolve transposed as the reference kernels do", seeds(16, func(m *model) {
		g := pick(m, 1, 1, 2)
		c, oc, k := g*m.between(1, 9), g*m.between(1, 9), m.between(1, 4)
		s := m.between(1, 3)
		y := m.op("ConvTranspose", operand(m, m.between(1, 2), c, m.between(1, 9)), operand(m, c, oc/g, k), operand(m, oc), group(g), strides(int64(s)),
			graph.IntsAttr("output_padding", int64(m.r.IntN(s))))
		m.sample(activate(m, y))
	}))

	It("pool as the reference kernels do", seeds(16, func(m *model) {
		k := m.between(1, 4)
		x := operand(m, m.between(1, 3), m.between(1, 33), m.between(k, 20))
		m.sample(m.op(pick(m, "MaxPool", "AveragePool"), x, kernel(int64(k)), strides(int64(m.between(1, 3))), pads(int64(m.between(0, k-1)), int64(m.between(0, k-1))),
			graph.IntAttr("ceil_mode", int64(m.r.IntN(2)))))
	}))
})

var _ = Describe("values that share storage", func() {
	It("are not overwritten while they are read", func() {
		m := newModel(1)
		x := m.op("Relu", m.op("Conv", m.input(1, 3, 6, 6), m.constant(16, 3, 1, 1)))
		w := func() *graph.Value { return m.constant(16, 16, 3, 3) }
		a := m.op("Add", m.op("Conv", x, w(), pads(1, 1, 1, 1)), x)                                      // the residual is the kernel's operand
		b := m.op("Add", m.op("Identity", a), m.op("Conv", a, w(), pads(1, 1, 1, 1)))                    // a view of it
		c := m.op("Relu", m.op("Add", m.op("Conv", b, w(), pads(1, 1, 1, 1)), x))                        // a value that is used again
		d := m.op("Add", m.op("Conv", c, w(), pads(1, 1, 1, 1)), m.op("Sigmoid", x))                     // one that is not
		flat := m.op("Reshape", m.op("Neg", d), m.ints(16, 36))                                          // matrices
		e := m.op("Add", m.op("MatMul", flat, m.constant(36, 36)), flat)                                 // residual and operand
		f := m.op("Add", m.op("MatMul", e, m.op("Transpose", e)), m.op("MatMul", e, m.constant(36, 16))) // both operands of one value
		g := m.op("Mul", f, m.op("Sigmoid", f))
		h := m.op("Add", m.op("Reshape", g, m.ints(-1)), m.op("Reshape", m.op("Transpose", g), m.ints(-1)))
		m.check(h, g, m.op("Sub", h, h))
	})

	It("serve as outputs, also when read again, given twice, or made of inputs", func() {
		m := newModel(1)
		x := m.input(2, 16, 3, 3)
		a := m.op("Relu", m.op("Conv", x, m.constant(16, 16, 1, 1)))
		b := m.op("Flatten", a)
		c := m.op("Reshape", x, m.ints(2, -1))
		d := m.op("Concat", a, m.op("Exp", a), axis(1))
		parts := m.ops("Split", 2, d, m.ints(16, 16), axis(1))
		m.check(a, b, c, x, d, a, parts[0], parts[1], m.op("Add", b, c))
	})
})
