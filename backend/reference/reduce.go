package reference

import (
	"math"

	"github.com/carve-dev/carve/graph/tensor"
)

var reduceKernels = []kernel{
	{"ReduceSum", 1, reduce(sumReducer)},
	{"ReduceMean", 1, reduce(reducer{0, addFloat, func(s float64, n int) float64 { return s / float64(max(n, 1)) }, meanInts})},
	{"ReduceProd", 1, reduce(reducer{1, func(s, x float64) float64 { return s * x }, nil, prodInts})},
	{"ReduceMax", 1, reduceExtreme(true)},
	{"ReduceMin", 1, reduceExtreme(false)},
	{"ReduceL1", 1, reduce(reducer{0, func(s, x float64) float64 { return s + math.Abs(x) }, nil, sizesOfInts})},
	{"ReduceL2", 1, reduce(reducer{0, func(s, x float64) float64 { return s + x*x }, rootOf, nil})},
	{"ReduceSumSquare", 1, reduce(reducer{0, func(s, x float64) float64 { return s + x*x }, nil, sumInts(square)})},
	{"ReduceLogSum", 1, reduce(reducer{0, addFloat, logOf, nil})},
	{"ReduceLogSumExp", 1, reduceLogSumExp},
	{"ArgMax", 1, argExtreme(true)},
	{"ArgMin", 1, argExtreme(false)},
	{"CumSum", 11, cumulative(0, addFloat, func(a, b int64) int64 { return a + b })},
	{"CumProd", 26, cumulative(1, func(a, b float64) float64 { return a * b }, func(a, b int64) int64 { return a * b })},
}

var sumReducer = reducer{0, addFloat, nil, sumInts(func(x int64) int64 { return x })}

func addFloat(a, b float64) float64 { return a + b }

func rootOf(s float64, _ int) float64 { return math.Sqrt(s) }

func logOf(s float64, _ int) float64 { return math.Log(s) }

func absValue(x int64) int64 {
	if x < 0 {
		return -x
	}
	return x
}

func square(x int64) int64 { return x * x }

// reducer describes a reduction: floats are folded with step from start, then finished with the number of elements.
// Integers are gathered and folded by ints; where that is nil they are folded as floats.
type reducer struct {
	start  float64
	step   func(s, x float64) float64
	finish func(s float64, n int) float64
	ints   func(v []int64, dt tensor.DType) int64
}

func sumInts(f func(int64) int64) func([]int64, tensor.DType) int64 {
	return func(v []int64, _ tensor.DType) int64 {
		s := int64(0)
		for _, x := range v {
			s += f(x)
		}
		return s
	}
}

// sizesOfInts adds up sizes: unsigned numbers are their own, also where int64 holds them as negative ones.
func sizesOfInts(v []int64, dt tensor.DType) int64 {
	if dt.IsUnsigned() {
		return sumInts(func(x int64) int64 { return x })(v, dt)
	}
	return sumInts(absValue)(v, dt)
}

func prodInts(v []int64, _ tensor.DType) int64 {
	p := int64(1)
	for _, x := range v {
		p *= x
	}
	return p
}

// meanInts truncates towards zero.
func meanInts(v []int64, dt tensor.DType) int64 {
	if len(v) == 0 {
		return 0
	}
	s := sumInts(func(x int64) int64 { return x })(v, dt)
	if dt == tensor.Uint64 {
		return int64(uint64(s) / uint64(len(v)))
	}
	return s / int64(len(v))
}

// reduction is the geometry of a reduction: which axes go, and the shape of the result.
type reduction struct {
	gone   []bool
	shape  []int // of the result
	kept   []int // dims that stay, in order
	lost   []int // dims that go, in order
	ks, ls []int // their strides in the operand
}

