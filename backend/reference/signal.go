package reference

import (
	"math"

	"github.com/carve-dev/carve/graph/tensor"
)

var signalKernels = []kernel{
	{"DFT", 17, dft},
	{"STFT", 17, stft},
	{"HannWindow", 17, cosineWindow(0.5, 0.5, 0)},
	{"HammingWindow", 17, cosineWindow(25.0/46, 21.0/46, 0)},
	{"BlackmanWindow", 17, cosineWindow(0.42, 0.5, 0.08)},
	{"MelWeightMatrix", 17, melWeights},
}

// cosineWindow returns the kernel of the window a - b cos(2πi/n) + c cos(4πi/n).
func cosineWindow(a0, a1, a2 float64) func(*Call) {
	return func(c *Call) {
		size := c.oneInt(0, 0)
		shape := c.dims(c.portName(0), []int64{size})
		v := c.floatBuffer(shape...)
		n := float64(size)
		if c.Node.Int("periodic", 1) == 0 {
			n--
		}
		for i := range v {
			if other := int(n) - i; other < i && other >= 0 { // windows are symmetric
				v[i] = v[other]
				c.spend(1)
				continue
			}
			x := 1.0
			if n != 0 {
				x = math.Cos(2 * math.Pi * float64(i) / n)
			}
			v[i] = a0 - a1*x + a2*(2*x*x-1) // cos 2w = 2 cos² w - 1
			c.spend(16)
		}
		c.putFloats(0, c.dtypeAttr("output_datatype", tensor.Float32), shape, v)
	}
}

// dft transforms along one axis of [..., 1] (real) or [..., 2] (complex).
func dft(c *Call) {
	x := c.input(0)
	rank := len(x.Shape)
	c.require(rank >= 2 && (x.Shape[rank-1] == 1 || x.Shape[rank-1] == 2), c.portName(0), "[..., 1] or [..., 2] is expected, found %v", x)
	def := int64(-2)
	if c.version < 20 {
		def = c.Node.Int("axis", 1)
	} else if c.has(2) {
		def = c.oneInt(2, -2)
	}
	axis := c.axis(def, rank)
	if axis == rank-1 {
		c.fail("axis", ErrAttribute, "the axis of complex numbers")
	}
	inverse, onesided := c.Node.Int("inverse", 0) != 0, c.Node.Int("onesided", 0) != 0
	in := x.Shape[axis]
	length := in
	if onesided && inverse {
		length = 2 * (in - 1)
	}
	if c.has(1) {
		v := c.oneInt(1, 0)
		if v < 0 || v > 1<<30 {
			c.fail(c.portName(1), ErrAttribute, "%d", v)
		}
		length = int(v)
	}
	length = max(length, 0)
	bins, parts := length, 2
	if onesided && inverse {
		parts = 1
	} else if onesided {
		bins = length/2 + 1
	}
	shape := append([]int{}, x.Shape...)
	shape[axis], shape[rank-1] = bins, parts
	out := c.floatBuffer(shape...)
	v, ch := c.floats(0), x.Shape[rank-1]
	outer, inner := product(x.Shape[:axis]), product(x.Shape[axis+1:rank-1])
	c.count("dft_length", []int{length}, 64)
	row := make([]complex128, length)
	f := c.newFourier(length, inverse, inverse && x.DType == tensor.Float32)
	for o := range outer {
		for i := range inner {
			clear(row)
			for k := range min(in, length) {
				at := ((o*in+k)*inner + i) * ch
				re, im := v[at], 0.0
				if ch == 2 {
					im = v[at+1]
				}
				row[k] = complex(re, im)
				if onesided && inverse && k > 0 && length-k >= in { // the half that the symmetry leaves out
					row[length-k] = complex(re, -im)
				}
			}
			for k, y := range f.run(row)[:min(bins, length)] {
				at := ((o*bins+k)*inner + i) * parts
				out[at] = real(y)
				if parts == 2 {
					out[at+1] = imag(y)
				}
			}
		}
	}
	c.putFloats(0, x.DType, shape, out)
}

