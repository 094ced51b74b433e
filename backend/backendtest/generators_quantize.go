package backendtest

import (
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/microsoft"
	"github.com/carve-dev/carve/graph/tensor"
)

// quantization are scale and zero point of a whole tensor in an eight-bit type.
type quantization struct {
	dtype tensor.DType
	scale float32
	zero  int
}

func (m *maker) quantization() quantization {
	q := quantization{dtype: pick(m, tensor.Uint8, tensor.Int8), scale: float32(0.01 + 0.05*m.r.Float64())}
	lo := 0
	if q.dtype == tensor.Int8 {
		lo = math.MinInt8
	}
	if q.zero = lo; !m.chance(4) {
		q.zero = m.between(lo, lo+math.MaxUint8)
	}
	return q
}

// numbers adds the constants scale and zero point.
func (m *maker) numbers(q quantization) (scale, zero *graph.Value) {
	return m.constant(m.fill(tensor.Float32, nil, func(int) float64 { return float64(q.scale) })),
		m.constant(m.fill(q.dtype, nil, func(int) float64 { return float64(q.zero) }))
}

// bytes adds an operand of integers over the whole range of a type.
func (m *maker) bytes(dt tensor.DType, shape ...int) *graph.Value {
	return m.leaf(m.anyBytes(dt, shape...))
}

// anyBytes returns a tensor of integers over the whole range of a type.
func (m *maker) anyBytes(dt tensor.DType, shape ...int) *tensor.Tensor {
	lo := 0
	if dt == tensor.Int8 {
		lo = math.MinInt8
	}
	return m.fill(dt, shape, func(int) float64 { return float64(m.between(lo, lo+math.MaxUint8)) })
}

// zeroPoints gives a product on integers zero points, or none: of an operand, or of each of its rows or columns, of which 0 means
// that there may be one only.
func (m *maker) zeroPoints(c *call, ta tensor.DType, rows int, tb tensor.DType, columns int) {
	for i, z := range []struct {
		dtype tensor.DType
		count int
	}{{ta, rows}, {tb, columns}} {
		switch k := m.r.IntN(4); {
		case k == 0:
			continue
		case k == 1 && z.count > 0:
			c.operand(2+i, m.parameter(m.anyBytes(z.dtype, z.count)))
		default:
			c.operand(2+i, m.leaf(m.anyBytes(z.dtype)))
		}
	}
}

// dequantized adds floats that are integers of an input.
func (m *maker) dequantized(shape ...int) *graph.Value {
	return m.dequantize(m.bytes(tensor.Uint8, shape...), quantization{dtype: tensor.Uint8, scale: float32(0.01 + 0.03*m.r.Float64()), zero: m.between(0, 255)})
}

// wide reports whether the integers have 16 bits.
func (q quantization) wide() bool { return q.dtype == tensor.Uint16 || q.dtype == tensor.Int16 }

// linear returns the name of QuantizeLinear or DequantizeLinear: that of ONNX Runtime's domain for integers of 16 bits in old operator sets.
func (m *maker) linear(op string, q quantization) string {
	if q.wide() && m.g.Opsets[""] < 21 {
		return microsoft.Domain + ":" + op
	}
	return op
}

func (m *maker) dequantize(x *graph.Value, q quantization) *graph.Value {
	scale, zero := m.numbers(q)
	y := m.call(m.linear("DequantizeLinear", q), x, scale, zero).one()
	m.c.slack[y] = m.c.slack[x] * float64(q.scale)
	return y
}

// quantize adds QuantizeLinear. Where x differs from backend to backend by rounding, some results are a step off.
func (m *maker) quantize(x *graph.Value, q quantization) *graph.Value {
	scale, zero := m.numbers(q)
	y := m.call(m.linear("QuantizeLinear", q), x, scale, zero).one()
	if slack := m.c.slack[x]; slack > 0 || !m.exact[x] {
		m.c.slack[y] = math.Ceil(slack/float64(q.scale)) + 1
	}
	return y
}

// betweenSteps adds an operand of floats that lie at most 0.3 quantisation steps from a multiple of the scale, so that no rounding
// of the quotient takes them to another integer.
func (m *maker) betweenSteps(q quantization, shape ...int) *graph.Value {
	return m.leaf(m.fill(tensor.Float32, shape, func(int) float64 { return float64(q.scale) * (float64(m.between(-300, 300)) + 0.6*m.r.Float64() - 0.3) }))
}

