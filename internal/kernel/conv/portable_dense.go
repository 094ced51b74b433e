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
	blocks, step := c.full+c.tail, max(1, nearWeights/c.wBlk)
	for from := int64(0); from < blocks; from += step {
		to := min(from+step, blocks)
		for p := range t.n0 {
			for l := first; l < last; l += 8 {
				c.densePixel(t, p, from, to, 4*l, (*[8]float32)(acc[p][l:]))
			}
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
