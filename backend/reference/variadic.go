package reference

import (
	"github.com/carve-dev/carve/graph/tensor"
)

var variadicKernels = []kernel{
	{"Max", 6, variadic(maxFloat, func(a, b int64) int64 { return max(a, b) }, func(a, b uint64) uint64 { return max(a, b) })},
	{"Min", 6, variadic(minFloat, func(a, b int64) int64 { return min(a, b) }, func(a, b uint64) uint64 { return min(a, b) })},
	{"Sum", 6, variadic(func(a, b float64) float64 { return a + b }, nil, nil)},
	{"Mean", 6, mean},
}

// maxFloat and minFloat return NaN where one operand is NaN.
func maxFloat(a, b float64) float64 {
	if a != a || a > b {
		return a
	}
	return b
}

func minFloat(a, b float64) float64 {
	if a != a || a < b {
		return a
	}
	return b
}

// fold combines all inputs, broadcast together, from left to right.
func fold[T any](c *Call, get func(i int) []T, f func(a, b T) T) (v []T, shape []int) {
	v, shape = get(0), c.input(0).Shape
	for i := 1; i < len(c.Inputs); i++ {
		t := c.input(i)
		if t.DType != c.input(0).DType {
			c.fail(c.portName(i), tensor.ErrDType, "%v and %v differ", t, c.input(0))
		}
		next := c.broadcast(shape, t.Shape)
		v = zip(c, next, v, shape, get(i), t.Shape, f)
		shape = next
	}
	return v, shape
}

func variadic(f func(a, b float64) float64, g func(a, b int64) int64, u func(a, b uint64) uint64) func(*Call) {
	return func(c *Call) {
		dt := c.input(0).DType
		switch {
		case dt.IsFloat():
			v, shape := fold(c, c.floats, f)
			c.putFloats(0, dt, shape, v)
		case dt == tensor.Uint64 && u != nil:
			v, shape := fold(c, c.ints, func(a, b int64) int64 { return int64(u(uint64(a), uint64(b))) })
			c.putInts(0, dt, shape, v)
		case dt.IsInt() && g != nil:
			v, shape := fold(c, c.ints, g)
			c.putInts(0, dt, shape, v)
		default:
			c.wantType(0, c.input(0), false)
		}
	}
}

func mean(c *Call) {
	c.wantType(0, c.input(0), c.input(0).DType.IsFloat())
	v, shape := fold(c, c.floats, func(a, b float64) float64 { return a + b })
	n := float64(len(c.Inputs))
	c.putFloats(0, c.input(0).DType, shape, each(c, v, func(x float64) float64 { return x / n }))
}
