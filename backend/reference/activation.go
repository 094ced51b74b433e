package reference

import (
	"math"

	"github.com/carve-dev/carve/graph/tensor"
)

var activationKernels = []kernel{
	{"Relu", 6, unary(relu, func(x int64) int64 { return max(x, 0) })},
	{"Sigmoid", 6, unary(sigmoid, nil)},
	{"Softplus", 1, unary(softplus, nil)},
	{"Softsign", 1, unary(func(x float64) float64 { return x / (1 + math.Abs(x)) }, nil)},
	{"Mish", 18, unary(func(x float64) float64 { return x * math.Tanh(softplus(x)) }, nil)},
	{"HardSwish", 14, unary(func(x float64) float64 { return x * hardSigmoid(x, 1.0/6, 0.5) }, nil)},
	{"HardSigmoid", 6, parametric(func(c *Call) func(float64) float64 {
		a, b := c.float("alpha", 0.2), c.float("beta", 0.5)
		return func(x float64) float64 { return hardSigmoid(x, a, b) }
	})},
	{"Elu", 6, parametric(func(c *Call) func(float64) float64 {
		a := c.float("alpha", 1)
		return func(x float64) float64 {
			if x < 0 {
				return a * math.Expm1(x)
			}
			return x
		}
	})},
	{"Celu", 12, parametric(func(c *Call) func(float64) float64 {
		a := c.float("alpha", 1)
		return func(x float64) float64 {
			return math.Max(0, x) + math.Min(0, a*math.Expm1(x/a))
		}
	})},
	{"Selu", 6, parametric(func(c *Call) func(float64) float64 {
		a, g := c.float("alpha", 1.67326319217681884765625), c.float("gamma", 1.05070102214813232421875)
		return func(x float64) float64 {
			if x > 0 {
				return g * x
			}
			return g * a * math.Expm1(x)
		}
	})},
	{"LeakyRelu", 6, parametric(func(c *Call) func(float64) float64 {
		a := c.float("alpha", 0.01)
		return func(x float64) float64 {
			if x < 0 {
				return a * x
			}
			return x
		}
	})},
	{"ThresholdedRelu", 10, parametric(func(c *Call) func(float64) float64 {
		a := c.float("alpha", 1)
		return func(x float64) float64 {
			if x > a || x != x {
				return x
			}
			return 0
		}
	})},
	{"Gelu", 20, parametric(func(c *Call) func(float64) float64 {
		if c.Node.Str("approximate", "none") == "tanh" {
			return func(x float64) float64 {
				return 0.5 * x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
			}
		}
		return func(x float64) float64 { return 0.5 * x * (1 + math.Erf(x/math.Sqrt2)) }
	})},
	{"Swish", 24, parametric(func(c *Call) func(float64) float64 {
		a := c.float("alpha", 1)
		return func(x float64) float64 { return x * sigmoid(a*x) }
	})},
	{"Shrink", 9, shrink},
	{"Clip", 6, clip},
	{"PRelu", 7, prelu},
	{"SwiGLU", 28, swiglu},
}

// float returns a float attribute as float64.
func (c *Call) float(name string, def float64) float64 {
	if c.Node.Attrs.Lookup(name) == nil {
		return float64(float32(def))
	}
	return float64(c.Node.Float(name, float32(def)))
}

// parametric returns the kernel of a function of floats that depends on attributes.
func parametric(f func(*Call) func(float64) float64) func(*Call) {
	return func(c *Call) { unary(f(c), nil)(c) }
}

func relu(x float64) float64 {
	if x < 0 {
		return 0
	}
	return x
}

func sigmoid(x float64) float64 {
	if x >= 0 {
		return 1 / (1 + math.Exp(-x))
	}
	e := math.Exp(x)
	return e / (1 + e)
}

func softplus(x float64) float64 {
	if x > 0 {
		return x + math.Log1p(math.Exp(-x))
	}
	return math.Log1p(math.Exp(x))
}

func hardSigmoid(x, a, b float64) float64 { return math.Max(0, math.Min(1, a*x+b)) }

func shrink(c *Call) {
	x := c.input(0)
	lambd, bias := c.float("lambd", 0.5), c.float("bias", 0)
	v := each(c, c.floats(0), func(x float64) float64 {
		switch {
		case x < -lambd:
			return x + bias
		case x > lambd:
			return x - bias
		}
		return 0
	})
	c.putFloats(0, x.DType, x.Shape, v)
}

// clip takes its bounds from attributes before version 11, from inputs since. With min above max all becomes max.
func clip(c *Call) {
	x := c.input(0)
	if !x.DType.IsFloat() {
		clipInts(c, x)
		return
	}
	lo, hi := c.one(1, math.Inf(-1)), c.one(2, math.Inf(1))
	if c.version < 11 {
		lo, hi = c.float("min", -math.MaxFloat32), c.float("max", math.MaxFloat32)
	}
	c.putFloats(0, x.DType, x.Shape, each(c, c.floats(0), func(v float64) float64 {
		if v < lo {
			v = lo
		}
		if v > hi {
			v = hi
		}
		return v
	}))
}

func clipInts(c *Call, x *tensor.Tensor) {
	c.wantType(0, x, x.DType.IsInt())
	v := c.ints(0)
	if x.DType == tensor.Uint64 {
		lo, hi := uint64(c.oneInt(1, 0)), uint64(c.oneInt(2, -1))
		v = each(c, v, func(v int64) int64 { return int64(min(max(uint64(v), lo), hi)) })
	} else {
		lo, hi := c.oneInt(1, math.MinInt64), c.oneInt(2, math.MaxInt64)
		v = each(c, v, func(v int64) int64 { return min(max(v, lo), hi) })
	}
	c.putInts(0, x.DType, x.Shape, v)
}

func prelu(c *Call) {
	x, slope := c.input(0), c.input(1)
	if x.DType.IsInt() {
		c.putInts(0, x.DType, x.Shape, zip(c, x.Shape, c.ints(0), x.Shape, c.ints(1), slope.Shape, func(v, s int64) int64 {
			if v < 0 && x.DType != tensor.Uint64 {
				return s * v
			}
			return v
		}))
		return
	}
	c.putFloats(0, x.DType, x.Shape, zip(c, x.Shape, c.floats(0), x.Shape, c.floats(1), slope.Shape, func(v, s float64) float64 {
		if v < 0 {
			return s * v
		}
		return v
	}))
}

func swiglu(c *Call) {
	a, b := c.input(0), c.input(1)
	alpha := c.float("alpha", 1)
	c.require(sameShape(a.Shape, b.Shape), c.portName(1), "%v and %v differ", a, b)
	c.putFloats(0, a.DType, a.Shape, zip(c, a.Shape, c.floats(0), a.Shape, c.floats(1), b.Shape, func(a, b float64) float64 {
		return a * sigmoid(alpha*a) * b
	}))
}
