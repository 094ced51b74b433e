package fewconv

import (
	"fmt"
	"unsafe"

	"github.com/carve-dev/carve/internal/kernel/isa"
)

// LineTile is how many results of a convolution over one axis are computed at a time, at most.
const LineTile = 4

// mostKept bounds the floats of a copy of what a tile reads, where that is not all in the source.
const mostKept = 1 << 18

// Line is a convolution over one axis, of stride 1, of row-major tensors, made ready for given shapes. Its lanes are positions, and a result is one sum in
// the order channel, tap. It is immutable and safe for concurrent use.
type Line struct {
	Spec
	set   isa.Set
	reach int // positions that a result's taps span, less one
	band  int // positions of a chunk
}

// FitsLine reports whether the taps of each position of a convolution over one axis span few enough numbers in all channels for a Line.
func FitsLine(channels, taps, dilation int) bool {
	return channels < mostKept && taps < mostKept && dilation < mostKept && channels*((taps-1)*dilation+linePositions(1)) <= mostKept
}

// NewLine plans a convolution of maps of one row for a target: [N, C, W] with weights [OC, C, taps] gives [N, OC, OW]. Taps outside of the
// source read zeros. The error wraps ErrShape.
func NewLine(t isa.Target, s Spec) (*Line, error) {
	if s.N < 1 || s.C < 1 || s.OC < 1 || s.OW < 1 || s.H != 1 || s.OH != 1 || s.Kernel[0] != 1 || s.Pad[0] != 0 || s.Stride[1] != 1 || s.SrcImage != 0 {
		return nil, fmt.Errorf("%w: %+v", ErrShape, s)
	}
	if err := s.Check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrShape, err)
	}
	if !FitsLine(s.C, s.Kernel[1], s.Dilate[1]) {
		return nil, fmt.Errorf("%w: %d channels of %d taps apart %d", ErrShape, s.C, s.Kernel[1], s.Dilate[1])
	}
	p := &Line{Spec: s, set: t.Set, reach: (s.Kernel[1] - 1) * s.Dilate[1]}
	tile := linePositions(1)
	p.band = max(1, chunkSteps*16/(s.OC*s.C*s.Kernel[1]*tile)) * tile
	return p, nil
}

// Chunks returns the number of independent chunks.
func (p *Line) Chunks() int { return p.N * ((p.OW + p.band - 1) / p.band) }

// Cost is the work of all chunks in multiply-adds of 16 lanes.
func (p *Line) Cost() int { return (p.N*p.OW*p.OC*p.C*p.Kernel[1] + 15) / 16 }

// Scratch returns how many floats a call of Run needs beside its operands.
func (p *Line) Scratch() int {
	tile := linePositions(min(p.OC, LineTile))
	return p.C*(p.reach+linePositions(1)) + LineTile*tile
}

// Run computes chunks [lo, hi) out of Chunks(). Chunks write disjoint parts of dst, which may not overlap src. Slices that are too short and a range outside of the
// chunks panic.
func (p *Line) Run(lo, hi int, dst, src, weights, scratch []float32) {
	if lo < 0 || hi > p.Chunks() || lo > hi {
		panic("fewconv: chunk range outside of the plan")
	}
	_, _, _, _ = dst[p.N*p.OC*p.OW-1], src[p.N*p.C*p.W-1], weights[p.OC*p.C*p.Kernel[1]-1], scratch[p.Scratch()-1]
	bands := (p.OW + p.band - 1) / p.band
	for i := lo; i < hi; i++ {
		n, from := i/bands, i%bands*p.band
		l := line{Line: p, dst: dst[n*p.OC*p.OW:][:p.OC*p.OW], src: src[n*p.C*p.W:][:p.C*p.W], weights: weights, scratch: scratch}
		for first := 0; first < p.OC; first += LineTile {
			l.positions(first, min(LineTile, p.OC-first), from, min(from+p.band, p.OW))
		}
	}
}

// line computes parts of an image.
type line struct {
	*Line
	dst, src, weights, scratch []float32
	call                       lineCall
}

// lineCall is the argument of a kernel: tiles beside each other. Distances are in bytes. The generator checks the offsets of the fields.
type lineCall struct {
	src, w, dst                             unsafe.Pointer
	tiles, channels, taps                   int64
	srcRow, srcTap, wRow, wResult, dstPlane int64
}

// positions computes positions [from, to) of some results.
func (l *line) positions(first, results, from, to int) {
	tile := linePositions(results)
	for x := from; x < to; {
		at := x - l.Pad[1]
		n := 0
		if at >= 0 { // tiles that lie inside of the source as a whole
			n = min((to-x)/tile, (l.W-l.reach-at)/tile)
		}
		if n > 0 {
			l.tiles(first, results, n, l.src[at:], l.W, l.dst[first*l.OW+x:], l.OW)
			x += n * tile
			continue
		}
		width := min(tile, to-x)
		rows, out := l.scratch[:l.C*(tile+l.reach)], l.scratch[l.C*(tile+l.reach):]
		l.keep(rows, tile+l.reach, at, width+l.reach)
		l.tiles(first, results, 1, rows, tile+l.reach, out, tile)
		for r := range results {
			copy(l.dst[(first+r)*l.OW+x:][:width], out[r*tile:])
		}
		x += width
	}
}

// keep copies count numbers of each channel from a place on, which may lie outside of the source, to rows of some length. What is not there is zero.
func (l *line) keep(rows []float32, length, at, count int) {
	lo, hi := min(max(0, -at), count), max(0, min(count, l.W-at))
	for c := range l.C {
		row := rows[c*length:][:length]
		if lo >= hi {
			clear(row)
			continue
		}
		clear(row[:lo])
		copy(row[lo:hi], l.src[c*l.W+at+lo:])
		clear(row[hi:])
	}
}

// tiles computes tiles of results whose source begins at src, of rows of some length, into rows of dst.
func (l *line) tiles(first, results, tiles int, src []float32, length int, dst []float32, plane int) {
	taps := l.Kernel[1]
	l.call = lineCall{src: unsafe.Pointer(&src[0]), w: unsafe.Pointer(&l.weights[first*l.C*taps]), dst: unsafe.Pointer(&dst[0]),
		tiles: int64(tiles), channels: int64(l.C), taps: int64(taps),
		srcRow: int64(4 * length), srcTap: int64(4 * l.Dilate[1]), wRow: int64(4 * taps), wResult: int64(4 * l.C * taps), dstPlane: int64(4 * plane)}
	lineSums(l.set, results, &l.call)
}

// linePositions returns how many positions a tile of so many results has.
func linePositions(results int) int { return [LineTile + 1]int{0, 96, 48, 32, 24}[results] }

// genericLineSums is the portable version of the kernels.
func genericLineSums(results int, c *lineCall) {
	n := linePositions(results)
	for t := range int(c.tiles) {
		for r := range results {
			sums := unsafe.Slice((*float32)(unsafe.Add(c.dst, 4*t*n+r*int(c.dstPlane))), n)
			clear(sums)
			for i := range int(c.channels) {
				for k := range int(c.taps) {
					w := *(*float32)(unsafe.Add(c.w, r*int(c.wResult)+i*int(c.wRow)+4*k))
					x := unsafe.Slice((*float32)(unsafe.Add(c.src, 4*t*n+i*int(c.srcRow)+k*int(c.srcTap))), n)
					for j := range sums {
						sums[j] += w * x[j]
					}
				}
			}
		}
	}
}
