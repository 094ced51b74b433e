package reorder

// A large result whose rows do not begin at cache lines goes past the caches all the same where it lies together, as pixels of NHWC do, and the
// channels of small maps (see planes.go for others): parts of it are made in memory of their own, from which whole lines go out. What is left of a part's last line goes
// with the next part.

// raggedFloats is about how much is made at a time, and raggedMost the most, in floats: so little that what is read for the next part is on its way
// while the lines of one go out.
const (
	raggedFloats = 1 << 10
	raggedMost   = 4 << 10
)

// raggedStep returns how many pixels, where the result is NHWC, or channel blocks of 16 a part has, of planes pixels too; none where rows are too long, or it would not help.
func (p *Plan) raggedStep() int {
	unit, times := 0, 1
	switch {
	case p.From == p.To || !streamsRows(p.set):
	case p.alongPlanes():
		return planePixels
	case p.To == NHWC && p.across == 1:
		unit, times = 16*p.C, 16
	case p.To != NHWC && p.segments == 1:
		unit = 16 * p.HW
	}
	if unit == 0 || unit > raggedMost {
		return 0
	}
	return max(1, raggedFloats/unit) * times
}

// raggedChunk moves pixels [p0, p1) of channel blocks [b0, b1) by way of parts. dst begins at a multiple of 4 bytes.
func (p *Plan) raggedChunk(dst, src []float32, b0, b1, p0, p1 int) {
	if p.alongPlanes() {
		for ; b0 < b1; b0++ {
			p.planesChunk(dst, src, b0, p0, p1)
		}
		return
	}
	var memory [raggedMost + 16]float32
	out := lines{p: p, part: memory[:]}
	if p.To == NHWC {
		out.begin(dst[p0*p.C : p1*p.C])
		for ; p0 < p1; p0 += p.ragged {
			n := min(p.ragged, p1-p0)
			at, _, _ := p.at(p.From, 0, p0)
			p.chunk(cached, out.next(n*p.C), src[at:], b0, b1, 0, n)
			out.send()
		}
		out.end()
		return
	}
	whole := min(b1, p.C/16)
	if b0 < whole {
		out.begin(dst[16*b0*p.HW : 16*whole*p.HW])
		for ; b0 < whole; b0 += p.ragged {
			n := min(p.ragged, whole-b0)
			at, _, _ := p.at(p.From, 16*b0, 0)
			p.chunk(cached, out.next(16*n*p.HW), src[at:], 0, n, p0, p1)
			out.send()
		}
		out.end()
		b0 = whole
	}
	if b0 < b1 {
		p.chunk(uncached, dst, src, b0, b1, p0, p1)
	}
}

// lines writes parts of a result, one behind the other, in whole cache lines.
type lines struct {
	p    *Plan
	dst  []float32 // what is still to be written
	part []float32 // filled floats go to dst first; dst begins at a line
	fill int
	skip int // floats of the first part that are in front of the first line
}

func (l *lines) begin(dst []float32) {
	l.dst, l.fill, l.skip = dst, 0, beforeLine(dst)/4
}

// next returns where the next n floats are made.
func (l *lines) next(n int) []float32 {
	l.fill += n
	return l.part[l.fill-n : l.fill]
}

// send writes what fills lines.
func (l *lines) send() {
	from := l.part[:l.fill]
	if head := min(l.skip, l.fill); head > 0 {
		copy(l.dst, from[:head])
		l.dst, from, l.skip = l.dst[head:], from[head:], l.skip-head
	}
	n := len(from) / 16
	if n > 0 {
		copyRows(l.p.set, streamed, &l.dst[:16*n][0], 64, 0, &from[0], 64, 0, 1, n)
		l.dst, from = l.dst[16*n:], from[16*n:]
	}
	l.fill = copy(l.part, from)
}

// end writes the rest.
func (l *lines) end() { copy(l.dst, l.part[:l.fill]) }
