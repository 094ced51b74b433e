package cpu_test

import (
	. "github.com/onsi/ginkgo/v2"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// byteImage adds images of 8-bit integers, which lie with their channels last as often as not.
func byteImage(m *model, dt tensor.DType, n, c, h, w int) *graph.Value {
	if m.chance(2) {
		return m.feed(bytesOf(m, dt, n, c, h, w))
	}
	return m.op("Transpose", m.feed(bytesOf(m, dt, n, h, w, c)), graph.IntsAttr("perm", 0, 3, 1, 2))
}

// whereTheyLie is an image's value, or its transposition to channels last.
func whereTheyLie(m *model, y *graph.Value) *graph.Value {
	if m.chance(2) {
		return y
	}
	return m.op("Transpose", y, graph.IntsAttr("perm", 0, 2, 3, 1))
}

// dequantised adds the floats of integers with a zero point of their type.
func dequantised(m *model, x *graph.Value) *graph.Value {
	return m.op("DequantizeLinear", x, scaleOf(m, 0.05, 1), m.data(bytesOf(m, x.Type.DType)))
}

func quantisedTo(m *model, dt tensor.DType, y *graph.Value, by float64) *graph.Value {
	return m.op("QuantizeLinear", y, scaleOf(m, by, 1), m.data(bytesOf(m, dt)))
}

var _ = Describe("images of 8-bit integers", func() {
	It("are pooled as the reference does", seeds(80, func(m *model) {
		k, l, d, e := m.between(1, 5), m.between(1, 4), m.between(1, 3), m.between(1, 2)
		h, w := m.between((k-1)*d+1, 24), m.between((l-1)*e+1, pick(m, 9, 20, 300))
		x := byteImage(m, byteType(m), m.between(1, 2), m.between(1, pick(m, 4, 40)), h, w)
		m.sample(whereTheyLie(m, m.op("MaxPool", x, kernel(int64(k), int64(l)), strides(m.int64s(2, 1, 3)...), dilations(int64(d), int64(e)),
			pads(int64(m.between(0, k-1)), int64(m.between(0, l-1)), int64(m.between(0, k-1)), int64(m.between(0, l-1))), graph.IntAttr("ceil_mode", int64(m.r.IntN(2))))))
	}))

	It("have means that the reference has, or a step off", seeds(60, func(m *model) {
		m.judge = m.stepOff
		x := dequantised(m, byteImage(m, byteType(m), m.between(1, 3), m.between(1, pick(m, 8, 150)), m.between(1, 20), m.between(1, 20)))
		var y *graph.Value
		if m.chance(2) {
			y = m.op("GlobalAveragePool", x)
		} else {
			y = m.op("ReduceMean", x, m.ints(2, -1), graph.IntAttr("keepdims", int64(m.r.IntN(2))))
		}
		out := []*graph.Value{quantisedTo(m, byteType(m), y, 0.02)}
		if m.chance(2) { // the same floats have another reader
			out = append(out, m.op("Relu", x))
		}
		m.sample(out...)
	}))

	It("meet a number for each channel as the reference's do", seeds(60, func(m *model) {
		n, c, h, w := m.between(1, 3), m.between(1, pick(m, 5, 70)), m.between(1, 28), m.between(1, 28)
		x := dequantised(m, byteImage(m, byteType(m), n, c, h, w))
		numbers := dequantised(m, m.feed(bytesOf(m, byteType(m), pick(m, 1, n), c, 1, 1)))
		if m.chance(2) {
			x, numbers = numbers, x
		}
		y := m.op(pick(m, "Add", "Mul", "Sub", "Max"), x, numbers)
		switch m.r.IntN(4) {
		case 0:
			y = m.op("Relu", y)
		case 1:
			m.judge = m.stepOff
			y = m.op("HardSwish", y)
		}
		m.sample(whereTheyLie(m, quantisedTo(m, byteType(m), y, 0.1)))
	}))

	It("grow to twice their size as the reference's do", seeds(20, func(m *model) {
		x := byteImage(m, byteType(m), m.between(1, 2), m.between(1, 6), m.between(1, 20), m.between(1, 70))
		m.sample(m.op("Resize", x, nil, m.data(tensor.From([]float32{1, 1, 2, pick[float32](m, 2, 2, 3)}, 4)), graph.StringAttr("mode", "nearest"),
			graph.StringAttr("coordinate_transformation_mode", "asymmetric"), graph.StringAttr("nearest_mode", "floor")))
	}))
})
