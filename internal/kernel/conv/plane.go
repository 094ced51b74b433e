package conv

import "github.com/carve-dev/carve/internal/kernel/isa"

// mostListed is how many taps the lists of a plan may have, of 32 bytes each: at the edges of a map each tile has a list of its own, which of
// large kernels would take gigabytes.
const mostListed = 1 << 21

// plane makes the tile tables.
func (p *Plan) plane(padded *Map) error {
	s := &p.spec
	lattices := p.lattices(padded)
	flat := p.needsWeight && s.flat()
	main := p.tiles[0].tileShape
	for _, t := range p.tiles {
		if t.count == 2 && !t.half {
			main = t.tileShape
		}
	}
	var rows, cols int
	for i := range lattices {
		rows, cols = max(rows, lattices[i].y.n), max(cols, lattices[i].x.n)
	}
	p.wide = p.fillsWide(cols)
	k := p.kernel(main)
	g := k.geometry
	pairs := !flat && p.pairsRows(k, rows, cols)
	segment := p.segment(g.pixels)
	if !flat {
		segment = max(segment, 4*g.pixels)
	}
	if !flat && (pairs || rows > fewRows || cols < longRow || s.Transposed && s.Stride[0] > 1) {
		segment = max(1, cols) // units are whole rows
		if p.order == orderDense && s.Kernel == [2]int{1, 1} && !s.Transposed && !pairs && cols*s.pixelBytes()*p.blocks > p.shared() {
			tiles := (cols + g.pixels - 1) / g.pixels
			segment = (cols + tiles - 1) / tiles // or tiles: all output channels read those pixels
		}
	}
	if n := p.listed(); n > 0 && !pairs { // one call has all source channels
		segment = min(segment, max(1, maxCallSteps/(n*s.Kernel[0]*s.Kernel[1]*g.pixels))*g.pixels)
	}
	tables := map[tileShape]*table{}
	for i := range p.tiles {
		ct := &p.tiles[i]
		if ct.table = tables[ct.tileShape]; ct.table != nil {
			continue
		}
		if p.order == orderMixed {
			p.rangePieces(lattices, ct.tileShape)
		}
		k := p.kernel(ct.tileShape)
		t := newTable(k)
		t.pairs = pairs && p.pairsRows(k, rows, cols)
		t.width = p.tileWidth(k.geometry)
		if flat {
			one := lattices[0]
			t.flat(&one, segment)
		} else {
			t.rowUnits(lattices, rows, cols, segment, pairs)
		}
		if t.overflows() {
			return failf("plan", ErrUnsupported, "kernel %v over %dx%d pixels of %dx%d: more than %d taps of tiles", s.Kernel, s.OH, s.OW, s.H, s.W, mostListed)
		}
		t.done()
		ct.table, tables[ct.tileShape] = t, t
	}
	p.spansOf(flat, pairs, segment, rows, cols)
	return nil
}

// fillsWide reports whether tiles of 14 pixels are wanted where others have fewer: of depthwise kernels, of which smaller tiles have the faster code for
// rows, where there is none, and for three taps at stride 2 (on an AMD Zen 4 with AVX2 0.6 to 0.8 of the time for seven taps, 0.8 to 0.96 at stride 2).
func (p *Plan) fillsWide(cols int) bool {
	s := &p.spec
	taps, step := s.Kernel[1], s.Stride[1]
	coded := (taps == 3 || taps == 5) && step <= 2 && s.Dilate[1] == 1 && !s.Transposed
	return p.kind == kindDepth && (!coded || taps == 3 && step == 2 && (cols == 7 || cols%14 == 0))
}

