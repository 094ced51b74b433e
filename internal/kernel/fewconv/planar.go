package fewconv

import (
	"fmt"
	"unsafe"

	"github.com/carve-dev/carve/internal/kernel/isa"
)

// PlanarTile is how many results of a planar convolution are computed at a time, at most.
const PlanarTile = 4

// mostKept bounds the floats of a copy of what a tile reads, where that is not all in the source.
const mostKept = 1 << 18

// Planar is a convolution at stride 1 of row-major tensors, in groups or not, made ready for given shapes. Its lanes are pixels, and a result is one sum in
// the order channel, row, tap. It is immutable and safe for concurrent use.
type Planar struct {
	Spec
	groups, c, oc int // channels and results of a group
	set           isa.Set
	reach         int    // columns that a result's taps span, less one
	rows, columns int    // of a chunk
	steps         [3]int // parts of columns, bands of rows, and groups of all images
}

// FitsPlanar reports whether what the taps of a tile read in so many channels of a group is little enough for a Planar.
func FitsPlanar(channels int, kernel, dilation [2]int) bool {
	for _, n := range []int{channels, kernel[0], kernel[1], dilation[1]} {
		if n < 1 || n >= mostKept {
			return false
		}
	}
	return channels*kernel[0] <= mostKept && channels*kernel[0]*((kernel[1]-1)*dilation[1]+planarPixels(1)) <= mostKept
}

// NewPlanar plans a convolution in groups for a target: [N, C, H, W] with weights [OC, C/groups, KH, KW] gives [N, OC, OH, OW]. Taps outside of the
// source read zeros. The error wraps ErrShape.
func NewPlanar(t isa.Target, s Spec, groups int) (*Planar, error) {
	for _, n := range []int{s.N, s.C, s.OC, s.OH, s.OW, groups} {
		if n < 1 {
			return nil, fmt.Errorf("%w: %+v", ErrShape, s)
		}
	}
	if err := s.Check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrShape, err)
	}
	if s.Stride != [2]int{1, 1} || s.C%groups+s.OC%groups != 0 || !FitsPlanar(s.C/groups, s.Kernel, s.Dilate) {
		return nil, fmt.Errorf("%w: %+v", ErrShape, s)
	}
	if s.SrcImage == 0 {
		s.SrcImage = s.C * s.H * s.W
	}
	p := &Planar{Spec: s, groups: groups, c: s.C / groups, oc: s.OC / groups, set: t.Set, reach: (s.Kernel[1] - 1) * s.Dilate[1], rows: 1}
	tile := planarPixels(1)
	p.columns = max(1, chunkSteps*16/(p.oc*p.c*s.Kernel[0]*s.Kernel[1]*tile)) * tile
	if p.columns >= s.OW {
		p.rows, p.columns = min(s.OH, p.columns/s.OW), s.OW
	}
	p.steps = [3]int{(s.OW + p.columns - 1) / p.columns, (s.OH + p.rows - 1) / p.rows, s.N * groups}
	return p, nil
}

// Chunks returns the number of independent chunks.
func (p *Planar) Chunks() int { return p.steps[0] * p.steps[1] * p.steps[2] }

// Cost is the work of all chunks in multiply-adds of 16 lanes.
func (p *Planar) Cost() int {
	return (p.N*p.OH*p.OW*p.OC*p.c*p.Kernel[0]*p.Kernel[1] + 15) / 16
}

// kept returns how many floats of a row a tile of so many pixels reads.
func (p *Planar) kept(tile int) int { return tile + p.reach }

// Scratch returns how many floats a call of Run needs beside its operands.
func (p *Planar) Scratch() int { return p.c*p.Kernel[0]*p.kept(planarPixels(1)) + planarPixels(1) }

// Run computes chunks [lo, hi) out of Chunks(). Chunks write disjoint parts of dst, which may not overlap src. Slices that are too short and a range outside of the
// chunks panic.
func (p *Planar) Run(lo, hi int, dst, src, weights, scratch []float32) {
	if lo < 0 || hi > p.Chunks() || lo > hi {
		panic("fewconv: chunk range outside of the plan")
	}
	size, taps := p.OH*p.OW, p.Kernel[0]*p.Kernel[1]
	_, _, _, _ = dst[p.N*p.OC*size-1], src[(p.N-1)*p.SrcImage+p.C*p.H*p.W-1], weights[p.OC*p.c*taps-1], scratch[p.Scratch()-1]
	for i := lo; i < hi; i++ {
		x, y, n := i%p.steps[0]*p.columns, i/p.steps[0]%p.steps[1]*p.rows, i/p.steps[0]/p.steps[1]
		image, group := n/p.groups, n%p.groups
		b := block{Planar: p, src: src[image*p.SrcImage+group*p.c*p.H*p.W:][:p.c*p.H*p.W], scratch: scratch}
		for first := 0; first < p.oc; first += PlanarTile {
			o := group*p.oc + first
			b.results, b.dst, b.weights = min(PlanarTile, p.oc-first), dst[(image*p.OC+o)*size:], weights[o*p.c*taps:]
			for row := y; row < min(y+p.rows, p.OH); row++ {
				b.row(row, x, min(x+p.columns, p.OW))
			}
		}
	}
}

