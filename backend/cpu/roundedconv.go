package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/kernel/quant"
	"github.com/carve-dev/carve/internal/place"
)

// Convolutions and products of 8-bit integers whose results are such integers again. Where there are kernels that round sums as they make
// them, sums are nowhere in memory.

// roundedConv emits a convolution whose result is at dst.
func (p *planner) roundedConv(n *graph.Node, x, w integerOperand, y *graph.Value, r *roundedSums, dst place.Memory) error {
	c, err := newIntegerConv(n, p.Dims[x.v.ID], p.Dims[w.v.ID], p.Dims[y.ID])
	if err != nil {
		return err
	}
	if f, err := p.filters(c, x, w, y, r); f != nil || err != nil {
		if err == nil {
			p.emitFilters(c, f, x, dst)
		}
		return err
	}
	if f, err := p.lineFilters(c, x, w, y, r); f != nil || err != nil {
		if err == nil {
			p.emitLines(c, f, x, dst)
		}
		return err
	}
	c.rounds = w.constant() && p.roundsSums(c, w, r)
	if err := p.beforeSums(c, x, w, y, r.add); err != nil {
		return err
	}
	if !c.rounds || c.squares != nil || c.zeros.Slot >= 0 {
		p.emitConvSums(c, r.convFinish(p, c, dst), nil, []place.Memory{dst})
	} else {
		p.emitRoundedConv(c, p.widened(c, w), r.rounding(), dst)
	}
	return nil
}

// roundsSums reports whether kernels round the sums of a convolution as they make them; where weights have zero points those do that read words.
func (p *planner) roundsSums(c *integerConv, w integerOperand, r *roundedSums) bool {
	if c.depthwise || r.act.some || w.centred() {
		return !c.depthwise && p.roundsWith(r, c.pixels(), c.depth(), c.oc)
	}
	return p.integers.RoundsWords(c.depth() / 4)
}

// widened returns the weights in panels of words, nil where kernels that round sums read bytes.
func (p *planner) widened(c *integerConv, w integerOperand) []int16 {
	if !p.integers.WidensPanels() {
		return nil
	}
	return c.made.words.of(func() []int16 {
		return p.integers.Words(c.panelsOf(w), c.depth()/4, c.groups*c.panels(), c.product.Signed, c.about, c.c)
	})
}

// roundsWith reports whether kernels round the sums of a product of so many rows, depth and columns so as they make them.
func (p *planner) roundsWith(r *roundedSums, rows, depth, columns int) bool {
	return !r.act.some && p.integers.Rounds(rows, quant.Quads(depth), quant.Panels(columns))
}

// rounding returns what kernels that round sums take.
func (r *roundedSums) rounding() *quant.Rounding {
	return quant.NewRounding(r.factors, r.bias, r.levels, r.lo, r.hi)
}

// Bounds of a part of a product that is rounded: as many products as some 5 µs take, without and with tiles, and rows that stay in the second-level
// cache.
const (
	roundedProducts = 1 << 19
	roundedByTiles  = 1 << 22
	roundedRows     = 384
)

// roundedPart returns the rows of a part, of so many rows and columns, where each sum has that many products.
func (p *planner) roundedPart(rows, columns, depth int) int {
	cols := min(columns, sumPanels*quant.Panel) // about as many as a part has
	least := float64(roundedProducts)
	if p.integers.Tiles() {
		least = roundedByTiles
	}
	work := max(least, float64(rows)*float64(columns)*float64(depth)/float64(4*p.e.threads))
	return min(max(int(work/float64(cols*depth)), 2*quant.Height), roundedRows, max(rows, 1))
}

// tileScratch returns memory in which kernels round the sums of tiles, nowhere where they make none.
func (p *planner) tileScratch() scratch {
	if !p.integers.Tiles() {
		return scratch{at: place.Nowhere}
	}
	return p.scratch(4 * quant.TileSums)
}

// emitRoundedConv emits a convolution whose sums are rounded as they are made: to pixels, or to scratch memory, from which they are
// transposed. words are the weights, widened, or nil.
func (p *planner) emitRoundedConv(c *integerConv, words []int16, r *quant.Rounding, dst place.Memory) {
	d := p.parts(c, p.roundedPart(c.images*c.groups*c.pixels(), c.oc, c.depth()))
	ld, pixels, outputs, kernels := d.wide*quant.Panel, c.pixels(), c.outputs(), p.integers
	near, offsets, tiles := scratch{at: place.Nowhere}, p.scratch(8*d.rows), p.tileScratch()
	if !c.last {
		near = p.scratch(d.rows * ld)
	}
	st := step{work: 1, chunks: c.images * d.count(), grain: p.productGrain(d.rows, ld, c.depth())}
	st.body = func(st *state, worker, lo, hi int) {
		windows, y, sums := asInts(offsets.bytes(st, worker)), st.Bytes(dst), tiles.of(st, worker)
		for i := lo; i < hi; i++ {
			part := d.at(i)
			c.windows(windows[:part.rows], part.row)
			a, b, start := c.operands(st, &part)
			product := c.product
			if words != nil {
				product.Words = words[(part.group*c.panels()+part.panel)*quant.Panel*c.depth():]
			}
			if c.last {
				to := y[(part.image*pixels+part.row)*outputs+part.col:]
				kernels.MultiplyRounded(&product, to, outputs, a, windows[:part.rows], b, start, r, part.col, part.cols, sums)
				continue
			}
			x := near.bytes(st, worker)
			kernels.MultiplyRounded(&product, x, ld, a, windows[:part.rows], b, start, r, part.col, part.cols, sums)
			kernels.Transpose(y[(part.image*outputs+part.col)*pixels+part.row:], x, part.rows, part.cols, ld, pixels)
		}
	}
	p.emit(st, []place.Memory{c.image, c.packed, c.starts}, []place.Memory{dst, offsets.at, near.at, tiles.at})
}

// emitRoundedSums emits a product whose result is at dst, a matrix.
func (p *planner) emitRoundedSums(s *sums, r *roundedSums, dst place.Memory) {
	if s.zeros.Slot >= 0 || s.offs.Slot >= 0 || !p.roundsWith(r, s.m, s.k, s.n) {
		p.emitSums(s, r.finish(p, dst, s.n), nil, []place.Memory{dst})
		return
	}
	rounding, kernels, tiles := r.rounding(), p.integers, p.tileScratch()
	rows := p.roundedPart(s.m*len(s.a), s.n, s.k)
	p.emitParts(s, rows, func(st *state, worker int, part sumsPart) {
		sums := tiles.of(st, worker)
		to := st.Bytes(dst)[part.row*s.n+part.col:]
		kernels.MultiplyRounded(&s.product, to, s.n, part.a, part.at, part.b, part.start, rounding, part.col, part.cols, sums)
	}, nil, []place.Memory{dst, tiles.at})
}
