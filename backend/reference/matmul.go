package reference

import (
	"github.com/carve-dev/carve/graph/tensor"
)

var matmulKernels = []kernel{
	{"MatMul", 1, matMul},
	{"Gemm", 7, gemmOp},
	{"MatMulInteger", 10, matMulInteger},
	{"QLinearMatMul", 10, qLinearMatMul},
}

// product2 is the geometry of a batched matrix product with the rules of numpy.matmul.
type product2 struct {
	m, n, k int
	batch   []int // dims of the stack
	as, bs  []int // strides of the stack in the operands
	shape   []int // of the result
}

func (c *Call) matmulShape(a, b []int) product2 {
	c.require(len(a) > 0 && len(b) > 0, c.portName(0), "a scalar operand")
	var p product2
	am, bm := a, b
	if len(a) == 1 {
		am = []int{1, a[0]}
	}
	if len(b) == 1 {
		bm = []int{b[0], 1}
	}
	ra, rb := len(am), len(bm)
	p.m, p.k, p.n = am[ra-2], am[ra-1], bm[rb-1]
	c.require(bm[rb-2] == p.k, c.portName(1), "%v does not multiply %v", b, a)
	if rb == 2 { // one matrix for the whole stack: its rows are multiplied together
		p.shape = append(append([]int{}, am[:ra-1]...), p.n)
		p.m = product(am[:ra-1])
		p.batch, p.as, p.bs = []int{}, []int{}, []int{}
	} else {
		p.batch = c.broadcast(am[:ra-2], bm[:rb-2])
		p.as = c.broadcastStrides(c.portName(0), am[:ra-2], p.batch)
		p.bs = c.broadcastStrides(c.portName(1), bm[:rb-2], p.batch)
		for i := range p.as {
			p.as[i] *= p.m * p.k
			p.bs[i] *= p.k * p.n
		}
		p.shape = append(append([]int{}, p.batch...), p.m, p.n)
	}
	if len(b) == 1 {
		p.shape = p.shape[:len(p.shape)-1]
	}
	if len(a) == 1 {
		i := len(p.shape) - 2
		if len(b) == 1 {
			i = len(p.shape) - 1
		}
		p.shape = append(p.shape[:i], p.shape[i+1:]...)
	}
	return p
}

// multiply returns the elements of the product.
func multiply[T float32 | float64 | int64, S accumulator](c *Call, p product2, a, b []T) []S {
	out := make([]S, c.reserve("output Y", p.shape, 8))
	o, size := 0, p.m*p.n
	c.walk(p.batch, []int{0, 0}, [][]int{p.as, p.bs}, func(off, step []int, n int) {
		for i := range n {
			gemm(c, p.m, p.n, p.k, matrix[T]{a, off[0] + i*step[0], p.k, 1}, matrix[T]{b, off[1] + i*step[1], p.n, 1},
				out[o:o+size])
			o += size
		}
	})
	return out
}

func matMul(c *Call) {
	a, b := c.input(0), c.input(1)
	if a.DType != b.DType {
		c.fail(c.portName(1), tensor.ErrDType, "%v and %v differ", a, b)
	}
	p := c.matmulShape(a.Shape, b.Shape)
	switch {
	case a.DType == tensor.Float64:
		c.putFloats(0, a.DType, p.shape, multiply[float64, float64](c, p, c.floats(0), c.floats(1)))
	case a.DType.IsFloat():
		v := multiply[float32, float64](c, p, c.float32s(c.portName(0), a), c.float32s(c.portName(1), b))
		c.putFloats(0, a.DType, p.shape, v)
	default:
		c.wantType(0, a, a.DType.IsInt())
		c.putInts(0, a.DType, p.shape, multiply[int64, int64](c, p, c.ints(0), c.ints(1)))
	}
}

