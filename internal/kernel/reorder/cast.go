package reorder

import (
	"unsafe"

	"github.com/carve-dev/carve/internal/cpuid"
	"github.com/carve-dev/carve/internal/kernel/isa"
)

// Cast is a reorder that changes the type of the elements too, from or to float32: floats are rounded to nearest, ties to
// even, and become integers by truncation, as ONNX Cast has it; or one of elements of one or two bytes, which stay as they are.
// It is immutable and safe for concurrent use.
type Cast struct {
	p        *Plan
	k        castKind
	from, to int     // bytes of an element
	set      isa.Set // of tiles
	width    int     // of the channel blocks that both layouts have
	wide     bool    // there are kernels of 64 bytes for few channels
	traffic  traffic // streamed, or cached
	stage    stage   // of what is streamed, unless tiles write whole lines
}

// NewCast plans a reorder from elements of one type to another. It returns an *Error with ErrShape for impossible sizes and
// for pairs of different types without Float32, and for Float32 itself.
func NewCast(t isa.Target, s Spec, from, to Element) (*Cast, error) {
	k, ok := kindOf(from, to)
	if !ok {
		return nil, failf("plan", ErrShape, "cast from type %d to %d", from, to)
	}
	p, err := New(t, s)
	if err != nil {
		return nil, err
	}
	c := &Cast{p: p, k: k, from: from.Size(), to: to.Size(), set: p.set, width: 16}
	if p.From == NCHW8c || p.To == NCHW8c {
		c.set, c.width = p.eightSet(8), 8
	}
	c.wide = p.whole && (k == move16 || k == move8 && t.Features.Has(cpuid.AVX512VBMI))
	c.plan(streamBytes)
	return c, nil
}

// Chunks returns the number of chunks that Run accepts, at least 1.
func (c *Cast) Chunks() int { return c.p.Chunks() }

// Run reorders chunks [lo, hi) out of Chunks() from src to dst, which must not overlap and begin at multiples of their
// elements' sizes where the processor wants that. It returns an *Error with ErrBuffer for short storage or ErrShape for a
// range outside the chunks; nothing is written then.
func (c *Cast) Run(lo, hi int, dst, src []byte) error {
	p := c.p
	if lo < 0 || hi > p.Chunks() || lo > hi {
		return failf("run", ErrShape, "chunks [%d, %d) of %d", lo, hi, p.Chunks())
	}
	if need := c.from * ((p.N-1)*p.SrcImage + p.From.Floats(p.C, p.HW)); len(src) < need {
		return failf("run", ErrBuffer, "source has %d bytes, needs %d", len(src), need)
	}
	if need := c.to * ((p.N-1)*p.DstImage + p.To.Floats(p.C, p.HW)); len(dst) < need {
		return failf("run", ErrBuffer, "destination has %d bytes, needs %d", len(dst), need)
	}
	d, s := unsafe.Pointer(unsafe.SliceData(dst)), unsafe.Pointer(unsafe.SliceData(src))
	to := c.traffic
	if uintptr(d)%64 != 0 {
		to = cached
	}
	for i := lo; i < hi; i++ {
		n, b, p0 := p.part(i)
		c.chunk(to, unsafe.Add(d, n*p.DstImage*c.to), unsafe.Add(s, n*p.SrcImage*c.from), b, min(b+p.perAcross, (p.C+15)/16), p0, min(p0+p.segment, p.HW))
	}
	if to == streamed {
		fence(p.set)
	}
	return nil
}

// FromHalf decodes elements of type e, Float16 or BFloat16, that lie together: as many as dst and src both have room for. It
// does nothing for other types.
func FromHalf(t isa.Target, dst []float32, src []uint16, e Element) {
	if n := min(len(dst), len(src)); n > 0 && (e == Float16 || e == BFloat16) {
		k, _ := kindOf(e, Float32)
		castRows(t.Set, k, unsafe.Pointer(unsafe.SliceData(dst)), 0, unsafe.Pointer(unsafe.SliceData(src)), 0, n, 1)
	}
}