// block computes some results of a group of an image.
type block struct {
	*Planar
	results                    int
	dst, src, weights, scratch []float32
	call                       planarCall
}

// planarCall is the argument of a kernel: tiles beside each other. Distances are in bytes. The generator checks the offsets of the fields.
type planarCall struct {
	src, w, dst                 unsafe.Pointer
	tiles, channels, rows, taps int64
	srcRow, srcJump, srcTap     int64 // between rows that taps read, from the last one of a channel to the next channel's first, and between taps
	wRow, wResult, dstPlane     int64
}

// row computes columns [from, to) of row y.
func (b *block) row(y, from, to int) {
	tile, top := planarPixels(b.results), y-b.Pad[0]
	inside := top >= 0 && top+(b.Kernel[0]-1)*b.Dilate[0] < b.H
	for x := from; x < to; {
		left, n := x-b.Pad[1], 0
		if inside && left >= 0 { // tiles that lie inside of the source as a whole
			n = min((to-x)/tile, (b.W-b.reach-left)/tile)
		}
		out := b.dst[y*b.OW+x:]
		if n > 0 {
			b.tiles(n, b.src[top*b.W+left:], b.W*b.Dilate[0], b.H*b.W, out, b.OH*b.OW)
			x += n * tile
			continue
		}
		width, length := min(tile, to-x), b.kept(tile)
		rows, sums := b.scratch[:b.c*b.Kernel[0]*length], b.scratch[b.c*b.Kernel[0]*length:]
		for c := range b.c {
			for k := range b.Kernel[0] {
				b.keep(rows[(c*b.Kernel[0]+k)*length:][:length], c, top+k*b.Dilate[0], left, width+b.reach)
			}
		}
		b.tiles(1, rows, length, b.Kernel[0]*length, sums, tile)
		for r := range b.results {
			copy(out[r*b.OH*b.OW:][:width], sums[r*tile:])
		}
		x += width
	}
}

// keep copies count numbers of row y of a channel to dst, from column x on. What is not in the source is zero, and so is the rest of dst.
func (b *block) keep(dst []float32, channel, y, x, count int) {
	lo, hi := min(max(0, -x), count), max(0, min(count, b.W-x))
	if y < 0 || y >= b.H || lo >= hi {
		clear(dst)
		return
	}
	clear(dst[:lo])
	copy(dst[lo:hi], b.src[(channel*b.H+y)*b.W+x+lo:])
	clear(dst[hi:])
}

// tiles computes tiles beside each other whose source begins at src, with row floats between the rows that taps read and plane between channels, into rows
// of dst that lie apart floats from each other.
func (b *block) tiles(tiles int, src []float32, row, plane int, dst []float32, apart int) {
	taps := b.Kernel[0] * b.Kernel[1]
	b.call = planarCall{src: unsafe.Pointer(&src[0]), w: unsafe.Pointer(&b.weights[0]), dst: unsafe.Pointer(&dst[0]),
		tiles: int64(tiles), channels: int64(b.c), rows: int64(b.Kernel[0]), taps: int64(b.Kernel[1]),
		srcRow: int64(4 * row), srcJump: int64(4 * (plane - b.Kernel[0]*row)), srcTap: int64(4 * b.Dilate[1]),
		wRow: int64(4 * b.Kernel[1]), wResult: int64(4 * b.c * taps), dstPlane: int64(4 * apart)}
	planarSums(b.set, b.results, &b.call)
}

// planarPixels returns how many pixels a tile of so many results has.
func planarPixels(results int) int { return [PlanarTile + 1]int{0, 96, 48, 32, 24}[results] }

// genericPlanarSums is the portable version of the kernels.
func genericPlanarSums(results int, c *planarCall) {
	n := planarPixels(results)
	for t := range int(c.tiles) {
		for r := range results {
			sums := unsafe.Slice((*float32)(unsafe.Add(c.dst, 4*t*n+r*int(c.dstPlane))), n)
			clear(sums)
			src, w := unsafe.Add(c.src, 4*t*n), unsafe.Add(c.w, r*int(c.wResult))
			at := 0
			for i := range int(c.channels * c.rows) {
				for k := range int(c.taps) {
					weight := *(*float32)(unsafe.Add(w, i*int(c.wRow)+4*k))
					x := unsafe.Slice((*float32)(unsafe.Add(src, at+k*int(c.srcTap))), n)
					for j := range sums {
						sums[j] += weight * x[j]
					}
				}
				if at += int(c.srcRow); (i+1)%int(c.rows) == 0 {
					at += int(c.srcJump)
				}
			}
		}
	}
}
