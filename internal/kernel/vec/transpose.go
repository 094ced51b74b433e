package vec

import (
	"unsafe"

	"github.com/carve-dev/carve/internal/cpuid"
)

// transposeTile is the side of the square tiles in which matrices are transposed: each row of dst gets 4 cache lines at a
// time, and a tile's pages stay in the first-level translation buffer.
const transposeTile = 64

// streamElements is from how many elements on the result is written past the caches: 8 MiB, the share that one of several
// busy cores has of a usual last-level cache. Measured on one core of a Zen 4: 2048x2048 in half the time, 768x768 in
// one and a half times.
const streamElements = 1 << 21

// Transpose2D writes dst[c, r] = src[r, c] for src[rows, cols] with row stride ldSrc ≥ cols and dst with row stride
// ldDst ≥ rows. Elements are moved as 32-bit words, so any 4-byte type may be passed as float32: no bit changes. dst and
// src do not overlap.
func Transpose2D(dst, src []float32, rows, cols, ldSrc, ldDst int) {
	if rows <= 0 || cols <= 0 {
		return
	}
	d, s := at(dst, extent(cols, rows, ldDst)), at(src, extent(rows, cols, ldSrc))
	level := cpuid.Best()
	if rows < 16 {
		// One strip: as long as it may be.
		for c := 0; c < cols; c += blockElements / 16 {
			transposeStrip(level, advance(d, c*ldDst), advance(s, c), rows, min(blockElements/16, cols-c), ldDst, ldSrc)
		}
		return
	}
	stream := rows*cols >= streamElements && ldDst%16 == 0 && uintptr(unsafe.Pointer(d))%64 == 0
	for r0 := 0; r0 < rows; r0 += transposeTile {
		r1 := min(r0+transposeTile, rows)
		for c0 := 0; c0 < cols; c0 += transposeTile {
			w := min(transposeTile, cols-c0)
			for r := r0; r < r1; r += 16 {
				to, from := advance(d, c0*ldDst+r), advance(s, r*ldSrc+c0)
				if !stream || r+16 > r1 || w%16 != 0 || !streamStrip(level, to, from, w, ldDst, ldSrc) {
					transposeStrip(level, to, from, min(16, r1-r), w, ldDst, ldSrc)
				}
			}
		}
	}
}

// genericStrip transposes rows x cols elements.
func genericStrip(dst, src *float32, rows, cols, ldd, lds int) {
	for r := range rows {
		for c, x := range view(advance(src, r*lds), cols) {
			*advance(dst, c*ldd+r) = x
		}
	}
}
