package conv

import (
	"unsafe"

	"github.com/carve-dev/carve/internal/kernel/amx"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/pairs"
)

// Convolutions of bfloat16 whose windows lie inside of their source are computed by tiles (package amx), where the target has them: the rows of a tile of A are
// windows of neighbouring results of a row, and k goes through blocks of channels, rows of the kernel and, at once, the pixels of such a row, as weights have it.

const (
	windowSegments = 16 // of k that are multiplied before the next
)

// TakesWindows reports whether a convolution is computed by tiles on a target where its windows lie inside of its source.
func TakesWindows(t isa.Target, s *Spec) bool {
	return t.BFloat16Tiles() && s.Pairs == pairs.BFloat16 && s.Source == Blocked && s.Groups <= 1 && !s.Transposed
}

// inside reports whether all windows lie inside of the source.
func (s *Spec) inside() bool {
	for i, size := range [2]int{s.H, s.W} {
		if s.Pad[i] != 0 || ([2]int{s.OH, s.OW}[i]-1)*s.Stride[i]+(s.Kernel[i]-1)*s.Dilate[i] >= size {
			return false
		}
	}
	return true
}

// buildWindows is build of a convolution by tiles of windows.
func (p *Plan) buildWindows() error {
	if err := p.sizes(); err != nil {
		return err
	}
	s := &p.spec
	pixel := s.pixelBytes()
	taps := 1 // of a segment
	if s.Dilate[1] == 1 {
		taps = s.Kernel[1]
	}
	for b := range p.blocks {
		for y := range s.Kernel[0] {
			for x := 0; x < s.Kernel[1]; x += taps {
				p.segments = append(p.segments, pixel*((b*s.H+y*s.Dilate[0])*s.W+x*s.Dilate[1]))
			}
		}
	}
	p.segmentWords = taps * s.lanes()
	p.tileChunks(s.OH, s.OW*len(p.segments)*p.segmentWords)
	return nil
}

// windowChunk computes rows [from, to) of an image and blocks [first, end) of its results.
func (p *Plan) windowChunk(t *Tensors, n, first, end, from, to int) {
	s := &p.spec
	work := amx.Borrow(t.biases(first, end))
	defer work.Return()
	w := windows{work: work, Product: amx.Product{Kind: amx.BFloat16, LDA: s.pixelBytes() * s.Stride[1], LDC: 4 * amx.Panel * (end - first), Words: p.segmentWords, Panels: end - first,
		LDB: amx.Block * len(p.segments) * p.segmentWords},
		segments: p.segments, row: s.pixelBytes() * s.W * s.Stride[0], start: unsafe.Pointer(&work.Start), sums: unsafe.Pointer(&work.Sums),
		b: unsafe.Pointer(&t.Weights[first*16*len(p.segments)*p.segmentWords])}
	f := p.finisher(first, end)
	cols, rows := min(s.OW, amx.WorkRows), max(1, amx.WorkRows/s.OW)
	for y := from; y < to; y += rows {
		for x := 0; x < s.OW; x += cols {
			w.rows, w.cols = min(rows, to-y), min(cols, s.OW-x)
			w.a = unsafe.Add(unsafe.Pointer(&t.Src[n*s.SrcImage]), y*w.row+x*w.LDA)
			w.multiply()
			f.Rows = w.rows * w.cols
			p.finish(&f, t, n, first, y*s.OW+x, w.sums)
		}
	}
	p.posted(t, n, first, end, from*s.OW, to*s.OW)
}

// windows is a rectangle of results of some panels: rows of cols neighbours.
type windows struct {
	amx.Product
	work              *amx.Workspace
	segments          []int
	rows, cols        int
	row               int // bytes from the windows of a row to those of the next
	a, b, start, sums unsafe.Pointer
}

// multiply computes the sums, row after row: of columns that fit a tile those of two rows at a time, of a single row two such parts.
func (w *windows) multiply() {
	parts := ceilDiv(w.cols, amx.Rows)
	column := func(i int) int { return w.cols * i / parts }
	if w.rows == 1 {
		for i := 0; i < parts; i += 2 {
			heights := [2]int{}
			for k := range min(2, parts-i) {
				w.tile(0, k, 0, column(i+k))
				heights[k] = column(i+k+1) - column(i+k)
			}
			w.pairs(heights[0], heights[1], 1)
		}
		return
	}
	for i := range parts {
		from, height := column(i), column(i+1)-column(i)
		for y := 0; y+1 < w.rows; {
			n := min(amx.WorkPairs, (w.rows-y)/2)
			for k := range 2 * n {
				w.tile(k/2, k%2, y+k, from)
			}
			w.pairs(height, height, n)
			y += 2 * n
		}
		if w.rows%2 != 0 {
			w.tile(0, 0, w.rows-1, from)
			w.pairs(height, 0, 1)
		}
	}
}

// tile sets where a tile of a pair lies, that begins at a column of a row.
func (w *windows) tile(pair, i, row, column int) {
	p := &w.work.Pairs[pair]
	p.A[i], p.C[i] = unsafe.Add(w.a, row*w.row+column*w.LDA), unsafe.Add(w.sums, (row*w.cols+column)*w.LDC)
}

// pairs multiplies n pairs of tiles of so many rows by all panels, some segments of k after the other.
func (w *windows) pairs(first, second, n int) {
	list := w.work.Pairs[:n]
	w.LDS = 0
	for i := range list {
		list[i].Start = [2]unsafe.Pointer{w.start, w.start}
	}
	for k := 0; k < len(w.segments); k += windowSegments {
		if k > 0 {
			w.Continue(list)
		}
		w.Segments = w.segments[k:min(k+windowSegments, len(w.segments))]
		w.Run(first, second, list, unsafe.Add(w.b, k*w.Words*amx.Block))
	}
}
