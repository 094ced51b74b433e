package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/kernel/quant"
	"github.com/carve-dev/carve/internal/kernel/vec"
	"github.com/carve-dev/carve/internal/place"
)

// Element-wise operators on an image of 8-bit integers and a number of such for each of its channels, as where channels are weighed by what
// their means excite: a plane of them is looked up in a table, or its floats are made as others' are.

// ofChannels reports whether a shape is that of a number for each channel of images, or of one.
func ofChannels(s, images graph.Shape) bool {
	return len(s) == 4 && len(images) == 4 && s[2].Is(1) && s[3].Is(1) && s[1].Equal(images[1]) && (s[0].Is(1) || s[0].Equal(images[0]))
}

// tablePlane is the size from which a plane is looked up: a table costs as much as so many elements.
const tablePlane = 384

// channelElements is such an operator.
type channelElements struct {
	*elementLinks
	op       vec.BinaryOp
	act      activation
	kernels  vec.Kernels
	integers quant.Kernels
	src      []place.Memory
	dst      place.Memory
	images   int // of the numbers for channels, 1 or as many as there are
	channels int
	pixels   int
}

// compute makes results of the image's elements and as many numbers; a is memory for as many floats.
func (c *channelElements) compute(dst []byte, a, b []float32, src []byte) {
	c.integers.Dequantize(a, src, c.x[1-c.perChannel])
	if c.perChannel == 0 {
		c.kernels.Binary(c.op, a, b, a)
	} else {
		c.kernels.Binary(c.op, a, a, b)
	}
	c.finish(dst, a)
}

// finish makes results of floats.
func (c *channelElements) finish(dst []byte, a []float32) {
	if c.act.some {
		c.kernels.Apply(c.act.op, a, a, c.act.params)
	}
	c.integers.Quantize(dst, a, c.y)
}

// plane makes floats of those of a plane and its channel's number; a may be of.
func (c *channelElements) plane(a, of []float32, number float32) {
	if c.perChannel == 0 || c.op == vec.Add || c.op == vec.Mul {
		c.kernels.ScalarBinary(c.op, a, number, of)
		return
	}
	var same [64]float32
	for i := range same {
		same[i] = number
	}
	for n := min(len(a), len(same)); n > 0; n = min(len(a), len(same)) {
		c.kernels.Binary(c.op, a[:n], of[:n], same[:n])
		a, of = a[n:], of[n:]
	}
}

func (p *planner) emitChannels(n *graph.Node, l *elementLinks, op vec.BinaryOp, act activation, src []place.Memory, dst place.Memory) {
	y := n.Outputs[0]
	d := p.Dims[y.ID]
	c := &channelElements{elementLinks: l, op: op, act: act, kernels: p.kernels, integers: p.integers, src: src, dst: dst, channels: d[1], pixels: d[2] * d[3]}
	c.images = p.Dims[fuse.Outer(n, l.operands[l.perChannel].Inputs[0]).ID][0]
	switch {
	case product(d) == 0:
	case y.Format == lastChannels:
		p.emitPixels(c, d[0])
	default:
		p.emitPlanes(c, d[0])
	}
}

// numbers makes the floats of the numbers for n channels from one on.
func (c *channelElements) numbers(st *state, to []float32, image, first int) {
	from := st.Bytes(c.src[c.perChannel])[image%c.images*c.channels+first:][:len(to)]
	c.integers.Dequantize(to, from, c.x[c.perChannel])
}

// emitPlanes emits the operator on planes, some of the small ones at a time.
func (p *planner) emitPlanes(c *channelElements, images int) {
	some := max(nearElements/c.pixels, 1)
	if c.pixels >= tablePlane {
		some = 1
	}
	near := max(some*min(c.pixels, nearElements), 256) + some
	work := p.scratch(4 * near)
	var every [256]float32 // what integers are as floats
	for i := range 256 {
		c.integers.Dequantize(every[i:i+1], []byte{byte(i)}, c.x[1-c.perChannel])
	}
	parts := ceilDiv(c.channels, some)
	p.emit(step{chunks: images * parts, grain: grainFor(float64(some*min(c.pixels, nearElements)) * 0.3), body: func(st *state, worker, lo, hi int) {
		floats := place.Elements[float32](work.bytes(st, worker))[:near]
		numbers, a := floats[:some], floats[some:]
		var table [256]byte
		for i := lo; i < hi; i++ {
			image, first := i/parts, i%parts*some
			n := min(some, c.channels-first)
			c.numbers(st, numbers[:n], image, first)
			at := (image*c.channels + first) * c.pixels
			from, to := st.Bytes(c.src[1-c.perChannel])[at:][:n*c.pixels], st.Bytes(c.dst)[at:][:n*c.pixels]
			if c.pixels >= tablePlane {
				c.plane(a[:256], every[:], numbers[0])
				c.finish(table[:], a[:256])
				c.integers.Look(to, from, &table)
				continue
			}
			a := a[:n*c.pixels]
			c.integers.Dequantize(a, from, c.x[1-c.perChannel])
			for k, number := range numbers[:n] {
				plane := a[k*c.pixels:][:c.pixels]
				c.plane(plane, plane, number)
			}
			c.finish(to, a)
		}
	}}, c.src, []place.Memory{c.dst, work.at})
}

// emitPixels emits the operator on images whose channels lie last, some whole pixels at a time.
func (p *planner) emitPixels(c *channelElements, images int) {
	some := max(nearElements/c.channels, 1)
	parts := ceilDiv(c.pixels, some)
	near := some * c.channels
	work := p.scratch(4 * 2 * near)
	p.emit(step{chunks: images * parts, grain: grainFor(float64(near) * 0.4), body: func(st *state, worker, lo, hi int) {
		floats := place.Elements[float32](work.bytes(st, worker))
		a, b := floats[:near], floats[near:][:near]
		for i, image := lo, -1; i < hi; i++ {
			if i/parts != image { // the numbers stand behind each other for as many pixels
				image = i / parts
				c.numbers(st, b[:c.channels], image, 0)
				for n := c.channels; n < near; n *= 2 {
					copy(b[n:], b[:n])
				}
			}
			first := i % parts * some
			n := min(some, c.pixels-first) * c.channels
			at := (image*c.pixels + first) * c.channels
			c.compute(st.Bytes(c.dst)[at:][:n], a[:n], b[:n], st.Bytes(c.src[1-c.perChannel])[at:][:n])
		}
	}}, c.src, []place.Memory{c.dst, work.at})
}
