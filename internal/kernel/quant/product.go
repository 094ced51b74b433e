package quant

import "unsafe"

// Panel is the number of columns of a panel of B.
const Panel = 16

// Height is the number of rows that kernels multiply at a time: other counts of rows are divided into such and a rest.
const Height = 6

// Panels returns the number of panels of n columns.
func Panels(n int) int { return (n + Panel - 1) / Panel }

// Pairs returns the number of pairs of k elements, the last of which may be half empty.
func Pairs(k int) int { return (k + 1) / 2 }

// PanelBytes returns the bytes of a panel of that many pairs.
func PanelBytes(pairs int) int { return 2 * Panel * pairs }

// Product says where the elements of A lie that are multiplied by a panel of B. It is immutable while products are made.
type Product struct {
	// Segments says where the segments of a row of A begin, in elements from the row's own offset. A matrix has one at 0.
	Segments []int
	// Pairs is the number of pairs of k in each segment.
	Pairs int
	// Signed says that B is int8, else it is uint8.
	Signed bool
	// LDC is the distance of rows of the result, in elements, at least Panel.
	LDC int
}

// tileParams is what a tile kernel reads beside its pointers. The generator knows the offsets of the fields.
type tileParams struct {
	segments *int
	count    int
	pairs    int
	ldc      int // in bytes
}

// reach returns how far a row reaches behind its offset.
func (p *Product) reach() int {
	far := 0
	for _, s := range p.Segments {
		far = max(far, s)
	}
	return far + 2*p.Pairs
}

// Multiply writes c[r, j] = Σ a[rows[r]+k]·b[k, j] for so many panels of 16 columns j, one behind the other, with k in the order of
// the segments: B [panels][pairs of all segments][16][2]. Sums wrap around beyond 32 bits, which takes 33,000 products of the
// largest magnitudes. Rows and segments are offsets in a of at least 0.
func (k Kernels) Multiply(p *Product, c []int32, a []int16, rows []int, b []byte, panels int) {
	n, pairs := len(rows), len(p.Segments)*p.Pairs
	if n == 0 || panels <= 0 {
		return
	}
	cc := first(c, (n-1)*p.LDC+panels*Panel)
	if pairs == 0 {
		for r := range n {
			clear(c[r*p.LDC:][:panels*Panel])
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
	params := tileParams{segments: unsafe.SliceData(p.Segments), count: len(p.Segments), pairs: p.Pairs, ldc: 4 * p.LDC}
	aa, bb, row := unsafe.SliceData(a), first(b, panels*PanelBytes(pairs)), unsafe.SliceData(rows)
	step := max(1, callProducts/(pairs*Height)) // tiles of a call
	rest := n % Height
	for range panels {
		for done := 0; n-done >= Height; {
			tiles := min(step, (n-done)/Height)
			callTile(k.set, p.Signed, Height, &params, aa, advance(row, done), bb, advance(cc, done*p.LDC), tiles)
			done += tiles * Height
		}
		if rest > 0 {
			callTile(k.set, p.Signed, rest, &params, aa, advance(row, n-rest), bb, advance(cc, (n-rest)*p.LDC), 1)
		}
		bb, cc = advance(bb, PanelBytes(pairs)), advance(cc, Panel)
	}
}

// callProducts is how many pairs of rows are multiplied in one call, which cannot be preempted: some 20 µs.
const callProducts = 1 << 16

// genericTile is the portable version of callTile.
func genericTile(signed bool, height int, p *tileParams, a *int16, rows *int, b *byte, c *int32, n int) {
	bs := view(b, PanelBytes(p.count*p.pairs))
	for r, row := range view(rows, height*n) {
		var sums [Panel]int32
		at := 0
		for _, s := range view(p.segments, p.count) {
			x := view(advance(a, row+s), 2*p.pairs)
			for i := 0; i < len(x); i += 2 {
				x0, x1, w := int32(x[i]), int32(x[i+1]), (*[2 * Panel]byte)(bs[at:])
				at += 2 * Panel
				if signed {
					for j := range sums {
						sums[j] += x0*int32(int8(w[2*j])) + x1*int32(int8(w[2*j+1]))
					}
				} else {
					for j := range sums {
						sums[j] += x0*int32(w[2*j]) + x1*int32(w[2*j+1])
					}
				}
			}
		}
		copy(view(advance(c, r*p.ldc/4), Panel), sums[:])
	}
}

// Taps says where the pixels of a window lie that a depthwise convolution weighs. It is immutable while convolutions are made.
type Taps struct {
	// Offsets says where the taps lie, in elements from the window's own offset: an even number of them.
	Offsets []int
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

// Convolve writes c[i·LDC+channel] = Σ a[windows[i]+Offsets[tap]+channel]·w[tap, channel] for 16 channels and a window at each
// offset, with weights as TapWeights writes them. Sums wrap around beyond 32 bits.
func (k Kernels) Convolve(t *Taps, c []int32, a []int16, windows []int, w []int16) {
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
	cc, pairs := first(c, (n-1)*t.LDC+Panel), len(t.Offsets)/2
	params := tileParams{segments: unsafe.SliceData(t.Offsets), count: pairs, ldc: 4 * t.LDC}
	step := max(1, callProducts/max(pairs, 1))
	for done := 0; done < n; done += step {
		callTaps(k.set, &params, unsafe.SliceData(a), &windows[done], first(w, 32*pairs), advance(cc, done*t.LDC), min(step, n-done))
	}
}

// genericTaps is the portable version of callTaps.
func genericTaps(p *tileParams, a *int16, rows *int, w *int16, c *int32, n int) {
	offsets, ws := view(p.segments, 2*p.count), view(w, 32*p.count)
	for i, row := range view(rows, n) {
		var sums [Panel]int32
		for pair := range p.count {
			x := [2][]int16{view(advance(a, row+offsets[2*pair]), Panel), view(advance(a, row+offsets[2*pair+1]), Panel)}
			for at, f := range ws[32*pair:][:32] {
				c := channelOf(at/16, at%16)
				sums[c] += int32(x[at%2][c]) * int32(f)
			}
		}
		copy(view(advance(c, i*p.ldc/4), Panel), sums[:])
	}
}
