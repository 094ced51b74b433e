package reference

import (
	"github.com/carve-dev/carve/graph/tensor"
)

var convKernels = []kernel{
	{"Conv", 1, conv},
	{"ConvTranspose", 1, convTranspose},
	{"ConvInteger", 10, convInteger},
	{"QLinearConv", 10, qLinearConv},
	{"DeformConv", 19, deformConv},
	{"Col2Im", 18, col2Im},
}

// convolution is the geometry of a convolution: x [N, groups*cin, in...], w [groups*cout, cin, kernel...].
type convolution struct {
	window
	n, groups, cin, cout int
	shape                []int // of the result
}

func (c *Call) convolutionOf(wi int) convolution {
	x, w := c.input(0), c.input(wi)
	rank := len(x.Shape) - 2
	c.require(rank >= 1, c.portName(0), "[N, C, D1, ...] is expected, found %v", x)
	c.require(len(w.Shape) == rank+2, c.portName(wi), "rank %d is expected, found %v", rank+2, w)
	kernel := c.spatial("kernel_shape", rank, 0, 1)
	if _, ok := c.Node.Ints("kernel_shape"); !ok {
		kernel = append([]int{}, w.Shape[2:]...)
	}
	c.require(sameShape(kernel, w.Shape[2:]), c.portName(wi), "kernel_shape %v differs from %v", kernel, w)
	g := c.group()
	c.require(x.Shape[1] == g*w.Shape[1] && w.Shape[0]%g == 0, c.portName(wi), "%v does not fit %v in %d groups", w, x, g)
	v := convolution{window: c.windowOf(x.Shape[2:], kernel), n: x.Shape[0], groups: g, cin: w.Shape[1], cout: w.Shape[0] / g}
	v.shape = append([]int{x.Shape[0], w.Shape[0]}, v.out...)
	return v
}

func (c *Call) group() int {
	g := c.Node.Int("group", 1)
	if g < 1 || g > 1<<30 {
		c.fail("group", ErrAttribute, "%d", g)
	}
	return int(g)
}

func conv(c *Call) {
	x := c.input(0)
	c.wantType(0, x, x.DType.IsFloat())
	v := c.convolutionOf(1)
	out := convolve(c, v, c.floats(0), c.floats(1))
	if b := c.optional(2); b != nil {
		c.addBias(out, c.floats(2), v.shape)
	}
	c.putFloats(0, x.DType, v.shape, out)
}

// addBias adds one number per channel of [N, C, ...].
func (c *Call) addBias(out, bias []float64, shape []int) {
	c.require(len(bias) == shape[1], "input B", "%d elements for %d channels", len(bias), shape[1])
	if len(out) == 0 {
		return
	}
	size := product(shape[2:])
	for plane := range len(out) / size {
		b := bias[plane%shape[1]]
		for i := range out[plane*size : (plane+1)*size] {
			out[plane*size+i] += b
		}
		c.spend(size)
	}
}

// convolve computes a convolution in the accumulator's type: for each output row and four output channels at a time,
// every kernel position adds a row of the input times a weight.
func convolve[S accumulator](c *Call, v convolution, x, w []S) []S {
	out := make([]S, c.reserve("output Y", v.shape, 8))
	if len(out) == 0 {
		return out
	}
	v.flatten()
	last := len(v.in) - 1
	inSize, outSize, taps := product(v.in), product(v.out), product(v.kernel)
	rowIn, rowOut := v.in[last], v.out[last]
	rows := outSize / rowOut
	outer := window{in: v.in[:last], out: v.out[:last], kernel: v.kernel[:last], stride: v.stride[:last],
		dilation: v.dilation[:last], begin: v.begin[:last], end: v.end[:last]}
	inStrides, kStrides := tensor.CompactStrides(v.in), tensor.CompactStrides(v.kernel)
	at, lo, hi, idx := make([]int, last), make([]int, last), make([]int, last), make([]int, last)
	var acc [4][]S
	for i := range acc {
		acc[i] = make([]S, rowOut)
	}
	for n := range v.n {
		for g := range v.groups {
			for oc := 0; oc < v.cout; oc += 4 {
				m := min(4, v.cout-oc)
				clear(at)
				for r := range rows {
					empty := false
					for a := range at {
						lo[a], hi[a] = outer.taps(a, at[a])
						empty = empty || lo[a] >= hi[a]
					}
					for i := range acc {
						clear(acc[i])
					}
					for ic := 0; ic < v.cin && !empty; ic++ {
						copy(idx, lo)
						plane := ((n*v.groups+g)*v.cin + ic) * inSize
						weights := ((g*v.cout+oc)*v.cin + ic) * taps
						for {
							row, tap := plane, weights
							for a, k := range idx {
								row += (at[a]*v.stride[a] - v.begin[a] + k*v.dilation[a]) * inStrides[a]
								tap += k * kStrides[a]
							}
							convolveRow(&v, &acc, x[row:row+rowIn], w[tap:], v.cin*taps, m)
							if !advance(idx, lo, hi) {
								break
							}
						}
						c.spend(rowOut * taps)
					}
					for i := range m {
						copy(out[((n*v.groups+g)*v.cout+oc+i)*outSize+r*rowOut:], acc[i])
					}
					c.spend(rowOut)
					advanceAll(at, v.out[:last])
				}
			}
		}
	}
	return out
}