// quantizeGenerators are changes between floats and integers, and products on integers.
var quantizeGenerators = map[string]generator{
	"QuantizeLinear": func(m *maker, op string) []*graph.Value {
		if m.chance(2) {
			return one(quantizeLines(m))
		}
		q := m.quantization()
		return one(m.quantize(m.betweenSteps(q, m.shape(pick(m, 0, 1, 2, 3, 3, 3, 4, 5))...), q))
	},
	"DequantizeLinear": func(m *maker, op string) []*graph.Value {
		if m.chance(2) {
			return one(dequantizeLines(m))
		}
		q := m.quantization()
		return one(m.dequantize(m.bytes(q.dtype, m.shape(pick(m, 0, 1, 2, 3, 3, 3, 4, 5))...), q))
	},
	microsoft.Domain + ":MatMulNBits": nBits,
	"DynamicQuantizeLinear": func(m *maker, op string) []*graph.Value {
		shift := 3 * float64(m.between(-1, 1))
		x := m.leaf(m.fill(tensor.Float32, m.shape(pick(m, 1, 2, 3, 4)), func(int) float64 { return shift + m.r.NormFloat64() }))
		return m.call(op, x).out(3)
	},
	"MatMulInteger": func(m *maker, op string) []*graph.Value {
		rows, k, columns := pick(m, lengths...), pick(m, lengths...), pick(m, lengths...)
		a, b := []int{rows, k}, []int{k, columns}
		switch m.r.IntN(4) {
		case 0:
			a = append(m.shape(m.rank(1, 2)), a...)
		case 1:
			a, b = append([]int{3}, a...), append([]int{pick(m, 1, 3)}, b...)
		}
		ta, tb := pick(m, tensor.Uint8, tensor.Int8), pick(m, tensor.Uint8, tensor.Int8)
		c := m.call(op, m.bytes(ta, a...), m.parameter(m.anyBytes(tb, b...)))
		m.zeroPoints(c, ta, rows, tb, columns)
		return one(c.one())
	},
	"ConvInteger": func(m *maker, op string) []*graph.Value {
		image := m.image(pick(m, 1, 2, 2, 2, 3))
		out, groups := pick(m, 1, 8, 17, 24), 1
		switch m.r.IntN(3) {
		case 0:
			out, groups = max(image[1], 1), max(image[1], 1)
		case 1:
			groups, out = 2, pick(m, 6, 32)
			image[1] *= 2
		}
		tx, tw := pick(m, tensor.Uint8, tensor.Int8), pick(m, tensor.Uint8, tensor.Int8)
		c := m.call(op)
		kernel := c.window(image)
		c.operand(0, m.bytes(tx, image...))
		c.operand(1, m.parameter(m.anyBytes(tw, append([]int{out, image[1] / groups}, kernel...)...)))
		m.zeroPoints(c, tx, 0, tw, out)
		return one(c.int("group", groups).one())
	},
	"QLinearConv": func(m *maker, op string) []*graph.Value {
		image := m.image(pick(m, 1, 2, 2, 3))
		out := pick(m, 1, 8, 17, 24)
		c := m.call(op)
		kernel := c.window(image)
		q := m.quantization()
		w := m.parameter(m.fill(tensor.Int8, append([]int{out, image[1]}, kernel...), func(int) float64 { return float64(m.between(-60, 60)) }))
		return one(m.qlinear(c, m.bytes(q.dtype, image...), q, w, out))
	},
	"QLinearMatMul": func(m *maker, op string) []*graph.Value {
		k, columns := pick(m, lengths...), pick(m, lengths...)
		a := append(m.shape(m.rank(1, 2)), k)
		q := m.quantization()
		w := m.parameter(m.fill(tensor.Int8, []int{k, columns}, func(int) float64 { return float64(m.between(-60, 60)) }))
		return one(m.qlinear(m.call(op), m.bytes(q.dtype, a...), q, w, columns))
	},
}

// qlinear adds a product on integers, with a scale for all weights or one for each output.
func (m *maker) qlinear(c *call, x *graph.Value, q quantization, w *graph.Value, outputs int) *graph.Value {
	scale, zero := m.numbers(q)
	var shape []int
	if m.chance(2) {
		shape = []int{outputs}
	}
	ws := m.constant(m.fill(tensor.Float32, shape, func(int) float64 { return 0.001 + 0.01*m.r.Float64() }))
	wz := m.constant(m.fill(tensor.Int8, shape, func(int) float64 { return 0 }))
	y := quantization{dtype: q.dtype, scale: float32(0.2 + m.r.Float64()), zero: q.zero}
	ys, yz := m.numbers(y)
	for i, v := range []*graph.Value{x, scale, zero, w, ws, wz, ys, yz} {
		c.operand(i, v)
	}
	out := c.one()
	m.c.slack[out] = 1
	return out
}

// nBits makes products with weights of a few bits, as backends read them.
func nBits(m *maker, op string) []*graph.Value {
	m.g.Opsets[microsoft.Domain] = 1
	block, bits := pick(m, 16, 32, 64, 128, 512), pick(m, 2, 4, 4, 8, 8)
	k, n := m.between(1, 3*block), pick(m, 1, 5, 32, 33, 70)
	blocks := (k + block - 1) / block
	rows := append(pick(m, []int{}, []int{2}), pick(m, 1, 3, 8, 17), k)
	byteOf := func(int) float64 { return float64(m.r.IntN(256)) }
	c := m.call(op, m.leaf(m.random(tensor.Float32, rows...)), m.constant(m.fill(tensor.Uint8, []int{n, blocks, block * bits / 8}, byteOf)),
		m.constant(m.uniform(tensor.Float32, 0.01, 0.1, n, blocks)))
	c.int("K", k).int("N", n).int("bits", bits).int("block_size", block)
	if m.chance(2) {
		c.operand(3, m.constant(m.fill(tensor.Uint8, []int{n, (blocks*bits + 7) / 8}, byteOf)))
	}
	if m.chance(3) {
		c.operand(5, m.constant(m.random(tensor.Float32, n)))
	}
	return one(c.one())
}
