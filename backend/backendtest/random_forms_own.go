package backendtest

import (
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/microsoft"
	"github.com/carve-dev/carve/graph/tensor"
)

// scaled is a value with what its integers stand for, as operators of ONNX Runtime's domain take them.
type scaled struct {
	value *graph.Value
	how   quantization
}

func (n *formsNet) of(v *graph.Value) scaled { return scaled{v, n.how[v]} }

// scaledCall begins a call of an operator whose operands are values, some with scale and zero point behind them, and whose result has q.
func (n *formsNet) scaledCall(op string, q quantization, operands ...any) *call {
	c := n.call(microsoft.Domain + ":" + op)
	for _, o := range operands {
		switch o := o.(type) {
		case *graph.Value:
			c.inputs = append(c.inputs, o)
		case scaled:
			scale, zero := n.numbers(o.how)
			c.inputs = append(c.inputs, o.value, scale, zero)
		}
	}
	scale, zero := n.numbers(q)
	c.inputs = append(c.inputs, scale, zero)
	return c
}

// list adds a call's node, whose result has q, to the values.
func (n *formsNet) list(c *call, q quantization) {
	v := c.one()
	if t := n.c.Values[v]; n.err == nil && t != nil && t.Len() > 0 {
		n.values, n.how[v] = append(n.values, v), q
	}
}

// end lists a result that may be a step off.
func (n *formsNet) end(v *graph.Value, slack float64) {
	if n.err == nil {
		n.c.slack[v] = slack
		n.ends = append(n.ends, v)
	}
}

// curve is a function of one operand with rounded results.
func (n *formsNet) curve(v *graph.Value) {
	q := n.levels(n.how[v].dtype, -7)
	if n.isWide(v) || n.chance(2) {
		y := n.call(pick(n.maker, "Sigmoid", "Tanh", "HardSwish", "Gelu", "Softmax", "Exp"), n.floats(v)).one()
		n.end(n.quantize(y, q), 1)
		return
	}
	if n.chance(3) {
		c := n.scaledCall("QLinearSoftmax", q, n.of(v))
		c.attrs = append(c.attrs, graph.IntAttr("axis", int64(n.r.IntN(len(n.shapeOf(v))))), graph.IntAttr("opset", 13))
		n.end(c.one(), 1)
		return
	}
	n.end(n.scaledCall("QLinearSigmoid", q, n.of(v)).one(), 1)
}

// paired is an element-wise operator on integers, with operands that may broadcast.
func (n *formsNet) paired(v *graph.Value) {
	if n.isWide(v) {
		return
	}
	q := n.levels(n.how[v].dtype, -pick(n.maker, 3, 4, 5))
	shape := n.shapeOf(v)
	switch n.r.IntN(4) {
	case 0:
		c := n.scaledCall("QLinearLeakyRelu", q, n.of(v))
		c.attrs = append(c.attrs, graph.FloatAttr("alpha", 0.25))
		n.list(c, q)
	case 1:
		axis := n.r.IntN(len(shape))
		c := n.scaledCall("QLinearConcat", q)
		for _, u := range []*graph.Value{v, n.sibling(v, shape...)} {
			scale, zero := n.numbers(n.how[u])
			c.inputs = append(c.inputs, u, scale, zero)
		}
		c.attrs = append(c.attrs, graph.IntAttr("axis", int64(axis)))
		n.list(c, q)
	default:
		list := []any{n.of(v), n.of(n.sibling(v, pick(n.maker, shape, n.broadcast(shape))...))}
		n.r.Shuffle(2, func(i, j int) { list[i], list[j] = list[j], list[i] })
		n.list(n.scaledCall(pick(n.maker, "QLinearAdd", "QLinearMul"), q, list...), q)
	}
}

// turned runs operators with channels last, between transpositions.
func (n *formsNet) turned(v *graph.Value) {
	if n.isWide(v) {
		return
	}
	x, q := n.call("Transpose", v).ints("perm", 0, 2, 3, 1).one(), n.how[v]
	for range n.between(1, 3) {
		s := n.shapeOf(x)
		if n.err != nil || len(s) != 4 {
			return
		}
		x, q = pick(n.maker, n.lastConvolved, n.lastConvolved, n.lastAverage, n.lastMeans, n.lastLargest)(x, s, q)
	}
	y := n.call("Transpose", x).ints("perm", 0, 3, 1, 2).one()
	if t := n.c.Values[y]; n.err == nil && t != nil && t.Len() > 0 {
		n.values, n.how[y] = append(n.values, y), q
	}
}

