package reference

import (
	"github.com/carve-dev/carve/graph/tensor"
)

// window is the geometry of a convolution or pooling over the spatial dims.
type window struct {
	in, out, kernel, stride, dilation []int
	begin, end                        []int // padding
}

// spatial reads an attribute with one number per spatial dim, each at least lowest.
func (c *Call) spatial(name string, rank int, def, lowest int) []int {
	v, ok := c.Node.Ints(name)
	if !ok || len(v) == 0 {
		out := make([]int, rank)
		for i := range out {
			out[i] = def
		}
		return out
	}
	if len(v) != rank {
		c.fail(name, ErrAttribute, "%d numbers for %d spatial dims", len(v), rank)
	}
	out := c.smallInts(name, v)
	for _, x := range out {
		if x < lowest {
			c.fail(name, ErrAttribute, "%d", x)
		}
	}
	return out
}

// windowOf reads strides, dilations, pads and auto_pad and computes the output's dims.
func (c *Call) windowOf(in, kernel []int) window {
	rank := len(in)
	w := window{in: in, kernel: kernel, stride: c.spatial("strides", rank, 1, 1), dilation: c.spatial("dilations", rank, 1, 1)}
	pads := c.spatial("pads", 2*rank, 0, -1<<30)
	w.begin, w.end = append([]int{}, pads[:rank]...), append([]int{}, pads[rank:]...)
	w.out = make([]int, rank)
	mode := c.Node.Str("auto_pad", "NOTSET")
	ceil := c.Node.Int("ceil_mode", 0) != 0
	for a := range in {
		if kernel[a] < 1 {
			c.fail("kernel_shape", ErrAttribute, "%v", kernel)
		}
		extent := (kernel[a]-1)*w.dilation[a] + 1
		switch mode {
		case "SAME_UPPER", "SAME_LOWER":
			w.out[a] = (in[a] + w.stride[a] - 1) / w.stride[a]
			total := max(0, (w.out[a]-1)*w.stride[a]+extent-in[a])
			w.begin[a] = total / 2
			if mode == "SAME_LOWER" {
				w.begin[a] = (total + 1) / 2
			}
			w.end[a] = total - w.begin[a]
			continue
		case "VALID":
			w.begin[a], w.end[a] = 0, 0
		case "NOTSET", "":
		default:
			c.fail("auto_pad", ErrAttribute, "%q", mode)
		}
		room := in[a] + w.begin[a] + w.end[a] - extent
		if ceil { // one more window where the last leaves something, and none that would begin in the padding behind
			room = min(room+w.stride[a]-1, in[a]+w.begin[a]-1)
		}
		c.require(room >= 0 || in[a] == 0 && room >= -w.stride[a], c.portName(0), "a window of %d exceeds %d padded by %d and %d", extent, in[a], w.begin[a], w.end[a])
		if room >= 0 {
			w.out[a] = room/w.stride[a] + 1
		}
	}
	return w
}

// taps returns the range of kernel positions along an axis that lie inside the input for output position o.
func (w *window) taps(axis, o int) (lo, hi int) {
	start := o*w.stride[axis] - w.begin[axis]
	d := w.dilation[axis]
	if start < 0 {
		lo = (-start + d - 1) / d
	}
	hi = w.kernel[axis]
	if last := w.in[axis] - 1 - start; last < 0 {
		hi = 0
	} else {
		hi = min(hi, last/d+1)
	}
	return lo, max(lo, hi)
}

// positions calls f for every output position, in row-major order, with the offsets, in a plane of the input, of the
// window's elements inside the input. The slice is reused.
func (c *Call) positions(w *window, f func(o int, at []int, offsets []int)) {
	rank := len(w.in)
	strides := tensor.CompactStrides(w.in)
	at := make([]int, rank)
	lo, hi, idx := make([]int, rank), make([]int, rank), make([]int, rank)
	var offsets []int
	for o, total := 0, product(w.out); o < total; o++ {
		offsets = offsets[:0]
		empty := false
		for a := range at {
			lo[a], hi[a] = w.taps(a, at[a])
			idx[a] = lo[a]
			empty = empty || lo[a] >= hi[a]
		}
		for !empty {
			off := 0
			for a := range idx {
				off += (at[a]*w.stride[a] - w.begin[a] + idx[a]*w.dilation[a]) * strides[a]
			}
			offsets = append(offsets, off)
			if !advance(idx, lo, hi) {
				break
			}
		}
		f(o, at, offsets)
		c.spend(len(offsets) + 1)
		for a := rank - 1; a >= 0; a-- {
			if at[a]++; at[a] < w.out[a] {
				break
			}
			at[a] = 0
		}
	}
}

// advance steps idx through the box [lo, hi) in row-major order; it returns false after the last one.
func advance(idx, lo, hi []int) bool {
	for a := len(idx) - 1; a >= 0; a-- {
		if idx[a]++; idx[a] < hi[a] {
			return true
		}
		idx[a] = lo[a]
	}
	return false
}
