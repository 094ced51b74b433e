package cpu_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// classLabels returns labels of so many classes, as numbers of either type; some of them are ignored, a number from 0 to classes.
func classLabels(m *model, classes, ignored int, shape ...int) *graph.Value {
	GinkgoHelper()
	t, err := tensor.New(pick(m, tensor.Int64, tensor.Int32), shape...)
	Expect(err).NotTo(HaveOccurred())
	v := make([]int64, t.Len())
	for i := range v {
		if v[i] = int64(m.r.IntN(classes)); m.chance(4) {
			v[i] = int64(ignored)
		}
	}
	Expect(tensor.EncodeInts(t, v)).To(Succeed())
	return m.feed(t)
}

var _ = Describe("losses of labels", func() {
	It("agree with the reference kernels", seeds(60, func(m *model) {
		classes := pick(m, 1, 2, 5, 33)
		spatial := pick(m, []int{}, []int{}, m.shape(m.between(1, 2), 1, 6), []int{2, 70})
		n := m.between(1, 5)
		ignored := m.r.IntN(classes + 1)
		args := []any{m.input(append([]int{n, classes}, spatial...)...), classLabels(m, classes, ignored, append([]int{n}, spatial...)...)}
		if m.chance(2) {
			args = append(args, m.op("Abs", m.input(classes)))
		}
		args = append(args, graph.StringAttr("reduction", pick(m, "none", "sum", "mean")), graph.IntAttr("ignore_index", int64(ignored)))
		sample := pick(m, m.sample, m.sampleDouble)
		if m.chance(2) {
			sample(m.op("NegativeLogLikelihoodLoss", args...))
			return
		}
		out := m.ops("SoftmaxCrossEntropyLoss", m.between(1, 2), args...)
		made := []*graph.Value{m.op("Neg", out[0])}
		for _, v := range out[1:] {
			made = append(made, v, m.op("Neg", v))
		}
		sample(made...)
	}))

	It("of no labels agree with the reference kernels", func() {
		m := newModel(1)
		x, labels := m.input(0, 3, 2), classLabels(m, 3, 0, 0, 2)
		m.check(m.op("SoftmaxCrossEntropyLoss", x, labels), m.op("NegativeLogLikelihoodLoss", x, labels, graph.StringAttr("reduction", "sum")))
	})

	It("refuse labels of no class", func() {
		m := newModel(1)
		x, labels := m.input(2, 3), m.feed(tensor.From([]int64{0, 2}, 2))
		m.g.SetOutputs(m.op("SoftmaxCrossEntropyLoss", x, labels))
		m.feeds[labels.Name] = tensor.From([]int64{0, 3}, 2)
		Expect(m.run(way{target: ways(true)[0].target, threads: 1, strict: true})).To(MatchError(backend.ErrRange))
	})
})
