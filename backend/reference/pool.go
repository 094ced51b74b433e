package reference

import (
	"math"

	"github.com/carve-dev/carve/graph/tensor"
)

var poolKernels = []kernel{
	{"MaxPool", 1, maxPool},
	{"AveragePool", 7, averagePool},
	{"LpPool", 2, lpPool},
	{"GlobalMaxPool", 1, globalPool(func(v []float64) float64 {
		m := math.Inf(-1)
		for _, x := range v {
			m = maxFloat(m, x)
		}
		return m
	})},
	{"GlobalAveragePool", 1, globalPool(func(v []float64) float64 {
		s := 0.0
		for _, x := range v {
			s += x
		}
		return s / float64(len(v))
	})},
	{"GlobalLpPool", 2, func(c *Call) {
		p := float64(c.Node.Int("p", 2))
		globalPool(func(v []float64) float64 {
			s := 0.0
			for _, x := range v {
				s += math.Pow(math.Abs(x), p)
			}
			return math.Pow(s, 1/p)
		})(c)
	}},
	{"MaxUnpool", 9, maxUnpool},
	{"MaxRoiPool", 1, maxRoiPool},
	{"RoiAlign", 10, roiAlign},
}

// pooling returns the geometry of a pooling of x [N, C, in...] and the result's shape.
func (c *Call) pooling(x *tensor.Tensor) (w window, shape []int) {
	rank := len(x.Shape) - 2
	c.require(rank >= 1, c.portName(0), "[N, C, D1, ...] is expected, found %v", x)
	c.wantType(0, x, x.DType.IsFloat() || x.DType.IsInt())
	w = c.windowOf(x.Shape[2:], c.spatial("kernel_shape", rank, 0, 1))
	shape = append([]int{x.Shape[0], x.Shape[1]}, w.out...)
	c.count("output Y", shape, 8)
	return w, shape
}

func maxPool(c *Call) {
	x := c.input(0)
	w, shape := c.pooling(x)
	v := c.floats(0)
	planes, inSize, outSize := shape[0]*shape[1], product(w.in), product(w.out)
	out, indices := make([]float64, planes*outSize), make([]int64, planes*outSize)
	column := c.Node.Int("storage_order", 0) != 0
	c.positions(&w, func(o int, _, offsets []int) {
		for p := range planes {
			plane := v[p*inSize : (p+1)*inSize]
			best, at := math.Inf(-1), -1
			for _, off := range offsets {
				if s := plane[off]; s > best || at < 0 || s != s && best == best {
					best, at = s, off
				}
			}
			out[p*outSize+o] = best
			if column && at >= 0 {
				at = columnMajor(at, w.in)
			}
			indices[p*outSize+o] = int64(p*inSize + at)
		}
		c.spend(planes * len(offsets))
	})
	if !x.DType.IsFloat() { // a window of nothing but padding
		lo, _ := intRange(x.DType)
		for i := range out {
			out[i] = math.Max(out[i], float64(lo))
		}
	}
	c.putFloats(0, x.DType, shape, out)
	if c.wants(1) {
		c.putInts(1, tensor.Int64, shape, indices)
	}
}

// columnMajor returns the column-major number of the element whose row-major number is i.
func columnMajor(i int, dims []int) int {
	at := make([]int, len(dims))
	for a := len(dims) - 1; a >= 0; a-- {
		at[a] = i % dims[a]
		i /= dims[a]
	}
	n := 0
	for a := len(dims) - 1; a >= 0; a-- {
		n = n*dims[a] + at[a]
	}
	return n
}

func averagePool(c *Call) {
	x := c.input(0)
	w, shape := c.pooling(x)
	v := c.floats(0)
	include := c.Node.Int("count_include_pad", 0) != 0
	planes, inSize, outSize := shape[0]*shape[1], product(w.in), product(w.out)
	out := make([]float64, planes*outSize)
	c.positions(&w, func(o int, at, offsets []int) {
		n := max(len(offsets), 1) // the mean of no elements is 0
		if include {
			n = max(w.paddedTaps(at), 1)
		}
		for p := range planes {
			s := 0.0
			for _, off := range offsets {
				s += v[p*inSize+off]
			}
			out[p*outSize+o] = s / float64(n)
		}
		c.spend(planes * len(offsets))
	})
	c.putFloats(0, x.DType, shape, out)
}

