package conv

import "unsafe"

// rowKernel adds whole rows of a depthwise kernel of that many taps at a stride to channels of so many pixels. sums are those of the first pixel; the others
// lie 64 bytes further, as source pixels and weights do. src is the bytes from base to the source of the first pixel, which may lie outside the map, before the
// source pixels of those in front of it in its tile, and down the bytes between rows of the source.
type rowKernel struct{ taps, stride, pixels int }

// Bodies of rows have a bit for each source pixel of the row that is in the map, and the number of their kernel, from 1, behind rowBits.
const rowBits = 24

// rowBodies returns the rows that there are kernels for, and the bodies of their taps.
func rowBodies() (rows []rowBody, bodies []uintptr) {
	for i, k := range rowKernels {
		for width := 1; width <= portableGeometry.pixels; width++ {
			n := (width-1)*k.stride + k.taps
			for lo := range n {
				for hi := range n - lo {
					rows = append(rows, rowBody{kernel: k.taps, stride: k.stride, width: width, lo: lo, hi: hi})
					bodies = append(bodies, uintptr(i+1)<<rowBits|(1<<(n-hi)-1<<lo))
				}
			}
		}
	}
	return rows, bodies
}

// Bytes between the source pixels of neighbouring results, of strides 1 and 2.
const (
	nextPixel   = 64
	secondPixel = 128
)

// lanes adds all taps to a tile whose channels, or groups of few of them, are convolved each for itself.
func (c *tileCall) lanes(k kind, t *tile, sums *portableTile) {
	used := int64(16)
	for c.flags&flagMask != 0 && c.mask[used-1] == 0 {
		used--
	}
	list, of, step := c.tapsOf(t, 0), int64(1), c.step
	if k == kindLanes {
		of, step = list.count/64, 4
	}
	if row := list.body >> rowBits; row != 0 {
		k := &rowKernels[row-1]
		for from := int64(0); from < t.n0; from += int64(k.pixels) {
			before := from * int64(k.stride)
			addRows(row-1, unsafe.Pointer(&sums[from]), list, before, c.src, t.src+64*before, c.srcBlk, c.w, used)
		}
		return
	}
	for l := range min(used, 8) {
		src, weights := t.src+4*(l&^(of-1)), unsafe.Add(c.w, 4*l) // of the first channel of the group
		for from := int64(0); from < t.n0; from += 4 {
			pair := (*laneSums)(unsafe.Pointer(&sums[from][l]))
			if c.srcCol == nextPixel {
				addLanes[[nextPixel]byte, [pairLanes]byte](pair, list, from, c.src, src+from*nextPixel, step, weights)
			} else {
				addLanes[[secondPixel]byte, [pairLanes]byte](pair, list, from, c.src, src+from*secondPixel, step, weights)
			}
		}
	}
}

// laneSums is two channels of the first of four pixels, and what lies between them.
type laneSums struct {
	s0 float32
	_  [7]float32
	s1 float32
	_  [7]float32
	s2 float32
	_  [7]float32
	s3 float32
	_  [7]float32
	s4 float32
	_  [7]float32
	s5 float32
	_  [7]float32
	s6 float32
	_  [7]float32
	s7 float32
}

// Bytes between what two sums of a pixel are made of: two channels, in the source and of the weights, or the weights of both halves of a block of channels.
const (
	pairLanes   = 32
	halfWeights = fullCount / 2
)

// addLanes adds a list of taps to two sums of each of four pixels, with so many of their tile in front of them: a weight is read once for four pixels. Their
// sources lie as many bytes apart as D has, and the weights of the second sums as many behind those of the first as F has: constants are part of the instructions
// that load them. Of loads of several lines of the cache at the same place of each one waits for the other on AMD Zen, so the second sums are of sources
// pairLanes further.
func addLanes[D [nextPixel]byte | [secondPixel]byte, F [pairLanes]byte | [halfWeights]byte](acc *laneSums, tp *tap, before int64, base unsafe.Pointer, src, step int64, weights unsafe.Pointer) {
	var d D
	var f F
	s0, s1, s2, s3, s4, s5, s6, s7 := acc.s0, acc.s1, acc.s2, acc.s3, acc.s4, acc.s5, acc.s6, acc.s7
	for ; tp.body != 0; tp = tp.next() {
		mask := uint8(tp.body) >> before
		x, off := src+tp.src, tp.w
		end := off + tp.count
		if unsafe.Sizeof(f) == halfWeights { // each sum has half of them
			end = off + tp.count/2
		}
		for ; off < end; off += 64 {
			v, w := *(*float32)(unsafe.Add(weights, off)), *(*float32)(unsafe.Add(weights, off+int64(unsafe.Sizeof(f))))
			if mask&1 != 0 {
				s0 += *(*float32)(unsafe.Add(base, x)) * v
				s1 += *(*float32)(unsafe.Add(base, x+pairLanes)) * w
			}
			if mask&2 != 0 {
				s2 += *(*float32)(unsafe.Add(base, x+int64(unsafe.Sizeof(d)))) * v
				s3 += *(*float32)(unsafe.Add(base, x+int64(unsafe.Sizeof(d))+pairLanes)) * w
			}
			if mask&4 != 0 {
				s4 += *(*float32)(unsafe.Add(base, x+2*int64(unsafe.Sizeof(d)))) * v
				s5 += *(*float32)(unsafe.Add(base, x+2*int64(unsafe.Sizeof(d))+pairLanes)) * w
			}
			if mask&8 != 0 {
				s6 += *(*float32)(unsafe.Add(base, x+3*int64(unsafe.Sizeof(d)))) * v
				s7 += *(*float32)(unsafe.Add(base, x+3*int64(unsafe.Sizeof(d))+pairLanes)) * w
			}
			x += step
		}
	}
	acc.s0, acc.s1, acc.s2, acc.s3, acc.s4, acc.s5, acc.s6, acc.s7 = s0, s1, s2, s3, s4, s5, s6, s7
}