// firstOf are the dims of an image whose channels are last, as windows are chosen by.
func firstOf(s []int) []int { return []int{s[0], s[3], s[1], s[2]} }

func (n *formsNet) lastConvolved(x *graph.Value, s []int, q quantization) (*graph.Value, quantization) {
	in, groups, outputs := s[3], 1, pick(n.maker, 1, 3, 8, 16, 17, 32)
	if n.chance(3) {
		groups, outputs = in, in
	}
	c := n.call(microsoft.Domain + ":QLinearConv")
	kernel := c.window(firstOf(s))
	fan := in / groups * kernel[0] * kernel[1]
	if fan > mostProducts {
		return x, q
	}
	wq := quantization{dtype: tensor.Int8, scale: float32(math.Ldexp(1, -6))}
	w := n.constant(n.fill(tensor.Int8, append([]int{outputs, in / groups}, kernel...), func(int) float64 { return float64(n.between(-60, 60)) }))
	to := n.levels(q.dtype, int(math.Log2(float64(q.scale)))+int(math.Log2(math.Sqrt(float64(fan)))))
	for _, o := range []scaled{{x, q}, {w, wq}} {
		scale, zero := n.numbers(o.how)
		c.inputs = append(c.inputs, o.value, scale, zero)
	}
	scale, zero := n.numbers(to)
	c.inputs = append(c.inputs, scale, zero)
	if n.chance(2) {
		c.inputs = append(c.inputs, n.constant(n.fill(tensor.Int32, []int{outputs}, func(int) float64 { return float64(n.between(-3000, 3000)) })))
	}
	c.attrs = append(c.attrs, graph.IntAttr("group", int64(groups)), graph.IntAttr("channels_last", 1))
	return c.one(), to
}

// lastAverage averages windows of a power of two without edges, so that means are exact.
func (n *formsNet) lastAverage(x *graph.Value, s []int, q quantization) (*graph.Value, quantization) {
	side := func(d int) int64 {
		k := pick(n.maker, 1, 2, 4)
		if k > d {
			k = 1
		}
		return int64(k)
	}
	h, w := side(s[1]), side(s[2])
	to := n.levels(q.dtype, int(math.Log2(float64(q.scale)))-n.r.IntN(2))
	c := n.scaledCall("QLinearAveragePool", to, scaled{x, q})
	c.attrs = append(c.attrs, graph.IntAttr("channels_last", 1), graph.IntsAttr("kernel_shape", h, w), graph.IntsAttr("strides", int64(n.between(1, 2)), int64(n.between(1, 2))))
	return c.one(), to
}

func (n *formsNet) lastMeans(x *graph.Value, s []int, q quantization) (*graph.Value, quantization) {
	if pixels := s[1] * s[2]; pixels&(pixels-1) != 0 {
		return x, q
	}
	to := n.levels(q.dtype, int(math.Log2(float64(q.scale)))-n.r.IntN(2))
	c := n.scaledCall("QLinearGlobalAveragePool", to, scaled{x, q})
	c.attrs = append(c.attrs, graph.IntAttr("channels_last", 1))
	return c.one(), to
}

func (n *formsNet) lastLargest(x *graph.Value, s []int, q quantization) (*graph.Value, quantization) {
	c := n.call(microsoft.Domain+":NhwcMaxPool", x)
	kernel := c.window(firstOf(s))
	c.ints("kernel_shape", kernel...)
	return c.one(), q
}