// reductionOf reads axes and keepdims. Without axes everything is reduced, or nothing with noop_with_empty_axes.
func (c *Call) reductionOf(x *tensor.Tensor) reduction {
	rank := len(x.Shape)
	r := reduction{gone: make([]bool, rank), shape: []int{}, kept: []int{}, lost: []int{}, ks: []int{}, ls: []int{}}
	axes, _ := c.list(1, "axes")
	if len(axes) == 0 {
		if c.Node.Int("noop_with_empty_axes", 0) == 0 {
			for a := range r.gone {
				r.gone[a] = true
			}
		}
	}
	for _, a := range axes {
		r.gone[c.axis(a, rank)] = true
	}
	keep := c.Node.Int("keepdims", 1) != 0
	strides := tensor.CompactStrides(x.Shape)
	for a, d := range x.Shape {
		if !r.gone[a] {
			r.shape, r.kept, r.ks = append(r.shape, d), append(r.kept, d), append(r.ks, strides[a])
			continue
		}
		r.lost, r.ls = append(r.lost, d), append(r.ls, strides[a])
		if keep {
			r.shape = append(r.shape, 1)
		}
	}
	return r
}

// rows calls f for every element of the result with the operand's elements that it is made of, in row-major order. The
// slice is f's until it returns.
func rows[T any](c *Call, v []T, r reduction, f func(o int, row []T)) {
	n := product(r.lost)
	contiguous := true
	for i, want := len(r.lost)-1, 1; i >= 0; i-- {
		contiguous = contiguous && (r.ls[i] == want || r.lost[i] == 1)
		want *= r.lost[i]
	}
	row := make([]T, 0, n)
	o := 0
	c.walk(r.kept, []int{0}, [][]int{r.ks}, func(off, step []int, k int) {
		for i := range k {
			base := off[0] + i*step[0]
			if contiguous {
				f(o, v[base:base+n])
				c.spend(n)
			} else {
				row = row[:0]
				c.walk(r.lost, []int{base}, [][]int{r.ls}, func(off, step []int, m int) {
					for j := range m {
						row = append(row, v[off[0]+j*step[0]])
					}
				})
				f(o, row)
			}
			o++
		}
	})
}

func reduce(d reducer) func(*Call) {
	return func(c *Call) {
		x := c.input(0)
		r := c.reductionOf(x)
		if x.DType.IsInt() && d.ints != nil {
			out := make([]int64, c.reserve("", r.shape, 8))
			rows(c, c.ints(0), r, func(o int, row []int64) { out[o] = d.ints(row, x.DType) })
			c.putInts(0, x.DType, r.shape, out)
			return
		}
		c.wantType(0, x, x.DType.IsInt() || x.DType.IsFloat())
		out := c.floatBuffer(r.shape...)
		rows(c, c.floats(0), r, func(o int, row []float64) {
			s := d.start
			for _, v := range row {
				s = d.step(s, v)
			}
			if d.finish != nil {
				s = d.finish(s, len(row))
			}
			out[o] = s
		})
		c.putLogarithms(x.DType, r.shape, out)
	}
}

// putLogarithms stores v as output 0. The logarithm of 0 is the least number of a type of integers, as in ONNX Runtime.
func (c *Call) putLogarithms(dt tensor.DType, shape []int, v []float64) {
	if dt.IsInt() {
		lo, _ := intRange(dt)
		for i, x := range v {
			if math.IsInf(x, -1) {
				v[i] = float64(lo)
			}
		}
	}
	c.putFloats(0, dt, shape, v)
}

func reduceLogSumExp(c *Call) {
	x := c.input(0)
	r := c.reductionOf(x)
	out := c.floatBuffer(r.shape...)
	rows(c, c.floats(0), r, func(o int, row []float64) { out[o] = logSumExp(row) })
	c.putLogarithms(x.DType, r.shape, out)
}

func logSumExp(row []float64) float64 {
	m := math.Inf(-1)
	for _, v := range row {
		m = maxFloat(m, v)
	}
	if math.IsInf(m, 0) || m != m {
		return m
	}
	s := 0.0
	for _, v := range row {
		s += math.Exp(v - m)
	}
	return m + math.Log(s)
}

