package cpu_test

import (
	. "github.com/onsi/ginkgo/v2"

	"github.com/carve-dev/carve/graph"
)

var _ = Describe("GridSample", func() {
	sampled := func(m *model) *graph.Value {
		n, c := m.between(1, 3), m.between(1, 5)
		image, points := []int{n, c}, []int{n}
		axes := pick(m, 1, 2, 2, 3)
		for range axes {
			image, points = append(image, m.between(1, 7)), append(points, m.between(1, pick(m, 6, 13)))
		}
		x := operand(m, image...)
		grid := m.op("Mul", operand(m, append(points, axes)...), m.scalar(1.4)) // some points lie outside
		return m.op("GridSample", x, grid, graph.StringAttr("mode", pick(m, "linear", "nearest", "cubic")),
			graph.StringAttr("padding_mode", pick(m, "zeros", "border", "reflection")), graph.IntAttr("align_corners", int64(m.r.IntN(2))))
	}
	It("agrees with the reference kernels", seeds(90, func(m *model) { m.sample(sampled(m)) }))
	It("agrees with the reference kernels in float64", seeds(60, func(m *model) { m.sampleDouble(sampled(m)) }))
})
