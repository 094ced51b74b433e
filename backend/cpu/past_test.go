package cpu_test

import (
	. "github.com/onsi/ginkgo/v2"

	"github.com/carve-dev/carve/backend/cpu"
	"github.com/carve-dev/carve/graph"
)

var _ = Describe("results that go past the caches", func() {
	It("are those of the reference kernels", seeds(1, func(m *model) {
		m.last = 4 * cpu.LeastPast
		const least = cpu.LeastPast / 4 // elements
		channels, side := m.between(2, 5), m.between(20, 60)
		batch := least/(channels*side*side) + 1
		x := operand(m, batch, channels, side, side)
		m.sample(m.op("Add", x, operand(m, side, side)))
		m.sample(m.op("LayerNormalization", x, m.constant(side), axis(-1), graph.FloatAttr("epsilon", 0.01)))
		m.sample(m.op("InstanceNormalization", x, operand(m, channels), operand(m, channels), graph.FloatAttr("epsilon", 0.01)))
		m.sample(m.op("Relu", x))
		y := m.op("Abs", m.op("Sub", m.op("Relu", x), operand(m, side, side)))
		m.sample(m.op("Mul", y, m.op("Neg", x)), y)
	}))
})
