package quant

import (
	"unsafe"

	"github.com/carve-dev/carve/internal/kernel/isa"
)

// Panel is the number of columns of a panel of B.
const Panel = 16

// Height is a number of rows at which all kernels divide a product without a rest.
const Height = 6

// Panels returns the number of panels of n columns.
func Panels(n int) int { return (n + Panel - 1) / Panel }

// Quads returns the number of quads of k elements, the last of which may have less than four.
func Quads(k int) int { return (k + 3) / 4 }

// PanelBytes returns the bytes of a panel of that many quads.
func PanelBytes(quads int) int { return 4 * Panel * quads }

// Product says where the elements of A lie that are multiplied by a panel of B. It is immutable while products are made.
type Product struct {
	// Segments says where the segments of a row of A begin, in elements from the row's own offset. A matrix has one at 0.
	Segments []int
	// Quads is the number of quads of k in each segment.
	Quads int
	// Signed says that B is int8 and A is uint8; else B is uint8 and A is int8.
	Signed bool
	// LDC is the distance of rows of the result, in elements, at least Panel.
	LDC int
	// Words, if not nil, are the panels of B as Kernels.Words widens them. With them sums that are rounded may take less time; results are the same.
	Words []int16
	// Columns, if not nil, are the sums of the columns of the panels of B, as ColumnSums writes them. With them products may take less
	// time; results are the same.
	Columns []int32
}

// tileParams is what a tile kernel reads beside its pointers. The generator knows the offsets of the fields.
type tileParams struct {
	segments *int
	count    int
	quads    int
	ldc      int // in bytes
	ldb      int // distance of panels of B, in bytes
	lda      int // distance of rows of A that were widened, in bytes
	lds      int // distance of rows of what sums begin with, in bytes

	rounding *limits // where sums become integers of 8 bits; else nil
	factors  *float32
	bias     *float32
	columns  uint64 // a bit for each column that is stored
	left     int    // columns that are not done
}

// reach returns how far a row reaches behind its offset.
func (p *Product) reach() int {
	far := 0
	for _, s := range p.Segments {
		far = max(far, s)
	}
	return far + 4*p.Quads
}

// Multiply writes c[r, j] = start[j] + Σ a[rows[r]+k]·b[k, j] for so many panels of 16 columns j, one behind the other, with k in the
// order of the segments: B [panels][quads of all segments][16][4]. Sums wrap around beyond 32 bits, which takes 65,000 products of
// the largest magnitudes. Rows and segments are offsets in a of at least 0; start has an element for each column of the panels.
func (k Kernels) Multiply(p *Product, c []int32, a []byte, rows []int, b []byte, start []int32, panels int) {
	n, quads := len(rows), len(p.Segments)*p.Quads
	if n == 0 || panels <= 0 {
		return
	}
	cc, ss := first(c, (n-1)*p.LDC+panels*Panel), first(start, panels*Panel)
	if quads == 0 {
		for r := range n {
			copy(c[r*p.LDC:], start[:panels*Panel])
		}
		return
	}
	p.check(a, rows)
	bb := first(b, panels*PanelBytes(quads))
	switch {
	case k.byTiles(rows, quads, panels):
		k.multiplyTiles(p, p.LDC, cc, unsafe.SliceData(a), rows, bb, ss, panels)
	case k.by == mixed && n >= Height:
		multiplyMatrices(k.set, p, cc, unsafe.SliceData(a), rows, bb, ss, panels)
	case k.by > paired:
		params := tileParams{ldc: 4 * p.LDC}
		k.multiplyBytes(p, &params, (*byte)(unsafe.Pointer(cc)), unsafe.SliceData(a), rows, bb, ss, panels)
	case k.pairs(n, quads, panels, p.Columns != nil):
		k.multiplyPairs(p, cc, unsafe.SliceData(a), rows, bb, ss, panels)
	case quads <= fewQuads: // less to clear
		var near [4 * Height * fewQuads]int16
		k.multiplyWide(p, near[:], cc, unsafe.SliceData(a), rows, bb, ss, panels)
	default:
		var near [4 * Height * nearQuads]int16
		k.multiplyWide(p, near[:], cc, unsafe.SliceData(a), rows, bb, ss, panels)
	}
}

