package conv

import "unsafe"

// nearWeights is how many bytes of weights are read for one pixel after the other, while they are in the first-level cache.
const nearWeights = 16 << 10

// dense adds the taps of all blocks of source channels to a tile.
func (c *tileCall) dense(t *tile, acc *portableTile) {
	first, last := int64(0), int64(16)
	if c.flags&flagHalf != 0 {
		first = c.pass / 4
		last = first + 8
	}
	for c.flags&flagMask != 0 && last > first && c.mask[last-1] == 0 {
		last--
	}
	single := last // channels from here on are computed one by one
	if rest := (last - first) % 8; 2*rest <= t.n0 && (c.srcCol == nextPixel || c.srcCol == secondPixel) {
		single -= rest
	}
	blocks, step := c.full+c.tail, max(1, nearWeights/c.wBlk)
	for from := int64(0); from < blocks; from += step {
		to := min(from+step, blocks)
		for p := range t.n0 {
			for l := first; l < single; l += 8 {
				c.densePixel(t, p, from, to, 4*l, (*[8]float32)(acc[p][l:]))
			}
		}
		for l := single; l < last; l++ {
			c.denseChannel(t, from, to, l, acc)
		}
	}
}

// denseChannel adds the taps of blocks [from, to) of source channels to one channel of all pixels.
func (c *tileCall) denseChannel(t *tile, from, to, l int64, acc *portableTile) {
	for b := from; b < to; b++ {
		list, src, weights := c.tapsOf(t, b), t.src+b*c.srcBlk, unsafe.Add(c.w, b*c.wBlk+4*l)
		if !list.whole() {
			c.restChannel(t, list, src, weights, l, acc)
			continue
		}
		for p := int64(0); p < t.n0; p += 4 {
			var sums laneSums
			if c.srcCol == nextPixel {
				addLanes[[nextPixel]byte, [halfWeights]byte](&sums, list, p, c.src, src+p*nextPixel, 4, weights)
			} else {
				addLanes[[secondPixel]byte, [halfWeights]byte](&sums, list, p, c.src, src+p*secondPixel, 4, weights)
			}
			acc[p][l] += sums.s0 + sums.s1
			acc[p+1][l] += sums.s2 + sums.s3
			acc[p+2][l] += sums.s4 + sums.s5
			acc[p+3][l] += sums.s6 + sums.s7
		}
	}
}

// fullCount is the count of a tap of a whole block of channels.
const fullCount = 64 * 16

// whole reports whether all taps of a list are of whole blocks.
func (t *tap) whole() bool {
	for t.body != 0 && t.count == fullCount {
		t = t.next()
	}
	return t.body == 0
}

// restChannel adds a list of taps, some of partial blocks of source channels, to one channel of all pixels.
func (c *tileCall) restChannel(t *tile, tp *tap, src int64, weights unsafe.Pointer, l int64, acc *portableTile) {
	for ; tp.body != 0; tp = tp.next() {
		for p := range t.n0 {
			if tp.body>>p&1 == 0 {
				continue
			}
			sum, x := acc[p][l], src+tp.src+p*c.srcCol
			for off := tp.w; off < tp.w+tp.count; off += 64 {
				sum += *(*float32)(unsafe.Add(c.src, x)) * *(*float32)(unsafe.Add(weights, off))
				x += 4
			}
			acc[p][l] = sum
		}
	}
}

// densePixel adds the taps of blocks [from, to) of source channels to 8 channels of pixel p of a tile, lane bytes behind the first. The compiler moves
// products in front of the sums of a basic block: with more than four at a time, sums would leave the registers of amd64, and each wait for memory.
func (c *tileCall) densePixel(t *tile, p, from, to, lane int64, acc *[8]float32) {
	s0, s1, s2, s3, s4, s5, s6, s7 := acc[0], acc[1], acc[2], acc[3], acc[4], acc[5], acc[6], acc[7]
	src, w := t.src+p*c.srcCol+from*c.srcBlk, from*c.wBlk+lane
	base, weights, bit, always := c.src, c.w, uintptr(1)<<p, c.n > 0
	for b := from; b < to; b++ {
		for tp := c.tapsOf(t, b); tp.body != 0; tp = tp.next() {
			if tp.body&bit == 0 {
				continue
			}
			x := src + tp.src
			for off, end := w+tp.w, w+tp.w+tp.count; off < end; off += 64 {
				v, r := *(*float32)(unsafe.Add(base, x)), (*[8]float32)(unsafe.Add(weights, off))
				x += 4
				if always {
					s0 += v * r[0]
					s1 += v * r[1]
					s2 += v * r[2]
					s3 += v * r[3]
				}
				s4 += v * r[4]
				s5 += v * r[5]
				s6 += v * r[6]
				s7 += v * r[7]
			}
		}
		src, w = src+c.srcBlk, w+c.wBlk
	}
	acc[0], acc[1], acc[2], acc[3], acc[4], acc[5], acc[6], acc[7] = s0, s1, s2, s3, s4, s5, s6, s7
}
