package reference

import (
	"github.com/carve-dev/carve/graph/tensor"
)

// blockLen is the number of elements that are converted between two looks at the context.
const blockLen = 1 << 18

// part returns elements [lo, hi) of a compact tensor as a vector. lo is a multiple of 8.
func part(t *tensor.Tensor, lo, hi int) *tensor.Tensor {
	v := *t
	v.Shape, v.Strides = []int{hi - lo}, nil
	v.Offset += lo * t.DType.Bits() / 8
	return &v
}

func (c *Call) blocks(n int, f func(lo, hi int) error) error {
	for lo := 0; lo < n; lo += blockLen {
		hi := min(lo+blockLen, n)
		if err := f(lo, hi); err != nil {
			return err
		}
		c.spend(hi - lo)
	}
	return nil
}

// floatsOf returns the elements of a compact tensor as float64.
func (c *Call) floatsOf(port string, t *tensor.Tensor) []float64 {
	v := make([]float64, c.reserve(port, t.Shape, 8))
	c.check(port, c.blocks(len(v), func(lo, hi int) error { return tensor.Decode(v[lo:hi], part(t, lo, hi)) }))
	return v
}

// intsOf returns the elements of a compact tensor as int64, uint64 in their bits.
func (c *Call) intsOf(port string, t *tensor.Tensor) []int64 {
	v := make([]int64, c.reserve(port, t.Shape, 8))
	c.check(port, c.blocks(len(v), func(lo, hi int) error { return tensor.DecodeInts(v[lo:hi], part(t, lo, hi)) }))
	return v
}

// floats returns the elements of input i as float64.
func (c *Call) floats(i int) []float64 { return c.floatsOf(c.portName(i), c.input(i)) }

// ints returns the elements of input i as int64.
func (c *Call) ints(i int) []int64 { return c.intsOf(c.portName(i), c.input(i)) }

// bools returns the elements of Bool input i.
func (c *Call) bools(i int) []bool {
	t := c.input(i)
	c.wantType(i, t, t.DType == tensor.Bool)
	b := t.Bytes()
	v := make([]bool, len(b))
	for k, x := range b {
		v[k] = x != 0
	}
	return v
}

// strings returns the elements of String input i. The slice is the tensor's.
func (c *Call) strings(i int) []string {
	t := c.input(i)
	c.wantType(i, t, t.DType == tensor.String)
	return t.Strings[:t.Len()]
}

// complexes returns the elements of a complex input.
func (c *Call) complexes(i int) []complex128 {
	t := c.input(i)
	v := make([]complex128, c.reserve(c.portName(i), t.Shape, 16))
	switch t.DType {
	case tensor.Complex64:
		for k, x := range tensor.Elements[complex64](t) {
			v[k] = complex128(x)
		}
	case tensor.Complex128:
		copy(v, tensor.Elements[complex128](t))
	default:
		c.wantType(i, t, false)
	}
	return v
}

// wantType ends the kernel where the element type of input i is not one that the kernel takes.
func (c *Call) wantType(i int, t *tensor.Tensor, ok bool) {
	if !ok {
		c.fail(c.portName(i), tensor.ErrDType, "%v", t)
	}
}

// one returns the only element of a scalar or vector of one, or def where input i is omitted.
func (c *Call) one(i int, def float64) float64 {
	t := c.optional(i)
	if t == nil {
		return def
	}
	v := c.floatsOf(c.portName(i), t)
	c.require(len(v) == 1, c.portName(i), "one element is expected, found %v", t)
	return v[0]
}

// oneInt is one for integers.
func (c *Call) oneInt(i int, def int64) int64 {
	t := c.optional(i)
	if t == nil {
		return def
	}
	v := c.intsOf(c.portName(i), t)
	c.require(len(v) == 1, c.portName(i), "one element is expected, found %v", t)
	return v[0]
}

// list returns a list of integers that older versions of an operator have as an attribute and newer ones as input i.
func (c *Call) list(i int, attr string) (v []int64, ok bool) {
	if v, ok := c.Node.Ints(attr); ok {
		return v, true
	}
	if i < 0 || !c.has(i) {
		return nil, false
	}
	return c.ints(i), true
}

// axis returns an axis, which may count from the end, as an index below rank.
func (c *Call) axis(v int64, rank int) int {
	if v < -int64(rank) || v >= int64(rank) {
		c.fail("axis", ErrAttribute, "%d for rank %d", v, rank)
	}
	if v < 0 {
		v += int64(rank)
	}
	return int(v)
}

// axisAttr returns the attribute "axis".
func (c *Call) axisAttr(def int64, rank int) int { return c.axis(c.Node.Int("axis", def), rank) }

// dims returns v as dims; a negative one ends the kernel.
func (c *Call) dims(port string, v []int64) []int {
	out := make([]int, len(v))
	for i, d := range v {
		if d < 0 {
			c.fail(port, tensor.ErrShape, "dim %d is negative", d)
		}
		out[i] = int(d)
	}
	return out
}

// smallInts returns attribute values as int, within ±2^30, so that sums and products of a few cannot overflow.
func (c *Call) smallInts(name string, v []int64) []int {
	out := make([]int, len(v))
	for i, x := range v {
		if x > 1<<30 || x < -1<<30 {
			c.fail(name, ErrAttribute, "%d", x)
		}
		out[i] = int(x)
	}
	return out
}

// putFloats stores v, rounded to dt, as output i.
func (c *Call) putFloats(i int, dt tensor.DType, shape []int, v []float64) {
	t := c.result(i, dt, shape)
	c.require(len(v) == t.Len(), "", "%d results for %v", len(v), t)
	c.check("", c.blocks(len(v), func(lo, hi int) error { return tensor.Encode(part(t, lo, hi), v[lo:hi]) }))
}

// putInts stores v, cut to dt, as output i.
func (c *Call) putInts(i int, dt tensor.DType, shape []int, v []int64) {
	t := c.result(i, dt, shape)
	c.require(len(v) == t.Len(), "", "%d results for %v", len(v), t)
	c.check("", c.blocks(len(v), func(lo, hi int) error { return tensor.EncodeInts(part(t, lo, hi), v[lo:hi]) }))
}

// putBools stores v as output i.
func (c *Call) putBools(i int, shape []int, v []bool) {
	b := c.result(i, tensor.Bool, shape).Bytes()
	for k, x := range v {
		if x {
			b[k] = 1
		}
	}
}

// putStrings stores v as output 0.
func (c *Call) putStrings(shape []int, v []string) {
	copy(c.result(0, tensor.String, shape).Strings, v)
}

// floatBuffer returns zeroed working memory for a shape.
func (c *Call) floatBuffer(shape ...int) []float64 { return make([]float64, c.reserve("", shape, 8)) }

// round rounds v to the precision of dt and back.
func (c *Call) round(dt tensor.DType, v []float64) []float64 {
	if dt == tensor.Float64 {
		return v
	}
	t, err := tensor.New(dt, len(v))
	c.check("", err)
	c.check("", tensor.Encode(t, v))
	c.check("", tensor.Decode(v, t))
	return v
}

func product(dims []int) int {
	n := 1
	for _, d := range dims {
		n *= d
	}
	return n
}
