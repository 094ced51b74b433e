package cpu_test

import (
	"math"

	. "github.com/onsi/ginkgo/v2"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

var _ = Describe("Fourier transforms", func() {
	// transform adds a DFT of any version, along any axis, of real or complex numbers, of another length or not.
	transform := func(m *model) *graph.Value {
		shape := m.shape(m.between(1, 3), 1, 20)
		axis := m.between(0, len(shape)-1)
		if m.chance(2) {
			shape[axis] = pick(m, 1, 2, 7, 16, 30, 53, 64, 77, 106, 120)
		}
		onesided, inverse, channels := m.r.IntN(2), m.r.IntN(2), m.between(1, 2)
		length := (*graph.Value)(nil)
		if m.chance(3) {
			length = m.data(tensor.Scalar(int64(m.between(1, 60))))
		} else if onesided == 1 && inverse == 1 && shape[axis] == 1 {
			inverse = 0
		}
		in := []any{operand(m, append(shape, channels)...), length, graph.IntAttr("onesided", int64(onesided)), graph.IntAttr("inverse", int64(inverse))}
		if m.chance(2) {
			m.version(17)
			return m.op("DFT", append(in, graph.IntAttr("axis", int64(axis)))...)
		}
		m.version(20)
		if m.chance(2) {
			axis -= len(shape) + 1
		}
		return m.op("DFT", append(append(in[:2:2], m.data(tensor.Scalar(int64(axis)))), in[2:]...)...)
	}
	frames := func(m *model) *graph.Value {
		frame := m.between(1, 40)
		shape := []int{m.between(1, 3), frame + m.between(0, 100)}
		if m.chance(2) {
			shape = append(shape, m.between(1, 2))
		}
		onesided := int64(1)
		if len(shape) == 3 && shape[2] == 2 {
			onesided = 0
		}
		window, length := (*graph.Value)(nil), m.data(tensor.Scalar(int64(frame)))
		if m.chance(2) {
			window = operand(m, frame)
			if m.chance(2) {
				length = nil
			}
		}
		return m.op("STFT", operand(m, shape...), m.data(tensor.Scalar(int64(m.between(1, 30)))), window, length, graph.IntAttr("onesided", onesided*int64(m.r.IntN(2))))
	}
	It("agree with the reference kernels", seeds(150, func(m *model) { m.sample(transform(m)) }))
	It("of float64 do", seeds(80, func(m *model) { m.sampleDouble(transform(m)) }))
	It("of frames do", seeds(80, func(m *model) { m.sample(frames(m)) }))
	It("of frames of float64 do", seeds(40, func(m *model) { m.sampleDouble(frames(m)) }))
	It("keep rows of great and of small numbers apart", func() {
		m := newModel(1)
		t := m.floats(2, 64, 1)
		for i, v := 0, tensor.Of[float32](t); i < 64; i++ {
			v[i] *= float32(math.Pow(2, 80))
		}
		y := m.op("DFT", m.feed(t), nil, m.data(tensor.Scalar(int64(1))))
		m.check(m.op("Slice", y, m.ints(1), m.ints(2)), m.op("Slice", y, m.ints(0), m.ints(1)))
	})
})
