package cpu

import (
	"encoding/binary"

	"github.com/carve-dev/carve/internal/kernel/quant"
	"github.com/carve-dev/carve/internal/place"
)

// The images that convolutions of 8-bit integers read: padded, channels last, each group's channels in whole quads.

// bandPixels is about how many pixels of an image are transposed at a time.
const bandPixels = 64

// wholeImage emits the padded image, channels last, and the sums of its pixels where weights have zero points.
func (p *planner) wholeImage(c *integerConv, x integerOperand) {
	pixels := x.v.Format == lastChannels
	if pixels && c.takesWhole() {
		c.image = x.at
		return
	}
	line := c.cols * c.pixel()
	planes := c.images * c.planes
	dst := p.Temp(planes * c.rows * line)
	c.image = dst
	if c.zeros.Slot >= 0 {
		c.pixelSums = p.Temp(4 * planes * c.rows * c.cols * c.groups)
	}
	band := min(ceilDiv(bandPixels, c.W), c.H)
	bands, channels := ceilDiv(c.rows, band), c.groups*c.c
	work := place.Nowhere
	if !pixels {
		work = p.Temp(p.e.threads * band * c.W * channels)
	}
	kernels, src, zero, total := p.integers, x.at, p.In(x.zero), c.pixelSums
	size := c.W * channels // of a row of the source
	p.emit(step{chunks: planes * bands, grain: grainFor(float64(band*line)*0.1 + 50), body: func(st *state, worker, lo, hi int) {
		whole, image, sums := st.Bytes(src), st.Bytes(dst), of[int32](st, total)
		pad := byte(0)
		if z := st.Bytes(zero); len(z) > 0 {
			pad = z[0]
		}
		for i := lo; i < hi; i++ {
			plane, first := i/bands, i%bands*band
			last := min(first+band, c.rows)
			from, to := max(first-c.Pad[0], 0), min(last-c.Pad[0], c.H) // rows of the source
			n, z := plane/c.planes, plane%c.planes-c.deep.pads
			if z < 0 || z >= c.deep.in {
				z, to = 0, from
			}
			near, source := whole[(n*c.H+min(from, c.H))*size:], whole[n*channels*c.planeSize()+z*c.H*c.W:]
			if !pixels {
				near = nearOf(st, work, worker, band*size)
			}
			if from < to && !pixels && !c.slim() {
				kernels.Transpose(near, source[from*c.W:], channels, (to-from)*c.W, c.planeSize(), channels)
			}
			for row := first; row < last; row++ {
				d := image[(plane*c.rows+row)*line:][:line]
				switch y := row - c.Pad[0]; {
				case y < from || y >= to:
					fill(d, pad)
				case !pixels && c.slim():
					c.pixelsOfPlanes(d, source[y*c.W:], pad)
				default:
					c.pixelLine(d, near[(y-from)*size:][:size], pad)
				}
				if sums != nil {
					c.sumLine(kernels, sums[(plane*c.rows+row)*c.cols*c.groups:], d, x.signed(), int32(zeroPoint([]byte{pad}, 0, x.signed())))
				}
				if c.shift != 0 {
					kernels.Flip(d, d)
				}
			}
		}
	}}, []place.Memory{src, zero}, []place.Memory{dst, total, work})
}

// nearOf returns a worker's part of memory.
func nearOf(st *state, work place.Memory, worker, size int) []byte {
	return st.Bytes(work)[worker*size:][:size]
}

// takesWhole reports whether an image with its channels last is what kernels read, as it lies.
func (c *integerConv) takesWhole() bool {
	return c.rows == c.H && c.cols == c.W && c.Pad[0] == 0 && c.Pad[1] == 0 && c.shift == 0 && c.zeros.Slot < 0 && c.pixel() == c.groups*c.c
}

// fill sets all bytes.
func fill(dst []byte, b byte) {
	if len(dst) == 0 {
		return
	}
	dst[0] = b
	for n := 1; n < len(dst); n *= 2 {
		copy(dst[n:], dst[:n])
	}
}

// pixelLine writes a row of the padded image from a row of pixels.
func (c *integerConv) pixelLine(dst, src []byte, pad byte) {
	pixel, channels := c.pixel(), c.groups*c.c
	from, to := max(0, -c.Pad[1]), min(c.W, c.cols-c.Pad[1]) // pixels of the source
	if from >= to {
		fill(dst, pad)
		return
	}
	left, right := from+c.Pad[1], to+c.Pad[1]
	fill(dst[:left*pixel], pad)
	fill(dst[right*pixel:], pad)
	src, dst = src[from*channels:to*channels], dst[left*pixel:right*pixel]
	if pixel == channels {
		copy(dst, src)
		return
	}
	run, width := c.c, c.width
	if c.depthwise {
		run = channels
	}
	if width == 4 {
		quads(dst, src, run)
		return
	}
	for at := 0; at < len(src); at += run {
		part := dst[at/run*width:][:width]
		copy(part, src[at:at+run])
		clear(part[run:])
	}
}

// quads writes runs of fewer than four bytes with zeros behind each, four bytes apart.
func quads(dst, src []byte, run int) {
	mask := uint32(1)<<(8*run) - 1
	for ; len(src) >= 4; dst, src = dst[4:], src[run:] {
		binary.LittleEndian.PutUint32(dst, binary.LittleEndian.Uint32(src)&mask)
	}
	for ; len(src) > 0; dst, src = dst[4:], src[run:] {
		clear(dst[copy(dst[:4], src[:run]):4])
	}
}

// slimChannels is the most channels of an image whose planes are read element by element.
const slimChannels = 4

// slim reports whether an image has so few channels that no vectors of them are worth a transposition.
func (c *integerConv) slim() bool { return c.groups == 1 && c.c <= slimChannels }

// pixelsOfPlanes writes a row of the padded image from rows of the planes of a slim one.
func (c *integerConv) pixelsOfPlanes(dst, planes []byte, pad byte) {
	fill(dst, pad)
	from, to := max(0, -c.Pad[1]), min(c.W, c.cols-c.Pad[1]) // pixels of the source
	if c.c == 3 && from < to {                               // as of colours
		dst, plane := dst[4*(from+c.Pad[1]):], c.planeSize()
		red, green, blue := planes[from:to], planes[plane+from:][:to-from], planes[2*plane+from:][:to-from]
		for i, r := range red {
			binary.LittleEndian.PutUint32(dst[4*i:], uint32(r)|uint32(green[i])<<8|uint32(blue[i])<<16)
		}
		return
	}
	for ch := range c.c {
		src, at := planes[ch*c.planeSize():][:c.W], (from+c.Pad[1])*c.width+ch
		for _, b := range src[min(from, c.W):max(to, min(from, c.W))] {
			dst[at] = b
			at += c.width
		}
	}
}

// sumLine writes the sums of each group of the pixels of a row, about a zero point.
func (c *integerConv) sumLine(kernels quant.Kernels, dst []int32, row []byte, signed bool, zero int32) {
	dst = dst[:c.cols*c.groups]
	kernels.Sums(dst, row, c.width, c.c, signed)
	for i := range dst {
		dst[i] -= int32(c.c) * zero
	}
}
