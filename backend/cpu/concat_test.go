package cpu_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
)

var _ = Describe("Concat", func() {
	It("agrees with the reference kernels in every shape", seeds(40, func(m *model) {
		shape := make([]int, m.between(1, 5))
		for i := range shape {
			shape[i] = m.between(1, 4)
		}
		a := m.r.IntN(len(shape))
		var in []any
		var last *graph.Value
		for range m.between(1, 5) {
			shape[a] = m.between(0, 4)
			switch {
			case last != nil && m.chance(4):
				in = append(in, last) // the same value again
			default:
				last = operand(m, shape...)
				in = append(in, last)
			}
		}
		if m.chance(2) {
			a -= len(shape)
		}
		y := m.op("Concat", append(in, axis(a))...)
		m.sample(y, m.op("Neg", y))
	}))

	It("agrees with the reference kernels in the blocked layout", seeds(40, func(m *model) {
		n, h, w := m.between(1, 3), m.between(1, 4), m.between(1, 4)
		x := m.input(n, 5, h, w)
		var in []any
		total := 0
		for range m.between(1, 4) {
			c := pick(m, 1, 7, 16, 32, 33, 48)
			v := m.op("Conv", x, m.constant(c, 5, 1, 1))
			if m.chance(2) {
				v = m.op("Sigmoid", v)
			}
			total += c
			in = append(in, v)
			if m.chance(3) {
				in = append(in, v)
				total += c
			}
		}
		y := m.op("Concat", append(in, axis(pick(m, 1, -3)))...)
		out := []*graph.Value{m.op("Conv", y, m.constant(3, total, 1, 1))}
		if m.chance(2) {
			out = append(out, y)
		}
		if m.chance(2) {
			out = append(out, m.op("Exp", in[0]))
		}
		if m.chance(3) {
			out = append(out, in[0].(*graph.Value))
		}
		m.sample(out...)
	}))

	It("in growing chains shares buffers and keeps values", seeds(30, func(m *model) {
		n := pick(m, 1, 1, 2)
		grow := pick(m, 16, 16, 12, 5)
		parts := []any{m.op("Conv", m.input(n, 3, 4, 5), m.constant(32, 3, 1, 1))}
		total := 32
		var out []*graph.Value
		for range m.between(2, 5) {
			y := parts[0].(*graph.Value)
			if len(parts) > 1 {
				y = m.op("Concat", append(append([]any{}, parts...), axis(1))...)
			}
			if m.chance(4) {
				out = append(out, y)
			}
			if m.chance(4) {
				y = m.op("Relu", y)
			}
			parts = append(parts, m.op("Relu", m.op("Conv", y, m.constant(grow, total, 3, 3), pads(1, 1, 1, 1))))
			total += grow
		}
		y := m.op("Concat", append(append([]any{}, parts...), axis(1))...)
		m.sample(append(out, m.op("GlobalAveragePool", m.op("Relu", y)))...)
	}))

	It("of one value several times, of constants, inputs and views", func() {
		m := newModel(1)
		x := m.input(1, 16, 2, 3)
		y := m.op("Neg", x)
		r := m.op("Reshape", y, m.ints(1, 32, 3, 1))
		m.check(m.op("Concat", y, y, x, m.constant(1, 2, 2, 3), axis(1)), m.op("Concat", r, r, axis(1)), m.op("Concat", y, axis(1)),
			m.op("Concat", m.op("Concat", y, x, axis(1)), y, axis(1)), m.op("Add", y, x))
	})
})

var _ = Describe("Split and Slice of channels", func() {
	It("agree with the reference kernels", seeds(40, func(m *model) {
		n, c := m.between(1, 3), m.between(4, 50)
		x := m.op("Conv", m.input(n, 5, 3, 2), m.constant(c, 5, 1, 1))
		a := m.between(1, c-1)
		if m.chance(2) && c > 17 {
			a = 16
		}
		var parts []*graph.Value
		if m.chance(2) {
			parts = m.ops("Split", 2, x, m.ints(int64(a), int64(c-a)), axis(pick(m, 1, -3)))
		} else {
			parts = []*graph.Value{m.op("Slice", x, m.ints(0), m.ints(int64(a)), m.ints(1)),
				m.op("Slice", x, m.ints(int64(a)), m.ints(1000), m.ints(-3), m.ints(1))}
		}
		out := []*graph.Value{m.op("Conv", parts[0], m.constant(4, a, 1, 1)), m.op("Exp", parts[1])}
		switch m.r.IntN(4) {
		case 0:
			out = append(out, parts[1])
		case 1:
			out = append(out, m.op("Concat", parts[1], parts[0], axis(1)))
		case 2:
			out = append(out, m.op("Sigmoid", x))
		}
		m.sample(out...)
	}))

	It("split unevenly and by number", seeds(20, func(m *model) {
		d := m.between(3, 9)
		x := operand(m, 2, d, 3)
		k := m.between(2, 3)
		out := m.ops("Split", k, x, axis(1), graph.IntAttr("num_outputs", int64(k)))
		m.sample(append(out, m.op("Neg", out[0]))...)
	}))

	It("with an omitted part keep the places of the others", func() {
		m := newModel(1)
		x := m.op("Neg", m.input(6, 3))
		out := m.add(graph.NodeSpec{Op: graph.Op{Name: "Split"}, Name: "s", Inputs: []*graph.Value{x, m.ints(1, 2, 3)}, Outputs: []string{"", "b", "c"}})
		Expect(m.err).NotTo(HaveOccurred())
		m.g.SetOutputs(out[1], out[2])
		for _, w := range ways(false) {
			Expect(m.run(w)).To(Succeed())
		}
	})
})

var _ = Describe("channel shuffle", func() {
	It("agrees with the reference kernels", seeds(20, func(m *model) {
		n, g, per := m.between(1, 3), m.between(2, 4), m.between(1, 12)
		c := g * per
		h, w := m.between(1, 4), m.between(1, 4)
		x := m.op("Conv", m.input(n, 5, h, w), m.constant(c, 5, 1, 1))
		r := m.op("Reshape", x, m.ints(int64(n), int64(g), int64(per), int64(h), int64(w)))
		t := m.op("Transpose", r, graph.IntsAttr("perm", 0, 2, 1, 3, 4))
		y := m.op("Reshape", t, m.ints(int64(n), int64(c), int64(h), int64(w)))
		out := []*graph.Value{m.op("Conv", y, m.constant(3, c, 1, 1))}
		if m.chance(2) {
			out = append(out, y)
		}
		if m.chance(3) {
			out = append(out, t) // a value inside of the pattern
		}
		m.sample(out...)
	}))
})