// paddedTaps counts the kernel positions inside the padded input; what a window has beyond it, through ceil_mode, does
// not count.
func (w *window) paddedTaps(at []int) int {
	n := 1
	for a, o := range at {
		room := w.in[a] + w.end[a] - 1 - (o*w.stride[a] - w.begin[a])
		n *= min(w.kernel[a], max(0, room/w.dilation[a]+1))
	}
	return n
}

func lpPool(c *Call) {
	x := c.input(0)
	w, shape := c.pooling(x)
	v := c.floats(0)
	p := float64(c.Node.Int("p", 2))
	planes, inSize, outSize := shape[0]*shape[1], product(w.in), product(w.out)
	out := make([]float64, planes*outSize)
	c.positions(&w, func(o int, _, offsets []int) {
		for q := range planes {
			s := 0.0
			for _, off := range offsets {
				s += math.Pow(math.Abs(v[q*inSize+off]), p)
			}
			out[q*outSize+o] = math.Pow(s, 1/p)
		}
		c.spend(8 * planes * len(offsets))
	})
	c.putFloats(0, x.DType, shape, out)
}

func globalPool(f func([]float64) float64) func(*Call) {
	return func(c *Call) {
		x := c.input(0)
		c.require(len(x.Shape) >= 2, c.portName(0), "[N, C, ...] is expected, found %v", x)
		shape := append([]int{}, x.Shape...)
		for a := 2; a < len(shape); a++ {
			shape[a] = 1
		}
		v, size := c.floats(0), product(x.Shape[2:])
		out := c.floatBuffer(shape...)
		for i := range out {
			out[i] = f(v[i*size : (i+1)*size])
			c.spend(size)
		}
		c.putFloats(0, x.DType, shape, out)
	}
}

// maxUnpool puts every element where MaxPool found it; the rest is zero.
func maxUnpool(c *Call) {
	x, at := c.input(0), c.ints(1)
	rank := len(x.Shape) - 2
	c.require(rank >= 1, c.portName(0), "[N, C, D1, ...] is expected, found %v", x)
	c.require(sameShape(x.Shape, c.input(1).Shape), c.portName(1), "%v and %v differ", c.input(1), x)
	kernel, stride := c.spatial("kernel_shape", rank, 1, 1), c.spatial("strides", rank, 1, 1)
	pads := c.spatial("pads", 2*rank, 0, 0)
	natural := append([]int{}, x.Shape[:2]...)
	for a := range rank {
		natural = append(natural, (x.Shape[a+2]-1)*stride[a]-pads[a]-pads[rank+a]+kernel[a])
	}
	shape := natural
	if c.has(2) {
		shape = c.dims(c.portName(2), c.ints(2))
		c.require(len(shape) == rank+2, c.portName(2), "%v for %v", shape, x)
	}
	src := c.cells(0)
	n := c.count("output output", shape, 8)
	limit := c.count("output output", natural, 1)
	c.move(0, x.DType, shape, func(dst cells) {
		for i, k := range at {
			// Indices count within the natural shape, which lies in the corner of a larger one.
			if k < 0 || k >= int64(limit) {
				c.outOfRange(1, k, 0, int64(limit)-1)
			}
			to, rest, stride := 0, int(k), 1
			if sameShape(shape, natural) {
				to = rest
			} else {
				for a := len(shape) - 1; a >= 0; a-- {
					if natural[a] > 0 {
						to += rest % natural[a] * stride
						rest /= natural[a]
					}
					stride *= shape[a]
				}
			}
			if to >= n { // the shape that is asked for is smaller than the natural one
				c.outOfRange(1, k, 0, int64(n)-1)
			}
			dst.copy(to, src, i, 1)
		}
	})
}
