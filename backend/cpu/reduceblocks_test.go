package cpu_test

import (
	. "github.com/onsi/ginkgo/v2"

	"github.com/carve-dev/carve/graph"
)

var _ = Describe("sums of the pixels of blocked images", func() {
	It("agree with the reference kernels, as blocks and as rows", seeds(40, func(m *model) {
		n, c, h, w := m.between(1, 3), m.between(1, 50), m.between(1, 12), m.between(1, 12)
		x := m.op("Conv", m.input(n, 16, h, w), m.scaled(0.5, c, 16, 1, 1), m.constant(c))
		sum := func(keep int64) *graph.Value {
			return m.op(pick(m, "ReduceSum", "ReduceMean", "ReduceSumSquare", "ReduceL1", "ReduceL2"), x, m.ints(2, 3), graph.IntAttr("keepdims", keep))
		}
		// a second convolution keeps the image in blocks
		y := m.op("Conv", m.op("Mul", x, sum(1)), m.scaled(0.1, 16, c, 1, 1))
		m.sample(y, sum(int64(m.r.IntN(2))))
	}))
})