// ToHalf encodes elements as e, Float16 or BFloat16, the inverse of FromHalf, by the rules of NewCast.
func ToHalf(t isa.Target, dst []uint16, src []float32, e Element) {
	if n := min(len(dst), len(src)); n > 0 && (e == Float16 || e == BFloat16) {
		k, _ := kindOf(Float32, e)
		castRows(t.Set, k, unsafe.Pointer(unsafe.SliceData(dst)), 0, unsafe.Pointer(unsafe.SliceData(src)), 0, n, 1)
	}
}

const (
	castPixels = 64  // of a block that are moved by way of the scratch memory at a time
	castRun    = 256 // that tiles move before the next block, at most, where blocks share cache lines
)

// target is where elements are written: an image, or a part of one that lies by itself, from channel ch and pixel px on.
type target struct {
	Spec
	data   unsafe.Pointer
	ch, px int
	to     traffic // of whole tiles
}

// chunk moves pixels [p0, p1) of channel blocks [b0, b1) of an image.
func (c *Cast) chunk(to traffic, dst, src unsafe.Pointer, b0, b1, p0, p1 int) {
	switch {
	case to == streamed && c.stage.pixels > 0:
		c.staged(dst, src, b0, b1, p0, p1)
	case c.p.From == c.p.To:
		c.same(to, dst, src, b0, b1, p0, p1)
	default:
		c.area(&target{Spec: c.p.Spec, data: dst, to: to}, src, 16*b0, 16*b1, p0, p1)
	}
}

// area moves pixels [p0, p1) of channels [c0, c1).
func (c *Cast) area(dst *target, src unsafe.Pointer, c0, c1, p0, p1 int) {
	p := c.p
	run, piece := c.run(), castPixels
	if p.From != NCHW && p.To != NCHW {
		piece = run // without the scratch memory
	}
	for ; p0 < p1; p0 += run {
		end := min(p0+run, p1)
		for ch := c0 + c.tallBlocks(dst, src, c0, min(c1, p.C), p0, end-p0); ch < c1; ch += c.width {
			for px := p0 + c.tiles(dst, src, c0, ch, p0, end-p0); px < end; px += piece {
				c.piece(dst, src, ch, px, min(piece, end-px))
			}
		}
	}
}

// run returns how many pixels of a block move before the next block. Where blocks share cache lines these should stay in the first-level cache.
func (c *Cast) run() int {
	p := c.p
	if p.From != NHWC && p.To != NHWC || weaves(p.C) {
		return p.segment
	}
	return max(castPixels, min(castRun, 16<<10/(p.C*max(c.from, c.to))&^(castPixels-1)))
}

// tiles moves as many of n pixels of a block from channel ch on as there are in whole tiles, and returns how many that are: none where the
// last channels are missing, or pixels and channels do not change places. Between layouts without blocks, channels from first on may be written again
// instead.
func (c *Cast) tiles(dst *target, src unsafe.Pointer, first, ch, px, n int) int {
	p, side := c.p, castSide(c.set)
	moves, plain := c.k == move8 || c.k == move16, p.From == NHWC || p.To == NHWC
	switch {
	case (p.From == NCHW) == (p.To == NCHW):
		return 0
	case moves && plain && weaves(p.C):
		return c.weave(dst, src, px, n)
	case plain && ch+c.width > p.C && p.C-c.width >= first:
		ch = p.C - c.width
	}
	switch {
	case ch+c.width > p.C:
		return 0
	case moves:
		return c.moves(dst, src, ch, px, n)
	case side == 0 || n < side:
		return 0
	}
	whole, far := n/side, ahead(c.traffic)
	d, dp, dc := dst.at(p.To, ch-dst.ch, px-dst.px)
	s, sp, sc := p.at(p.From, ch, px)
	for half := 0; half < c.width; half += side {
		from, into := unsafe.Add(src, (s+half*sc)*c.from), unsafe.Add(dst.data, (d+half*dc)*c.to)
		if p.From == NCHW {
			castTiles(c.set, c.k, dst.to, into, dp*c.to, side*dp*c.to, from, sc*c.from, side*c.from, far, whole)
		} else {
			castTiles(c.set, c.k, dst.to, into, dc*c.to, side*c.to, from, sp*c.from, side*sp*c.from, castPixels*sp*c.from, whole)
		}
	}
	return whole * side
}

