package reorder

// Planes whose rows do not begin at cache lines go past the caches too: some pixels of a block of channels are made in memory of their own, and of each
// plane the lines that are whole go out. What is left of the last one waits there for the next pixels.

const (
	planePixels = 64                       // that are made at a time
	planeRow    = lineFloats + planePixels // floats of a plane: those that wait, and those that are made
)

// alongPlanes reports whether a ragged plan writes planes, too long to be made as a whole. With AVX2 that takes longer than plain stores.
func (p *Plan) alongPlanes() bool {
	return tileSide(p.set) == lineFloats && p.To == NCHW && p.From != NCHW && (16*p.HW > raggedMost || p.segments > 1) && !(p.From == NHWC && weaves(p.C))
}

// planesChunk moves pixels [p0, p1) of channel block b. dst begins at a multiple of 4 bytes.
func (p *Plan) planesChunk(dst, src []float32, b, p0, p1 int) {
	var memory [16 * planeRow]float32
	channels := min(16, p.C-16*b)
	at, _, _ := p.at(NCHW, 16*b, p0)
	out := dst[at : at+(channels-1)*p.HW+p1-p0]
	done := 0 // pixels that were made
	for ; done+planePixels <= p1-p0; done += planePixels {
		p.planesOf(memory[lineFloats:], src, b, p0+done, channels, planePixels)
		first := done == 0
		if first {
			for c := range channels {
				d := out[c*p.HW:]
				copy(d[:waits(d)], memory[c*planeRow+lineFloats:])
			}
		}
		p.flush(out[done:], &memory, channels, first)
		for c := range channels {
			row := memory[c*planeRow:][:planeRow]
			*(*[lineFloats]float32)(row) = *(*[lineFloats]float32)(row[planePixels:])
		}
	}
	rest := p1 - p0 - done
	if rest > 0 {
		p.planesOf(memory[lineFloats:], src, b, p0+done, channels, rest)
	}
	for c := range channels {
		d, from := out[c*p.HW:], lineFloats // the first that is still to be written
		if done > 0 {
			from = waits(d)
		}
		copy(d[done+from-lineFloats:done+rest], memory[c*planeRow+from:])
	}
}

// waits returns how many floats lie in front of the first line that begins behind the first of x: 1 to 16.
func waits(x []float32) int { return (beforeLine(x)/4+lineFloats-1)%lineFloats + 1 }

// planesOf makes n pixels of the planes of a channel block, planeRow floats apart.
func (p *Plan) planesOf(dst, src []float32, b, px, channels, n int) {
	width := 16
	if p.From == NCHW8c {
		width = 8
	}
	for c := 0; c < channels; c += width {
		s, sp, _ := p.at(p.From, 16*b+c, px)
		p.toChannels(dst[c*planeRow:], planeRow, src[s:], sp, min(width, channels-c), n)
	}
}

// flush writes the lines that end with the planePixels pixels that were made last, whose first belongs to the beginning of dst: as many of each plane, one
// less where nothing waits.
func (p *Plan) flush(dst []float32, memory *[16 * planeRow]float32, channels int, first bool) {
	from, lines := 0, planePixels/lineFloats
	if first {
		from, lines = lineFloats, lines-1
	}
	_ = dst[(channels-1)*p.HW+planePixels-1]
	flushLines(p.set, &dst[from], 4*p.HW, &memory[from], 4*planeRow, lines, channels)
}
