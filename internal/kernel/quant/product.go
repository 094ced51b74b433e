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
}

// tileParams is what a tile kernel reads beside its pointers. The generator knows the offsets of the fields.
type tileParams struct {
	segments *int
	count    int
	quads    int
	ldc      int // in bytes
	ldb      int // distance of panels of B, in bytes
}

// reach returns how far a row reaches behind its offset.
func (p *Product) reach() int {
	far := 0
	for _, s := range p.Segments {
		far = max(far, s)
	}
	return far + 4*p.Quads
}

// tile returns the most rows and panels of a tile.
func (k Kernels) tile() (height, width int) {
	switch {
	case k.set == isa.AVX512 && k.vnni:
		return 6, 4
	case k.set == isa.AVX2:
		return 3, 1
	}
	return 6, 1
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
	far, least, most := p.reach(), rows[0], rows[0]
	for _, r := range rows {
		least, most = min(least, r), max(most, r)
	}
	for _, s := range p.Segments {
		least = min(least, s)
	}
	a = a[:len(a):len(a)]
	_, _ = a[least:], a[most:most+far]
	params := tileParams{segments: unsafe.SliceData(p.Segments), count: len(p.Segments), quads: p.Quads, ldc: 4 * p.LDC, ldb: PanelBytes(quads)}
	aa, bb, row := unsafe.SliceData(a), first(b, panels*PanelBytes(quads)), unsafe.SliceData(rows)
	height, width := k.tile()
	for panels > 0 {
		for width > panels {
			width /= 2
		}
		step := max(1, callQuads/(quads*height*width)) // tiles of a call
		for done := 0; n-done >= height; {
			tiles := min(step, (n-done)/height)
			callTile(k.set, k.vnni, p.Signed, height, width, &params, aa, advance(row, done), bb, ss, advance(cc, done*p.LDC), tiles)
			done += tiles * height
		}
		if rest := n % height; rest > 0 {
			callTile(k.set, k.vnni, p.Signed, rest, width, &params, aa, advance(row, n-rest), bb, ss, advance(cc, (n-rest)*p.LDC), 1)
		}
		panels -= width
		if panels > 0 {
			bb, ss, cc = advance(bb, width*PanelBytes(quads)), advance(ss, width*Panel), advance(cc, width*Panel)
		}
	}
}

// callQuads is how many quads of rows and panels are multiplied in one call, which cannot be preempted: some 20 µs.
const callQuads = 1 << 15

// genericTile is the portable version of callTile, of one panel.
func genericTile(signed bool, height int, p *tileParams, a *byte, rows *int, b *byte, start, c *int32, n int) {
	bs := view(b, PanelBytes(p.count*p.quads))
	for r, row := range view(rows, height*n) {
		sums := [Panel]int32(view(start, Panel))
		at := 0
		for _, s := range view(p.segments, p.count) {
			x := view(advance(a, row+s), 4*p.quads)
			for i := 0; i < len(x); i += 4 {
				w := (*[4 * Panel]byte)(bs[at:])
				at += 4 * Panel
				if signed {
					x0, x1, x2, x3 := int32(x[i]), int32(x[i+1]), int32(x[i+2]), int32(x[i+3])
					for j := range sums {
						sums[j] += x0*int32(int8(w[4*j])) + x1*int32(int8(w[4*j+1])) + x2*int32(int8(w[4*j+2])) + x3*int32(int8(w[4*j+3]))
					}
				} else {
					x0, x1, x2, x3 := int32(int8(x[i])), int32(int8(x[i+1])), int32(int8(x[i+2])), int32(int8(x[i+3]))
					for j := range sums {
						sums[j] += x0*int32(w[4*j]) + x1*int32(w[4*j+1]) + x2*int32(w[4*j+2]) + x3*int32(w[4*j+3])
					}
				}
			}
		}
		copy(view(advance(c, r*p.ldc/4), Panel), sums[:])
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
		callTaps(k.set, k.vnni, t.Signed, &params, unsafe.SliceData(a), &windows[done], first(w, 32*pairs), ss, advance(cc, done*t.LDC),
			min(step, n-done))
	}
}

// genericTaps is the portable version of callTaps.
func genericTaps(signed bool, p *tileParams, a *byte, rows *int, w *int16, start, c *int32, n int) {
	offsets, ws := view(p.segments, 2*p.count), view(w, 32*p.count)
	for i, row := range view(rows, n) {
		sums := [Panel]int32(view(start, Panel))
		for pair := range p.count {
			x := [2][]byte{view(advance(a, row+offsets[2*pair]), Panel), view(advance(a, row+offsets[2*pair+1]), Panel)}
			for at, f := range ws[32*pair:][:32] {
				c := channelOf(at/16, at%16)
				sums[c] += number(x[at%2][c], signed) * int32(f)
			}
		}
		copy(view(advance(c, i*p.ldc/4), Panel), sums[:])
	}
}