// pairsRows reports whether tiles are of two rows: where a row fits a group of pixels, and where that leaves fewer tiles of few results behind,
// so that it is worth that rows come from memory two at a time, of which processors foresee less (16x16 at stride 16, 3 to 768 channels of 224x224 pixels, 0.92 of the time on an AMD Zen 2).
func (p *Plan) pairsRows(k tileKernel, rows, cols int) bool {
	g := k.geometry
	if rows < 2 || g.pixels != 2*g.group {
		return false
	}
	if cols <= g.group {
		return true
	}
	if !p.dense() || p.spec.Transposed || p.order == orderPlanar && p.codesRows(k) || g.pixels >= tilePixels || p.target.Set != isa.AVX2 && !p.splits512() {
		return false
	}
	var row, pair int
	cut(cols, g.pixels, func(_, n int) { row += g.stepCost(n) })
	cut(cols, g.group, func(_, n int) { pair += g.stepCost(2 * n) })
	return pair < 2*row*pairsGain/100
}

// codesRows reports whether a kernel has code for whole rows of the convolution's kernel, which is for tiles of one row.
func (p *Plan) codesRows(k tileKernel) bool {
	for r := range k.places.rows {
		if r.kernel == p.spec.Kernel[1] {
			return true
		}
	}
	return false
}

// pairsGain is what tiles of two rows may take at most, in percent of what those of one do.
const pairsGain = 97

// stepCost is what a multiply-add of n pixels of a tile takes, in hundredths of a cycle: of two vectors each, by two units that take four cycles for one,
// and more where few sums leave them no slack (measured with AVX2 on an AMD Zen 4: 6 pixels 6.1 cycles, 5 5.3, 4 4.35).
func (g geometry) stepCost(n int) int {
	if n == g.pixels {
		return 100*n + 10
	}
	return 100*max(n, 4) + 30
}

// rangePieces has the taps of lattices read the channels of a tile, which lie in several blocks.
func (p *Plan) rangePieces(ls []lattice, t tileShape) {
	s := &p.spec
	var pieces []piece
	t.reads.pieces(func(block, lane, count, before int) {
		from, to := max(t.skip-before, 0), min(t.reads.count-t.after-before, count)
		if from >= to {
			return
		}
		words := s.lanes() // of 16 channels
		pieces = append(pieces, piece{src: block*s.H*s.W*s.pixelBytes() + (lane+from)*words/4, w: 4*words*before*s.Kernel[0]*s.Kernel[1] + 4*words*from,
			tapBytes: 4 * words * count, steps: (to - from) * words / 16})
	})
	for i := range ls {
		ls[i].pieces = pieces
	}
}

// Where wide vectors are computed in halves, a store of one takes two cycles, and while some 20 of them wait for their turn no multiply-add
// of the next tile begins. So a tile of a short sum, which has hardly begun when it is stored, has fewer results than registers could hold,
// yet as many as hide how long a multiply-add takes.
const (
	shortSum     = 128 // multiply-adds of a result
	shortResults = 12  // vectors of results
)

// tileWidth returns how many pixels of a row a tile has at most.
func (p *Plan) tileWidth(g geometry) int {
	s := &p.spec
	if !p.dense() || !p.splits512() || s.C/s.Groups*s.Kernel[0]*s.Kernel[1] > shortSum {
		return g.pixels
	}
	return min(g.pixels, shortResults/g.blocks)
}

// flat makes units of segments of a map that is one long row.
func (t *table) flat(l *lattice, segment int) {
	l.x.n, l.y.n = l.x.n*l.y.n, 1
	l.x.size, l.y.size = l.x.size*l.y.size, 1
	eachSegment(l.x.n, segment, func(from, n int) {
		t.unit = append(t.unit, int32(len(t.tiles)))
		t.addRow(0, l, 0, from, n)
	})
	t.unit = append(t.unit, int32(len(t.tiles)))
}

// eachSegment cuts n pixels into segments; a short rest joins the last one.
func eachSegment(n, segment int, f func(from, n int)) {
	for from := 0; from < n; {
		w := min(segment, n-from)
		if rest := n - from - w; rest < segment/4 {
			w += rest
		}
		f(from, w)
		from += w
	}
}

