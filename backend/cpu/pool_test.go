package cpu_test

import (
	. "github.com/onsi/ginkgo/v2"

	"github.com/carve-dev/carve/graph"
)

var _ = Describe("pooling", func() {
	It("windows larger than the image, which the last step of ceil_mode makes, agree with the reference kernels", seeds(6, func(m *model) {
		x := m.input(1, m.between(1, 20), 2, 2)
		m.sample(m.op(pick(m, "MaxPool", "AveragePool"), x, kernel(3, 3), strides(2, 2), graph.IntAttr("ceil_mode", 1)))
	}))

	It("means of windows that see padding alone, which are 0, agree with the reference kernels", seeds(12, func(m *model) {
		rank, ones := m.between(1, 3), []int64{}
		for range 2 * rank {
			ones = append(ones, 2)
		}
		x := m.input(m.shape(2+rank, 1, 5)...)
		y := m.op("AveragePool", x, kernel(ones[:rank]...), pads(ones...), graph.IntAttr("count_include_pad", int64(m.between(0, 1))))
		pick(m, m.sample, m.sampleDouble)(y)
	}))
})
