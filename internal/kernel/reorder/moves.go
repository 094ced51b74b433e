package reorder

import (
	"unsafe"

	"github.com/carve-dev/carve/internal/kernel/isa"
)

// tileShape is a shape of the tiles that moveTiles takes: of elements of one or two bytes, which change places as they are.
type tileShape uint8

const (
	square      tileShape = iota // 16 by 16
	toEights                     // 8 planes of 32 bytes of each to pixels that adjoin
	fromEights                   // and back
	wholeEights                  // toEights by whole vectors
	tall                         // a vector of bytes or words of 16 channels, each to a whole vector; see tallRows
)

// moveShape returns the shape of the tiles of a move of n pixels between pixels and planes, and how many pixels one has, 0 where there are none.
func (c *Cast) moveShape(n int) (t tileShape, pixels int) {
	switch {
	case c.k != move8 && c.k != move16 || !hasMoves(c.set):
		return 0, 0
	case c.width == 16 && c.p.To == NCHW && c.tallRows() > 0 && n >= c.tallRows():
		return tall, c.tallRows()
	case c.width == 16:
		return square, 16
	case c.p.From == NCHW && c.p.whole:
		return wholeEights, 32 / c.to
	case c.p.From == NCHW:
		return toEights, 32 / c.to
	}
	return fromEights, 32 / c.to
}

// tallRows returns how many elements a row of a tall tile's result has, 0 where there are no such tiles: for AVX2 there are those of bytes, since 16 words fill
// its vectors anyway.
func (c *Cast) tallRows() int {
	switch {
	case c.p.whole:
		return 64 / c.to
	case c.p.set == isa.AVX2 && c.k == move8 && c.width == 16:
		return 32
	}
	return 0
}

// tallBlocks moves n pixels of as many of channels [c0, c1) of planes as make whole vectors of pixels' channels, and returns how many these are. A last
// tile that would reach beyond the pixels begins earlier.
func (c *Cast) tallBlocks(dst *target, src unsafe.Pointer, c0, c1, px, n int) int {
	const pixels = 16
	p, bytes, channels := c.p, c.to, c.tallRows()
	if c.k != move8 && c.k != move16 || channels == 0 || p.From != NCHW || p.To != NHWC || n < pixels {
		return 0
	}
	done := (c1 - c0) / channels * channels
	for ch := c0; ch < c0+done; ch += channels {
		run := func(px, n int) {
			d, dp, _ := dst.at(p.To, ch-dst.ch, px-dst.px)
			s, _, sc := p.at(p.From, ch, px)
			moveTiles(c.set, c.k, tall, unsafe.Add(dst.data, d*bytes), dp*bytes, pixels*dp*bytes, unsafe.Add(src, s*bytes), sc*bytes, pixels*bytes, 0, n)
		}
		run(px, n/pixels)
		if n%pixels != 0 {
			run(px+n-pixels, 1)
		}
	}
	return done
}

// moves is tiles for elements that stay as they are. A last tile that would reach beyond n pixels begins earlier, and writes some once more.
func (c *Cast) moves(dst *target, src unsafe.Pointer, ch, px, n int) int {
	t, pixels := c.moveShape(n)
	if pixels == 0 || n < pixels {
		return 0
	}
	p, bytes, far, set := c.p, c.to, ahead(c.traffic), c.set
	if t == wholeEights {
		set = p.set
	}
	run := func(px, n int) {
		d, dp, dc := dst.at(p.To, ch-dst.ch, px-dst.px)
		s, sp, sc := p.at(p.From, ch, px)
		from, into := unsafe.Add(src, s*bytes), unsafe.Add(dst.data, d*bytes)
		if p.From == NCHW {
			moveTiles(set, c.k, t, into, dp*bytes, pixels*dp*bytes, from, sc*bytes, pixels*bytes, far, n)
		} else {
			moveTiles(set, c.k, t, into, dc*bytes, pixels*bytes, from, sp*bytes, pixels*sp*bytes, castPixels*sp*bytes, n)
		}
	}
	run(px, n/pixels)
	if n%pixels != 0 {
		run(px+n-pixels, 1)
	}
	return n
}

// weave moves as many of n pixels of two to four channels as there are in whole kernels, between planes and pixels that adjoin.
func (c *Cast) weave(dst *target, src unsafe.Pointer, px, n int) int {
	if !hasMoves(c.set) {
		return 0
	}
	done := 0
	if pixels := 64 / c.to; c.wide && n >= pixels {
		done = n / pixels * pixels
		c.weaveWhole(dst, src, px, n/pixels, joinWide, partWide)
	}
	if pixels := 32 / c.to; n-done >= pixels {
		c.weaveWhole(dst, src, px+done, (n-done)/pixels, joinShort, partShort)
		done += (n - done) / pixels * pixels
	}
	return done
}

// weaveWhole calls one of two kernels for n times as many pixels as it takes.
func (c *Cast) weaveWhole(dst *target, src unsafe.Pointer, px, n int, join func(isa.Set, castKind, int, unsafe.Pointer, unsafe.Pointer, int, int),
	part func(isa.Set, castKind, int, unsafe.Pointer, int, unsafe.Pointer, int)) {
	p, bytes := c.p, c.to
	d, _, dc := dst.at(p.To, 0, px-dst.px)
	s, _, sc := p.at(p.From, 0, px)
	from, into := unsafe.Add(src, s*bytes), unsafe.Add(dst.data, d*bytes)
	if p.From == NCHW {
		join(c.set, c.k, p.C, into, from, sc*bytes, n)
	} else {
		part(c.set, c.k, p.C, into, dc*bytes, from, n)
	}
}

// portableShort does what the kernels of copyShort do.
func portableShort(bytes int, dst unsafe.Pointer, dstStride int, src unsafe.Pointer, srcStride, n int) {
	switch {
	case wideWords && bytes == 32:
		copyWords[eight](dst, dstStride, src, srcStride, n)
	case wideWords && bytes == 16:
		copyWords[struct{ a, b uint64 }](dst, dstStride, src, srcStride, n)
	case wideWords && bytes == 8:
		copyWords[uint64](dst, dstStride, src, srcStride, n)
	case wideWords && bytes == 4:
		copyWords[uint32](dst, dstStride, src, srcStride, n)
	case wideWords && bytes == 2:
		copyWords[uint16](dst, dstStride, src, srcStride, n)
	case bytes == 1:
		copyWords[uint8](dst, dstStride, src, srcStride, n)
	default:
		copyLong(dst, dstStride, src, srcStride, bytes, n)
	}
}

func copyWords[T any](dst unsafe.Pointer, dstStride int, src unsafe.Pointer, srcStride, n int) {
	for i := range n {
		*(*T)(unsafe.Add(dst, i*dstStride)) = *(*T)(unsafe.Add(src, i*srcStride))
	}
}

func copyLong(dst unsafe.Pointer, dstStride int, src unsafe.Pointer, srcStride, bytes, n int) {
	for i := range n {
		copy(unsafe.Slice((*byte)(unsafe.Add(dst, i*dstStride)), bytes), unsafe.Slice((*byte)(unsafe.Add(src, i*srcStride)), bytes))
	}
}
