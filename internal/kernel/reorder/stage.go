package reorder

import "unsafe"

// A part of a cast's result is made in memory of its own before it goes past the caches, since rows of tiles are halves and quarters of
// cache lines. It is small: what is read for the next part is on its way while the lines of one go out.
const (
	stagePart  = 2 << 10 // bytes of a part
	stageBytes = 4 << 10 // the most, of one that is a cache line of bytes each way
)

// stage is the part of a result that is made at a time; none where pixels is 0.
type stage struct{ pixels, channels int }

// plan decides whether a result of so many bytes at least goes past the caches, and by way of which stage. It does not where its rows do
// not begin at cache lines when it does itself.
func (c *Cast) plan(large int) {
	p := c.p
	if p.N*p.To.Floats(p.C, p.HW)*c.to < large || p.From == p.To && p.To != NCHW16c || !streamsRows(p.set) || p.N > 1 && p.DstImage*c.to%64 != 0 {
		return
	}
	row, part := p.HW, p.segment // elements of a row of the result, and what a chunk has of it
	switch p.To {
	case NCHW:
	case NHWC:
		row, part = p.C, 16*p.perAcross
	case NCHW16c:
		row *= 16
	case NCHW8c:
		row *= 8
	}
	if row*c.to%64 != 0 || part < row && part*c.to%64 != 0 {
		return
	}
	c.traffic = streamed
	if c.to < 4 && p.From != p.To || castSide(c.set) < 16 {
		c.stage = c.staging()
	}
}

// staging returns the stage of a cast. Its channels fill a cache line where they lie in a row, and so do its pixels.
func (c *Cast) staging() stage {
	p, s := c.p, stage{channels: 16}
	switch blocks := p.From > NHWC || p.To > NHWC; {
	case weaves(p.C) && !blocks:
		s.channels = p.C
	case p.From == NHWC || p.To == NHWC:
		s.channels = min(16*p.perAcross, 64/min(c.from, c.to))
	case c.width == 8 && p.From != NCHW16c && p.To != NCHW16c:
		s.channels = 8
	}
	s.pixels = max(64, stagePart/s.channels&^63) / c.to
	return s
}

// staged moves a chunk by way of the stage.
func (c *Cast) staged(dst, src unsafe.Pointer, b0, b1, p0, p1 int) {
	p := c.p
	var memory [stageBytes / 4]float32
	t := target{data: unsafe.Pointer(&memory)}
	last := min(16*b1, p.To.Floats(p.C, 1))
	for t.px = p0; t.px < p1; t.px += c.stage.pixels {
		for t.ch = 16 * b0; t.ch < last; t.ch += c.stage.channels {
			t.C, t.HW = min(c.stage.channels, last-t.ch), min(c.stage.pixels, p1-t.px)
			c.area(&t, src, t.ch, t.ch+t.C, t.px, t.px+t.HW)
			at, _, _ := p.at(p.To, t.ch, t.px)
			blocks, row, apart := t.C, t.HW, p.HW
			switch p.To {
			case NCHW:
			case NHWC:
				blocks, row, apart = t.HW, t.C, p.C
			case NCHW16c:
				blocks, row, apart = t.C/16, 16*t.HW, 16*p.HW
			case NCHW8c:
				blocks, row, apart = t.C/8, 8*t.HW, 8*p.HW
			}
			copyRows(p.set, streamed, (*float32)(unsafe.Add(dst, at*c.to)), 64, apart*c.to, &memory[0], 64, row*c.to, blocks, row*c.to/64)
		}
	}
}
