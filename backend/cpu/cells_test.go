package cpu_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/backendtest"
	"github.com/carve-dev/carve/graph"
)

var _ = Describe("operators with states", func() {
	It("agree with the reference kernels in all their forms, on cpu alone", func(ctx SpecContext) {
		for _, op := range []string{"LSTM", "GRU", "RNN", "LinearAttention", "CausalConvWithState"} {
			ran := map[string]int{}
			for seed := range uint64(max(80/seedShare, 1)) {
				c, err := backendtest.RandomOperator(op, 500+seed)
				if err != nil {
					continue
				}
				checkCase(c)
				Expect(c.Agree(ctx, carve.Options{Backends: []backend.Config{{Name: "cpu"}}, Strict: true}, ran)).To(Succeed(), "%v", c)
			}
			Expect(ran).NotTo(BeEmpty(), op)
		}
	})

	It("have every activation of the definition, weights that a run computes, and bounds", seeds(40, func(m *model) {
		op := pick(m, "LSTM", "GRU", "RNN")
		gates, each := map[string]int{"LSTM": 4, "GRU": 3, "RNN": 1}[op], map[string]int{"LSTM": 3, "GRU": 2, "RNN": 1}[op]
		seq, batch, in, hidden := m.between(1, 6), m.between(1, 3), m.between(1, 9), m.between(1, 37)
		var names []string
		for i := range 2 * each {
			names = append(names, pick(m, "Sigmoid", "HardSigmoid", "Tanh", "Softsign", "ScaledTanh"))
			if each == 1 || i%each > 0 {
				names[i] = pick(m, "ThresholdedRelu", "Relu", "Affine", "Elu", "Softplus", "LeakyRelu", names[i])
			}
		}
		values := []any{m.input(seq, batch, in), m.op("Neg", m.input(2, gates*hidden, in)), m.op("Mul", m.input(2, gates*hidden, hidden), m.scalar(0.2)), m.input(2, 2*gates*hidden),
			graph.StringsAttr("activations", names...), graph.FloatsAttr("activation_alpha", 0.5, 0.4), graph.FloatsAttr("activation_beta", 0.3), graph.FloatAttr("clip", 1.5),
			graph.IntAttr("hidden_size", int64(hidden)), graph.StringAttr("direction", "bidirectional")}
		if op == "GRU" {
			values = append(values, graph.IntAttr("linear_before_reset", int64(m.r.IntN(2))))
		}
		m.sample(m.ops(op, 2, values...)...)
	}))
})
