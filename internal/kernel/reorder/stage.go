package reorder

import "unsafe"

// A part of a cast's result is made in memory of its own before it goes past the caches, since rows of tiles are halves and quarters of
// cache lines. It is small: what is read for the next part is on its way while the lines of one go out.
const (
	stageBytes  = 4 << 10
	stagePixels = 64
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
	s := stage{pixels: stagePixels, channels: c.width}
	row, part := p.HW, p.segment // elements of a row of the result, and what a chunk has of it
	switch p.To {
	case NCHW:
	case NHWC:
		s = stage{pixels: stagePixels / 4, channels: 4 * stageBytes / stagePixels / c.to}
		row, part = p.C, 16*p.perAcross
	case NCHW16c:
		s.channels = 16
		row *= 16
	case NCHW8c:
		row *= 8
	}
	if row*c.to%64 != 0 || part < row && part*c.to%64 != 0 {
		return
	}
	c.traffic = streamed
	if c.to < 4 && p.From != p.To || castSide(c.set) < 16 {
		c.stage = s
	}
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
			out := (*float32)(unsafe.Add(dst, at*c.to))
			blocks, row, apart := 1, t.C*t.HW*c.to, 0
			switch p.To {
			case NCHW:
				blocks, row, apart = t.C, t.HW*c.to, p.HW*c.to
			case NHWC:
				blocks, row, apart = t.HW, t.C*c.to, p.C*c.to
			case NCHW16c, NCHW8c:
			}
			copyRows(p.set, streamed, out, 64, apart, &memory[0], 64, row, blocks, row/64)
		}
	}
}
