package cpu_test

import (
	. "github.com/onsi/ginkgo/v2"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

var _ = Describe("regions of images", func() {
	It("are aligned as the reference kernels do", seeds(40, func(m *model) {
		images, count := m.between(1, 3), m.between(1, 6)
		x := operand(m, images, m.between(1, 37), m.between(1, 9), m.between(1, 9))
		// Corners reach beyond the images, and some regions are turned over.
		rois := m.op("Mul", operand(m, count, 4), m.op("Constant", graph.TensorAttr("value", tensor.Scalar(float32(12)))))
		of := make([]int64, count)
		for i := range of {
			of[i] = int64(m.between(0, images-1))
		}
		which := m.feed(tensor.From(of, count))
		args := []any{x, rois, which, graph.IntAttr("sampling_ratio", int64(m.between(1, 3))), graph.IntAttr("output_height", int64(m.between(1, 4))),
			graph.IntAttr("output_width", int64(m.between(1, 4))), graph.FloatAttr("spatial_scale", pick(m, float32(1), 0.5, 0.25)),
			graph.StringAttr("coordinate_transformation_mode", pick(m, "half_pixel", "output_half_pixel"))}
		y := m.op("RoiAlign", args...)
		if m.between(0, 1) == 1 { // which reads blocks of channels
			y = m.op("MaxPool", y, graph.IntsAttr("kernel_shape", 1, 1))
		}
		m.sample(y)
	}))
})