// pairs reports whether products of so many rows, quads and panels are made in pairs, where the sums of columns are known or not.
func (k Kernels) pairs(rows, quads, panels int, summed bool) bool {
	return k.by == paired && (rows >= Height && panels >= fewPanels || rows < Height && summed) && quads*panels >= fewPairs
}

// check panics where rows are not all in a.
func (p *Product) check(a []byte, rows []int) {
	least, most := rows[0], rows[0]
	for _, r := range rows {
		least, most = min(least, r), max(most, r)
	}
	for _, s := range p.Segments {
		least = min(least, s)
	}
	a = a[:len(a):len(a)]
	_, _ = a[least:], a[most:most+p.reach()]
}

// callQuads is how many quads of rows and panels are multiplied in one call, which cannot be preempted: some 20 µs.
const callQuads = 1 << 15

// multiplyBytes multiplies with instructions that multiply bytes. params say where rows of the result lie, and how its sums are rounded.
func (k Kernels) multiplyBytes(p *Product, params *tileParams, c, a *byte, rows []int, b *byte, start *int32, panels int) {
	quads, size := len(p.Segments)*p.Quads, 4
	params.segments, params.count, params.quads, params.ldb = unsafe.SliceData(p.Segments), len(p.Segments), p.Quads, PanelBytes(quads)
	if params.rounding != nil {
		size = 1
	}
	n, row, width := len(rows), unsafe.SliceData(rows), 1
	if k.by == vnni {
		width = 4
	}
	var turned [Panel]int32
	for panels > 0 {
		for width > panels {
			width /= 2
		}
		from := start
		if k.by == dots {
			from = &turned[0]
			starts(k.set, p.Signed, from, start, b, quads)
		}
		at := func(row int) *int32 { return (*int32)(unsafe.Pointer(advance(c, row*params.ldc))) }
		params.columns = 1<<min(params.left, width*Panel) - 1
		step := max(1, callQuads/(quads*Height*width)) // tiles of a call
		for done := 0; n-done >= Height; {
			tiles := min(step, (n-done)/Height)
			callTile(k.set, k.by, p.Signed, Height, width, params, a, advance(row, done), b, from, at(done), tiles)
			done += tiles * Height
		}
		if rest := n % Height; rest > 0 {
			callTile(k.set, k.by, p.Signed, rest, width, params, a, advance(row, n-rest), b, from, at(n-rest), 1)
		}
		panels -= width
		if panels > 0 {
			b, start, c = advance(b, width*PanelBytes(quads)), advance(start, width*Panel), advance(c, size*width*Panel)
			params.pass(width * Panel)
		}
	}
}

// Quads of rows that are widened at a time: nearQuads where there are many, so that they stay in the first-level cache with those of
// a panel.
const (
	fewQuads  = 64
	nearQuads = 256
)

// multiplyWide multiplies integers of 16 bits: a few rows of A are widened, some quads at a time, and multiplied by all panels. Of few quads it is the rows of
// several tiles at a time.
func (k Kernels) multiplyWide(p *Product, near []int16, c *int32, a *byte, rows []int, b *byte, start *int32, panels int) {
	quads, most := len(p.Segments)*p.Quads, len(near)/(4*Height)
	params := tileParams{ldc: 4 * p.LDC, ldb: PanelBytes(quads)}
	for len(rows) > 0 {
		height, tiles := min(k.tallest(), len(rows)), 1
		if quads <= most {
			tiles = min(len(rows)/height, len(near)/(4*quads*height))
		}
		done := tiles * height
		for q := 0; q < quads; q += most {
			n := min(most, quads-q)
			params.quads, params.lda = n, 8*n
			k.widenSome(p, near, a, rows[:done], q, n)
			from := start
			if params.lds = 0; q > 0 {
				from, params.lds = c, params.ldc
			}
			k.callPanels(p.Signed, height, tiles, &params, &near[0], advance(b, q*4*Panel), from, c, panels)
		}
		if rows = rows[done:]; len(rows) > 0 {
			c = advance(c, done*p.LDC)
		}
	}
}