// flatten makes one row of all dims of a convolution whose windows are single elements, one per element.
func (v *convolution) flatten() {
	for a := range v.in {
		if v.kernel[a] != 1 || v.stride[a] != 1 || v.begin[a] != 0 || v.end[a] != 0 {
			return
		}
	}
	n := product(v.in)
	v.window = window{in: []int{n}, out: []int{n}, kernel: []int{1}, stride: []int{1}, dilation: []int{1}, begin: []int{0}, end: []int{0}}
}

// advanceAll steps idx through a box from 0 in row-major order.
func advanceAll(idx, dims []int) {
	for a := len(idx) - 1; a >= 0; a-- {
		if idx[a]++; idx[a] < dims[a] {
			return
		}
		idx[a] = 0
	}
}

// convolveRow adds a row of the input, times each kernel position of the last axis, to the rows of m output channels,
// whose weights lie ld apart.
func convolveRow[S accumulator](v *convolution, acc *[4][]S, x, w []S, ld, m int) {
	last := len(v.in) - 1
	stride, dilation, begin, kernel := v.stride[last], v.dilation[last], v.begin[last], v.kernel[last]
	n := len(acc[0])
	for k := range kernel {
		shift := k*dilation - begin // input position of output 0
		from, to := 0, n
		if shift < 0 {
			from = min(n, (-shift+stride-1)/stride)
		}
		if end := len(x) - shift; end <= 0 {
			continue
		} else {
			to = min(to, (end-1)/stride+1)
		}
		if from >= to {
			continue
		}
		src := x[from*stride+shift:]
		if m < 4 {
			for i := range m {
				f := w[i*ld+k]
				dst := acc[i][from:to]
				for j := range dst {
					dst[j] += f * src[j*stride]
				}
			}
			continue
		}
		f0, f1, f2, f3 := w[k], w[ld+k], w[2*ld+k], w[3*ld+k]
		a0 := acc[0][from:to]
		a1, a2, a3 := acc[1][from:to][:len(a0)], acc[2][from:to][:len(a0)], acc[3][from:to][:len(a0)]
		if stride == 1 {
			for j, s := range src[:len(a0)] {
				a0[j] += f0 * s
				a1[j] += f1 * s
				a2[j] += f2 * s
				a3[j] += f3 * s
			}
			continue
		}
		for j := range a0 {
			s := src[j*stride]
			a0[j] += f0 * s
			a1[j] += f1 * s
			a2[j] += f2 * s
			a3[j] += f3 * s
		}
	}
}

func convInteger(c *Call) {
	v := c.convolutionOf(1)
	x, w := c.convOperands(0, 2, 1, 3)
	c.putInts(0, tensor.Int32, v.shape, convolve(c, v, x, w))
}

// convOperands returns an image and weights less their zero points; those of the weights are one, or one per channel.
func (c *Call) convOperands(xi, xz, wi, wz int) (x, w []int64) {
	x, w = c.ints(xi), c.ints(wi)
	zero := c.oneInt(xz, 0)
	for i := range x {
		x[i] -= zero
	}
	if z := c.optional(wz); z != nil {
		zv := c.ints(wz)
		channels := c.input(wi).Shape[0]
		c.require(len(zv) == 1 || len(zv) == channels, c.portName(wz), "%v for %d channels", z, channels)
		size := len(w) / max(channels, 1)
		for i := range w {
			w[i] -= zv[i/size%len(zv)]
		}
	}
	return x, w
}

func qLinearConv(c *Call) {
	v := c.convolutionOf(3)
	x, w := c.convOperands(0, 2, 3, 5)
	sum := convolve(c, v, x, w)
	xs, ws, ys := c.one(1, 1), c.floats(4), c.one(6, 1)
	channels := v.shape[1]
	c.require(len(ws) == 1 || len(ws) == channels, c.portName(4), "%d scales for %d channels", len(ws), channels)
	var bias []int64
	if c.has(8) {
		bias = c.ints(8)
		c.require(len(bias) == channels, c.portName(8), "%d elements for %d channels", len(bias), channels)
	}
	size := product(v.shape[2:])
	out := make([]float64, len(sum))
	for i, s := range sum {
		ch := i / size % channels
		if bias != nil {
			s += bias[ch]
		}
		out[i] = float64(s) * (xs * ws[ch%len(ws)] / ys)
	}
	c.putQuantized(0, c.input(7), c.portName(7), v.shape, out)
}
