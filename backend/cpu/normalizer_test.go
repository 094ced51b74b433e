package cpu_test

import (
	. "github.com/onsi/ginkgo/v2"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

var _ = It("a Normalizer of numbers of each type agrees with the reference kernels", seeds(60, func(m *model) {
	shape := []int{pick(m, 1, 3, 70, 500), pick(m, m.between(1, 9), m.between(9, 40), 300)}
	x := m.input(shape...)
	if !m.chance(3) {
		x = pick(m, small, wholeNumbers)(m, pick(m, tensor.Int32, tensor.Int64), shape...)
	}
	m.check(m.classical("Normalizer", x, graph.StringAttr("norm", pick(m, "L1", "L2", "MAX"))))
}))
