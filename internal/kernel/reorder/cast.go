package reorder

import (
	"unsafe"

	"github.com/carve-dev/carve/internal/kernel/isa"
)

// Cast is a reorder that changes the type of the elements too, from or to float32: floats are rounded to nearest, ties to
// even, and become integers by truncation, as ONNX Cast has it. It is immutable and safe for concurrent use.
type Cast struct {
	p        *Plan
	k        castKind
	from, to int // bytes of an element
}

// NewCast plans a reorder from elements of one type to another. It returns an *Error with ErrShape for impossible sizes and
// for pairs of types of which not exactly one is Float32.
func NewCast(t isa.Target, s Spec, from, to Element) (*Cast, error) {
	k, ok := kindOf(from, to)
	if !ok {
		return nil, failf("plan", ErrShape, "cast from type %d to %d", from, to)
	}
	p, err := New(t, s)
	if err != nil {
		return nil, err
	}
	return &Cast{p: p, k: k, from: from.Size(), to: to.Size()}, nil
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
	for i := lo; i < hi; i++ {
		n, b, p0 := p.part(i)
		d, s := unsafe.Pointer(unsafe.SliceData(dst)), unsafe.Pointer(unsafe.SliceData(src))
		c.chunk(unsafe.Add(d, n*p.DstImage*c.to), unsafe.Add(s, n*p.SrcImage*c.from), b, min(b+p.perAcross, (p.C+15)/16), p0, min(p0+p.segment, p.HW))
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

// castPixels is how many pixels of a block are moved by way of the scratch memory at a time.
const castPixels = 64

// chunk moves pixels [p0, p1) of channel blocks [b0, b1) of an image.
func (c *Cast) chunk(dst, src unsafe.Pointer, b0, b1, p0, p1 int) {
	p := c.p
	if p.From == p.To {
		c.same(dst, src, b0, b1, p0, p1)
		return
	}
	width := 16 // of the blocks that both have
	if p.From == NCHW8c || p.To == NCHW8c {
		width = 8
	}
	for px := p0; px < p1; px += castPixels {
		for ch := 16 * b0; ch < 16*b1; ch += width {
			c.piece(dst, src, ch, width, px, min(castPixels, p1-px))
		}
	}
}

// same moves a chunk between equal layouts.
func (c *Cast) same(dst, src unsafe.Pointer, b0, b1, p0, p1 int) {
	p := c.p
	move := func(first, stride, lanes, n int) {
		castRows(p.set, c.k, unsafe.Add(dst, first*c.to), stride*c.to, unsafe.Add(src, first*c.from), stride*c.from, lanes, n)
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

// piece moves n pixels, up to castPixels, of width channels from ch on. Where pixels and channels change places, that is done with
// floats, between a scratch memory and the side that has them.
func (c *Cast) piece(dst, src unsafe.Pointer, ch, width, px, n int) {
	p := c.p
	channels := max(0, min(width, p.C-ch))
	lanes := channels
	if p.To == NCHW16c || p.To == NCHW8c && channels > 0 {
		lanes = width
	}
	if lanes == 0 {
		return
	}
	at, dp, dc := p.at(p.To, ch, px)
	dst = unsafe.Add(dst, at*c.to)
	blank := func() { // lanes without a channel
		for i := range n {
			clear(unsafe.Slice((*byte)(unsafe.Add(dst, (i*dp+channels)*c.to)), (lanes-channels)*c.to))
		}
	}
	if channels == 0 {
		blank()
		return
	}
	at, sp, sc := p.at(p.From, ch, px)
	src = unsafe.Add(src, at*c.from)
	if sc == 1 && dc == 1 {
		blank()
		castRows(p.set, c.k, dst, dp*c.to, src, sp*c.from, channels, n)
		return
	}
	var scratch [16 * castPixels]float32
	there := unsafe.Pointer(&scratch)
	switch {
	case c.to == 4 && sp == 1:
		castRows(p.set, c.k, there, 4*castPixels, src, sc*c.from, n, channels)
		p.toPixels(unsafe.Slice((*float32)(dst), (n-1)*dp+lanes), dp, scratch[:], castPixels, channels, lanes, n)
	case c.to == 4 && sp == width:
		castRows(p.set, c.k, there, 0, src, 0, width*n, 1)
		p.toChannels(unsafe.Slice((*float32)(dst), (channels-1)*dc+n), dc, scratch[:], width, channels, n)
	case c.to == 4:
		castRows(p.set, c.k, there, 4*width, src, sp*c.from, channels, n)
		p.toChannels(unsafe.Slice((*float32)(dst), (channels-1)*dc+n), dc, scratch[:], width, channels, n)
	case sp == 1:
		p.toPixels(scratch[:], width, unsafe.Slice((*float32)(src), (channels-1)*sc+n), sc, channels, lanes, n)
		if dp == width {
			castRows(p.set, c.k, dst, 0, there, 0, width*n, 1)
		} else {
			castRows(p.set, c.k, dst, dp*c.to, there, 4*width, lanes, n)
		}
	default:
		p.toChannels(scratch[:], castPixels, unsafe.Slice((*float32)(src), (n-1)*sp+channels), sp, channels, n)
		castRows(p.set, c.k, dst, dc*c.to, there, 4*castPixels, n, channels)
	}
}

// toPixels transposes rows of n pixels, one per channel, to n rows of lanes channels; those behind the last are zero.
func (p *Plan) toPixels(dst []float32, ldDst int, src []float32, ldSrc, channels, lanes, n int) {
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
	set := p.eightSet(channels)
	side := tileSide(set)
	for c := 0; c < channels; c += side {
		alongRows(set, dst[c*ldDst:], ldDst, src[c:], ldSrc, min(side, channels-c), n)
	}
}
