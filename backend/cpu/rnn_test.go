package cpu_test

import (
	. "github.com/onsi/ginkgo/v2"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

var _ = Describe("RNN", func() {
	It("agrees with the reference kernels", seeds(40, func(m *model) {
		var attrs []graph.Attr
		if m.chance(2) {
			attrs = append(attrs, graph.StringsAttr("activations", pick(m, "Relu", "Sigmoid", "Tanh"), pick(m, "Relu", "Tanh")))
		}
		m.sample(recurrent(m, "RNN", 1, 1, 2, attrs...)...)
	}))

	It("agrees with the reference kernels where rows have steps of their own number", seeds(40, func(m *model) {
		m.lengths = true
		m.sample(recurrent(m, "RNN", 1, 1, 2, graph.StringsAttr("activations", pick(m, "Relu", "Sigmoid", "Tanh"), pick(m, "Relu", "Tanh")))...)
	}))

	It("runs in every way and for every length", func() {
		m := newModel(1)
		x := m.feedAs(graph.TensorType(tensor.Float32, graph.Shape{graph.Sym("S"), graph.Sym("N"), graph.D(7)}), m.floats(9, 3, 7))
		out := m.ops("RNN", 2, x, m.constant(2, 21, 7), m.scaled(0.2, 2, 21, 21), m.constant(2, 2*21), graph.IntAttr("hidden_size", 21), graph.StringAttr("direction", "bidirectional"))
		m.check(out...)
	})
})