// gemmOp is Gemm: alpha * A' * B' + beta * C.
func gemmOp(c *Call) {
	a, b := c.input(0), c.input(1)
	c.require(len(a.Shape) == 2, c.portName(0), "a matrix is expected, found %v", a)
	c.require(len(b.Shape) == 2, c.portName(1), "a matrix is expected, found %v", b)
	ta, tb := c.Node.Int("transA", 0) != 0, c.Node.Int("transB", 0) != 0
	m, k, ar, ac := a.Shape[0], a.Shape[1], a.Shape[1], 1
	if ta {
		m, k, ar, ac = k, m, ac, ar
	}
	bk, n, br, bc := b.Shape[0], b.Shape[1], b.Shape[1], 1
	if tb {
		bk, n, br, bc = n, bk, bc, br
	}
	c.require(k == bk, c.portName(1), "%v does not multiply %v", b, a)
	shape := []int{m, n}
	c.count("output Y", shape, 8)
	alpha, beta := c.float("alpha", 1), c.float("beta", 1)
	if a.DType.IsInt() {
		out := make([]int64, m*n)
		gemm(c, m, n, k, matrix[int64]{c.ints(0), 0, ar, ac}, matrix[int64]{c.ints(1), 0, br, bc}, out)
		if alpha != 1 {
			out = each(c, out, func(x int64) int64 { return int64(alpha * float64(x)) })
		}
		if cc := c.optional(2); cc != nil {
			v := spread(c, c.portName(2), c.ints(2), cc.Shape, shape)
			for i := range out {
				if beta == 1 {
					out[i] += v[i]
				} else {
					out[i] += int64(beta * float64(v[i]))
				}
			}
		}
		c.putInts(0, a.DType, shape, out)
		return
	}
	c.wantType(0, a, a.DType.IsFloat())
	out := make([]float64, m*n)
	if a.DType == tensor.Float64 {
		gemm(c, m, n, k, matrix[float64]{c.floats(0), 0, ar, ac}, matrix[float64]{c.floats(1), 0, br, bc}, out)
	} else {
		gemm(c, m, n, k, matrix[float32]{c.float32s(c.portName(0), a), 0, ar, ac},
			matrix[float32]{c.float32s(c.portName(1), b), 0, br, bc}, out)
	}
	for i := range out {
		out[i] *= alpha
	}
	if cc := c.optional(2); cc != nil {
		for i, v := range spread(c, c.portName(2), c.floats(2), cc.Shape, shape) {
			out[i] += beta * v
		}
	}
	c.putFloats(0, a.DType, shape, out)
}

// centred returns an integer operand less its zero point, which is a scalar or has one element per row (of the last dim
// but one) or, for columns, per column.
func (c *Call) centred(i, zero int, columns bool) []int64 {
	v, x, z := c.ints(i), c.input(i), c.optional(zero)
	if z == nil {
		return v
	}
	zs, zv := z.Shape, c.ints(zero)
	switch {
	case len(zv) == 1:
		zs = []int{}
	case len(zs) == 1 && !columns: // one per row
		zs = []int{zs[0], 1}
	}
	zv = spread(c, c.portName(zero), zv, zs, x.Shape)
	for k := range v {
		v[k] -= zv[k]
	}
	return v
}

func matMulInteger(c *Call) {
	p := c.matmulShape(c.input(0).Shape, c.input(1).Shape)
	v := multiply[int64, int64](c, p, c.centred(0, 2, false), c.centred(1, 3, true))
	c.putInts(0, tensor.Int32, p.shape, v)
}

// qLinearMatMul computes the product of the dequantized operands and quantizes it.
func qLinearMatMul(c *Call) {
	a, b := c.input(0), c.input(3)
	p := c.matmulShape(a.Shape, b.Shape)
	v := multiply[int64, int64](c, p, c.centred(0, 2, false), c.centred(3, 5, true))
	out := each(c, v, func(x int64) float64 { return float64(x) })
	scale := func(i int, columns bool) {
		s, sv := c.input(i), c.floats(i)
		shape := s.Shape
		switch {
		case len(sv) == 1:
			shape = []int{}
		case len(shape) == 1 && !columns:
			shape = []int{shape[0], 1}
		}
		for k, f := range spread(c, c.portName(i), sv, shape, p.shape) {
			out[k] *= f
		}
	}
	scale(1, false)
	scale(4, true)
	ys := c.floats(6)
	ysShape := c.input(6).Shape
	if len(ys) == 1 {
		ysShape = []int{}
	}
	for k, f := range spread(c, c.portName(6), ys, ysShape, p.shape) {
		out[k] /= f
	}
	c.putQuantized(0, c.input(7), c.portName(7), p.shape, out)
}

// putQuantized rounds v half to even, adds the zero point, saturates to its type and stores it as output i.
func (c *Call) putQuantized(i int, zero *tensor.Tensor, port string, shape []int, v []float64) {
	zs, z := zero.Shape, c.floatsOf(port, zero)
	if len(z) == 1 {
		zs = []int{}
	}
	z = spread(c, port, z, zs, shape)
	lo, hi := intRange(zero.DType)
	q := make([]int64, len(v))
	for k := range v {
		q[k] = saturate(v[k], z[k], lo, hi)
	}
	c.putInts(i, zero.DType, shape, q)
}