// same moves a chunk between equal layouts.
func (c *Cast) same(to traffic, dst, src unsafe.Pointer, b0, b1, p0, p1 int) {
	p := c.p
	move := func(first, stride, lanes, n int) {
		d, s := unsafe.Add(dst, first*c.to), unsafe.Add(src, first*c.from)
		if c.k == move16 || c.k == move8 {
			p.copyBytes(d, stride*c.to, s, stride*c.to, lanes*c.to, n)
			return
		}
		if to == streamed {
			streamCasts(p.set, c.k, d, stride*c.to, s, stride*c.from, lanes, n)
			return
		}
		castRows(p.set, c.k, d, stride*c.to, s, stride*c.from, lanes, n)
	}
	switch p.From {
	case NCHW:
		move(16*b0*p.HW+p0, p.HW, p1-p0, min(16*b1, p.C)-16*b0)
	case NHWC:
		move(p0*p.C, 0, (p1-p0)*p.C, 1)
	case NCHW16c:
		move((b0*p.HW+p0)*16, p.HW*16, (p1-p0)*16, b1-b0)
	case NCHW8c:
		move((2*b0*p.HW+p0)*8, p.HW*8, (p1-p0)*8, min(2*b1, (p.C+7)/8)-2*b0)
	}
}

// piece moves n pixels, up to castPixels, of a block from channel ch on. Where pixels and channels change places, that is done with
// floats, which shorter elements become in, or have been from, a scratch memory.
func (c *Cast) piece(target *target, src unsafe.Pointer, ch, px, n int) {
	p, width := c.p, c.width
	channels := max(0, min(width, p.C-ch))
	lanes := channels
	if p.To == NCHW16c || p.To == NCHW8c && channels > 0 {
		lanes = width
	}
	if lanes == 0 {
		return
	}
	d, dp, dc := target.at(p.To, ch-target.ch, px-target.px)
	dst := unsafe.Add(target.data, d*c.to)
	if channels == 0 {
		c.blank(dst, dp, lanes, n)
		return
	}
	s, sp, sc := p.at(p.From, ch, px)
	src = unsafe.Add(src, s*c.from)
	if sc == 1 && dc == 1 {
		c.rows(target.to, dst, dp, src, sp, channels, lanes, n)
		return
	}
	var scratch [2][16 * castPixels]float32
	in, out := c.k.halves()
	from, to := src, dst
	if c.from < 4 {
		from = unsafe.Pointer(&scratch[0])
		switch {
		case p.From == NCHW:
			castRows(p.set, in, from, 4*castPixels, src, sc*c.from, n, channels)
			sc = castPixels
		case sp == width || sp == channels:
			castRows(p.set, in, from, 0, src, 0, sp*n, 1)
		default:
			castRows(p.set, in, from, 4*width, src, sp*c.from, channels, n)
			sp = width
		}
	}
	pixel, channel := dp, dc
	if c.to < 4 {
		to = unsafe.Pointer(&scratch[1])
		pixel, channel = min(width, dp), castPixels
	}
	if p.From == NCHW {
		p.toPixels(unsafe.Slice((*float32)(to), (n-1)*pixel+lanes), pixel, unsafe.Slice((*float32)(from), (channels-1)*sc+n), sc, channels, lanes, n)
	} else {
		p.toChannels(unsafe.Slice((*float32)(to), (channels-1)*channel+n), channel, unsafe.Slice((*float32)(from), (n-1)*sp+channels), sp, channels, n)
	}
	switch {
	case c.to == 4:
	case p.To == NCHW:
		castRows(p.set, out, dst, dc*c.to, to, 4*castPixels, n, channels)
	case dp == pixel:
		castRows(p.set, out, dst, 0, to, 0, dp*n, 1)
	default:
		castRows(p.set, out, dst, dp*c.to, to, 4*width, lanes, n)
	}
}