// reduceExtreme takes the largest or smallest element; of nothing, the end of the type's range.
func reduceExtreme(largest bool) func(*Call) {
	return func(c *Call) {
		x := c.input(0)
		r := c.reductionOf(x)
		if x.DType.IsFloat() {
			out := c.floatBuffer(r.shape...)
			pick, start := maxFloat, math.Inf(-1)
			if !largest {
				pick, start = minFloat, math.Inf(1)
			}
			rows(c, c.floats(0), r, func(o int, row []float64) {
				s := start
				for _, v := range row {
					s = pick(s, v)
				}
				out[o] = s
			})
			c.putFloats(0, x.DType, r.shape, out)
			return
		}
		c.wantType(0, x, x.DType.IsInt() || x.DType == tensor.Bool)
		flip := int64(0) // uint64 compares as int64 with the upper bit flipped
		if x.DType == tensor.Uint64 {
			flip = math.MinInt64
		}
		lo, hi := intRange(x.DType)
		out := make([]int64, c.reserve("", r.shape, 8))
		rows(c, c.ints(0), r, func(o int, row []int64) {
			s := lo
			if !largest {
				s = hi
			}
			for _, v := range row {
				if v^flip > s^flip == largest && v != s {
					s = v
				}
			}
			out[o] = s
		})
		c.putInts(0, x.DType, r.shape, out)
	}
}

// intRange returns the ends of an integer type's range, those of uint64 in their bits.
func intRange(dt tensor.DType) (lo, hi int64) {
	bits := dt.Bits()
	switch {
	case dt == tensor.Bool:
		return 0, 1
	case dt == tensor.Uint64:
		return 0, -1
	case dt.IsUnsigned():
		return 0, 1<<bits - 1
	}
	return -1 << (bits - 1), 1<<(bits-1) - 1
}

func argExtreme(largest bool) func(*Call) {
	return func(c *Call) {
		x := c.input(0)
		axis := c.axisAttr(0, len(x.Shape))
		last := c.Node.Int("select_last_index", 0) != 0
		outer, n, inner := split3(x.Shape, axis)
		c.require(n > 0 || outer*inner == 0, c.portName(0), "nothing to choose from in %v", x)
		shape := append([]int{}, x.Shape...)
		shape[axis] = 1
		if c.Node.Int("keepdims", 1) == 0 {
			shape = append(shape[:axis], shape[axis+1:]...)
		}
		var better func(i, j int) int // order of elements i and j
		if x.DType.IsFloat() {
			v := c.floats(0)
			better = func(i, j int) int { return order(v[i], v[j]) }
		} else {
			v := c.ints(0)
			better = func(i, j int) int { return order(v[i], v[j]) }
			if x.DType == tensor.Uint64 {
				better = func(i, j int) int { return order(uint64(v[i]), uint64(v[j])) }
			}
		}
		want := 1
		if !largest {
			want = -1
		}
		out := make([]int64, outer*inner)
		for o := range outer {
			for in := range inner {
				best := 0
				at := func(k int) int { return (o*n+k)*inner + in }
				for k := 1; k < n; k++ {
					if r := better(at(k), at(best)); r == want || r == 0 && last {
						best = k
					}
				}
				out[o*inner+in] = int64(best)
				c.spend(n)
			}
		}
		c.putInts(0, tensor.Int64, shape, out)
	}
}

// split3 returns the product of the dims before an axis, the axis' dim and the product of those behind.
func split3(shape []int, axis int) (outer, n, inner int) {
	return product(shape[:axis]), shape[axis], product(shape[axis+1:])
}

func cumulative(start float64, f func(a, b float64) float64, g func(a, b int64) int64) func(*Call) {
	return func(c *Call) {
		x := c.input(0)
		axis := c.axis(c.oneInt(1, 0), len(x.Shape))
		outer, n, inner := split3(x.Shape, axis)
		exclusive, reverse := c.Node.Int("exclusive", 0) != 0, c.Node.Int("reverse", 0) != 0
		if x.DType.IsFloat() {
			v := c.floats(0)
			scan(c, v, start, outer, n, inner, exclusive, reverse, f)
			c.putFloats(0, x.DType, x.Shape, v)
			return
		}
		c.wantType(0, x, x.DType.IsInt())
		v := c.ints(0)
		scan(c, v, int64(start), outer, n, inner, exclusive, reverse, g)
		c.putInts(0, x.DType, x.Shape, v)
	}
}

func scan[T any](c *Call, v []T, start T, outer, n, inner int, exclusive, reverse bool, f func(a, b T) T) {
	for o := range outer {
		for in := range inner {
			s := start
			for k := range n {
				if reverse {
					k = n - 1 - k
				}
				i := (o*n+k)*inner + in
				next := f(s, v[i])
				if exclusive {
					v[i] = s
				} else {
					v[i] = next
				}
				s = next
			}
			c.spend(n)
		}
	}
}
