package reorder

import (
	"errors"
	"fmt"
	"math"

	"github.com/carve-dev/carve/internal/cpuid"
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
)

func (l Layout) String() string {
	switch l {
	case NCHW:
		return "NCHW"
	case NHWC:
		return "NHWC"
	case NCHW16c:
		return "NCHW16c"
	}
	return fmt.Sprintf("layout(%d)", uint8(l))
}

// Floats returns the size of an image of c channels of hw pixels.
func (l Layout) Floats(c, hw int) int {
	if l == NCHW16c {
		return (c + 15) / 16 * 16 * hw
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
	level             cpuid.Level
	segment, segments int // pixels of a chunk, and chunks of an image along the pixels
	across            int // chunks of an image along the channels
	perAcross         int // channel blocks of each
}

const (
	maxDim     = 1 << 28                   // of every size
	maxFloats  = min(math.MaxInt/8, 1<<42) // of a tensor
	chunkBytes = 128 << 10
)

// New plans a reorder for the best kernels of this machine. It returns an *Error with ErrShape for impossible sizes.
func New(s Spec) (*Plan, error) {
	if s.N < 1 || s.C < 1 || s.HW < 1 || s.N > maxDim || s.C > maxDim || s.HW > maxDim || s.From > NCHW16c || s.To > NCHW16c ||
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
	p := &Plan{Spec: s, level: cpuid.Best()}
	blocks := (s.C + 15) / 16
	// Pixels come in multiples of 16. Where an image row of one of the layouts has all channels of a pixel, a chunk has them
	// too, so that its lines are not shared between chunks.
	p.perAcross = blocks
	if s.From != NHWC && s.To != NHWC {
		p.perAcross = max(1, min(blocks, chunkBytes/(64*min(s.HW, 1<<20))))
	}
	p.across = (blocks + p.perAcross - 1) / p.perAcross
	p.segment = max(16, min((s.HW+15)/16*16, chunkBytes/(64*p.perAcross)/16*16))
	p.segments = (s.HW + p.segment - 1) / p.segment
	return p, nil
}

// Chunks returns the number of chunks that Run accepts, at least 1.
func (p *Plan) Chunks() int { return p.N * p.across * p.segments }

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
	for i := lo; i < hi; i++ {
		seg := i % p.segments
		b := i / p.segments % p.across * p.perAcross
		n := i / p.segments / p.across
		from := seg * p.segment
		p.chunk(dst[n*p.DstImage:], src[n*p.SrcImage:], b, min(b+p.perAcross, (p.C+15)/16), from, min(from+p.segment, p.HW))
	}
	return nil
}

// chunk moves pixels [p0, p1) of channel blocks [b0, b1).
func (p *Plan) chunk(dst, src []float32, b0, b1, p0, p1 int) {
	if p.From == p.To {
		p.copySame(dst, src, b0, b1, p0, p1)
		return
	}
	// Sixteen rows at a time, so that lines that several channel blocks share stay in the L1 cache.
	step := 16
	if p.From != NHWC && p.To != NHWC {
		step = p1 - p0
	}
	for from := p0; from < p1; from += step {
		to := min(from+step, p1)
		for b := b0; b < b1; b++ {
			p.block(dst, src, b, from, to)
		}
	}
}

// at returns the offset of pixel px of channel block b in a layout, and the distances between its pixels and its channels.
func (p *Plan) at(l Layout, b, px int) (offset, pixel, channel int) {
	switch l {
	case NCHW:
		return 16*b*p.HW + px, 1, p.HW
	case NHWC:
		return px*p.C + 16*b, p.C, 1
	}
	return (b*p.HW + px) * 16, 16, 1
}

// block moves pixels [p0, p1) of one channel block.
func (p *Plan) block(dst, src []float32, b, p0, p1 int) {
	channels := min(16, p.C-16*b)
	lanes := channels
	if p.To == NCHW16c {
		lanes = 16
	}
	d, dp, dc := p.at(p.To, b, p0)
	s, sp, sc := p.at(p.From, b, p0)
	switch {
	case sc == 1 && dc == 1:
		copyLanes(p.level, &dst[d], 4*dp, &src[s], 4*sp, channels, lanes, p1-p0)
	case sp == 1:
		// Rows of the source are channels.
		side := tileSide(p.level)
		for half := 0; half < lanes; half += side {
			rows := max(0, min(side, channels-half))
			in := s
			if rows > 0 {
				in += half * sc
			}
			alongCols(p.level, dst[d+half:], dp, src[in:], sc, rows, min(side, lanes-half), p1-p0)
		}
	default:
		side := tileSide(p.level)
		for half := 0; half < channels; half += side {
			alongRows(p.level, dst[d+half*dc:], dc, src[s+half:], sp, min(side, channels-half), p1-p0)
		}
	}
}

// alongCols transposes a matrix of few rows and n columns to n rows of lanes floats.
func alongCols(level cpuid.Level, dst []float32, dstStride int, src []float32, srcStride, rows, lanes, n int) {
	side := tileSide(level)
	if full := n / side; full > 0 {
		transposeTiles(level, &dst[0], 4*dstStride, 4*dstStride*side, &src[0], 4*srcStride, 4*side, rows, side, lanes, full)
	}
	if rest := n % side; rest > 0 {
		at := n - rest
		transposeTiles(level, &dst[at*dstStride], 4*dstStride, 0, &src[at], 4*srcStride, 0, rows, rest, lanes, 1)
	}
}

// alongRows transposes a matrix of n rows and few columns to cols rows of n floats.
func alongRows(level cpuid.Level, dst []float32, dstStride int, src []float32, srcStride, cols, n int) {
	side := tileSide(level)
	if full := n / side; full > 0 {
		transposeTiles(level, &dst[0], 4*dstStride, 4*side, &src[0], 4*srcStride, 4*srcStride*side, side, cols, side, full)
	}
	if rest := n % side; rest > 0 {
		at := n - rest
		transposeTiles(level, &dst[at], 4*dstStride, 0, &src[at*srcStride], 4*srcStride, 0, rest, cols, rest, 1)
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
	default:
		for b := b0; b < b1; b++ {
			lo, hi := (b*p.HW+p0)*16, (b*p.HW+p1)*16
			copy(dst[lo:hi], src[lo:hi])
		}
	}
}