// rowUnits makes units of segments of one row, or of two whole rows, of every lattice; the widest has cols columns.
func (t *table) rowUnits(ls []lattice, rows, cols, segment int, pairs bool) {
	step := 1
	if pairs {
		step = 2
	}
	for row := 0; row < rows; row += step {
		eachSegment(max(1, cols), segment, func(from, n int) {
			t.unit = append(t.unit, int32(len(t.tiles)))
			for id := range ls {
				l := &ls[id]
				switch n := min(n, l.x.n-from); {
				case row >= l.y.n || n <= 0:
				case t.pairs:
					t.addPair(id, l, row)
				default:
					for r := row; r < min(row+step, l.y.n); r++ {
						t.addRow(id, l, r, from, n)
					}
				}
			}
		})
	}
	t.unit = append(t.unit, int32(len(t.tiles)))
}

// spansOf computes the part of a channel plane that each unit fills.
func (p *Plan) spansOf(flat, pairs bool, segment, rows, cols int) {
	s := &p.spec
	if flat {
		eachSegment(s.H*s.W, segment, func(from, n int) { p.spans = append(p.spans, span{16 * from, 16 * (from + n)}) })
		return
	}
	per, apart := 1, 1
	if s.Transposed {
		per, apart = s.Stride[0], s.Stride[1]
	}
	step := per
	if pairs {
		step *= 2
	}
	for row := 0; row < rows*per; row += step {
		lo, hi := s.OW*min(row, s.OH), s.OW*min(row+step, s.OH)
		eachSegment(max(1, cols), segment, func(from, n int) {
			end := hi
			if from+n < cols {
				end = min(hi, lo+apart*(from+n))
			}
			p.spans = append(p.spans, span{16 * min(hi, lo+apart*from), 16 * end})
		})
	}
}

// lattices returns the sets of output pixels of the spec.
func (p *Plan) lattices(padded *Map) []lattice {
	s := &p.spec
	base := lattice{sourceRow: s.W, sourcePixel: s.pixelBytes(), kernelWidth: s.Kernel[1], down: s.Dilate[0], padded: padded}
	whole := piece{tapBytes: 64}
	switch p.order {
	case orderDense:
		whole.tapBytes, whole.steps = 64*s.lanes(), s.lanes()
		if p.proto.tail != 0 {
			base.tail = []piece{{tapBytes: whole.tapBytes, steps: ceilDiv(s.C%16*s.lanes(), 16)}}
		}
	case orderPlanar:
		whole.steps, base.merge = 1, 1
	case orderLanes:
		whole.tapBytes, whole.steps = 64*s.C/s.Groups, s.C/s.Groups
	case orderMixed, orderDepth, orderNone:
	}
	base.pieces = []piece{whole}
	if p.order == orderPlanar { // a list of taps for all channels, of which there are few
		for c := 1; c < s.C; c++ {
			next := whole
			next.src, next.w = 4*c*s.H*s.W, 64*c*s.Kernel[0]*s.Kernel[1]
			base.pieces = append(base.pieces, next)
		}
	}
	if !p.dense() && p.kind != kindLanes {
		base.countsPixels, base.merge = p.kind == kindSum, s.Dilate[1]
	}
	if !s.Transposed {
		base.y = convAxis(s.H, s.OH, s.Kernel[0], s.Stride[0], s.Dilate[0], s.Pad[0])
		base.x = convAxis(s.W, s.OW, s.Kernel[1], s.Stride[1], s.Dilate[1], s.Pad[1])
		base.dstRow, base.dstCol = s.OW, 1
		return []lattice{base}
	}
	var out []lattice
	for py := range min(s.Stride[0], s.OH) {
		for px := range min(s.Stride[1], s.OW) {
			l := base
			l.y = phaseAxis(s.H, s.OH, s.Kernel[0], s.Stride[0], s.Dilate[0], s.Pad[0], py)
			l.x = phaseAxis(s.W, s.OW, s.Kernel[1], s.Stride[1], s.Dilate[1], s.Pad[1], px)
			l.dst = py*s.OW + px
			l.dstRow, l.dstCol = s.Stride[0]*s.OW, s.Stride[1]
			out = append(out, l)
		}
	}
	return out
}
