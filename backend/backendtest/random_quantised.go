package backendtest

import (
	"math"
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// RandomQuantised returns a case of a small network on integers of 8 bits, as quantisers write them: QuantizeLinear and
// DequantizeLinear around operators. All scales are powers of two and all sums have few bits, so that floats hold them exactly, in
// whatever order they are added: results have to be the reference's, bit for bit. Zero points of results are multiples of a number:
// with 2 it makes no difference whether a half is rounded to even before or behind the zero point is added.
func RandomQuantised(seed uint64, zeros int) (*Case, error) {
	m := newMaker("quantised", seed)
	m.g.Opsets[""] = pick(m, 13, 13, 17, 19, 21, newest)
	n := &quantisedNet{maker: m, zeros: zeros}
	shape := []int{pick(m, 1, 1, 2, 3), pick(m, 1, 3, 4, 5, 8, 16, 17, 20, 32, 40), m.between(1, 14), m.between(1, 14)}
	switch m.r.IntN(6) {
	case 0:
		shape = shape[:3]
	case 1:
		shape = shape[:2]
	}
	n.add(m.feed(m.anyBytes(n.byteType(), shape...)))
	for range m.between(2, 7) {
		if m.err != nil {
			break
		}
		n.step()
	}
	out := []*graph.Value{n.last()}
	for _, v := range n.values[:len(n.values)-1] {
		if m.chance(6) {
			out = append(out, v)
		}
	}
	if m.chance(3) {
		out[0] = n.floats(n.last())
	}
	return m.finish(out)
}

// quantisedNet is a case of quantised values that grows.
type quantisedNet struct {
	*maker
	values []*graph.Value
	how    map[*graph.Value]quantization
	zeros  int // zero points are multiples of it
}

func (n *quantisedNet) byteType() tensor.DType { return pick(n.maker, tensor.Uint8, tensor.Int8) }

func (n *quantisedNet) last() *graph.Value { return n.values[len(n.values)-1] }

// add lists integers, which get a scale and a zero point.
func (n *quantisedNet) add(v *graph.Value) {
	if n.how == nil {
		n.how = map[*graph.Value]quantization{}
	}
	if t := n.c.Values[v]; t != nil && t.Len() > 0 {
		n.how[v] = n.levels(t.DType, -pick(n.maker, 4, 5, 6))
		n.values = append(n.values, v)
	}
}

// levels returns a scale, a power of two, and a zero point.
func (n *quantisedNet) levels(dt tensor.DType, exponent int) quantization {
	q := quantization{dtype: dt, scale: float32(math.Ldexp(1, exponent))}
	if dt == tensor.Uint8 {
		q.zero = pick(n.maker, 0, 128, n.between(0, 255))
	} else {
		q.zero = pick(n.maker, 0, 0, n.between(-128, 127))
	}
	q.zero -= q.zero % n.zeros
	return q
}

// floats dequantises a value.
func (n *quantisedNet) floats(v *graph.Value) *graph.Value { return n.dequantize(v, n.how[v]) }

// round quantises floats, mostly so that few are bounded, and lists the integers.
func (n *quantisedNet) round(x *graph.Value) {
	t := n.c.Values[x]
	if n.err != nil || t == nil || t.Len() == 0 {
		return
	}
	most := math.Ldexp(1, -6)
	for i := range t.Len() {
		most = max(most, math.Abs(t.Float64At(i)))
	}
	q := n.levels(n.byteType(), int(math.Ceil(math.Log2(most/100)))-n.r.IntN(2))
	n.exact[x] = true
	v := n.quantize(x, q)
	n.values, n.how[v] = append(n.values, v), q
}

// mostProducts is how many products of such operands and weights may be added so that a float32 holds the sum: 255·60·1024 < 2^24.
const mostProducts = 1024

// mostProducts is that for products of a value: integers of 16 bits have 2 bits more.
func (n *quantisedNet) mostProducts(v *graph.Value) int {
	if n.how[v].wide() {
		return mostProducts / 4
	}
	return mostProducts
}

// step adds an operator to one of the last values.
func (n *quantisedNet) step() {
	v := n.values[max(0, len(n.values)-1-n.r.IntN(2))]
	shape := n.shapeOf(v)
	list := []func(v *graph.Value){n.elements, n.elements, n.moved, n.activated, n.multiplied, n.grouped}
	if len(shape) > 2 {
		list = append(list, n.convolved, n.convolved, n.convolved, n.convolved, n.pooled, n.integerPool)
	}
	pick(n.maker, list...)(v)
}

// integerWeights adds constants that are dequantised, of the outputs along an axis, and returns the exponents of their scales.
func (n *quantisedNet) integerWeights(axis int, shape ...int) (w *graph.Value, exponents []int) {
	dt, per := n.byteType(), 1
	var dims []int
	if n.chance(2) {
		per = shape[axis]
		dims = []int{per}
	}
	for range per {
		exponents = append(exponents, -n.between(5, 8))
	}
	zero, least, most := 0, math.MinInt8, math.MaxInt8
	if dt == tensor.Uint8 {
		zero, least, most = pick(n.maker, 128, 128, 0, n.between(60, 190)), 0, math.MaxUint8
	}
	q := n.constant(n.fill(dt, shape, func(int) float64 { return float64(n.between(max(least, zero-60), min(most, zero+60))) }))
	scale := n.constant(n.fill(tensor.Float32, dims, func(i int) float64 { return math.Ldexp(1, exponents[i]) }))
	c := n.call("DequantizeLinear", q, scale)
	if zero != 0 || n.chance(2) {
		c.operand(2, n.constant(n.fill(dt, dims, func(int) float64 { return float64(zero) })))
	}
	if dims != nil {
		c.int("axis", axis)
	}
	return c.one(), exponents
}

// bias adds integers of 32 bits, dequantised by the product of the scales of operand and weights, or nothing.
func (n *quantisedNet) bias(q quantization, exponents []int, outputs int) *graph.Value {
	if n.chance(3) {
		return nil
	}
	var dims []int
	if len(exponents) > 1 {
		dims = []int{outputs}
	}
	b := n.constant(n.fill(tensor.Int32, []int{outputs}, func(int) float64 { return float64(n.between(-3000, 3000)) }))
	scale := n.constant(n.fill(tensor.Float32, dims, func(i int) float64 { return float64(q.scale) * math.Ldexp(1, exponents[i]) }))
	c := n.call("DequantizeLinear", b, scale)
	if dims != nil {
		c.int("axis", 0)
	}
	return c.one()
}

// finishProduct adds what may follow a product.
func (n *quantisedNet) finishProduct(y *graph.Value) {
	switch n.r.IntN(4) {
	case 0:
		y = n.call("Relu", y).one()
	case 1:
		y = n.call("Clip", y).float("min", 0).float("max", 6).one()
	}
	n.round(y)
}

func (n *quantisedNet) convolved(v *graph.Value) {
	shape := n.shapeOf(v)
	in, groups, each := shape[1], 1, pick(n.maker, 1, 3, 8, 16, 17, 24, 32, 33, 48)
	switch n.r.IntN(4) {
	case 0:
		groups, each = in, 1
	case 1:
		if groups = pick(n.maker, 2, 4, 5); in%groups != 0 {
			groups = in
		}
		each = pick(n.maker, 1, 2, 3, 4, 5, 16)
	}
	c := n.call("Conv", n.floats(v))
	kernel := c.window(shape)
	fan := in / groups
	for _, k := range kernel {
		fan *= k
	}
	if fan > n.mostProducts(v) {
		return
	}
	w, exponents := n.integerWeights(0, append([]int{groups * each, in / groups}, kernel...)...)
	c.operand(1, w)
	if b := n.bias(n.how[v], exponents, groups*each); b != nil {
		c.operand(2, b)
	}
	n.finishProduct(c.int("group", groups).one())
}

// multiplied multiplies by a matrix of weights.
func (n *quantisedNet) multiplied(v *graph.Value) {
	shape := n.shapeOf(v)
	k, columns := shape[len(shape)-1], pick(n.maker, 1, 7, 16, 17, 40, 64, 97)
	if k > n.mostProducts(v) {
		return
	}
	if len(shape) == 2 && n.chance(2) {
		dims, transposed := []int{k, columns}, n.r.IntN(2)
		if transposed == 1 {
			dims = []int{columns, k}
		}
		w, exponents := n.integerWeights(1-transposed, dims...)
		c := n.call("Gemm", n.floats(v), w).int("transB", transposed)
		if b := n.bias(n.how[v], exponents, columns); b != nil {
			c.operand(2, b)
		}
		n.finishProduct(c.one())
		return
	}
	w, exponents := n.integerWeights(1, k, columns)
	y := n.call("MatMul", n.floats(v), w).one()
	if b := n.bias(n.how[v], exponents, columns); b != nil {
		y = n.call("Add", y, b).one()
	}
	n.finishProduct(y)
}

// elements adds or multiplies two values of one shape.
func (n *quantisedNet) elements(v *graph.Value) {
	other := v
	for _, u := range n.values {
		if slices.Equal(n.shapeOf(u), n.shapeOf(v)) && n.chance(2) {
			other = u
		}
	}
	if other == v {
		other = n.feed(n.anyBytes(n.byteType(), n.shapeOf(v)...))
		n.how[other] = n.levels(n.c.Values[other].DType, -5)
	}
	y := n.call(pick(n.maker, "Add", "Add", "Mul", "Sub", "Max"), n.floats(v), n.floats(other)).one()
	if n.chance(3) {
		y = n.call("Relu", y).one()
	}
	n.round(y)
}

func (n *quantisedNet) activated(v *graph.Value) {
	c := n.call(pick(n.maker, "Relu", "Clip", "LeakyRelu", "Abs"), n.floats(v))
	if c.op == "Clip" {
		c.float("min", -0.5).float("max", 1)
	}
	n.round(c.float("alpha", 0.25).one())
}

// moved puts elements elsewhere, or chooses some of them, mostly with the same quantisation before and behind.
func (n *quantisedNet) moved(v *graph.Value) {
	x, shape, q := n.floats(v), n.shapeOf(v), n.how[v]
	var y *graph.Value
	switch axis := n.r.IntN(len(shape)); n.r.IntN(5) {
	case 0:
		y = n.call("Transpose", x).ints("perm", n.r.Perm(len(shape))...).one()
	case 1:
		y = n.call("Flatten", x).int("axis", 1).one()
	case 2:
		other := n.feed(n.anyBytes(q.dtype, shape...))
		n.how[other] = q
		list := []*graph.Value{x, n.floats(other)}
		n.r.Shuffle(2, func(i, j int) { list[i], list[j] = list[j], list[i] })
		y = n.call("Concat", list...).int("axis", axis).one()
	case 3:
		y = n.call("Slice", x).ints("starts", shape[axis]/2).ints("ends", shape[axis]).ints("axes", axis).one()
	default:
		y = n.call("Gather", x, n.constant(tensor.From([]int64{int64(n.r.IntN(shape[axis])), 0}, 2))).int("axis", axis).one()
	}
	if n.chance(3) {
		n.round(y)
		return
	}
	n.exact[y] = true
	w := n.quantize(y, q)
	n.values, n.how[w] = append(n.values, w), q
}

// pooled pools floats, or resizes them.
func (n *quantisedNet) pooled(v *graph.Value) {
	shape := n.shapeOf(v)
	if n.chance(3) && len(shape) == 4 {
		c := n.call("Resize", n.floats(v))
		c.operand(1, nil)
		c.operand(2, n.constant(tensor.From([]float32{1, 1, 2, 2}, 4)))
		n.round(c.text("mode", "nearest").text("coordinate_transformation_mode", "asymmetric").text("nearest_mode", "floor").one())
		return
	}
	c := n.call("MaxPool", n.floats(v))
	n.round(c.ints("kernel_shape", c.window(shape)...).one())
}

// integerPool pools integers.
func (n *quantisedNet) integerPool(v *graph.Value) {
	if n.how[v].wide() {
		return // which it does not take
	}
	c := n.call("MaxPool", v)
	y := c.ints("kernel_shape", c.window(n.shapeOf(v))...).one()
	n.values, n.how[y] = append(n.values, y), n.how[v]
}

// grouped multiplies rows that are quantised in the run by their range, if there are products of few bits: whatever the scale, sums
// of the integers are exact, and the floats behind them are the case's last.
func (n *quantisedNet) grouped(v *graph.Value) {
	if n.how[v].wide() {
		return
	}
	shape := n.shapeOf(v)
	k, columns := shape[len(shape)-1], pick(n.maker, 1, 8, 17, 40)
	dt := n.byteType()
	zero := n.constant(n.anyBytes(n.how[v].dtype))
	y := n.call("MatMulInteger", v, n.constant(n.anyBytes(dt, k, columns)), zero, n.constant(n.anyBytes(dt, pick(n.maker, []int{}, []int{columns})...))).one()
	y = n.call("Cast", y).int("to", int(tensor.Float32)).one()
	n.round(n.call("Mul", y, n.constant(tensor.Scalar(float32(math.Ldexp(1, -12))))).one())
}
