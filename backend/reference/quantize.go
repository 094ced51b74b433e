package reference

import (
	"math"

	"github.com/carve-dev/carve/graph/tensor"
)

var quantizeKernels = []kernel{
	{"QuantizeLinear", 10, quantizeLinear},
	{"DequantizeLinear", 10, dequantizeLinear},
	{"DynamicQuantizeLinear", 11, dynamicQuantizeLinear},
}

// saturate rounds x half to even, adds a zero point and bounds the sum. NaN becomes the least.
func saturate(x, zero float64, lo, hi int64) int64 {
	if x != x {
		return lo
	}
	return int64(math.Min(math.Max(math.RoundToEven(x)+zero, float64(lo)), float64(hi)))
}

// granular returns the elements of a scale or zero point, one for every element of x: it is one for all, one per index
// of the axis, or one per block of indices.
func (c *Call) granular(i int, x *tensor.Tensor) []float64 {
	s, v := c.input(i), c.floats(i)
	port := c.portName(i)
	switch {
	case len(v) == 1:
		return spread(c, port, v, []int{}, x.Shape)
	case len(s.Shape) == 1 && c.Node.Int("block_size", 0) == 0:
		axis := c.axisAttr(1, len(x.Shape))
		shape := make([]int, len(x.Shape))
		for a := range shape {
			shape[a] = 1
		}
		shape[axis] = len(v)
		return spread(c, port, v, shape, x.Shape)
	}
	axis, block := c.axisAttr(1, len(x.Shape)), c.positive("block_size", 0)
	c.require(len(s.Shape) == len(x.Shape), port, "%v for %v", s, x)
	for a, d := range x.Shape {
		want := d
		if a == axis {
			want = (d + block - 1) / block
		}
		c.require(s.Shape[a] == want, port, "%v for %v in blocks of %d", s, x, block)
	}
	outer, n, inner := split3(x.Shape, axis)
	out := c.floatBuffer(x.Shape...)
	for o := range outer {
		for k := range n {
			copy(out[(o*n+k)*inner:][:inner], v[(o*s.Shape[axis]+k/block)*inner:])
			c.spend(inner)
		}
	}
	return out
}

// quantizeLinear divides in the precision of the scale, or that of the attribute, before it rounds.
func quantizeLinear(c *Call) {
	x, scale := c.input(0), c.input(1)
	to := tensor.Uint8
	var zero []float64
	if z := c.optional(2); z != nil {
		to = z.DType
		zero = c.granular(2, x)
	}
	if v := c.Node.Int("output_dtype", 0); v != 0 {
		dt := c.dtypeAttr("output_dtype", to)
		if zero != nil && dt != to {
			c.fail("output_dtype", ErrAttribute, "%v, but the zero point is %v", dt, to)
		}
		to = dt
	}
	precision := scale.DType
	if c.Node.Int("precision", 0) != 0 {
		precision = c.dtypeAttr("precision", precision)
	}
	if c.version < 23 && !scale.DType.IsFloat() || !precision.IsFloat() {
		precision = tensor.Float32
	}
	v := c.floats(0)
	for i, s := range c.granular(1, x) {
		v[i] /= s
	}
	v = c.round(precision, v)
	if to.IsInt() {
		lo, hi := intRange(to)
		q := make([]int64, c.reserve("", x.Shape, 8))
		for i := range v {
			z := 0.0
			if zero != nil {
				z = zero[i]
			}
			q[i] = saturate(v[i], z, lo, hi)
		}
		c.putInts(0, to, x.Shape, q)
		return
	}
	c.wantType(2, x, to.IsFloat())
	for i := range zero {
		v[i] += zero[i]
	}
	o := &tensor.ConvertOptions{NoSaturate: c.Node.Int("saturate", 1) == 0}
	t, err := tensor.Convert(tensor.From(v, x.Shape...), to, o)
	c.check("", err)
	copy(c.result(0, to, x.Shape).Bytes(), t.Bytes())
}

func dequantizeLinear(c *Call) {
	x := c.input(0)
	dt := c.input(1).DType
	if c.Node.Int("output_dtype", 0) != 0 {
		dt = c.dtypeAttr("output_dtype", dt)
	}
	v := c.floats(0)
	if c.has(2) {
		for i, z := range c.granular(2, x) {
			v[i] -= z
		}
	}
	for i, s := range c.granular(1, x) {
		v[i] *= s
	}
	c.putFloats(0, dt, x.Shape, v)
}

// dynamicQuantizeLinear quantizes to uint8 by the range of the data, which is made to include 0. It computes in float32,
// as the operator's definition by other operators does.
func dynamicQuantizeLinear(c *Call) {
	x := c.input(0)
	v := c.floats(0)
	lo, hi := 0.0, 0.0
	for _, f := range v {
		lo, hi = math.Min(lo, f), math.Max(hi, f)
	}
	scale := float32(hi-lo) / 255
	zero := 0.0
	if scale > 0 {
		zero = float64(saturate(float64(-float32(lo)/scale), 0, 0, 255))
	}
	q := make([]int64, len(v))
	for i, f := range v {
		r := 0.0
		if scale > 0 {
			r = float64(float32(f) / scale)
		}
		q[i] = saturate(r, zero, 0, 255)
	}
	c.putInts(0, tensor.Uint8, x.Shape, q)
	c.putFloats(1, tensor.Float32, []int{}, []float64{float64(scale)})
	c.putFloats(2, tensor.Uint8, []int{}, []float64{zero})
}
