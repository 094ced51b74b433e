package cpu_test

import (
	"fmt"
	"math"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// bytesOf returns a tensor of random integers of 8 bits, the extremes often.
func bytesOf(m *model, dt tensor.DType, shape ...int) *tensor.Tensor {
	t, err := tensor.New(dt, shape...)
	Expect(err).NotTo(HaveOccurred())
	for i := range t.Bytes() {
		t.Bytes()[i] = pick(m, 0, 127, 128, 255, byte(m.r.Uint32()), byte(m.r.Uint32()), byte(m.r.Uint32()))
	}
	return t
}

// given adds a tensor as an input or a constant.
func (m *model) given(t *tensor.Tensor) *graph.Value {
	if m.chance(2) {
		return m.feed(t)
	}
	return m.data(t)
}

// byteType returns one of the two types.
func byteType(m *model) tensor.DType { return pick(m, tensor.Uint8, tensor.Int8) }

// length returns one of those at which kernels have edges.
func length(m *model) int { return pick(m, 1, 2, 3, 5, 6, 7, 13, 16, 17, 31, 32, 33, 47, 64, 97) }

// zeroOf returns a zero point, or nil: of the whole operand or, as a vector, of each of n rows or columns.
func zeroOf(m *model, dt tensor.DType, n int) *graph.Value {
	switch m.r.IntN(4) {
	case 0:
		return nil
	case 1:
		return m.given(bytesOf(m, dt))
	case 2:
		return m.given(bytesOf(m, dt, 1))
	}
	return m.given(bytesOf(m, dt, n))
}

// matmulInteger adds a product of an input with a matrix, or a stack of them.
func matmulInteger(m *model) (y *graph.Value, columns int) {
	rows, k, n := length(m), length(m), length(m)
	da, db := []int{rows, k}, []int{k, n}
	switch m.r.IntN(5) {
	case 0:
		da = append([]int{m.between(1, 3), m.between(1, 3)}, da...)
	case 1:
		da, db = append([]int{3}, da...), append([]int{pick(m, 1, 3)}, db...)
	case 2:
		db = append([]int{2, 1}, db...)
	}
	ta, tb := byteType(m), byteType(m)
	a, b := m.feed(bytesOf(m, ta, da...)), m.given(bytesOf(m, tb, db...))
	return m.op("MatMulInteger", a, b, zeroOf(m, ta, rows), zeroOf(m, tb, n)), n
}

var _ = Describe("products of 8-bit integers", func() {
	It("are the reference's, element for element", seeds(60, func(m *model) {
		y, _ := matmulInteger(m)
		m.check(y)
	}))

	It("take vectors", seeds(12, func(m *model) {
		k, n := length(m), length(m)
		a, b := m.feed(bytesOf(m, tensor.Uint8, 2, k)), m.given(bytesOf(m, tensor.Int8, k, n))
		if m.chance(2) {
			a = m.feed(bytesOf(m, tensor.Uint8, k))
		} else {
			b = m.given(bytesOf(m, tensor.Int8, k))
		}
		m.check(m.op("MatMulInteger", a, b, m.given(bytesOf(m, tensor.Uint8)), m.given(bytesOf(m, tensor.Int8))))
	}))

	It("of many chunks are the reference's", seeds(3, func(m *model) {
		a, b := m.feed(bytesOf(m, tensor.Uint8, 101, 67)), m.data(bytesOf(m, tensor.Int8, 67, 700))
		m.check(m.op("MatMulInteger", a, b, m.given(bytesOf(m, tensor.Uint8)), zeroOf(m, tensor.Int8, 700)))
	}))

	It("are scaled, shifted and activated in one node", seeds(40, func(m *model) {
		y, n := matmulInteger(m)
		y = m.op("Cast", y, graph.IntAttr("to", int64(tensor.Float32)))
		scales := m.floats(pick(m, []int{}, []int{1}, []int{n}, []int{1, n})...)
		for i, s := 0, tensor.Of[float32](scales); i < len(s); i++ {
			s[i] = s[i]*s[i]/1000 + 1e-5
		}
		y = m.op("Mul", y, m.given(scales))
		if m.chance(2) {
			y = m.op("Add", m.constant(n), y)
		}
		if m.chance(2) {
			y = m.op(pick(m, "Relu", "Gelu", "Sigmoid", "LeakyRelu"), y)
		}
		m.check(y)
	}))
})

var _ = Describe("dynamic quantisation", func() {
	It("is the reference's, element for element", seeds(30, func(m *model) {
		x := m.floats(m.shape(pick(m, 1, 2, 3, 4), 1, 9)...)
		for i, s := 0, tensor.Of[float32](x); i < len(s); i++ {
			s[i] = s[i]*pick(m, float32(1), 10) + float32(m.seed%3)*4 - 4
		}
		if m.chance(6) {
			clear(x.Bytes())
		}
		m.check(m.ops("DynamicQuantizeLinear", 3, m.feed(x))...)
	}))

	It("of many chunks is the reference's", seeds(2, func(m *model) {
		m.check(m.ops("DynamicQuantizeLinear", 3, m.input(3, 20000))...)
	}))

	It("with its product is what quantisers write", seeds(20, func(m *model) {
		rows, k, n := length(m), length(m), length(m)
		q := m.ops("DynamicQuantizeLinear", 3, m.input(2, rows, k))
		var out []*graph.Value
		for range m.between(1, 3) { // which share what was quantised
			wt := byteType(m)
			w, zero, scale := m.data(bytesOf(m, wt, k, n)), m.data(bytesOf(m, wt)), one(m, float32(0.01))
			scales := m.op("Mul", q[1], scale)
			y := m.op("Mul", m.op("Cast", m.op("MatMulInteger", q[0], w, q[2], zero), graph.IntAttr("to", int64(tensor.Float32))), scales)
			out = append(out, m.op("Relu", m.op("Add", y, m.constant(n))))
		}
		m.check(out...)
	}))
})

var _ = Describe("dynamic quantisation of images", func() {
	It("with its convolution is what quantisers write", seeds(20, func(m *model) {
		dx, dw, attrs := integerWindow(m)
		q := m.ops("DynamicQuantizeLinear", 3, m.input(dx...))
		wt := byteType(m)
		in := []any{q[0], m.data(bytesOf(m, wt, dw...)), q[2], m.data(bytesOf(m, wt))}
		y := m.op("Cast", m.op("ConvInteger", append(in, attrs...)...), graph.IntAttr("to", int64(tensor.Float32)))
		y = m.op("Mul", y, m.op("Mul", q[1], one(m, float32(0.01))))
		channel := []int{dw[0]}
		for range dw[2:] {
			channel = append(channel, 1)
		}
		if m.chance(2) {
			y = m.op("Add", y, m.constant(channel...))
		}
		if m.chance(2) {
			y = m.op(pick(m, "Relu", "HardSwish", "Sigmoid"), y)
		}
		m.sample(y)
	}))
})

// stepOff is a judge of results that may be a step of quantisation off where a quotient lies between two, in few places.
func (m *model) stepOff(got map[string]tensor.Value) string {
	for _, v := range m.g.Outputs {
		g, want := got[v.Name].(*tensor.Tensor), m.known[v]
		off := 0
		for i := range want.Len() {
			d := g.Int64At(i) - want.Int64At(i)
			if d < -1 || d > 1 {
				return fmt.Sprintf("output %s[%d] is %d, expected %d", v.Name, i, g.Int64At(i), want.Int64At(i))
			}
			if d != 0 {
				off++
			}
		}
		if off > 1+want.Len()/1000 {
			return fmt.Sprintf("output %s has %d elements of %d a step off", v.Name, off, want.Len())
		}
	}
	return ""
}

// scaleOf adds a constant scale, or one for each of n columns, times a factor.
func scaleOf(m *model, by float64, n int) *graph.Value {
	t := m.floats(pick(m, []int{}, []int{n})...)
	for i, s := 0, tensor.Of[float32](t); i < len(s); i++ {
		s[i] = float32(by * (0.5 + m.r.Float64()))
	}
	return m.data(t)
}

var _ = Describe("operators that requantise", func() {
	It("multiply matrices as the reference does", seeds(80, func(m *model) {
		m.judge = m.stepOff
		rows, k, n := length(m), length(m), length(m)
		da, db := []int{rows, k}, []int{k, n}
		if m.chance(3) {
			da, db = append([]int{3}, da...), append([]int{pick(m, 1, 3)}, db...)
		}
		ta, tb, ty := byteType(m), byteType(m), byteType(m)
		zb := m.data(bytesOf(m, tb, pick(m, []int{}, []int{n})...))
		m.sample(m.op("QLinearMatMul", m.feed(bytesOf(m, ta, da...)), one(m, float32(0.02)), m.given(bytesOf(m, ta)),
			m.given(bytesOf(m, tb, db...)), scaleOf(m, 0.05, n), zb, one(m, float32(0.3*math.Sqrt(float64(k)))), m.data(bytesOf(m, ty))))
	}))

	It("convolve as the reference does", seeds(120, func(m *model) {
		m.judge = m.stepOff
		dx, dw, attrs := integerWindow(m)
		tx, tw, ty := byteType(m), byteType(m), byteType(m)
		fan := dw[1]
		for _, k := range dw[2:] {
			fan *= k
		}
		zero := m.given(bytesOf(m, tw, pick(m, []int{}, []int{dw[0]})...))
		in := []any{m.feed(bytesOf(m, tx, dx...)), one(m, float32(0.02)), m.data(bytesOf(m, tx)), m.given(bytesOf(m, tw, dw...)), scaleOf(m, 0.05, dw[0]), zero,
			one(m, float32(0.3*math.Sqrt(float64(fan)))), m.data(bytesOf(m, ty))}
		if m.chance(2) {
			bias, err := tensor.New(tensor.Int32, dw[0])
			Expect(err).NotTo(HaveOccurred())
			for i, b := 0, tensor.Of[int32](bias); i < len(b); i++ {
				b[i] = int32(m.between(-9999, 9999))
			}
			in = append(in, m.data(bias))
		}
		m.sample(m.op("QLinearConv", append(in, attrs...)...))
	}))

	It("round halves to even", func() {
		m := newModel(1)
		a := m.feed(tensor.From([]uint8{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 10, 1))
		m.check(m.op("QLinearMatMul", a, one(m, float32(0.5)), one(m, uint8(5)), m.data(tensor.From([]int8{1}, 1, 1)), one(m, float32(1)), one(m, int8(0)),
			one(m, float32(1)), one(m, uint8(100))))
	})
})

var _ = It("a run on integers allocates nothing", func(ctx SpecContext) {
	m := newModel(1)
	x := m.input(1, 20, 9, 9)
	scale, zero := one(m, float32(0.05)), one(m, uint8(128))
	q := m.op("QuantizeLinear", x, scale, zero)
	w := func(shape ...int) *graph.Value {
		return m.op("DequantizeLinear", m.data(bytesOf(m, tensor.Int8, shape...)), one(m, float32(0.001)))
	}
	d := m.op("DequantizeLinear", q, scale, zero)
	dense := m.op("QuantizeLinear", m.op("Relu", m.op("Conv", d, w(20, 20, 3, 3), pads(1, 1, 1, 1))), scale, zero)
	depthwise := m.op("QuantizeLinear", m.op("Conv", d, w(20, 1, 3, 3), pads(1, 1, 1, 1), group(20)), scale, zero)
	sum := m.op("QuantizeLinear", m.op("Add", m.op("DequantizeLinear", dense, scale, zero), m.op("DequantizeLinear", depthwise, scale, zero)), scale, zero)
	pooled := m.op("MaxPool", sum, kernel(2, 2))
	dynamic := m.ops("DynamicQuantizeLinear", 3, m.op("Flatten", m.op("DequantizeLinear", pooled, scale, zero)))
	y := m.op("MatMulInteger", dynamic[0], m.data(bytesOf(m, tensor.Uint8, 20*8*8, 33)), dynamic[2], one(m, uint8(7)))
	y = m.op("Mul", m.op("Cast", y, graph.IntAttr("to", int64(tensor.Float32))), dynamic[1])
	Expect(m.allocations(ctx, y)).To(BeZero())
})
