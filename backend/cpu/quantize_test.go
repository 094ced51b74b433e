package cpu_test

import (
	"math"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// one returns a constant of one number.
func one[T tensor.Element](m *model, v T) *graph.Value {
	return m.op("Constant", graph.TensorAttr("value", tensor.Scalar(v)))
}

// whole returns a tensor of whole numbers up to most: sums of their products are exact.
func whole(m *model, most int, shape ...int) *tensor.Tensor {
	t := m.floats(shape...)
	s := tensor.Of[float32](t)
	for i := range s {
		s[i] = float32(m.between(-most, most))
	}
	return t
}

// scalesFor returns scales for a tensor of these dims, one for all, for each index of an axis or for each block, with the attributes that say so.
func (m *model) scalesFor(dims []int) (scales *tensor.Tensor, attrs []any) {
	axis, size := m.r.IntN(len(dims)), []int{}
	switch m.r.IntN(3) {
	case 0:
		size = []int{dims[axis]}
		attrs = []any{graph.IntAttr("axis", int64(axis-m.r.IntN(2)*len(dims)))}
	case 1:
		block := m.between(1, 4)
		size = append(size, dims...)
		size[axis] = (dims[axis] + block - 1) / block
		attrs = []any{graph.IntAttr("axis", int64(axis)), graph.IntAttr("block_size", int64(block))}
	}
	scales = m.floats(size...)
	for i, s := 0, tensor.Of[float32](scales); i < len(s); i++ {
		s[i] = s[i]*s[i] + 0.1
	}
	return scales, attrs
}

var _ = Describe("quantisation", func() {
	It("agrees with the reference kernels, element for element", seeds(30, func(m *model) {
		x := m.op("Mul", operand(m, m.shape(m.between(1, 4), 1, 9)...), m.scalar(float32(m.between(1, 200))))
		scale := one(m, pick(m, float32(0.5), 0.25, 1, 0.1))
		var zero *graph.Value
		switch m.r.IntN(5) {
		case 0:
			zero = one(m, uint8(m.between(0, 255)))
		case 1:
			zero = one(m, int8(m.between(-128, 127)))
		case 2:
			zero = one(m, uint16(m.between(0, 65535)))
		case 3:
			zero = one(m, int16(m.between(-32768, 32767)))
		}
		q := m.op("QuantizeLinear", present(x, scale, zero)...)
		m.sample(q, m.op("DequantizeLinear", present(q, scale, zero)...))
	}))

	It("is part of kernels where it is undone at once", seeds(60, func(m *model) {
		scale, zero := one(m, pick(m, float32(0.5), 1, 2, 3)), one(m, uint8(m.between(0, 255)))
		bytes := true
		switch m.r.IntN(4) {
		case 0:
			zero = one(m, int8(m.between(-128, 127)))
		case 1: // levels of 16 bits are narrow, and ends of them near
			scale, zero, bytes = one(m, pick(m, float32(0.5), 0.001)), one(m, pick(m, uint16(0), 7, 65530, 65535)), false
		case 2:
			scale, zero, bytes = one(m, pick(m, float32(0.5), 0.001)), one(m, pick(m, int16(-32768), -32760, 32700, 32767)), false
		}
		c := m.between(1, 20)
		x := m.feed(whole(m, 9, m.between(1, 2), c, m.between(3, 9), m.between(3, 9)))
		if m.chance(2) {
			x = m.op("Neg", x)
		}
		var y *graph.Value
		switch m.r.IntN(4) {
		case 0:
			y = m.op("Conv", x, m.data(whole(m, 2, m.between(1, 20), c, 3, 3)))
		case 1:
			y = m.op("MatMul", x, m.data(whole(m, 2, m.known[x].Shape[3], m.between(1, 20))))
		case 2:
			y = m.op("Gemm", m.op("Flatten", x), m.data(whole(m, 2, c*m.known[x].Shape[2]*m.known[x].Shape[3], 7)), m.data(whole(m, 9, 7)))
		default:
			y = x
		}
		if m.chance(3) {
			y = m.op("Add", y, m.feed(whole(m, 9, m.known[y].Shape...)))
		}
		switch m.r.IntN(3) {
		case 0:
			y = m.op("Relu", y)
		case 1:
			y = m.op("Clip", y, m.scalar(-3), m.scalar(40))
		}
		y = m.op("QuantizeLinear", y, scale, zero)
		if len(m.known[y].Shape) == 4 && m.known[y].Shape[2] > 1 && m.known[y].Shape[3] > 1 && bytes && m.chance(3) {
			y = m.op("MaxPool", y, kernel(2, 2), strides(2, 1))
		}
		y = m.op("DequantizeLinear", y, scale, zero)
		if m.chance(2) {
			y = m.op("Conv", m.op("Unsqueeze", m.op("Flatten", y), m.ints(0)), m.data(whole(m, 2, 4, m.known[y].Shape[0], 1)))
		}
		m.sample(y)
	}))

	It("is computed around element-wise operators, on one or two operands that others may read", seeds(60, func(m *model) {
		m.judge = m.stepOff
		shape := m.shape(m.between(0, 4), 1, 9)
		dequantised := func() *graph.Value {
			dt := byteType(m)
			return m.op("DequantizeLinear", m.feed(bytesOf(m, dt, shape...)), one(m, float32(0.02)), m.data(bytesOf(m, dt)))
		}
		a := dequantised()
		y := m.op(pick(m, "Sigmoid", "LeakyRelu", "HardSwish"), a)
		if !m.chance(3) {
			y = m.op(pick(m, "Add", "Mul", "Sub"), a, dequantised())
			if m.chance(2) {
				y = m.op("Relu", y)
			}
		}
		out := []*graph.Value{m.op("QuantizeLinear", y, one(m, float32(0.03)), m.data(bytesOf(m, byteType(m))))}
		if m.chance(2) {
			out = append(out, m.op("QuantizeLinear", m.op("Relu", a), one(m, float32(0.01)), one(m, uint8(3))))
		}
		m.sample(out...)
	}))

	It("is a table where all that is between is of one value, quantised in between or not, and read by others or not", seeds(120, func(m *model) {
		m.judge = m.stepOff
		shape := m.shape(m.between(0, 4), 1, 9)
		if m.chance(8) {
			shape = []int{m.between(4000, 9000)}
		}
		scale := func() *graph.Value { return one(m, float32(0.01+0.02*m.r.Float64())) }
		dequantise := func(v *graph.Value) *graph.Value {
			return m.op("DequantizeLinear", v, scale(), m.data(bytesOf(m, v.Type.DType)))
		}
		quantise := func(v *graph.Value) *graph.Value {
			return m.op("QuantizeLinear", v, scale(), m.data(bytesOf(m, byteType(m))))
		}
		x := m.feed(bytesOf(m, byteType(m), shape...))
		floats := []*graph.Value{dequantise(x)}
		if m.chance(3) {
			floats = append(floats, dequantise(x))
		}
		out := []*graph.Value{}
		for range m.between(1, 6) {
			v := pick(m, floats...)
			switch m.r.IntN(5) {
			case 0:
				v = m.op(pick(m, "Relu", "LeakyRelu", "HardSigmoid", "Abs", "Neg"), v)
			case 1:
				v = m.op(pick(m, "Add", "Mul", "Sub", "Max"), v, pick(m, floats...))
			case 2:
				v = m.op(pick(m, "Add", "Mul", "Sub"), v, one(m, float32(0.75)))
			default:
				q := quantise(v)
				if v = dequantise(q); m.chance(4) {
					out = append(out, q)
				}
			}
			floats = append(floats, v)
		}
		for range m.between(1, 2) {
			out = append(out, quantise(pick(m, floats[1:]...)))
		}
		m.sample(append(out, quantise(floats[len(floats)-1]))...)
	}))

	It("pools what is quantised", seeds(30, func(m *model) {
		zero := one(m, uint8(128))
		if m.chance(2) {
			zero = one(m, int8(0))
		}
		k, l, d := m.between(1, 3), m.between(1, 4), m.between(1, 2)
		x := m.feed(whole(m, 120, m.between(1, 2), m.between(1, 5), m.between((k-1)*d+1, 9), m.between((l-1)*d+1, 9)))
		m.sample(m.op("MaxPool", m.op("QuantizeLinear", x, one(m, float32(1)), zero), kernel(int64(k), int64(l)), strides(m.int64s(2, 1, 3)...), dilations(int64(d), int64(d)),
			pads(int64(m.between(0, k-1)), int64(m.between(0, l-1)), int64(m.between(0, k-1)), int64(m.between(0, l-1))), graph.IntAttr("ceil_mode", int64(m.r.IntN(2)))))
	}))

	It("bounds what is beyond, and takes NaN for the least", func() {
		m := newModel(1)
		inf := float32(math.Inf(1))
		x := m.feed(tensor.From([]float32{inf, -inf, float32(math.NaN()), 0.5, 1.5, 2.5, -0.5, 1e30}))
		m.sample(m.op("QuantizeLinear", x, one(m, float32(1)), one(m, uint8(7))), m.op("QuantizeLinear", x, one(m, float32(1)), one(m, int8(-3))))
	})

	It("rounds NaN to the least level, whatever is behind it", seeds(30, func(m *model) {
		dims := m.shape(m.between(1, 4), 1, 40)
		x := m.floats(dims...)
		for i, s := 0, tensor.Of[float32](x); i < len(s); i++ {
			s[i] *= pick(m, 1, 1, 30, 1e6, float32(math.Inf(1)), float32(math.NaN()))
		}
		dt := pick(m, tensor.Uint8, tensor.Int8, tensor.Uint16, tensor.Int16)
		scale, zero := one(m, pick(m, float32(0.5), 3, float32(math.Inf(1)))), m.data(bytesOf(m, dt))
		q := m.op("QuantizeLinear", m.feed(x), scale, zero)
		y := m.op("DequantizeLinear", q, scale, zero)
		m.sample(pick(m, y, m.op("Relu", y), m.op("Add", y, m.input(dims...)), q))
	}))

	It("bounds dynamically what has no numbers in it", func() {
		m := newModel(1)
		inf := float32(math.Inf(1))
		x := m.feed(tensor.From([]float32{inf, -inf, 1, 2}))
		m.sample(m.ops("DynamicQuantizeLinear", 3, x)...)
	})

	It("has a scale for each index of an axis, or each block, of constants or of a run", seeds(80, func(m *model) {
		dims := m.shape(m.between(1, 4), 1, 9)
		scales, attrs := m.scalesFor(dims)
		size := scales.Shape
		dt := pick(m, tensor.Uint8, tensor.Int8, tensor.Uint16, tensor.Int16, tensor.Int32)
		zeros, err := tensor.New(dt, size...)
		Expect(err).NotTo(HaveOccurred())
		scale, zero := m.given(scales), (*graph.Value)(nil)
		for i := range zeros.Bytes() {
			zeros.Bytes()[i] = byte(m.r.IntN(256))
		}
		if dt == tensor.Int32 {
			clear(zeros.Bytes())
			x, err := tensor.New(dt, dims...)
			Expect(err).NotTo(HaveOccurred())
			for i, s := 0, tensor.Of[int32](x); i < len(s); i++ {
				s[i] = int32(m.r.Uint32()) >> m.r.IntN(32)
			}
			if m.chance(2) {
				zero = m.given(zeros)
			}
			m.check(m.op("DequantizeLinear", append(present(m.feed(x), scale, zero), attrs...)...))
			return
		}
		if zero = m.given(zeros); dt == tensor.Uint8 && m.chance(3) {
			zero = nil
		}
		q := m.op("QuantizeLinear", append(present(m.op("Mul", m.input(dims...), m.scalar(30)), scale, zero), attrs...)...)
		m.sample(q, m.op("DequantizeLinear", append(present(q, scale, zero), attrs...)...))
	}))

	It("to floats of 8 bits, and from all of them, agrees with the reference kernels", seeds(80, func(m *model) {
		dt := pick(m, tensor.Float8E4M3FN, tensor.Float8E4M3FNUZ, tensor.Float8E5M2, tensor.Float8E5M2FNUZ)
		dims := m.shape(m.between(1, 4), 1, 9)
		scales, attrs := m.scalesFor(dims)
		zeros, err := tensor.New(dt, scales.Shape...)
		Expect(err).NotTo(HaveOccurred())
		x, scale, zero := m.floats(dims...), m.given(scales), m.data(zeros)
		for i, s := 0, tensor.Of[float32](x); i < len(s); i++ {
			s[i] *= pick(m, 0, 1e-3, 1, 30, 1000, 1e6, float32(math.Inf(1)), float32(math.NaN()))
		}
		q := m.op("QuantizeLinear", append([]any{m.feed(x), scale, zero, graph.IntAttr("saturate", int64(m.r.IntN(2)))}, attrs...)...)
		if m.chance(2) {
			zero = nil
		}
		y := m.op("DequantizeLinear", append(present(m.feed(bytesOf(m, dt, dims...)), scale, zero), attrs...)...)
		m.exact(m.op("Cast", q, to(tensor.Float32)), m.op("DequantizeLinear", append(present(q, scale, zero), attrs...)...), y)
	}))

	It("of many elements is spread over threads", seeds(3, func(m *model) {
		scale, zero := m.feed(tensor.Scalar(float32(0.1))), m.feed(tensor.Scalar(int8(3)))
		q := m.op("QuantizeLinear", m.input(3, 7001), scale, zero)
		m.sample(q, m.op("DequantizeLinear", q, scale, zero))
	}))
})