// stft transforms windowed frames of a signal [batch, length, 1 or 2], or a real one [batch, length], to [batch, frames,
// bins, 2].
func stft(c *Call) {
	x := c.input(0)
	ch := 1
	if len(x.Shape) == 3 {
		ch = x.Shape[2]
	}
	c.require((len(x.Shape) == 2 || len(x.Shape) == 3) && (ch == 1 || ch == 2), c.portName(0), "[batch, length, 1 or 2] is expected, found %v", x)
	length := x.Shape[1]
	step := c.oneInt(1, 0)
	frame := int64(length)
	var window []float64
	if c.has(2) {
		window = c.floats(2)
		frame = int64(len(window))
	}
	frame = c.oneInt(3, frame)
	if step < 1 || step > 1<<30 || frame < 1 || frame > int64(length) || window != nil && len(window) != int(frame) {
		c.fail(c.portName(3), ErrAttribute, "frames of %d every %d of %d", frame, step, length)
	}
	n, hop := int(frame), int(step)
	frames, bins := (length-n)/hop+1, n
	if c.Node.Int("onesided", 1) != 0 {
		bins = n/2 + 1
	}
	shape := []int{x.Shape[0], frames, bins, 2}
	out := c.floatBuffer(shape...)
	v, row, transform := c.floats(0), make([]complex128, n), c.newFourier(n, false, false)
	for b := range x.Shape[0] {
		for f := range frames {
			for k := range row {
				at := (b*length + f*hop + k) * ch
				row[k] = complex(v[at], 0)
				if ch == 2 {
					row[k] = complex(v[at], v[at+1])
				}
				if window != nil {
					row[k] *= complex(window[k], 0)
				}
			}
			for k, y := range transform.run(row)[:bins] {
				at := ((b*frames+f)*bins + k) * 2
				out[at], out[at+1] = real(y), imag(y)
			}
		}
	}
	c.putFloats(0, x.DType, shape, out)
}

// melWeights returns triangular filters, evenly spaced on the mel scale, as [dft_length/2+1, bands].
func melWeights(c *Call) {
	bands, length, rate := c.oneInt(0, 0), c.oneInt(1, 0), c.oneInt(2, 0)
	low, high := c.one(3, 0), c.one(4, 0)
	if bands < 0 || bands > 1<<30 || length < 0 || length > 1<<30 || rate < 1 {
		c.fail(c.portName(0), ErrAttribute, "%d bands of %d at %d Hz", bands, length, rate)
	}
	mel := func(hz float64) float64 { return 2595 * math.Log10(1+hz/700) }
	m, rows := int(bands), int(length)/2+1
	c.count("", []int{m + 2}, 8)
	edges := make([]int, m+2)
	step := (mel(high) - mel(low)) / float64(m+2)
	for i := range edges {
		hz := 700 * (math.Pow(10, (mel(low)+float64(i)*step)/2595) - 1)
		e := math.Floor(float64(length+1) * hz / float64(rate))
		if !(e >= 0 && e < 1<<40) {
			c.fail(c.portName(4), ErrAttribute, "from %v to %v Hz", low, high)
		}
		edges[i] = int(e)
	}
	shape := []int{rows, m}
	dt := c.dtypeAttr("output_datatype", tensor.Float32)
	var floats []float32 // the result itself, most of which stays 0, where it has that type
	var out []float64
	if dt == tensor.Float32 {
		floats = tensor.Elements[float32](c.result(0, dt, shape))
	} else {
		out = c.floatBuffer(shape...)
	}
	set := func(row, band int, v float64) {
		if row >= rows {
			c.fail(c.portName(4), tensor.ErrShape, "bin %d of %d", row, rows)
		}
		if floats != nil {
			floats[row*m+band] = float32(v)
		} else {
			out[row*m+band] = v
		}
	}
	for b := range m {
		lo, mid, hi := edges[b], edges[b+1], edges[b+2]
		if lo == mid {
			set(mid, b, 1)
		} else {
			for k := lo; k <= mid; k++ {
				set(k, b, float64(k-lo)/float64(mid-lo))
			}
		}
		for k := mid; k < hi; k++ {
			set(k, b, float64(hi-k)/float64(hi-mid))
		}
		c.spend(hi - lo + 1)
	}
	if dt != tensor.Float32 {
		c.putFloats(0, dt, shape, out)
	}
}
