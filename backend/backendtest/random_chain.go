package backendtest

import (
	"math"
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// link is a step of a chain: what it makes of a float32 value, nil where the value does not suit it.
type link func(m *maker, x *graph.Value) *graph.Value

// choosing links choose elements, or keep what rounding makes of them: they may follow where a step of quantisation is off.
var choosing = []link{requantize, requantize, onIntegers, permuted, viewed, rectified, largest, joined, halved}

// computing links round.
var computing = []link{convolved, convolved, multiplied, curved, scaledByChannel, normalised, averaged, added, summed, summed, shuffled, padded, dense, dense, dynamic}

// chain adds two to five links.
func (m *maker) chain() []*graph.Value {
	shape := m.shape(m.rank(1, 5))
	if m.chance(2) {
		shape = m.image(pick(m, 1, 2, 2, 2, 3))
	}
	x := m.operand(tensor.Float32, shape...)
	if m.chance(2) {
		x = m.dequantized(shape...)
	}
	var out []*graph.Value
	for range m.between(2, 5) {
		if m.err != nil {
			break
		}
		list := choosing
		if m.c.slack[x] == 0 {
			list = append(list[:len(list):len(list)], computing...)
		}
		y := pick(m, list...)(m, x)
		if y == nil {
			continue
		}
		if x.Producer != nil && m.chance(8) {
			out = append(out, x)
		}
		x = y
	}
	return append(out, x)
}

// keep hands slack on to what is chosen from x.
func (m *maker) keep(y, x *graph.Value) *graph.Value {
	if y != nil {
		m.c.slack[y] = m.c.slack[x]
	}
	return y
}

// quantizationOf returns parameters that suit what a value holds.
func (m *maker) quantizationOf(x *graph.Value) quantization {
	q := m.quantization()
	t := m.c.Values[x]
	most := 0.0
	for i := range t.Len() {
		if v := math.Abs(t.Float64At(i)); !math.IsInf(v, 0) {
			most = max(most, v)
		}
	}
	q.scale = float32(max(most, 0.01) * (0.7 + 0.3*m.r.Float64()) / 127)
	m.exact[x] = false // quotients that are ties may be rounded either way
	return q
}

// requantize quantises and dequantises.
func requantize(m *maker, x *graph.Value) *graph.Value {
	q := m.quantizationOf(x)
	return m.dequantize(m.quantize(x, q), q)
}

// onIntegers does to integers between quantisations what moves or chooses them.
func onIntegers(m *maker, x *graph.Value) *graph.Value {
	q := m.quantizationOf(x)
	v := m.quantize(x, q)
	list := []link{permuted, viewed, halved}
	if m.pixels(x) != nil && m.g.Opsets[""] >= 12 {
		list = append(list, largest, largest, largest)
	}
	return m.dequantize(pick(m, list...)(m, v), q)
}

func permuted(m *maker, x *graph.Value) *graph.Value {
	return m.keep(m.call("Transpose", x).ints("perm", m.r.Perm(len(m.shapeOf(x)))...).one(), x)
}

func viewed(m *maker, x *graph.Value) *graph.Value {
	if m.chance(2) {
		return m.keep(m.call("Flatten", x).int("axis", m.between(0, len(m.shapeOf(x)))).one(), x)
	}
	return m.keep(m.call("Unsqueeze", x).ints("axes", 0).one(), x)
}

func rectified(m *maker, x *graph.Value) *graph.Value {
	if m.chance(2) {
		return m.keep(m.call("Relu", x).one(), x)
	}
	return m.keep(m.call("Clip", x).float("min", -0.5).float("max", 2).one(), x)
}

// pixels returns the dims of an image of two spatial dims, nil for others, and where it has no pixels.
func (m *maker) pixels(x *graph.Value) []int {
	if s := m.shapeOf(x); len(s) == 4 && !slices.Contains(s[1:], 0) {
		return s
	}
	return nil
}

func largest(m *maker, x *graph.Value) *graph.Value {
	s := m.pixels(x)
	if s == nil {
		return nil
	}
	c := m.call("MaxPool", x)
	return m.keep(c.ints("kernel_shape", c.window(s)...).one(), x)
}

func joined(m *maker, x *graph.Value) *graph.Value {
	s := m.shapeOf(x)
	if len(s) == 0 {
		return nil
	}
	a := m.r.IntN(len(s))
	other := append([]int{}, s...)
	other[a] = m.between(1, 9)
	m.symbol = -1
	list := []*graph.Value{x, m.operand(tensor.Float32, other...)}
	m.r.Shuffle(2, func(i, j int) { list[i], list[j] = list[j], list[i] })
	return m.keep(m.call("Concat", list...).int("axis", a).one(), x)
}

func halved(m *maker, x *graph.Value) *graph.Value {
	s := m.shapeOf(x)
	if len(s) == 0 {
		return x
	}
	a := m.r.IntN(len(s))
	return m.keep(m.call("Slice", x).ints("starts", s[a]/2).ints("ends", s[a]).ints("axes", a).one(), x)
}

// quantizedWeights adds weights: floats, or integers that are dequantised by one scale or one for each index of an axis.
func (m *maker) quantizedWeights(fan, axis int, shape ...int) *graph.Value {
	if m.chance(3) {
		return m.weights(tensor.Float32, fan, shape...)
	}
	if len(shape) == 2 && m.g.Opsets[""] >= 21 && m.chance(2) {
		return m.nibbleWeights(fan, axis, shape)
	}
	w := m.constant(m.fill(tensor.Int8, shape, func(int) float64 { return float64(m.between(-60, 60)) }))
	var per []int
	if m.g.Opsets[""] >= 13 && m.chance(2) {
		per = []int{shape[axis]}
	}
	scale := m.constant(m.fill(tensor.Float32, per, func(int) float64 { return (0.5 + m.r.Float64()) / 40 / math.Sqrt(float64(fan)) }))
	zero := m.constant(m.fill(tensor.Int8, per, func(int) float64 { return 0 }))
	return m.call("DequantizeLinear", w, scale, zero).int("axis", axis).one()
}

// nibbleWeights is quantizedWeights of a matrix of 4 bits, which may have scales for blocks along the other axis.
func (m *maker) nibbleWeights(fan, axis int, shape []int) *graph.Value {
	dt, mid := tensor.Int4, 0.0
	if m.chance(2) {
		dt, mid = tensor.Uint4, 8
	}
	per, block := pick(m, nil, []int{shape[axis]}, slices.Clone(shape)), 0
	if len(per) == 2 {
		block = pick(m, 32, 64, 16)
		axis = 1 - axis
		per[axis] = (shape[axis] + block - 1) / block
	}
	w := m.constant(m.fill(dt, shape, func(int) float64 { return mid + float64(m.between(-8, 7)) }))
	c := m.call("DequantizeLinear", w, m.constant(m.fill(tensor.Float32, per, func(int) float64 { return (0.5 + m.r.Float64()) / 5 / math.Sqrt(float64(fan)) })))
	if mid != 0 || m.chance(2) {
		c.operand(2, m.constant(m.fill(dt, per, func(int) float64 { return mid + float64(m.between(-2, 2)) })))
	}
	if block > 0 {
		c.int("block_size", block)
	}
	return c.int("axis", axis).one()
}

func convolved(m *maker, x *graph.Value) *graph.Value {
	s := m.shapeOf(x)
	if len(s) < 3 || len(s) > 5 || slices.Contains(s[1:], 0) {
		return nil
	}
	out, groups := pick(m, 3, 8, 16, 17, 24), 1
	if m.chance(3) {
		out, groups = s[1], s[1]
	}
	c := m.call("Conv", x)
	kernel := c.window(s)
	fan := s[1] / groups
	for _, k := range kernel {
		fan *= k
	}
	c.operand(1, m.quantizedWeights(fan, 0, append([]int{out, s[1] / groups}, kernel...)...))
	if m.chance(2) {
		c.operand(2, m.weights(tensor.Float32, 1, out))
	}
	y := c.int("group", groups).one()
	return m.tail(y)
}

// tail puts at times a sum and an activation behind a product.
func (m *maker) tail(y *graph.Value) *graph.Value {
	if m.chance(3) && m.err == nil {
		y = m.call("Add", y, m.operand(tensor.Float32, m.shapeOf(y)...)).one()
	}
	if m.chance(2) {
		y = m.call(pick(m, "Relu", "HardSwish", "Sigmoid", "LeakyRelu"), y).one()
	}
	return y
}

func multiplied(m *maker, x *graph.Value) *graph.Value {
	s := m.shapeOf(x)
	if len(s) == 0 {
		return nil
	}
	k, columns := s[len(s)-1], pick(m, 1, 8, 16, 17, 40)
	if len(s) == 2 && m.chance(2) {
		return m.tail(m.call("Gemm", x, m.quantizedWeights(k, 0, columns, k), m.weights(tensor.Float32, 1, columns)).int("transB", 1).one())
	}
	if len(s) > 1 && m.chance(3) { // by itself, as attention does
		perm := make([]int, len(s))
		for i := range perm {
			perm[i] = i
		}
		perm[len(s)-1], perm[len(s)-2] = len(s)-2, len(s)-1
		y := m.call("MatMul", x, m.call("Transpose", x).ints("perm", perm...).one()).one()
		y = m.call("Softmax", m.call("Mul", y, m.constant(m.fill(tensor.Float32, nil, func(int) float64 { return 0.3 / float64(k) }))).one()).int("axis", -1).one()
		if len(s) == 4 && m.chance(2) {
			y = m.call("MatMul", y, x).one()
		}
		return y
	}
	return m.tail(m.call("MatMul", x, m.quantizedWeights(k, 1, k, columns)).one())
}

func curved(m *maker, x *graph.Value) *graph.Value {
	if m.chance(2) {
		return m.call("Mul", x, m.call("Sigmoid", x).one()).one()
	}
	return m.call(pick(m, "Tanh", "HardSwish", "Sigmoid", "Softmax", "Gelu"), x).one()
}

func scaledByChannel(m *maker, x *graph.Value) *graph.Value {
	s := m.shapeOf(x)
	if len(s) < 3 {
		return nil
	}
	v := func(lo, hi float64) *graph.Value {
		return m.constant(m.fill(tensor.Float32, s[1:2], func(int) float64 { return lo + (hi-lo)*m.r.Float64() }))
	}
	y := m.call("BatchNormalization", x, v(0.5, 2), v(-1, 1), v(-1, 1), v(0.3, 2)).one()
	if m.chance(2) {
		return m.call("Relu", y).one()
	}
	return y
}

func normalised(m *maker, x *graph.Value) *graph.Value {
	s := m.shapeOf(x)
	if len(s) == 0 || s[len(s)-1] == 1 {
		return nil
	}
	n := s[len(s)-1]
	return m.call("LayerNormalization", x, m.weights(tensor.Float32, 1, n), m.weights(tensor.Float32, 1, n)).float("epsilon", 0.1).one()
}

func averaged(m *maker, x *graph.Value) *graph.Value {
	s := m.pixels(x)
	if s == nil {
		return nil
	}
	if m.chance(2) {
		return m.call("GlobalAveragePool", x).one()
	}
	c := m.call("AveragePool", x)
	return c.ints("kernel_shape", c.window(s)...).flag("count_include_pad").one()
}

func added(m *maker, x *graph.Value) *graph.Value {
	s := m.shapeOf(x)
	return m.call(pick(m, "Add", "Mul", "Sub"), x, m.operand(tensor.Float32, pick(m, s, m.broadcast(s))...)).one()
}

// summed is a sum on integers: both sides are dequantised, and the result is quantised.
func summed(m *maker, x *graph.Value) *graph.Value {
	if x.Producer == nil || !x.Producer.Is("DequantizeLinear") {
		return nil
	}
	y := m.call("Add", x, m.dequantized(m.shapeOf(x)...)).one()
	if m.chance(2) {
		y = m.call("Relu", y).one()
	}
	return requantize(m, y)
}

func shuffled(m *maker, x *graph.Value) *graph.Value {
	s := m.pixels(x)
	if s == nil || s[1]%2 != 0 {
		return nil
	}
	v := m.call("Reshape", x).ints("shape", s[0], 2, s[1]/2, s[2], s[3]).one()
	v = m.call("Transpose", v).ints("perm", 0, 2, 1, 3, 4).one()
	return m.call("Reshape", v).ints("shape", s...).one()
}

// padded is an average over an image that a Pad has made larger.
func padded(m *maker, x *graph.Value) *graph.Value {
	if m.pixels(x) == nil {
		return nil
	}
	v := m.call("Pad", x).ints("pads", 0, 0, 1, 1, 0, 0, 1, 1).one()
	return m.call("AveragePool", v).ints("kernel_shape", 3, 3).ints("strides", 1, 1).one()
}

// dense concatenates a value with what a product or convolution of it, added to it, gives: operand and residual are one value,
// which lies in the concatenation where a backend plans that, as the result does.
func dense(m *maker, x *graph.Value) *graph.Value {
	s := m.shapeOf(x)
	if len(s) < 2 || len(s) > 4 {
		return nil
	}
	m.symbol = -1
	base := m.call(pick(m, "Relu", "Sigmoid"), x).one()
	var y *graph.Value
	if len(s) == 2 {
		y = m.call("MatMul", base, m.weights(tensor.Float32, s[1], s[1], s[1])).one()
	} else {
		k := pick(m, 1, 3)
		var kernel, pads []int
		for range s[2:] {
			kernel, pads = append(kernel, k), append(pads, k/2)
		}
		fan := s[1]
		for _, k := range kernel {
			fan *= k
		}
		y = m.call("Conv", base, m.weights(tensor.Float32, fan, append([]int{s[1], s[1]}, kernel...)...)).ints("pads", append(pads, pads...)...).one()
	}
	if m.err != nil {
		return nil
	}
	y = m.call("Add", y, base).one()
	if m.chance(2) {
		y = m.call(pick(m, "Relu", "HardSwish", "Sigmoid"), y).one()
	}
	list := []*graph.Value{base, y}
	m.r.Shuffle(2, func(i, j int) { list[i], list[j] = list[j], list[i] })
	return m.call("Concat", list...).int("axis", m.r.IntN(2)).one()
}

// dynamic quantises a value by its range, multiplies or convolves the integers and scales the sums, as quantisers of whole models
// write it. What a step of quantisation would change is not bounded: it takes values only that every backend sees exactly.
func dynamic(m *maker, x *graph.Value) *graph.Value {
	s := m.shapeOf(x)
	if len(s) < 2 || !m.exact[x] || m.g.Opsets[""] < 11 {
		return nil
	}
	q := m.call("DynamicQuantizeLinear", x).out(3)
	if m.err != nil {
		return nil
	}
	wt := pick(m, tensor.Uint8, tensor.Int8)
	zero := m.constant(m.anyBytes(wt))
	columns := pick(m, 1, 8, 16, 17, 40)
	var y *graph.Value
	bias := []int{columns}
	if m.pixels(x) != nil && m.chance(2) {
		c := m.call("ConvInteger", q[0])
		kernel := c.window(s)
		c.operand(1, m.constant(m.anyBytes(wt, append([]int{columns, s[1]}, kernel...)...)))
		c.operand(2, q[2])
		c.operand(3, zero)
		y, bias = c.one(), []int{1, columns, 1, 1}
	} else {
		y = m.call("MatMulInteger", q[0], m.constant(m.anyBytes(wt, s[len(s)-1], columns)), q[2], zero).one()
	}
	scale := m.constant(m.fill(tensor.Float32, nil, func(int) float64 { return 0.001 + 0.01*m.r.Float64() }))
	y = m.call("Mul", m.call("Cast", y).int("to", int(tensor.Float32)).one(), m.call("Mul", q[1], scale).one()).one()
	if m.chance(2) {
		y = m.call("Add", y, m.weights(tensor.Float32, 1, bias...)).one()
	}
	if m.chance(2) {
		y = m.call(pick(m, "Relu", "HardSwish", "Sigmoid"), y).one()
	}
	return y
}
