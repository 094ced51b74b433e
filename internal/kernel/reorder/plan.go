package reorder

import (
	"errors"
	"fmt"
	"math"

	"github.com/carve-dev/carve/internal/kernel/isa"
)

// Causes of errors, for errors.Is.
var (
	// ErrShape says that numbers contradict each other or are out of range.
	ErrShape = errors.New("bad shape")
	// ErrBuffer says that a slice is too short.
	ErrBuffer = errors.New("buffer too short")
)

// Error is the error type of this package: what was being done, and why it failed.
type Error struct {
	Op    string // "plan" or "run"
	What  string // the number or buffer at fault
	Cause error  // ErrShape or ErrBuffer
}

func (e *Error) Error() string { return "reorder: " + e.Op + ": " + e.What + ": " + e.Cause.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

func failf(op string, cause error, format string, args ...any) error {
	return &Error{Op: op, What: fmt.Sprintf(format, args...), Cause: cause}
}

// Layout is the order of the elements of an image. All spatial dimensions together are one, of HW pixels.
type Layout uint8

const (
	// NCHW is [C][HW].
	NCHW Layout = iota
	// NHWC is [HW][C].
	NHWC
	// NCHW16c is [ceil(C/16)][HW][16], zero behind C.
	NCHW16c
	// NCHW8c is [ceil(C/8)][HW][8], zero behind C.
	NCHW8c
)

func (l Layout) String() string {
	switch l {
	case NCHW:
		return "NCHW"
	case NHWC:
		return "NHWC"
	case NCHW16c:
		return "NCHW16c"
	case NCHW8c:
		return "NCHW8c"
	}
	return fmt.Sprintf("layout(%d)", uint8(l))
}

// Floats returns the size of an image of c channels of hw pixels.
func (l Layout) Floats(c, hw int) int {
	switch l {
	case NCHW16c:
		return (c + 15) / 16 * 16 * hw
	case NCHW8c:
		return (c + 7) / 8 * 8 * hw
	case NCHW, NHWC:
	}
	return c * hw
}

// Spec describes a reorder. SrcImage and DstImage are the distances between images in floats; zero: tensors are not slices
// of bigger ones.
type Spec struct {
	N, C, HW           int
	From, To           Layout
	SrcImage, DstImage int
}

// Plan is a reorder made ready for given shapes. It is immutable and safe for concurrent use.
type Plan struct {
	Spec
	set               isa.Set
	to                traffic // streamed only where the result's rows begin at cache lines when it does itself
	segment, segments int     // pixels of a chunk, and chunks of an image along the pixels
	across            int     // chunks of an image along the channels
	perAcross         int     // channel blocks of each
	whole             bool    // see wholeStores
	ragged            int     // pixels or channel blocks of a part, where rows do not begin at cache lines
}

const (
	maxDim     = 1 << 28                   // of every size
	maxFloats  = min(math.MaxInt/8, 1<<42) // of a tensor
	chunkBytes = 128 << 10
	shortPlane = 256 // floats of planes whose lines are not asked for
)

// New plans a reorder for a target. It returns an *Error with ErrShape for impossible sizes.
func New(t isa.Target, s Spec) (*Plan, error) {
	if s.N < 1 || s.C < 1 || s.HW < 1 || s.N > maxDim || s.C > maxDim || s.HW > maxDim || s.From > NCHW8c || s.To > NCHW8c ||
		float64(s.C+16)*float64(s.HW)*float64(s.N) > maxFloats {
		return nil, failf("plan", ErrShape, "%d images, %d channels, %d pixels, %v to %v", s.N, s.C, s.HW, s.From, s.To)
	}
	for _, image := range []struct {
		given *int
		size  int
	}{{&s.SrcImage, s.From.Floats(s.C, s.HW)}, {&s.DstImage, s.To.Floats(s.C, s.HW)}} {
		if *image.given == 0 {
			*image.given = image.size
		}
		if *image.given < image.size && s.N > 1 || *image.given < 0 || float64(*image.given)*float64(s.N) > maxFloats {
			return nil, failf("plan", ErrShape, "images %d floats apart, %d long", *image.given, image.size)
		}
	}
	p := &Plan{Spec: s, set: t.Set, whole: wholeStores(t)}
	p.to = p.traffic(t, streamBytes)
	blocks := (s.C + 15) / 16
	chunk := chunkBytes
	if p.to == streamed {
		chunk *= 4 // a fence stands behind each
	}
	// Pixels come in multiples of 16, of 64 as a rule: cache lines of bytes.
	switch p.perAcross = blocks; {
	case s.From != NHWC && s.To != NHWC:
		p.perAcross = max(1, min(blocks, chunk/(64*min(s.HW, 1<<20))))
	case s.From == NCHW || s.To == NCHW:
		p.perAcross = min(blocks, max(tileRows/16, chunk/(64*min(s.HW, 1<<20))))
	default: // all channels of a pixel, so that cache lines are not shared between chunks
	}
	p.across = (blocks + p.perAcross - 1) / p.perAcross
	p.segment = (s.HW + 15) / 16 * 16
	if 64*p.perAcross*s.HW > chunk {
		p.segment = max(16, min(p.segment, chunk/(64*p.perAcross)/64*64))
	}
	p.segments = (s.HW + p.segment - 1) / p.segment
	if p.to == uncached {
		p.ragged = p.raggedStep()
	}
	return p, nil
}

// Chunks returns the number of chunks that Run accepts, at least 1.
func (p *Plan) Chunks() int { return p.N * p.across * p.segments }

// part returns the image, the first channel block and the first pixel of a chunk.
func (p *Plan) part(i int) (n, block, pixel int) {
	return i / p.segments / p.across, i / p.segments % p.across * p.perAcross, i % p.segments * p.segment
}

// Run reorders chunks [lo, hi) out of Chunks() from src to dst, which must not overlap. It returns an *Error with ErrBuffer
// for a short slice or ErrShape for a range outside the chunks; nothing is written then.
func (p *Plan) Run(lo, hi int, dst, src []float32) error {
	if lo < 0 || hi > p.Chunks() || lo > hi {
		return failf("run", ErrShape, "chunks [%d, %d) of %d", lo, hi, p.Chunks())
	}
	if need := (p.N-1)*p.SrcImage + p.From.Floats(p.C, p.HW); len(src) < need {
		return failf("run", ErrBuffer, "source has %d floats, needs %d", len(src), need)
	}
	if need := (p.N-1)*p.DstImage + p.To.Floats(p.C, p.HW); len(dst) < need {
		return failf("run", ErrBuffer, "destination has %d floats, needs %d", len(dst), need)
	}
	to := p.to
	if to == streamed && !aligned(dst) {
		to = uncached
	}
	parts := p.ragged > 0 && beforeLine(dst)%4 == 0
	if to != streamed && !parts && p.inParts(dst) {
		p.runLined(lo, hi, dst, src)
		return nil
	}
	for i := lo; i < hi; i++ {
		n, b, from := p.part(i)
		d, s, last, end := dst[n*p.DstImage:], src[n*p.SrcImage:], min(b+p.perAcross, (p.C+15)/16), min(from+p.segment, p.HW)
		if parts {
			p.raggedChunk(d, s, b, last, from, end)
		} else {
			p.chunk(to, d, s, b, last, from, end)
		}
	}
	if to == streamed || parts {
		fence(p.set)
	}
	return nil
}

// traffic returns where the stores of a result go that caches do not hold from so many bytes on.
func (p *Plan) traffic(t isa.Target, large int) traffic {
	if 4*p.N*p.To.Floats(p.C, p.HW) < large {
		return trafficOf(t, 4*p.N*(p.From.Floats(p.C, p.HW)+p.To.Floats(p.C, p.HW)))
	}
	kernels := streamsTiles(p.set)
	switch {
	case p.From == NCHW8c || p.To == NCHW8c:
		kernels = hasEights(p.set)
	case p.From != NCHW && p.To != NCHW:
		kernels = streamsRows(p.set)
	}
	lines := p.N == 1 || p.DstImage%16 == 0 // of cache begin where rows do
	switch p.To {
	case NCHW:
		lines = lines && p.HW%16 == 0 && !p.crowdsPlanes()
	case NHWC:
		lines = lines && (p.C%16 == 0 || p.From == NCHW && weaves(p.C))
	case NCHW8c:
		lines = lines && p.HW%2 == 0
	case NCHW16c:
	}
	if kernels && lines && p.From != p.To {
		return streamed
	}
	return uncached
}

// crowdsPlanes reports whether lines of a block's planes, which lie whole pages apart, would drive each other out of the buffers in which they wait to go past the
// caches: where a tile is written by four lines at a time. By way of the caches that takes 0.75 to 0.9 of the time for 12 to 128 MiB (AVX2, AMD Zen 3).
func (p *Plan) crowdsPlanes() bool {
	return p.From == NCHW16c && p.To == NCHW && crowded(p.HW) && tileSide(p.set) < lineFloats
}

// chunk moves pixels [p0, p1) of channel blocks [b0, b1).
func (p *Plan) chunk(to traffic, dst, src []float32, b0, b1, p0, p1 int) {
	c0, c1 := 16*b0, min(16*b1, p.C)
	switch {
	case p.From == p.To:
		p.copySame(dst, src, b0, b1, p0, p1)
	case p.From == NCHW8c || p.To == NCHW8c:
		p.eights(to, dst, src, b0, b1, p0, p1)
	case p.From == NCHW && p.To == NHWC:
		after := p1 - p0
		if p1 == p.HW {
			after = (c1-c0)*p.HW - p0
		}
		d, s := dst[p0*p.C+c0:], src[c0*p.HW+p0:]
		if to != streamed && crowded(p.HW) && fromCrowded(p.set, d, p.C, s, p.HW, c1-c0, p1-p0) {
			return
		}
		transpose(p.set, to, d, p.C, s, p.HW, c1-c0, p1-p0, after)
	case p.From == NHWC && p.To == NCHW:
		d, s := dst[c0*p.HW+p0:], src[p0*p.C+c0:]
		if to != streamed && crowded(p.HW) && toCrowded(p.set, d, p.HW, s, p.C, c1-c0, p1-p0) {
			return
		}
		transpose(p.set, to, d, p.HW, s, p.C, p1-p0, c1-c0, (p1-p0)*p.C)
	case p.From == NCHW || p.To == NCHW:
		for b := b0; b < b1; b++ {
			p.block(to, dst, src, b, p0, p1)
		}
	default:
		p.rows(to, dst, src, b0, b1, p0, p1)
	}
}

// rows moves pixels [p0, p1) of channel blocks [b0, b1) between NHWC and NCHW16c, some rows at a time: so few where blocks share
// cache lines that these, 8 KiB of NHWC, stay in the first-level cache.
func (p *Plan) rows(to traffic, dst, src []float32, b0, b1, p0, p1 int) {
	whole := min(b1, p.C/16)
	step := max(16, 2048/p.C&^15)
	switch {
	case p.C <= 16:
		step = p1 - p0
	case p.C%16 == 0:
		step = 64
	}
	for px := p0; px < p1; px += step {
		n := min(step, p1-px)
		if b0 < whole {
			d, dp, _ := p.at(p.To, 16*b0, px)
			s, sp, _ := p.at(p.From, 16*b0, px)
			between, from := p.between(p.To), p.between(p.From)
			group := p.ofPixel(whole - b0)
			if group == 0 {
				copyRows(p.set, to, &dst[d], 4*dp, 4*between, &src[s], 4*sp, 4*from, whole-b0, n)
			}
			for b := 0; group > 0 && b < whole-b0; b += group {
				copyRows(p.set, to, &dst[d+b*between], 4*between, 4*dp, &src[s+b*from], 4*from, 4*sp, n, min(group, whole-b0-b))
			}
		}
		for b := max(b0, whole); b < b1; b++ {
			channels := min(16, p.C-16*b)
			lanes := channels
			if p.To == NCHW16c {
				lanes = 16
			}
			d, dp, _ := p.at(p.To, 16*b, px)
			s, sp, _ := p.at(p.From, 16*b, px)
			copyLanes(p.set, &dst[d], 4*dp, &src[s], 4*sp, channels, lanes, n)
		}
	}
}

// ofPixel returns how many of so many blocks rows moves of a pixel before the next pixel, 0 where it moves them one by one. With all of them, the
// tensor with pixels in a row is read or written from front to back, the other in as many places at a time as there are blocks. They must be some to
// pay, no more than one set of the first-level cache has lines (64 sets of 8) where they all fall into the same, and no more than the
// processor fetches ahead for.
func (p *Plan) ofPixel(blocks int) int {
	const sets, ways, streams = 64, 8, 16
	apart := p.HW & -p.HW // the power of two in the distance of blocks, in cache lines
	most := ways * max(1, sets/apart)
	switch {
	case blocks < 4 || p.To == NCHW16c && blocks > most:
		return 0
	case p.To == NCHW16c:
		return blocks
	}
	return min(blocks, most, streams)
}

// between returns the distance between channel blocks of a layout with 16 channels in a row.
func (p *Plan) between(l Layout) int {
	if l == NHWC {
		return 16
	}
	return 16 * p.HW
}

// at returns the offset of pixel px of channel ch, the first of a block where there are such, and the distances between its pixels and its
// channels.
func (p *Spec) at(l Layout, ch, px int) (offset, pixel, channel int) {
	switch l {
	case NCHW:
		return ch*p.HW + px, 1, p.HW
	case NHWC:
		return px*p.C + ch, p.C, 1
	case NCHW16c:
		return (ch/16*p.HW+px)*16 + ch%16, 16, 1
	case NCHW8c:
	}
	return (ch/8*p.HW + px) * 8, 8, 1
}

// block moves pixels [p0, p1) of one channel block between NCHW and NCHW16c.
func (p *Plan) block(to traffic, dst, src []float32, b, p0, p1 int) {
	channels := min(16, p.C-16*b)
	side := tileSide(p.set)
	d, dp, dc := p.at(p.To, 16*b, p0)
	s, sp, sc := p.at(p.From, 16*b, p0)
	if to != streamed && channels == 16 && crowded(p.HW) {
		// Tiles smaller than a line are the faster ones where planes are read alone.
		if p.From == NCHW && fromCrowded(p.set, dst[d:], dp, src[s:], sc, 16, p1-p0) ||
			p.To == NCHW && side == lineFloats && toCrowded(p.set, dst[d:], dc, src[s:], sp, 16, p1-p0) {
			return
		}
	}
	if n := (p1 - p0) / lineFloats; channels == 16 && n > 0 && lineSide(p.set) == lineFloats {
		if p.From == NCHW {
			far := ahead(to)
			if side < lineFloats && sc < shortPlane { // planes lie in a row, and the processor fetches them
				far = 0
			}
			lineTiles(p.set, to, &dst[d], 64, 64*lineFloats, &src[s], 4*sc, 4*lineFloats, far, n)
		} else {
			lineTiles(p.set, to, &dst[d], 4*dc, 4*lineFloats, &src[s], 64, 64*lineFloats, rowsAhead(to), n)
		}
		n *= lineFloats
		p0, d, s = p0+n, d+n*dp, s+n*sp
	}
	if to == streamed { // what is left
		to = uncached
	}
	whole := (p1 - p0) &^ (side - 1)
	if p0 == p1 {
		return
	}
	for half := 0; half < 16; half += side {
		rows := max(0, min(side, channels-half))
		switch {
		case p.From == NCHW && rows == side:
			// Tiles lie along the rows, which are channels; the lines behind a few tiles are asked for with them.
			if n := whole / side; n > 0 {
				tiles(p.set, to, &dst[d+half], 64, 64*side, &src[s+half*sc], 4*sc, 4*side, ahead(to), n)
			}
			if whole < p1-p0 {
				alongCols(p.set, dst[d+16*whole+half:], dp, src[s+half*sc+whole:], sc, rows, side, p1-p0-whole)
			}
		case p.From == NCHW:
			in := s
			if rows > 0 {
				in += half * sc
			}
			alongCols(p.set, dst[d+half:], dp, src[in:], sc, rows, side, p1-p0)
		case rows == side && whole > 0:
			tiles(p.set, to, &dst[d+half*dc], 4*dc, 4*side, &src[s+half], 64, 64*side, 0, whole/side)
			if whole < p1-p0 {
				alongRows(p.set, dst[d+half*dc+whole:], dc, src[s+half+16*whole:], sp, rows, p1-p0-whole)
			}
		case rows > 0:
			alongRows(p.set, dst[d+half*dc:], dc, src[s+half:], sp, rows, p1-p0)
		}
	}
}

// ahead is how far ahead, in bytes, lines of channels that are read side by side are asked for.
func ahead(to traffic) int {
	if to == streamed {
		return 64 * farLines
	}
	return linesAhead(to)
}

// rowsAhead is ahead for rows of a block, which lie one behind the other: the processor itself fetches those that go to the caches.
func rowsAhead(to traffic) int {
	if to == streamed {
		return 2 << 10
	}
	return 0
}

// alongCols transposes a matrix of few rows and n columns to n rows of lanes floats.
func alongCols(set isa.Set, dst []float32, dstStride int, src []float32, srcStride, rows, lanes, n int) {
	if rows == 1 && lanes == 1 { // tiles take longer
		for c, x := range src[:n] {
			dst[c*dstStride] = x
		}
		return
	}
	side := tileSide(set)
	if full := n / side; n >= side {
		if rows == side && lanes == side {
			tiles(set, uncached, &dst[0], 4*dstStride, 4*dstStride*side, &src[0], 4*srcStride, 4*side, 64*nearLines, full)
		} else {
			transposeTiles(set, &dst[0], 4*dstStride, 4*dstStride*side, &src[0], 4*srcStride, 4*side, rows, side, lanes, full)
		}
	}
	switch rest := n & (side - 1); rest {
	case 0:
	case 1: // as in maps of odd width and height: a tile takes longer
		out := dst[(n-1)*dstStride:][:lanes]
		for r := range rows {
			out[r] = src[r*srcStride+n-1]
		}
		clear(out[rows:])
	default:
		at := n - rest
		transposeTiles(set, &dst[at*dstStride], 4*dstStride, 0, &src[at], 4*srcStride, 0, rows, rest, lanes, 1)
	}
}

// alongRows transposes a matrix of n rows and few columns to cols rows of n floats.
func alongRows(set isa.Set, dst []float32, dstStride int, src []float32, srcStride, cols, n int) {
	if cols == 1 {
		for r := range dst[:n] {
			dst[r] = src[r*srcStride]
		}
		return
	}
	side := tileSide(set)
	if full := n / side; n >= side {
		if cols == side {
			tiles(set, uncached, &dst[0], 4*dstStride, 4*side, &src[0], 4*srcStride, 4*srcStride*side, 0, full)
		} else {
			transposeTiles(set, &dst[0], 4*dstStride, 4*side, &src[0], 4*srcStride, 4*srcStride*side, side, cols, side, full)
		}
	}
	switch rest := n & (side - 1); rest {
	case 0:
	case 1:
		for c, x := range src[(n-1)*srcStride:][:cols] {
			dst[c*dstStride+n-1] = x
		}
	default:
		at := n - rest
		transposeTiles(set, &dst[at], 4*dstStride, 0, &src[at*srcStride], 4*srcStride, 0, rest, cols, rest, 1)
	}
}

// copySame copies a chunk between equal layouts.
func (p *Plan) copySame(dst, src []float32, b0, b1, p0, p1 int) {
	switch p.From {
	case NHWC:
		copy(dst[p0*p.C:p1*p.C], src[p0*p.C:p1*p.C])
	case NCHW:
		for c := 16 * b0; c < min(16*b1, p.C); c++ {
			copy(dst[c*p.HW+p0:c*p.HW+p1], src[c*p.HW+p0:c*p.HW+p1])
		}
	case NCHW16c:
		for b := b0; b < b1; b++ {
			lo, hi := (b*p.HW+p0)*16, (b*p.HW+p1)*16
			copy(dst[lo:hi], src[lo:hi])
		}
	case NCHW8c:
		for e := 2 * b0; e < 2*b1 && 8*e < p.C; e++ {
			lo, hi := (e*p.HW+p0)*8, (e*p.HW+p1)*8
			copy(dst[lo:hi], src[lo:hi])
		}
	}
}
