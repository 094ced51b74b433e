package cpu_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

var _ = Describe("short rows of broadcasting operators", func() {
	It("agree with the reference kernels", seeds(150, func(m *model) {
		shape := []int{m.between(1, 4), m.between(1, 6), m.between(1, 90), m.between(1, pick(m, 8, 60, 300))}
		shapes := [3][]int{append([]int{}, shape...), append([]int{}, shape...), append([]int{}, shape...)}
		for k := range shape {
			for i, which := 0, m.r.IntN(3); i < m.between(0, 2); i++ { // one at least keeps the dim
				shapes[(which+i)%3][k] = 1
			}
		}
		dt := pick(m, tensor.Float32, tensor.Int64, tensor.Int32, tensor.Uint8, tensor.Int8)
		a, b := small(m, dt, shapes[0]...), small(m, dt, shapes[1]...)
		ready := m.op(pick(m, "Less", "Equal", "GreaterOrEqual"), a, b)
		out := []*graph.Value{ready, m.op("Where", pick(m, ready, small(m, tensor.Bool, shapes[2]...)), a, small(m, dt, shapes[2]...)),
			m.op(pick(m, "And", "Or", "Xor"), ready, small(m, tensor.Bool, shapes[2]...))}
		if dt != tensor.Float32 {
			out = append(out, m.op(pick(m, "Add", "Sub", "Mul"), a, b), m.op(pick(m, "Max", "Min"), a, b, small(m, dt, shapes[2]...)))
		}
		m.check(out...)
	}))

	It("of float64 agree with the reference kernels", seeds(60, func(m *model) {
		shape := []int{m.between(1, 3), m.between(1, 40), m.between(1, pick(m, 8, 60, 300))}
		a, b := append([]int{}, shape...), append([]int{}, shape...)
		for k := range shape {
			if m.chance(2) {
				pick(m, a, b)[k] = 1
			}
		}
		x, y := m.input(a...), m.input(b...)
		m.checkDouble(m.op(pick(m, "Add", "Sub", "Mul"), x, y), m.op("Div", x, m.op("Add", m.op("Abs", y), m.scalar(1))), m.op(pick(m, "Max", "Min"), y, x))
	}))

	It("need no memory of Go's heap", func(ctx SpecContext) {
		m := newModel(1)
		a, b := small(m, tensor.Int64, 8, 1, 50, 40), small(m, tensor.Int64, 8, 20, 1, 40)
		less := m.op("Less", a, b)
		Expect(m.allocations(ctx, less, m.op("Add", a, b), m.op("Where", less, a, b))).To(BeZero())
	})
})
