package fewconv

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/carve-dev/carve/internal/kernel/conv"
	"github.com/carve-dev/carve/internal/kernel/isa"
)

// MostResults is the most results of a convolution.
const MostResults = 3

// ErrShape says that the numbers of a Spec are out of range.
var ErrShape = errors.New("fewconv: bad shape")

// Spec describes a convolution, without bias.
type Spec struct {
	N, C, OC int
	conv.Map     // complete: with sizes of the destination, strides and dilations
	SrcImage int // floats between images of the source; 0: they lie behind each other
}

// Plan is a convolution made ready for given shapes. It is immutable and safe for concurrent use.
type Plan struct {
	Spec
	set    isa.Set
	blocks int
	inside [2]int // columns whose pixels all taps reach
	band   int    // rows of a chunk
	part   int    // columns whose source stays in the second-level cache while rows go down
}

// chunkSteps is how many multiply-adds of 16 lanes a chunk aims for: about 20 µs.
const chunkSteps = 100_000

// New plans a convolution for a target. The error wraps ErrShape.
func New(t isa.Target, s Spec) (*Plan, error) {
	for _, n := range []int{s.N, s.C, s.H, s.W, s.OH, s.OW, s.Kernel[0], s.Kernel[1], s.Stride[0], s.Stride[1], s.Dilate[0], s.Dilate[1]} {
		if n < 1 {
			return nil, fmt.Errorf("%w: %+v", ErrShape, s)
		}
	}
	if s.OC < 1 || s.OC > MostResults {
		return nil, fmt.Errorf("%w: %d results", ErrShape, s.OC)
	}
	if err := s.Check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrShape, err)
	}
	p := &Plan{Spec: s, set: t.Set, blocks: (s.C + 15) / 16}
	if p.SrcImage == 0 {
		p.SrcImage = 16 * p.blocks * s.H * s.W
	}
	reach := (s.Kernel[1] - 1) * s.Dilate[1]
	p.inside[0] = min(s.OW, max(0, (s.Pad[1]+s.Stride[1]-1)/s.Stride[1]))
	p.inside[1] = p.inside[0]
	if last := s.W - 1 - reach + s.Pad[1]; last >= 0 {
		p.inside[1] = max(p.inside[0], min(s.OW, last/s.Stride[1]+1))
	}
	steps := s.OW * s.OC * p.blocks * s.Kernel[0] * s.Kernel[1]
	p.band = min(s.OH, max(1, chunkSteps/steps))
	p.part = s.OW
	if column := s.Kernel[0] * s.Stride[1] * p.blocks * 64; p.band > 1 && column*s.OW > t.SecondCache()/2 {
		p.part = max(32, t.SecondCache()/2/column)
	}
	return p, nil
}

// Chunks returns the number of independent chunks.
func (p *Plan) Chunks() int { return p.N * ((p.OH + p.band - 1) / p.band) }

// Cost is the work of all chunks in multiply-adds of 16 lanes.
func (p *Plan) Cost() int { return p.N * p.OH * p.OW * p.OC * p.blocks * p.Kernel[0] * p.Kernel[1] }

// WeightFloats returns how many floats weights have.
func (p *Plan) WeightFloats() int { return 16 * p.blocks * p.Kernel[0] * p.Kernel[1] * p.OC }

// Run computes chunks [lo, hi) out of Chunks(). Chunks write disjoint parts of dst, which may not overlap src. Slices that are too short and a range outside of the
// chunks panic.
func (p *Plan) Run(lo, hi int, dst, src, weights []float32) {
	if lo < 0 || hi > p.Chunks() || lo > hi {
		panic("fewconv: chunk range outside of the plan")
	}
	_, _, _ = dst[p.N*p.OC*p.OH*p.OW-1], src[(p.N-1)*p.SrcImage+16*p.blocks*p.H*p.W-1], weights[p.WeightFloats()-1]
	bands := (p.OH + p.band - 1) / p.band
	for i := lo; i < hi; i++ {
		n, first := i/bands, i%bands*p.band
		r := row{Plan: p, dst: dst[n*p.OC*p.OH*p.OW:], src: src[n*p.SrcImage:], weights: weights}
		for from := 0; from < p.OW; from += p.part {
			for y := first; y < min(first+p.band, p.OH); y++ {
				r.columns(y, from, min(from+p.part, p.OW))
			}
		}
	}
}

