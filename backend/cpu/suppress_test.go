package cpu_test

import (
	"math"

	. "github.com/onsi/ginkgo/v2"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

var _ = Describe("NonMaxSuppression", func() {
	It("keeps the boxes that the reference kernels keep", seeds(40, func(m *model) {
		images, classes, n := m.between(1, 2), m.between(1, 3), m.between(1, pick(m, 9, 90, 700))
		boxes, side := m.floats(images, n, 4), pick(m, 0.05, 0.3)
		for i, b := 0, tensor.Of[float32](boxes); i < len(b); i += 4 {
			y, x := m.r.Float64(), m.r.Float64()
			b[i], b[i+1], b[i+2], b[i+3] = float32(y), float32(x), float32(y+side*m.r.Float64()), float32(x+side*m.r.Float64())
			if m.chance(200) {
				b[i+m.r.IntN(4)] = pick(m, float32(math.NaN()), float32(math.Inf(1)))
			}
		}
		constant := func(t *tensor.Tensor) *graph.Value { return m.op("Constant", graph.TensorAttr("value", t)) }
		m.sample(m.op("NonMaxSuppression", m.feed(boxes), m.feed(m.floats(images, classes, n)), constant(tensor.Scalar(int64(pick(m, 5, 100, 1000)))),
			constant(tensor.Scalar(pick(m, float32(0.5), 0.1, 0.9, 0, -1))), constant(tensor.Scalar(pick(m, float32(-9), 0.1))),
			graph.IntAttr("center_point_box", int64(m.between(0, 1)))))
	}))
})
