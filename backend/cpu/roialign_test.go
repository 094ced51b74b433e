package cpu_test

import (
	"errors"
	"math"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
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
		args := []any{x, rois, which, graph.IntAttr("sampling_ratio", int64(m.between(0, 3))), graph.IntAttr("output_height", int64(m.between(1, 4))),
			graph.IntAttr("output_width", int64(m.between(1, 4))), graph.FloatAttr("spatial_scale", pick(m, float32(1), 0.5, 0.25)),
			graph.StringAttr("coordinate_transformation_mode", pick(m, "half_pixel", "output_half_pixel")), graph.StringAttr("mode", pick(m, "avg", "max"))}
		y := m.op("RoiAlign", args...)
		if m.between(0, 1) == 1 { // which reads blocks of channels
			y = m.op("MaxPool", y, graph.IntsAttr("kernel_shape", 1, 1))
		}
		m.sample(y)
	}))

	It("are aligned in float64 as the reference kernels do", seeds(80, func(m *model) {
		images, count, size := m.between(1, 3), m.between(1, 6), pick(m, 9, 40)
		x := operand(m, images, m.between(1, 37), m.between(1, size), m.between(1, size))
		// Corners reach beyond the images, and some regions are turned over.
		rois := m.op("Mul", operand(m, count, 4), m.scalar(float32(size)))
		of := make([]int64, count)
		for i := range of {
			of[i] = int64(m.between(0, images-1))
		}
		m.sampleDouble(m.op("RoiAlign", x, rois, m.feed(tensor.From(of, count)), graph.IntAttr("sampling_ratio", int64(m.between(0, 3))),
			graph.IntAttr("output_height", int64(m.between(1, 4))), graph.IntAttr("output_width", int64(m.between(1, 4))),
			graph.FloatAttr("spatial_scale", pick(m, float32(1), 0.5, 0.25)), graph.StringAttr("coordinate_transformation_mode", pick(m, "half_pixel", "output_half_pixel")),
			graph.StringAttr("mode", pick(m, "avg", "max"))))
	}))

	It("have maxima as the reference kernels do, of infinities and NaN too", seeds(12, func(m *model) {
		t := m.floats(2, m.between(1, 33), 7, 9)
		for range m.between(1, 40) {
			tensor.Of[float32](t)[m.r.IntN(t.Len())] = pick(m, float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)))
		}
		rois := m.op("Mul", operand(m, 5, 4), m.op("Constant", graph.TensorAttr("value", tensor.Scalar(float32(7)))))
		m.sample(m.op("RoiAlign", m.feed(t), rois, m.feed(tensor.From([]int64{0, 1, 0, 1, 1}, 5)), graph.StringAttr("mode", "max"),
			graph.IntAttr("sampling_ratio", int64(m.between(0, 2))), graph.IntAttr("output_height", 3), graph.IntAttr("output_width", 2)))
	}))

	It("have maxima in float64 as the reference kernels do, of infinities and NaN too", seeds(24, func(m *model) {
		t := as(m.floats(2, m.between(1, 5), 7, 9), tensor.Float64, false)
		for range m.between(1, 40) {
			tensor.Of[float64](t)[m.r.IntN(t.Len())] = pick(m, math.NaN(), math.Inf(1), math.Inf(-1))
		}
		rois := as(m.floats(5, 4), tensor.Float64, false)
		for i := range rois.Len() {
			tensor.Of[float64](rois)[i] *= 7
		}
		m.sample(m.op("RoiAlign", m.feed(t), m.feed(rois), m.feed(tensor.From([]int64{0, 1, 0, 1, 1}, 5)), graph.StringAttr("mode", "max"),
			graph.IntAttr("sampling_ratio", int64(m.between(0, 2))), graph.IntAttr("output_height", 3), graph.IntAttr("output_width", 2)))
	}))

	It("are refused by what they ask for: images that there are not, and samples without end", func(ctx SpecContext) {
		m := newModel(1)
		x, rois, which := m.input(2, 3, 9, 9), m.input(2, 4), m.feed(tensor.From([]int64{0, 1}))
		y := m.op("RoiAlign", x, rois, which, graph.IntAttr("sampling_ratio", 0), graph.IntAttr("output_height", 2), graph.IntAttr("output_width", 2))
		m.g.SetOutputs(y)
		p, err := carve.Compile(ctx, carve.FromGraph(m.g), &carve.Options{Backends: []backend.Config{{Name: "cpu"}}})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(p.Close)
		feeds := func(region []float32, image int64) map[string]tensor.Value {
			return map[string]tensor.Value{x.Name: m.feeds[x.Name], rois.Name: tensor.From(append([]float32{0, 0, 4, 4}, region...), 2, 4), which.Name: tensor.From([]int64{0, image})}
		}
		_, err = p.Run(ctx, feeds([]float32{1, 1, 5, 7}, 1))
		Expect(err).NotTo(HaveOccurred())
		_, err = p.Run(ctx, feeds([]float32{0, 0, 1e7, 4}, 1))
		Expect(err).To(MatchError(tensor.ErrTooLarge))
		Expect(err).To(MatchError(ContainSubstring("region 1")))
		var out *backend.RangeError
		_, err = p.Run(ctx, feeds([]float32{1, 1, 5, 7}, 2))
		Expect(errors.As(err, &out)).To(BeTrue(), "%v", err)
		got, err := p.Run(ctx, feeds([]float32{float32(math.NaN()), 1, 5, 7}, 1))
		Expect(err).NotTo(HaveOccurred())
		Expect(tensor.Of[float32](got[y.Name].(*tensor.Tensor))[12:]).To(Equal(make([]float32, 12)))
	})
})
