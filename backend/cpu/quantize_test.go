package cpu_test

import (
	"math"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/property"
)

// one returns a constant of one number.
func one[T tensor.Element](m *model, v T) *graph.Value {
	return m.op("Constant", graph.TensorAttr("value", tensor.Scalar(v)))
}

var _ = Describe("quantisation", func() {
	It("agrees with the reference kernels, element for element", seeds(30, func(m *model) {
		x := m.op("Mul", operand(m, m.shape(m.between(1, 4), 1, 9)...), m.scalar(float32(m.between(1, 200))))
		scale := one(m, pick(m, float32(0.5), 0.25, 1, 0.1))
		var zero *graph.Value
		switch m.r.IntN(3) {
		case 0:
			zero = one(m, uint8(m.between(0, 255)))
		case 1:
			zero = one(m, int8(m.between(-128, 127)))
		}
		q := m.op("QuantizeLinear", present(x, scale, zero)...)
		m.sample(q, m.op("DequantizeLinear", present(q, scale, zero)...))
	}))

	It("bounds what is beyond, and takes NaN for nothing", func() {
		m := newModel(1)
		inf := float32(math.Inf(1))
		x := m.feed(tensor.From([]float32{inf, -inf, float32(math.NaN()), 0.5, 1.5, 2.5, -0.5, 1e30}))
		m.sample(m.op("QuantizeLinear", x, one(m, float32(1)), one(m, uint8(7))), m.op("QuantizeLinear", x, one(m, float32(1)), one(m, int8(-3))))
	})

	It("has one number for all", func() {
		m := newModel(1)
		perChannel := m.op("Constant", graph.TensorAttr("value", tensor.From([]float32{1, 2})))
		Expect(supports(m.op("QuantizeLinear", m.input(2, 2), perChannel)).Reason.Code).To(Equal(property.Unsupported))
		Expect(supports(m.op("QuantizeLinear", m.input(2, 2), m.input())).Reason.Code).To(Equal(property.Unsupported))
	})
})
