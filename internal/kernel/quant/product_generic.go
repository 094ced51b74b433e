package quant

import "unsafe"

// genericHeight is the most rows of a tile of genericWide, and genericQuads how many quads are multiplied at a time: words of as many lie in the first-level
// cache with the panel.
const (
	genericHeight = 4
	genericQuads  = 64
)

// rowWords are the elements of two rows in words, those of the second row in the upper halves.
type rowWords [4 * genericQuads]int64

// genericWide is the portable version of callWide. Two rows are multiplied by one multiplication. With the products of so many quads no half outgrows its 32 bits.
func genericWide(signed bool, height, panels int, p *tileParams, a *int16, b *byte, start, c *int32) {
	if height <= genericHeight/2 {
		for r := range height {
			genericRow(signed, panels, p, advance(a, r*p.lda/2), b, advance(start, r*p.lds/4), advance(c, r*p.ldc/4))
		}
		return
	}
	lds := p.lds
	for q := 0; q < p.quads; q += genericQuads {
		var words [genericHeight / 2]rowWords
		n := min(genericQuads, p.quads-q)
		for r := range height {
			row := advance(a, r*p.lda/2)
			words[r/2].add(view(advance(row, 2*q), 2*n), view(advance(row, 2*p.quads+2*q), 2*n), r%2*32)
		}
		for j := range panels * Panel {
			w := advance(b, j/Panel*p.ldb+4*(q*Panel+j%Panel))
			var low, high int64
			if signed {
				low, high = dotWords(n, &words, (*int8)(unsafe.Pointer(w)))
			} else {
				low, high = dotWords(n, &words, w)
			}
			for r, sum := range [genericHeight]int32{int32(low), upper(low), int32(high), upper(high)} {
				if r < height {
					*advance(c, r*p.ldc/4+j) = *advance(start, r*lds/4+j) + sum
				}
			}
		}
		start, lds = c, p.ldc
	}
}

// add adds the elements of quads of a row, of which 0 and 2 are among the even ones, to the halves that begin at a bit.
func (w *rowWords) add(even, odd []int16, bit int) {
	odd = odd[:len(even)]
	for i, x := range even {
		pair := (*[2]int64)(w[2*i%len(w):])
		pair[0] += int64(x) << bit
		pair[1] += int64(odd[i]) << bit
	}
}

// upper returns the upper half of a sum of products, from which a negative lower half took one.
func upper(sum int64) int32 { return int32((sum - int64(int32(sum))) >> 32) }

// dotWords multiplies four rows by n quads of a column of a panel.
func dotWords[T int8 | uint8](n int, words *[genericHeight / 2]rowWords, b *T) (low, high int64) {
	for q := range n {
		w := (*[4]T)(unsafe.Add(unsafe.Pointer(b), 4*Panel*q))
		x, y := (*[4]int64)(unsafe.Add(unsafe.Pointer(&words[0]), 32*q)), (*[4]int64)(unsafe.Add(unsafe.Pointer(&words[1]), 32*q))
		w0, w1, w2, w3 := int64(w[0]), int64(w[1]), int64(w[2]), int64(w[3])
		low += x[0] * w0
		high += y[0] * w0
		low += x[1] * w1
		high += y[1] * w1
		low += x[2] * w2
		high += y[2] * w2
		low += x[3] * w3
		high += y[3] * w3
	}
	return low, high
}

// genericRow multiplies a row by the panels.
func genericRow(signed bool, panels int, p *tileParams, a *int16, b *byte, start, c *int32) {
	x := view(a, 4*p.quads)
	even, odd := x[:2*p.quads], x[2*p.quads:]
	for j := range panels {
		sums := [Panel]int32(view(advance(start, j*Panel), Panel))
		w := view(advance(b, j*p.ldb), PanelBytes(p.quads))
		for q := range p.quads {
			x0, x2, x1, x3 := int32(even[2*q]), int32(even[2*q+1]), int32(odd[2*q]), int32(odd[2*q+1])
			w := (*[4 * Panel]byte)(w[4*Panel*q:])
			if signed {
				for j := range sums {
					sums[j] += x0*int32(int8(w[4*j])) + x1*int32(int8(w[4*j+1])) + x2*int32(int8(w[4*j+2])) + x3*int32(int8(w[4*j+3]))
				}
			} else {
				for j := range sums {
					sums[j] += x0*int32(w[4*j]) + x1*int32(w[4*j+1]) + x2*int32(w[4*j+2]) + x3*int32(w[4*j+3])
				}
			}
		}
		copy(view(advance(c, j*Panel), Panel), sums[:])
	}
}

// genericTaps is the portable version of callTaps: four windows at a time.
func genericTaps(signed bool, p *tileParams, a *byte, rows *int, w *int16, start, c *int32, n int) {
	offsets := view(p.segments, 2*p.count)
	for i := 0; i < n; i += 4 {
		var windows [4]*byte
		for k := range windows { // or the last window again
			windows[k] = advance(a, *advance(rows, min(i+k, n-1)))
		}
		for channel := range Panel {
			// As TapWeights writes them; see channelOf.
			at := channel%8/4*16 + channel/8*8 + channel%4*2
			sums := taps4(signed, offsets, &windows, channel, advance(w, at))
			for k, sum := range sums[:min(4, n-i)] {
				*advance(c, (i+k)*p.ldc/4+channel) = *advance(start, channel) + sum
			}
		}
	}
}

// taps4 weighs one channel of four windows; the weights of two taps follow each other, and those of the next ones 32 further on.
func taps4(signed bool, offsets []int, windows *[4]*byte, channel int, w *int16) [4]int32 {
	var s0, s1, s2, s3 int32
	x0, x1, x2, x3 := windows[0], windows[1], windows[2], windows[3]
	for i, off := range offsets {
		f, at := int32(*advance(w, i/2*32+i%2)), off+channel
		if signed {
			s0 += int32(int8(*advance(x0, at))) * f
			s1 += int32(int8(*advance(x1, at))) * f
			s2 += int32(int8(*advance(x2, at))) * f
			s3 += int32(int8(*advance(x3, at))) * f
		} else {
			s0 += int32(*advance(x0, at)) * f
			s1 += int32(*advance(x1, at)) * f
			s2 += int32(*advance(x2, at)) * f
			s3 += int32(*advance(x3, at)) * f
		}
	}
	return [4]int32{s0, s1, s2, s3}
}