// rows moves n pixels of so many channels, whose beginnings lie dp and sp elements apart, and makes those behind them zero up to lanes.
func (c *Cast) rows(to traffic, dst unsafe.Pointer, dp int, src unsafe.Pointer, sp, channels, lanes, n int) {
	if channels == lanes && dp == lanes && sp == lanes {
		channels, lanes, n = n*lanes, n*lanes, 1
	}
	if channels < lanes {
		c.blank(dst, dp, lanes, n)
	}
	switch {
	case to == streamed && channels%16 == 0:
		streamCasts(c.p.set, c.k, dst, dp*c.to, src, sp*c.from, channels, n)
	case c.k != move16 && c.k != move8:
		castRows(c.p.eightSet(channels), c.k, dst, dp*c.to, src, sp*c.from, channels, n)
	default:
		c.p.copyBytes(dst, dp*c.to, src, sp*c.to, channels*c.to, n)
	}
}

// copyBytes copies n rows of bytes.
func (p *Plan) copyBytes(dst unsafe.Pointer, dstStride int, src unsafe.Pointer, srcStride, bytes, n int) {
	switch bytes {
	case 8, 16, 32:
		copyShort(p.set, bytes, dst, dstStride, src, srcStride, n)
	default:
		p.copyParts(dst, dstStride, src, srcStride, bytes, n)
	}
}

// copyParts is copyBytes of rows that are no power of two, by parts of such a length, of which the last begins within the one before.
func (p *Plan) copyParts(dst unsafe.Pointer, dstStride int, src unsafe.Pointer, srcStride, bytes, n int) {
	const long = 256 // bytes of rows that are copied faster one by one
	if !hasMoves(p.set) || bytes > long {
		copyLong(dst, dstStride, src, srcStride, bytes, n)
		return
	}
	part := 32
	for part > bytes {
		part /= 2
	}
	for at := 0; at < bytes; at += part {
		at = min(at, bytes-part)
		copyShort(p.set, part, unsafe.Add(dst, at), dstStride, unsafe.Add(src, at), srcStride, n)
	}
}

// blank makes so many channels of n pixels zero.
func (c *Cast) blank(dst unsafe.Pointer, dp, lanes, n int) {
	var zeros [32]byte
	part := min(len(zeros), lanes*c.to)
	for at := 0; at < lanes*c.to; at += part {
		c.p.copyBytes(unsafe.Add(dst, at), dp*c.to, unsafe.Pointer(&zeros), 0, part, n)
	}
}

// toPixels transposes rows of n pixels, one per channel, to n rows of lanes channels; those behind the last are zero.
func (p *Plan) toPixels(dst []float32, ldDst int, src []float32, ldSrc, channels, lanes, n int) {
	if weaves(channels) && ldDst == channels && lanes == channels {
		transpose(p.set, cached, dst, ldDst, src, ldSrc, channels, n, 0)
		return
	}
	set := p.eightSet(channels)
	side := tileSide(set)
	for c := 0; c < lanes; c += side {
		rows, in := max(0, min(side, channels-c)), 0
		if rows > 0 {
			in = c * ldSrc
		}
		alongCols(set, dst[c:], ldDst, src[in:], ldSrc, rows, min(side, lanes-c), n)
	}
}

// toChannels transposes n rows of channels to rows of n pixels, one per channel.
func (p *Plan) toChannels(dst []float32, ldDst int, src []float32, ldSrc, channels, n int) {
	if weaves(channels) && ldSrc == channels {
		transpose(p.set, cached, dst, ldDst, src, ldSrc, n, channels, 0)
		return
	}
	set := p.eightSet(channels)
	side := tileSide(set)
	for c := 0; c < channels; c += side {
		alongRows(set, dst[c*ldDst:], ldDst, src[c:], ldSrc, min(side, channels-c), n)
	}
}
