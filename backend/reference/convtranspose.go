package reference

import (
	"github.com/carve-dev/carve/graph/tensor"
)

// convTranspose scatters every input element, times the kernel, over the output: x [N, groups*cin, in...],
// w [groups*cin, cout, kernel...].
func convTranspose(c *Call) {
	x, wt := c.input(0), c.input(1)
	c.wantType(0, x, x.DType.IsFloat())
	rank := len(x.Shape) - 2
	c.require(rank >= 1, c.portName(0), "[N, C, D1, ...] is expected, found %v", x)
	c.require(len(wt.Shape) == rank+2, c.portName(1), "rank %d is expected, found %v", rank+2, wt)
	g := c.group()
	c.require(x.Shape[1] == wt.Shape[0] && x.Shape[1]%g == 0, c.portName(1), "%v does not fit %v in %d groups", wt, x, g)
	w := c.transposedWindow(x.Shape[2:], wt.Shape[2:])
	cin, cout := x.Shape[1]/g, wt.Shape[1]
	shape := append([]int{x.Shape[0], g * cout}, w.out...)
	out := c.floatBuffer(shape...)
	xs, ws := c.floats(0), c.floats(1)
	inSize, outSize, taps := product(w.in), product(w.out), product(w.kernel)
	for n := range x.Shape[0] {
		for ch := range x.Shape[1] {
			plane := xs[(n*x.Shape[1]+ch)*inSize:][:inSize]
			for oc := range cout {
				dst := out[((n*g+ch/cin)*cout+oc)*outSize:][:outSize]
				c.scatterPlane(&w, dst, plane, ws[(ch*cout+oc)*taps:][:taps])
			}
		}
	}
	if b := c.optional(2); b != nil {
		c.addBias(out, c.floats(2), shape)
	}
	c.putFloats(0, x.DType, shape, out)
}

// transposedWindow returns the geometry whose in is the transposed convolution's input and whose out is its output;
// input position i and kernel position k meet at output position i*stride + k*dilation - begin.
func (c *Call) transposedWindow(in, kernel []int) window {
	rank := len(in)
	w := window{in: in, kernel: kernel, out: make([]int, rank), stride: c.spatial("strides", rank, 1, 1),
		dilation: c.spatial("dilations", rank, 1, 1)}
	pads := c.spatial("pads", 2*rank, 0, -1<<30)
	w.begin, w.end = append([]int{}, pads[:rank]...), append([]int{}, pads[rank:]...)
	extra := c.spatial("output_padding", rank, 0, 0)
	want, fixed := c.Node.Ints("output_shape")
	var outShape []int
	if fixed {
		outShape = c.smallInts("output_shape", want)
		if len(outShape) == rank+2 {
			outShape = outShape[2:]
		}
		if len(outShape) != rank {
			c.fail("output_shape", ErrAttribute, "%v for %d spatial dims", want, rank)
		}
	}
	mode := c.Node.Str("auto_pad", "NOTSET")
	for a := range in {
		full := w.stride[a]*(in[a]-1) + extra[a] + (kernel[a]-1)*w.dilation[a] + 1
		same := mode == "SAME_UPPER" || mode == "SAME_LOWER"
		switch {
		case fixed:
			w.out[a] = outShape[a]
		case same:
			w.out[a] = in[a] * w.stride[a]
		case mode == "VALID":
			w.begin[a], w.end[a] = 0, 0
			w.out[a] = full
		default:
			w.out[a] = full - w.begin[a] - w.end[a]
		}
		if fixed || same {
			total := full - w.out[a]
			w.begin[a] = total / 2
			if mode != "SAME_UPPER" {
				w.begin[a] = total - total/2
			}
			if total < 0 {
				w.begin[a] = 0
			}
			w.end[a] = total - w.begin[a]
		}
		c.require(w.out[a] >= 0, c.portName(0), "the output's dim %d is %d", a+2, w.out[a])
	}
	return w
}

// scatterPlane adds a plane of the input times a kernel to a plane of the output.
func (c *Call) scatterPlane(w *window, dst, src, kernel []float64) {
	if len(src) == 0 || len(dst) == 0 {
		return
	}
	rank := len(w.in)
	last := rank - 1
	strides := tensor.CompactStrides(w.out)
	at, idx := make([]int, rank), make([]int, last)
	zeros := make([]int, last)
	for row := 0; row < len(src); row += w.in[last] {
		clear(idx)
		for k := 0; k < len(kernel); k += w.kernel[last] {
			base, inside := 0, true
			for a := range idx {
				p := at[a]*w.stride[a] + idx[a]*w.dilation[a] - w.begin[a]
				inside = inside && p >= 0 && p < w.out[a]
				base += p * strides[a]
			}
			if inside {
				w.scatterRow(dst[base:base+w.out[last]], src[row:row+w.in[last]], kernel[k:k+w.kernel[last]])
			}
			advance(idx, zeros, w.kernel[:last])
		}
		c.spend(len(kernel) * w.in[last])
		advanceAll(at[:last], w.in[:last])
	}
}

func (w *window) scatterRow(dst, src, kernel []float64) {
	last := len(w.in) - 1
	stride := w.stride[last]
	for k, f := range kernel {
		p := k*w.dilation[last] - w.begin[last]
		for _, s := range src {
			if p >= 0 && p < len(dst) {
				dst[p] += f * s
			}
			p += stride
		}
	}
}

// col2Im adds the columns of blocks [N, C*prod(block), L] to an image [N, C, image...].
func col2Im(c *Call) {
	x := c.input(0)
	image, block := c.dims(c.portName(1), c.ints(1)), c.dims(c.portName(2), c.ints(2))
	rank := len(image)
	c.require(len(x.Shape) == 3, c.portName(0), "rank 3 is expected, found %v", x)
	c.require(rank > 0 && len(block) == rank, c.portName(2), "%v for an image of %v", block, image)
	for _, d := range image {
		c.require(d <= 1<<30, c.portName(1), "%v", image)
	}
	for _, d := range block {
		c.require(d >= 1 && d <= 1<<30, c.portName(2), "%v", block)
	}
	w := c.windowOf(image, block)
	taps, err := tensor.NumElements(block)
	c.check(c.portName(2), err)
	length := c.count(c.portName(1), w.out, 1)
	c.require(x.Shape[1]%taps == 0 && x.Shape[2] == length, c.portName(0), "%v for blocks of %v at %v positions", x, block, w.out)
	channels := x.Shape[1] / taps
	shape := append([]int{x.Shape[0], channels}, image...)
	out := c.floatBuffer(shape...)
	v := c.floats(0)
	size := product(image)
	strides := tensor.CompactStrides(image)
	at, idx, zeros := make([]int, rank), make([]int, rank), make([]int, rank)
	for o := range length {
		clear(idx)
		for k := range taps {
			off, inside := 0, true
			for a := range idx {
				p := at[a]*w.stride[a] - w.begin[a] + idx[a]*w.dilation[a]
				inside = inside && p >= 0 && p < image[a]
				off += p * strides[a]
			}
			if inside {
				for nc := range x.Shape[0] * channels {
					out[nc*size+off] += v[(nc*taps+k)*length+o]
				}
			}
			advance(idx, zeros, block)
			c.spend(x.Shape[0] * channels)
		}
		advanceAll(at, w.out)
	}
	c.putFloats(0, x.DType, shape, out)
}