// row computes rows of an image.
type row struct {
	*Plan
	dst, src, weights []float32
	call              call
}

// call is the argument of a kernel: tiles beside each other. Distances are in bytes. The generator checks the offsets of the fields.
type call struct {
	src, w, dst unsafe.Pointer
	tiles       int64
	// What of the kernel reaches pixels of the source.
	blocks, rows, taps                          int64
	srcBlock, srcRow, srcTap, srcPixel, srcTile int64
	wBlock, wRow                                int64
	dstPlane                                    int64
	srcAt, dstAt                                int64 // scratch of kernels: integers, because they end behind the last tile
}

// reached returns the taps [lo, hi) that lie inside of a source of so many pixels where the first lies at a pixel.
func reached(at, taps, dilate, size int) (lo, hi int) {
	if at < 0 {
		lo = min(taps, (-at+dilate-1)/dilate)
	}
	hi = taps
	if last := size - 1 - at; last < (taps-1)*dilate {
		hi = 0
		if last >= 0 {
			hi = last/dilate + 1
		}
	}
	return lo, max(lo, hi)
}

// columns computes columns [from, to) of row y.
func (r *row) columns(y, from, to int) {
	s := &r.Spec
	inside := [2]int{min(max(r.inside[0], from), to), min(max(r.inside[1], from), to)}
	for x := from; x < inside[0]; x++ {
		r.pixels(y, x, 1, 1)
	}
	wide := pixels(s.OC)
	x, n := inside[0], (inside[1]-inside[0])/wide
	if n > 0 {
		r.pixels(y, x, n, wide)
		x += n * wide
	}
	if x < inside[1] {
		r.pixels(y, x, inside[1]-x, 1)
	}
	for x = max(inside[1], inside[0]); x < to; x++ {
		r.pixels(y, x, 1, 1)
	}
}

// pixels computes tiles of so many pixels each, which the same taps reach, from column x of row y on.
func (r *row) pixels(y, x, tiles, width int) {
	s, c := &r.Spec, &r.call
	top, left := y*s.Stride[0]-s.Pad[0], x*s.Stride[1]-s.Pad[1]
	y0, y1 := reached(top, s.Kernel[0], s.Dilate[0], s.H)
	x0, x1 := reached(left, s.Kernel[1], s.Dilate[1], s.W)
	dst := r.dst[y*s.OW+x:]
	if y0 == y1 || x0 == x1 {
		for o := range s.OC {
			clear(dst[o*s.OH*s.OW:][:tiles*width])
		}
		return
	}
	taps := s.Kernel[0] * s.Kernel[1]
	*c = call{
		src: unsafe.Pointer(&r.src[16*((top+y0*s.Dilate[0])*s.W+left+x0*s.Dilate[1])]), w: unsafe.Pointer(&r.weights[16*s.OC*(y0*s.Kernel[1]+x0)]), dst: unsafe.Pointer(&dst[0]),
		tiles: int64(tiles), blocks: int64(r.blocks), rows: int64(y1 - y0), taps: int64(x1 - x0),
		srcBlock: int64(64 * s.H * s.W), srcRow: int64(64 * s.Dilate[0] * s.W), srcTap: int64(64 * s.Dilate[1]), srcPixel: int64(64 * s.Stride[1]),
		srcTile: int64(64 * s.Stride[1] * width), wBlock: int64(64 * s.OC * taps), wRow: int64(64 * s.OC * s.Kernel[1]), dstPlane: int64(4 * s.OH * s.OW),
	}
	sums(r.set, s.OC, width > 1, c)
}

// pixels returns how many pixels a wide tile of so many results has.
func pixels(results int) int { return [MostResults + 1]int{0, 4, 2, 2}[results] }