// callPanels multiplies rows that were widened, of so many tiles of a height, by so many panels.
func (k Kernels) callPanels(signed bool, height, tiles int, params *tileParams, near *int16, b *byte, start, c *int32, panels int) {
	for width := k.widest(); panels > 0; {
		if width > panels {
			width = 1
		}
		n := min(panels/width, max(1, callQuads/(params.quads*height*tiles*width)))
		callWide(k.set, signed, height, width, params, near, b, start, c, n, tiles)
		if panels -= n * width; panels > 0 {
			b, start, c = advance(b, n*width*params.ldb), advance(start, n*width*Panel), advance(c, n*width*Panel)
		}
	}
}

// tallest is the most rows of a tile of rows that were widened.
func (k Kernels) tallest() int {
	switch k.set {
	case isa.NEON:
		return 3
	case isa.Portable:
		return genericHeight
	case isa.AVX2, isa.AVX512:
	}
	return Height
}

// widest is the most panels of a tile of rows that were widened.
func (k Kernels) widest() int {
	if k.set == isa.AVX512 {
		return 2
	}
	return 1
}

// widenSome widens n quads of the segments of some rows, from quad q on, as widenRow does.
func (k Kernels) widenSome(p *Product, dst []int16, a *byte, rows []int, q, n int) {
	if n == len(p.Segments)*p.Quads {
		params := tileParams{segments: unsafe.SliceData(p.Segments), count: len(p.Segments), quads: p.Quads}
		widenRows(k.set, !p.Signed, &params, first(dst, 4*n*len(rows)), a, unsafe.SliceData(rows), len(rows))
		return
	}
	for r, row := range rows {
		k.widenRow(p, dst[4*n*r:][:4*n], advance(a, row), q, n)
	}
}

// plainSome widens all quads of the segments of some rows, each element in its place: rows that lie one behind the other as one.
func (k Kernels) plainSome(p *Product, dst []int16, a *byte, rows []int) {
	n, quads := len(rows), p.Quads
	if len(p.Segments) == 1 && n > 1 && oneBehindOther(rows, 4*quads) {
		n, quads = 1, n*quads
	}
	params := tileParams{segments: unsafe.SliceData(p.Segments), count: len(p.Segments), quads: quads}
	plainRows(k.set, !p.Signed, &params, first(dst, 4*n*len(p.Segments)*quads), a, unsafe.SliceData(rows), n)
}

// oneBehindOther reports whether rows lie at that distance.
func oneBehindOther(rows []int, distance int) bool {
	for i, r := range rows[1:] {
		if r-rows[i] != distance {
			return false
		}
	}
	return true
}

func genericPlainRows(signed bool, p *tileParams, dst *int16, a *byte, rows *int, n int) {
	for r, row := range view(rows, n) {
		for i, s := range view(p.segments, p.count) {
			to := view(advance(dst, 4*p.quads*(r*p.count+i)), 4*p.quads)
			for j, b := range view(advance(a, row+s), 4*p.quads) {
				to[j] = int16(number(b, signed))
			}
		}
	}
}

// genericWidenRows is widenRows by widen.
func genericWidenRows(set isa.Set, signed bool, p *tileParams, dst *int16, a *byte, rows *int, n int) {
	all := p.count * p.quads
	for r, row := range view(rows, n) {
		for i, s := range view(p.segments, p.count) {
			widen(set, signed, advance(dst, 4*all*r+2*p.quads*i), 4*all, advance(a, row+s), p.quads)
		}
	}
}

