package reference

import (
	"math"

	"github.com/carve-dev/carve/graph/tensor"
)

var unaryKernels = []kernel{
	{"Abs", 6, abs},
	{"Acos", 7, unary(math.Acos, nil)},
	{"Acosh", 9, unary(math.Acosh, nil)},
	{"Asin", 7, unary(math.Asin, nil)},
	{"Asinh", 9, unary(math.Asinh, nil)},
	{"Atan", 7, unary(math.Atan, nil)},
	{"Atanh", 9, unary(math.Atanh, nil)},
	{"Ceil", 6, unary(math.Ceil, nil)},
	{"Cos", 7, unary(math.Cos, nil)},
	{"Cosh", 9, unary(math.Cosh, nil)},
	{"Erf", 9, unary(math.Erf, func(x int64) int64 { return int64(math.Erf(float64(x))) })},
	{"Exp", 6, unary(math.Exp, nil)},
	{"Floor", 6, unary(math.Floor, nil)},
	{"Log", 6, unary(math.Log, nil)},
	{"Neg", 6, unary(func(x float64) float64 { return -x }, func(x int64) int64 { return -x })},
	{"Reciprocal", 6, unary(func(x float64) float64 { return 1 / x }, nil)},
	{"Round", 11, unary(math.RoundToEven, nil)},
	{"Sign", 9, sign},
	{"Sin", 7, unary(math.Sin, nil)},
	{"Sinh", 9, unary(math.Sinh, nil)},
	{"Sqrt", 6, unary(math.Sqrt, nil)},
	{"Tan", 7, unary(math.Tan, nil)},
	{"Tanh", 6, unary(math.Tanh, nil)},
	{"Not", 1, not},
	{"IsNaN", 9, isNaN},
	{"IsInf", 10, isInf},
	{"BitwiseNot", 18, bitwiseNot},
	{"Bernoulli", 15, bernoulli},
	{"Det", 11, det},
}

// unary returns the kernel that applies f to floats and, where the operator admits them, g to integers.
func unary(f func(float64) float64, g func(int64) int64) func(*Call) {
	return func(c *Call) {
		x := c.input(0)
		switch {
		case x.DType.IsFloat():
			c.putFloats(0, x.DType, x.Shape, each(c, c.floats(0), f))
		case x.DType.IsInt() && g != nil:
			c.putInts(0, x.DType, x.Shape, each(c, c.ints(0), g))
		default:
			c.wantType(0, x, false)
		}
	}
}

func abs(c *Call) {
	if c.input(0).DType == tensor.Uint64 {
		c.copyWhole(c.input(0).Shape)
		return
	}
	unary(math.Abs, func(x int64) int64 {
		if x < 0 {
			return -x
		}
		return x
	})(c)
}

func sign(c *Call) {
	x := c.input(0)
	if x.DType == tensor.Uint64 {
		c.putInts(0, x.DType, x.Shape, each(c, c.ints(0), func(v int64) int64 { return int64(min(uint64(v), 1)) }))
		return
	}
	unary(func(v float64) float64 {
		switch {
		case v > 0:
			return 1
		case v < 0:
			return -1
		}
		return v // zero or NaN
	}, func(v int64) int64 {
		switch {
		case v > 0:
			return 1
		case v < 0:
			return -1
		}
		return 0
	})(c)
}

func not(c *Call) {
	v := each(c, c.bools(0), func(x bool) bool { return !x })
	c.putBools(0, c.input(0).Shape, v)
}

func isNaN(c *Call) {
	c.putBools(0, c.input(0).Shape, each(c, c.floats(0), math.IsNaN))
}

func isInf(c *Call) {
	pos, neg := c.Node.Int("detect_positive", 1) != 0, c.Node.Int("detect_negative", 1) != 0
	c.putBools(0, c.input(0).Shape, each(c, c.floats(0), func(x float64) bool {
		return pos && math.IsInf(x, 1) || neg && math.IsInf(x, -1)
	}))
}

func bitwiseNot(c *Call) {
	x := c.input(0)
	c.wantType(0, x, x.DType.IsInt())
	c.putInts(0, x.DType, x.Shape, each(c, c.ints(0), func(v int64) int64 { return ^v }))
}

// det computes determinants by elimination with partial pivoting.
func det(c *Call) {
	x := c.input(0)
	r := len(x.Shape)
	c.require(r >= 2 && x.Shape[r-1] == x.Shape[r-2], c.portName(0), "square matrices are expected, found %v", x)
	n := x.Shape[r-1]
	v := c.floats(0)
	out := c.floatBuffer(x.Shape[:r-2]...)
	for m := range out {
		out[m] = c.determinant(v[m*n*n:(m+1)*n*n], n)
	}
	c.putFloats(0, x.DType, x.Shape[:r-2], out)
}

func (c *Call) determinant(a []float64, n int) float64 {
	d := 1.0
	for i := range n {
		p := i
		for r := i + 1; r < n; r++ {
			if math.Abs(a[r*n+i]) > math.Abs(a[p*n+i]) {
				p = r
			}
		}
		if a[p*n+i] == 0 {
			return 0
		}
		if p != i {
			d = -d
			for k := range n {
				a[p*n+k], a[i*n+k] = a[i*n+k], a[p*n+k]
			}
		}
		d *= a[i*n+i]
		for r := i + 1; r < n; r++ {
			f := a[r*n+i] / a[i*n+i]
			for k := i; k < n; k++ {
				a[r*n+k] -= f * a[i*n+k]
			}
			c.spend(n)
		}
	}
	return d
}
