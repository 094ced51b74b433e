package reference

import (
	"math"

	"github.com/carve-dev/carve/graph/tensor"
)

var binaryKernels = []kernel{
	{"Add", 7, arithmetic(func(a, b float64) float64 { return a + b }, func(a, b int64) int64 { return a + b }, nil)},
	{"Sub", 7, arithmetic(func(a, b float64) float64 { return a - b }, func(a, b int64) int64 { return a - b }, nil)},
	{"Mul", 7, arithmetic(func(a, b float64) float64 { return a * b }, func(a, b int64) int64 { return a * b }, nil)},
	{"Div", 7, arithmetic(func(a, b float64) float64 { return a / b }, divInt, divUint)},
	{"Mod", 10, mod},
	{"Pow", 7, pow},
	{"And", 7, logical(func(a, b bool) bool { return a && b })},
	{"Or", 7, logical(func(a, b bool) bool { return a || b })},
	{"Xor", 7, logical(func(a, b bool) bool { return a != b })},
	{"Equal", 7, equal},
	{"Greater", 7, compare(func(o int) bool { return o == 1 })},
	{"Less", 7, compare(func(o int) bool { return o == -1 })},
	{"GreaterOrEqual", 12, compare(func(o int) bool { return o == 0 || o == 1 })},
	{"LessOrEqual", 12, compare(func(o int) bool { return o == 0 || o == -1 })},
	{"BitwiseAnd", 18, bitwise(func(a, b int64) int64 { return a & b })},
	{"BitwiseOr", 18, bitwise(func(a, b int64) int64 { return a | b })},
	{"BitwiseXor", 18, bitwise(func(a, b int64) int64 { return a ^ b })},
	{"BitShift", 11, bitShift},
	{"Where", 9, where},
}

// pair returns the two operands of a broadcasting operator and the shape of its result. Their types must be the same.
func (c *Call) pair() (a, b *tensor.Tensor, shape []int) {
	a, b = c.input(0), c.input(1)
	if a.DType != b.DType {
		c.fail(c.portName(1), tensor.ErrDType, "%v and %v differ", a, b)
	}
	return a, b, c.broadcast(a.Shape, b.Shape)
}

// arithmetic returns the kernel that applies f to floats, g to integers and u, where it differs from g, to uint64.
func arithmetic(f func(a, b float64) float64, g func(a, b int64) int64, u func(a, b uint64) uint64) func(*Call) {
	return func(c *Call) {
		a, b, shape := c.pair()
		switch {
		case a.DType.IsFloat():
			c.putFloats(0, a.DType, shape, zip(c, shape, c.floats(0), a.Shape, c.floats(1), b.Shape, f))
		case a.DType == tensor.Uint64 && u != nil:
			c.putInts(0, a.DType, shape, zip(c, shape, c.ints(0), a.Shape, c.ints(1), b.Shape, func(x, y int64) int64 {
				return int64(u(uint64(x), uint64(y)))
			}))
		case a.DType.IsInt():
			c.putInts(0, a.DType, shape, zip(c, shape, c.ints(0), a.Shape, c.ints(1), b.Shape, g))
		default:
			c.wantType(0, a, false)
		}
	}
}

// divInt truncates towards zero. A division by zero, which ONNX leaves undefined, gives 0.
func divInt(a, b int64) int64 {
	if b == 0 {
		return 0
	}
	return a / b
}

func divUint(a, b uint64) uint64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// mod has the sign of the divisor, or with fmod=1 that of the dividend. Modulo zero gives 0 for integers.
func mod(c *Call) {
	if c.Node.Int("fmod", 0) != 0 {
		arithmetic(math.Mod, func(a, b int64) int64 {
			if b == 0 {
				return 0
			}
			return a % b
		}, modUint)(c)
		return
	}
	arithmetic(func(a, b float64) float64 {
		m := math.Mod(a, b)
		if m != 0 && (m < 0) != (b < 0) {
			m += b
		}
		return m
	}, func(a, b int64) int64 {
		if b == 0 {
			return 0
		}
		m := a % b
		if m != 0 && (m < 0) != (b < 0) {
			m += b
		}
		return m
	}, modUint)(c)
}

func modUint(a, b uint64) uint64 {
	if b == 0 {
		return 0
	}
	return a % b
}

// pow takes an exponent of any type; the result has the type of the base. Integer powers of integers wrap around.
func pow(c *Call) {
	a, b := c.input(0), c.input(1)
	shape := c.broadcast(a.Shape, b.Shape)
	switch {
	case a.DType.IsInt() && b.DType.IsInt():
		unsigned := b.DType == tensor.Uint64
		c.putInts(0, a.DType, shape, zip(c, shape, c.ints(0), a.Shape, c.ints(1), b.Shape, func(x, y int64) int64 {
			return powInt(x, y, unsigned)
		}))
	case a.DType.IsInt():
		c.putFloats(0, a.DType, shape, zip(c, shape, c.floats(0), a.Shape, c.floats(1), b.Shape, math.Pow))
	default:
		c.wantType(0, a, a.DType.IsFloat())
		c.putFloats(0, a.DType, shape, zip(c, shape, c.floats(0), a.Shape, c.floats(1), b.Shape, math.Pow))
	}
}

