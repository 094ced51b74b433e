package cpu_test

import (
	"context"
	"math"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/backendtest"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
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

	It("are others' where bounds are in the wrong order, or none", func(ctx SpecContext) {
		for _, clip := range []float32{-1, float32(math.NaN())} {
			m := newModel(1)
			m.beyond(ctx, m.op("RNN", m.input(3, 2, 4), m.constant(1, 5, 4), m.constant(1, 5, 5), graph.IntAttr("hidden_size", 5), graph.FloatAttr("clip", clip)))
		}
	})
})

var _ = Describe("sizes that a table or a row's work would be too large for", func() {
	It("are others': axes of a Resize", func(ctx SpecContext) {
		m := newModel(1)
		m.beyond(ctx, m.op("Resize", m.input(3), nil, nil, m.ints(1<<20+1), graph.StringAttr("mode", "cubic")))
	})

	It("are others': rows of a TfIdfVectorizer of which many words are skipped", func(ctx SpecContext) {
		m := newModel(1)
		row := m.feed(tensor.From(m.int64s(1200, 0, 3), 1200))
		m.beyond(ctx, m.op("TfIdfVectorizer", row, graph.StringAttr("mode", "IDF"), graph.IntAttr("min_gram_length", 1), graph.IntAttr("max_gram_length", 1<<20),
			graph.IntAttr("max_skip_count", 1<<62), graph.IntsAttr("ngram_counts", 0, 2), graph.IntsAttr("ngram_indexes", 0, 1, 2), graph.IntsAttr("pool_int64s", 0, 1, 0, 1)))
	})
})

// beyond compares a value with the reference kernels', which cpu leaves to them.
func (m *model) beyond(ctx context.Context, y *graph.Value) {
	GinkgoHelper()
	m.g.SetOutputs(y)
	for _, strict := range []bool{false, true} {
		p, err := carve.Compile(ctx, carve.FromGraph(m.g), &carve.Options{Backends: []backend.Config{{Name: "cpu"}}, Strict: strict})
		if strict && err != nil {
			return
		}
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(p.Close)
		got, err := p.Run(ctx, m.feeds)
		if strict {
			Expect(err).To(HaveOccurred())
			return
		}
		Expect(err).NotTo(HaveOccurred())
		Expect(differ(got[y.Name].(*tensor.Tensor), m.known[y])).To(Succeed())
	}
}
