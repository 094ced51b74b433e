package cpu

import (
	"sync"

	"github.com/carve-dev/carve/internal/kernel/quant"
	"github.com/carve-dev/carve/internal/place"
)

// Dense convolutions of 8-bit integers by 3 x 3 taps, where kernels make them with fewer products: by tiles of 2 x 2 results.

// onceWords are the weights of a node in another form, made when they are first asked for.
type onceWords struct {
	once  sync.Once
	words []int16
}

func (o *onceWords) of(make func() []int16) []int16 {
	o.once.Do(func() { o.words = make() })
	return o.words
}

// Bounds of what is made by tiles: below leastSquares tiles of an image the weights, 3.6 times as many bytes, take longer to read than is saved. squareTiles is about
// how many are transformed at a time, and squareWords the most words that they become, which stay in the second-level cache.
const (
	leastSquares = 24
	squareTiles  = 32
	squareWords  = 1 << 17
)

// takeSquares has a convolution made by tiles where that takes less time, and its image padded to whole tiles.
func (p *planner) takeSquares(c *integerConv, w integerOperand) {
	one := [2]int{1, 1}
	most := quant.SquareChannels
	if !w.centred() {
		most = quant.SquareChannelsAbout
	}
	if !p.integers.Squares() || c.groups != 1 || w.v.Format == rowMaj || c.Kernel != [2]int{3, 3} || c.Stride != one || c.Dilate != one || c.c%quant.Panel != 0 || c.c > most {
		return
	}
	down, across := ceilDiv(c.OH, 2), ceilDiv(c.OW, 2)
	if down*across < leastSquares || 3*c.OH*c.OW < 2*4*down*across { // results that there are not take time too
		return
	}
	c.rows, c.cols = max(c.rows, 2*down+2), max(c.cols, 2*across+2)
	c.squares = &quant.Squares{Channels: c.c, Panels: c.panels(), Line: c.cols * c.pixel(), Signed: w.signed()}
}

// emitSquares emits the sums of such a convolution: of some rows of tiles at a time, whose pixels are transformed, and some panels.
func (p *planner) emitSquares(c *integerConv, done convFinish, reads, writes []place.Memory) {
	s, kernels := c.squares, p.integers
	down, across := ceilDiv(c.OH, 2), ceilDiv(c.OW, 2)
	high := ceilDiv(down, ceilDiv(down*across, max(min(squareTiles, squareWords/s.PixelWords(1)), 1))) // rows of tiles of a part
	downs, acrosses := ceilDiv(down, high), 1
	if p.e.threads > 1 {
		acrosses = min(ceilDiv(4*p.e.threads, max(c.images*downs, 1)), ceilDiv(s.Panels, sumWide))
	}
	each, wide := ceilDiv(s.Panels, acrosses), min(sumPanels, s.Panels)
	ld := wide * quant.Panel
	pixels, products, sums := p.scratch(2*s.PixelWords(high*across)), p.scratch(4*quant.SquarePoints*high*across*quant.Panel), p.scratch(4*2*high*c.OW*ld)
	st := step{work: 1, chunks: c.images * downs * acrosses, grain: p.productGrain(2*high*c.OW, each*quant.Panel, c.depth()/2)}
	st.body = func(st *state, worker, lo, hi int) {
		words, m, x, starts := place.Elements[int16](pixels.bytes(st, worker)), products.of(st, worker), sums.of(st, worker), of[int32](st, c.starts)
		for i := lo; i < hi; i++ {
			image, row, panel := i/(downs*acrosses), i%downs*high, i/downs%acrosses*each
			rows := min(high, down-row)
			tiles := rows * across
			a := st.Bytes(c.image)[image*c.rows*s.Line:]
			for y := range rows {
				kernels.SquarePixels(s, words, a[2*(row+y)*s.Line:], y*across, across, tiles)
			}
			for last := min(panel+each, s.Panels); panel < last; panel += wide {
				n := min(wide, last-panel)
				for j := range n {
					kernels.SquareProducts(s, m, words, panel+j, tiles)
					for y := range rows {
						kernels.SquareSums(s, x[2*y*c.OW*ld+j*quant.Panel:], ld, m, starts[(panel+j)*quant.Panel:], y*across, tiles, c.OW, min(2, c.OH-2*(row+y)))
					}
				}
				col := panel * quant.Panel
				done(st, x, ld, image, 2*row*c.OW, min(2*rows, c.OH-2*row)*c.OW, col, min(n*quant.Panel, c.oc-col))
			}
		}
	}
	p.emit(st, append([]place.Memory{c.image, c.starts}, reads...), append([]place.Memory{pixels.at, products.at, sums.at}, writes...))
}
