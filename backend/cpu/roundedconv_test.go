package cpu_test

import (
	. "github.com/onsi/ginkgo/v2"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// roundedConv adds a convolution of integers whose scales are powers of two, so that its results are exact: as a QLinearConv, or between
// nodes that dequantise and quantise, with an activation.
func roundedConv(m *model, x *graph.Value, dw []int, attrs ...any) *graph.Value {
	const sx, sy = float32(1.0 / 4), float32(1.0 / 2)
	tx, tw, ty := x.Type.DType, byteType(m), byteType(m)
	scale := m.floats(pick(m, []int{}, []int{dw[0]})...)
	for i, s := 0, tensor.Of[float32](scale); i < len(s); i++ {
		s[i] = pick(m, float32(1.0/16), 1.0/64, 1.0/128)
	}
	w, zx, zy := m.data(bytesOf(m, tw, dw...)), m.data(bytesOf(m, tx)), m.data(bytesOf(m, ty))
	zero := m.data(bytesOf(m, tw, scale.Shape...))
	if m.chance(2) {
		clear(m.known[zero].Bytes())
	}
	if m.chance(2) {
		in := []any{x, one(m, sx), zx, w, m.data(scale), zero, one(m, sy), zy}
		if m.chance(2) {
			bias, err := tensor.New(tensor.Int32, dw[0])
			if err != nil {
				Fail(err.Error())
			}
			for i, b := 0, tensor.Of[int32](bias); i < len(b); i++ {
				b[i] = int32(m.between(-9999, 9999))
			}
			in = append(in, m.data(bias))
		}
		return m.op("QLinearConv", append(in, attrs...)...)
	}
	var along []any
	if len(scale.Shape) > 0 {
		along = append(along, axis(0))
	}
	in := []any{m.op("DequantizeLinear", x, one(m, sx), zx), m.op("DequantizeLinear", append([]any{w, m.data(scale), zero}, along...)...)}
	if m.chance(2) {
		in = append(in, m.data(whole(m, 99, dw[0])))
	}
	y := m.op("Conv", append(in, attrs...)...)
	switch m.r.IntN(4) {
	case 0:
		y = m.op("Relu", y)
	case 1:
		y = m.op("Clip", y, m.scalar(-3), m.scalar(40))
	case 2:
		y = m.op("LeakyRelu", y, graph.FloatAttr("alpha", 0.25))
	}
	return m.op("QuantizeLinear", y, one(m, sy), zy)
}

var _ = Describe("chains of convolutions of 8-bit integers", func() {
	It("are the reference's, element for element, channels last or not", seeds(100, func(m *model) {
		m.options = map[string]string{"winograd": "off"} // of floats, which those with zero points of weights run in: its sums are not exact
		channels, k := pick(m, 3, 15, 16, 17, 24, 40, 64, 96, 144), m.between(1, 5)
		x := m.feed(bytesOf(m, byteType(m), m.between(1, 2), m.between(1, 20), m.between(9, 16), m.between(9, 16)))
		expanded := roundedConv(m, x, []int{channels, m.known[x].Shape[1], 1, 1})
		var windows []any
		if k == 3 && m.chance(2) { // an image of the same size, so that both are added
			windows = []any{pads(1, 1, 1, 1)}
		} else {
			d := int64(m.between(1, min(2, 8/k)))
			windows = []any{pads(m.int64s(4, 0, k)...), strides(m.int64s(2, 1, 3)...), dilations(d, d)}
		}
		y := roundedConv(m, expanded, []int{channels, 1, k, k}, append(windows, group(channels))...)
		if len(windows) == 1 {
			a, b := m.op("DequantizeLinear", expanded, one(m, float32(0.5)), m.data(bytesOf(m, expanded.Type.DType))),
				m.op("DequantizeLinear", y, one(m, float32(0.25)), m.data(bytesOf(m, y.Type.DType)))
			sum := m.op("Add", a, b)
			if m.chance(2) {
				sum = m.op("Relu", sum)
			}
			y = m.op("QuantizeLinear", sum, one(m, float32(0.5)), m.data(bytesOf(m, byteType(m))))
		}
		side := min(m.between(1, 3), m.known[y].Shape[2], m.known[y].Shape[3])
		out := roundedConv(m, y, []int{length(m), channels, side, side})
		m.sample(out)
	}))
})