func powInt(x, y int64, unsigned bool) int64 {
	if y < 0 && !unsigned {
		switch {
		case x == 1:
			return 1
		case x == -1 && y&1 != 0:
			return -1
		case x == -1:
			return 1
		}
		return 0
	}
	r := int64(1)
	for n := uint64(y); n > 0; n >>= 1 {
		if n&1 != 0 {
			r *= x
		}
		x *= x
	}
	return r
}

func logical(f func(a, b bool) bool) func(*Call) {
	return func(c *Call) {
		a, b, shape := c.pair()
		c.putBools(0, shape, zip(c, shape, c.bools(0), a.Shape, c.bools(1), b.Shape, f))
	}
}

func equal(c *Call) {
	a, b, shape := c.pair()
	var v []bool
	switch {
	case a.DType == tensor.String:
		v = zip(c, shape, c.strings(0), a.Shape, c.strings(1), b.Shape, func(x, y string) bool { return x == y })
	case a.DType.IsFloat():
		v = zip(c, shape, c.floats(0), a.Shape, c.floats(1), b.Shape, func(x, y float64) bool { return x == y })
	default:
		v = zip(c, shape, c.ints(0), a.Shape, c.ints(1), b.Shape, func(x, y int64) bool { return x == y })
	}
	c.putBools(0, shape, v)
}

// order returns -1, 0 or 1, or 2 where one of the operands is NaN.
func order[T float64 | int64 | uint64](x, y T) int {
	switch {
	case x < y:
		return -1
	case x == y:
		return 0
	case x > y:
		return 1
	}
	return 2
}

func compare(f func(order int) bool) func(*Call) {
	return func(c *Call) {
		a, b, shape := c.pair()
		var v []bool
		switch {
		case a.DType.IsFloat():
			v = zip(c, shape, c.floats(0), a.Shape, c.floats(1), b.Shape, func(x, y float64) bool { return f(order(x, y)) })
		case a.DType == tensor.Uint64:
			v = zip(c, shape, c.ints(0), a.Shape, c.ints(1), b.Shape, func(x, y int64) bool {
				return f(order(uint64(x), uint64(y)))
			})
		default:
			v = zip(c, shape, c.ints(0), a.Shape, c.ints(1), b.Shape, func(x, y int64) bool { return f(order(x, y)) })
		}
		c.putBools(0, shape, v)
	}
}

func bitwise(f func(a, b int64) int64) func(*Call) {
	return func(c *Call) {
		a, b, shape := c.pair()
		c.wantType(0, a, a.DType.IsInt())
		c.putInts(0, a.DType, shape, zip(c, shape, c.ints(0), a.Shape, c.ints(1), b.Shape, f))
	}
}

// bitShift shifts unsigned integers; a shift by the width of the type or more gives 0.
func bitShift(c *Call) {
	left := c.Node.Str("direction", "") == "LEFT"
	if !left && c.Node.Str("direction", "") != "RIGHT" {
		c.fail("direction", ErrAttribute, "%q", c.Node.Str("direction", ""))
	}
	bitwise(func(a, b int64) int64 {
		if left {
			return int64(uint64(a) << uint64(b))
		}
		return int64(uint64(a) >> uint64(b))
	})(c)
}

func where(c *Call) {
	cond, x, y := c.input(0), c.input(1), c.input(2)
	if x.DType != y.DType {
		c.fail(c.portName(2), tensor.ErrDType, "%v and %v differ", x, y)
	}
	shape := c.broadcast(cond.Shape, x.Shape, y.Shape)
	pick := spread(c, c.portName(0), c.bools(0), cond.Shape, shape)
	xs, ys := c.broadcastStrides(c.portName(1), x.Shape, shape), c.broadcastStrides(c.portName(2), y.Shape, shape)
	xc, yc := c.cells(1), c.cells(2)
	c.move(0, x.DType, shape, func(dst cells) {
		o := 0
		c.walk(shape, []int{0, 0}, [][]int{xs, ys}, func(off, step []int, n int) {
			i, j := off[0], off[1]
			for k := range n {
				if pick[o+k] {
					dst.copy(o+k, xc, i, 1)
				} else {
					dst.copy(o+k, yc, j, 1)
				}
				i, j = i+step[0], j+step[1]
			}
			o += n
		})
	})
}