// gemm multiplies matrices of integers by one operator of ONNX Runtime's.
func (n *formsNet) gemm(v *graph.Value) {
	shape := n.shapeOf(v)
	k, columns := shape[len(shape)-1], pick(n.maker, 1, 7, 16, 17, 40)
	if n.isWide(v) || k > mostProducts {
		return
	}
	wq := quantization{dtype: tensor.Int8, scale: float32(math.Ldexp(1, -6))}
	transposed := len(shape) == 2 && n.chance(2)
	dims := []int{k, columns}
	if transposed {
		dims = []int{columns, k}
	}
	w := n.constant(n.fill(tensor.Int8, dims, func(int) float64 { return float64(n.between(-60, 60)) }))
	scale, zero := n.numbers(n.how[v])
	ws, wz := n.numbers(wq)
	if len(shape) == 2 && n.chance(2) {
		c := n.call(microsoft.Domain+":QGemm", v, scale, zero, w, ws, wz, nil)
		if n.chance(2) {
			c.operand(6, n.constant(n.fill(tensor.Int32, []int{columns}, func(int) float64 { return float64(n.between(-3000, 3000)) })))
		}
		if transposed {
			c.attrs = append(c.attrs, graph.IntAttr("transB", 1))
		}
		if n.chance(2) {
			n.round(c.one())
			return
		}
		q := n.levels(n.how[v].dtype, int(math.Log2(float64(n.how[v].scale)))+int(math.Log2(math.Sqrt(float64(k)))))
		ys, yz := n.numbers(q)
		c.inputs = append(c.inputs, ys, yz)
		n.list(c, q)
		return
	}
	if transposed {
		return
	}
	n.round(n.call(microsoft.Domain+":MatMulIntegerToFloat", v, w, scale, ws, zero, wz).one())
}

// nibbles multiplies by weights of 4 bits: dequantised with exact scales, or as MatMulNBits, whose sums are rounded.
func (n *formsNet) nibbles(v *graph.Value) {
	shape := n.shapeOf(v)
	k, columns := shape[len(shape)-1], pick(n.maker, 1, 5, 16, 33)
	if n.chance(2) {
		blocks := (k + 15) / 16
		c := n.call(microsoft.Domain+":MatMulNBits", n.floats(v), n.constant(n.fill(tensor.Uint8, []int{columns, blocks, 8}, func(int) float64 { return float64(n.r.IntN(256)) })),
			n.constant(n.uniform(tensor.Float32, 0.01, 0.1, columns, blocks)))
		c.operand(5, n.constant(n.fill(tensor.Float32, []int{columns}, func(int) float64 { return 128 * float64(n.how[v].scale) }))) // so that sums do not cancel
		n.end(c.int("K", k).int("N", columns).int("bits", 4).int("block_size", 16).one(), 0)
		return
	}
	if n.g.Opsets[""] < 21 || n.isWide(v) && k > mostProducts/4 {
		return
	}
	dt, mid := tensor.Int4, 0
	if n.chance(2) {
		dt, mid = tensor.Uint4, 8
	}
	w := n.constant(n.fill(dt, []int{k, columns}, func(int) float64 { return float64(mid + n.between(-8, 7)) }))
	axis, per := 1, pick(n.maker, nil, []int{columns}, []int{(k + 15) / 16, columns})
	exact := n.constant(n.fill(tensor.Float32, per, func(int) float64 { return math.Ldexp(1, -n.between(3, 5)) }))
	c := n.call("DequantizeLinear", w, exact, n.constant(n.fill(dt, per, func(int) float64 { return float64(mid) })))
	if len(per) == 2 {
		c.int("block_size", 16)
		axis = 0
	}
	n.finishProduct(n.call("MatMul", n.floats(v), c.int("axis", axis).one()).one())
}

// isWide reports whether a value has 16 bits.
func (n *formsNet) isWide(v *graph.Value) bool { return n.how[v].wide() }

// widened quantises a value to 16 bits, of which 10 are used, so that products are exact.
func (n *formsNet) widened(v *graph.Value) {
	if n.isWide(v) {
		n.round(n.floats(v))
		return
	}
	x := n.floats(v)
	if n.chance(2) {
		x = n.call(pick(n.maker, "Relu", "Neg", "Abs"), x).one()
	}
	q := quantization{dtype: pick(n.maker, tensor.Uint16, tensor.Int16), scale: n.how[v].scale * pick(n.maker, float32(1), 0.5, 0.25), zero: n.between(0, 500)}
	n.exact[x] = true
	y := n.quantize(x, q)
	if n.err == nil {
		n.values, n.how[y] = append(n.values, y), q
	}
}
