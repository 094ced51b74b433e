package cpu_test

import (
	. "github.com/onsi/ginkgo/v2"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

var _ = Describe("regressors of support vectors", func() {
	It("give what package reference does, of all kernels, in float32 and float64", seeds(40, func(m *model) {
		n, columns, rows := m.between(1, 90), m.between(1, 40), pick(m, 1, 3, m.between(1, 200))
		numbers := func(n int, by float64) []float32 {
			list := make([]float32, n)
			for i := range list {
				list[i] = float32(by * m.r.NormFloat64())
			}
			return list
		}
		x := m.floats(rows, columns)
		if m.chance(4) {
			wide, err := tensor.Convert(x, tensor.Float64, nil)
			if err != nil {
				panic(err)
			}
			x = wide
		}
		attrs := []graph.Attr{graph.FloatsAttr("support_vectors", numbers(n*columns, 1)...), graph.FloatsAttr("coefficients", numbers(n, 2)...),
			graph.FloatsAttr("rho", numbers(1, 1)...), graph.IntAttr("n_supports", int64(n)),
			graph.StringAttr("kernel_type", pick(m, "POLY", "SIGMOID", "POLY", "SIGMOID", "RBF", "LINEAR")),
			graph.FloatsAttr("kernel_params", pick[float32](m, 0.05, 0.3), pick[float32](m, 0, 0.5, -1), pick[float32](m, 1, 2, 3, 5, 9)),
			graph.StringAttr("post_transform", pick(m, "NONE", "NONE", "LOGISTIC"))}
		m.check(m.classical("SVMRegressor", m.feed(x), attrs...))
	}))
})
