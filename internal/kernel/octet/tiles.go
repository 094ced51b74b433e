package octet

import (
	"sync"
	"unsafe"

	"github.com/carve-dev/carve/internal/kernel/amx"
)

// Bounds of what tiles multiply. Sums of a block go through memory, where they are scaled: some rows by some panels at a time, whose sums and
// results stay in the first-level cache. To configure tiles and to store their sums takes longer than the products of shorter blocks, or fewer rows, by
// vectors: on an Intel Emerald Rapids 32 rows by blocks of 128 weights of 8 bits take 0.87 of the time so, of 4 bits 0.97, 128 rows 0.72 and 0.81, blocks of
// 256 0.62 to 0.78, and blocks of 32 more than by vectors.
const (
	leastTileRows  = 32
	leastTileBlock = 128 // weights
	mostTileBlock  = 256
	tileWidth      = 4   // panels
	tileVectors    = 256 // of sums: rows times panels
	tilePairs      = tileVectors / amx.MatrixRows
)

// tileWork is memory for a call at a time, outside of stacks, which tiles may not be in.
type tileWork struct {
	sums    [tileVectors * Panel]int32
	results [tileVectors * Panel]float32
	weights [tileWidth * mostTileBlock * Panel]byte // of 4 bits, as bytes
	start   [tileWidth * Panel]int32                // zeros
	pairs   [tilePairs]amx.Pair
	segment [1]int
}

var tileWorks = sync.Pool{New: func() any { return new(tileWork) }}

// byTiles reports whether tiles multiply so many rows of integers of some digits.
func (k Kernels) byTiles(w *Weights, digits, rows int) bool {
	return k.tiles && digits == OneDigit && rows >= leastTileRows && w.Block >= leastTileBlock && w.Block <= mostTileBlock
}

// tilePanels is roundedPanels for many rows of one digit. Results are the same: sums of a block are exact, and scaled in the same order.
func (k Kernels) tilePanels(dst []float32, ldd int, x operand, rows int, w *Weights, p part, panels int) {
	t := tileWorks.Get().(*tileWork)
	for first := 0; first < panels; first += tileWidth {
		width := min(tileWidth, panels-first)
		most := tileVectors / width
		if parts := (rows + most - 1) / most; parts > 0 { // of rows, as even as can be
			most = (rows + parts - 1) / parts
		}
		for r := 0; r < rows; r += most {
			n := min(most, rows-r)
			clear(t.results[:n*width*Panel])
			k.tileBlocks(t, x.from(r), n, w, p, first, width)
			for i := range n {
				copy(dst[(r+i)*ldd+first*Panel:][:width*Panel], t.results[i*width*Panel:])
			}
		}
	}
	clear(t.pairs[:]) // which point to rows
	tileWorks.Put(t)
}

// tileBlocks adds the products of n rows with a few panels to results, block by block.
func (k Kernels) tileBlocks(t *tileWork, x operand, n int, w *Weights, p part, first, width int) {
	groups, lda, ld := w.groups(), x.lda, 4*width*Panel
	product := amx.Product{Kind: amx.SignedUnsigned, LDA: lda, LDC: ld, Segments: t.segment[:], Words: groups, Panels: width, LDB: w.panelBytes()}
	if w.Bits == 4 {
		product.LDB = groups * Group * Panel
	}
	pairs := (n + amx.MatrixRows - 1) / amx.MatrixRows
	height := (n + 2*pairs - 1) / (2 * pairs)
	for i := range 2 * pairs { // those that overlap have the same sums
		row := min(i*height, n-height)
		pair := &t.pairs[i/2]
		pair.A[i%2], pair.Start[i%2], pair.C[i%2] = unsafe.Pointer(&x.rounded[row*lda]), unsafe.Pointer(&t.start), unsafe.Pointer(&t.sums[row*width*Panel])
	}
	heads := x.rounded[w.integerBytes(OneDigit):]
	for b := range w.Blocks {
		t.segment[0] = b * groups * Group
		product.Run(height, height, t.pairs[:pairs], k.tileWeights(t, w, p, first, width, b))
		for i := range width {
			at := ((first+i)*w.Blocks + b) * Panel
			callScale(k.set, &t.results[i*Panel], &t.sums[i*Panel], ld, &heads[b*headBytes(OneDigit)], lda, &p.scales[at], &p.zeros[at], n)
		}
	}
}

// tileWeights returns where the weights of a block of some panels begin, as bytes.
func (k Kernels) tileWeights(t *tileWork, w *Weights, p part, first, width, block int) unsafe.Pointer {
	groups := w.groups()
	size := groups * Group * Panel * w.Bits / 8
	if w.Bits == 8 {
		return unsafe.Pointer(&p.bytes[first*w.panelBytes()+block*size])
	}
	for i := range width {
		callSplit(k.set, &t.weights[i*2*size], &p.bytes[(first+i)*w.panelBytes()+block*size], groups/2)
	}
	return unsafe.Pointer(&t.weights)
}