// widenRow widens n quads of the segments of a row, from quad q on: the even elements, then the odd ones.
func (k Kernels) widenRow(p *Product, dst []int16, row *byte, q, n int) {
	for at := 0; at < n; {
		from := (q + at) % p.Quads
		take := min(n-at, p.Quads-from)
		widen(k.set, !p.Signed, &dst[2*at], 4*n, advance(row, p.Segments[(q+at)/p.Quads]+4*from), take)
		at += take
	}
}

// genericWiden is the portable version of widen.
func genericWiden(signed bool, dst *int16, odd int, src *byte, n int) {
	even, other := view(dst, 2*n), view(advance(dst, odd/2), 2*n)
	for i, s := range view(src, 4*n) {
		to := even
		if i%2 != 0 {
			to = other
		}
		to[i/2] = int16(number(s, signed))
	}
}

// ColumnSums writes the sums of the columns of panels of B with so many quads, of int8 where signed is set, else of uint8. dst has an
// element for each column of the panels.
func (k Kernels) ColumnSums(dst []int32, b []byte, quads, panels int, signed bool) {
	const most = 1 << 10 // quads at a time
	var ones [4 * most]byte
	for i := range ones {
		ones[i] = 1
	}
	clear(dst[:panels*Panel])
	for at := 0; at < quads; at += most {
		p := &Product{Segments: []int{0}, Quads: min(quads-at, most), Signed: signed, LDC: Panel}
		for j := range panels {
			d := dst[j*Panel:][:Panel]
			k.Multiply(p, d, ones[:], []int{0}, b[j*PanelBytes(quads)+at*4*Panel:], d, 1)
		}
	}
}

// Taps says where the pixels of a window lie that a depthwise convolution weighs. It is immutable while convolutions are made.
type Taps struct {
	// Offsets says where the taps lie, in elements from the window's own offset: an even number of them.
	Offsets []int
	// Signed says that pixels are int8, else they are uint8.
	Signed bool
	// LDC is the distance of the results of two windows, in elements, at least Panel.
	LDC int
}

// TapWeights writes the weights of 16 channels in the order of the kernels: w[tap][channel], zeros for taps that there are not.
// dst has 32 elements for each pair of taps.
func TapWeights(dst []int16, taps int, w func(tap, channel int) int16) {
	for i := range dst {
		pair, half, lane := i/32, i%32/16, i%16
		tap := 2*pair + lane%2
		dst[i] = 0
		if tap < taps {
			dst[i] = w(tap, channelOf(half, lane))
		}
	}
}

// channelOf returns the channel of which a pair of taps stands at a lane of one half of the weights: interleaving works on
// halves of a vector.
func channelOf(half, lane int) int { return lane/8*8 + half*4 + lane%8/2 }

// Convolve writes c[i·LDC+channel] = start[channel] + Σ a[windows[i]+Offsets[tap]+channel]·w[tap, channel] for 16 channels and a
// window at each offset, with weights as TapWeights writes them. Sums wrap around beyond 32 bits.
func (k Kernels) Convolve(t *Taps, c []int32, a []byte, windows []int, w []int16, start []int32) {
	n := len(windows)
	if n == 0 {
		return
	}
	far := 0
	a = a[:len(a):len(a)]
	least, most := windows[0], windows[0]
	for _, o := range t.Offsets {
		least, far = min(least, o), max(far, o)
	}
	for _, o := range windows {
		least, most = min(least, o), max(most, o)
	}
	_, _ = a[least:], a[most:most+far+Panel]
	cc, ss, pairs := first(c, (n-1)*t.LDC+Panel), first(start, Panel), len(t.Offsets)/2
	params := tileParams{segments: unsafe.SliceData(t.Offsets), count: pairs, ldc: 4 * t.LDC}
	step := max(1, callQuads/max(pairs, 1))
	for done := 0; done < n; done += step {
		callTaps(k.set, k.by, t.Signed, &params, unsafe.SliceData(a), &windows[done], first(w, 32*pairs), ss, advance(cc, done*t.LDC),
			min(step, n-done))
	}
}
