package pairs

import (
	"unsafe"

	"github.com/carve-dev/carve/internal/kernel/isa"
)

// Words returns how many words n numbers take.
func Words(n int) int { return (n + 1) / 2 }

// Lanes is the most words of a row that Across writes.
const Lanes = 16

// Along rounds a row of numbers to Words(len(src)) words; the upper half of the last is zero where their number is odd. A dst that is
// too short panics.
func Along(t isa.Target, dst []uint32, src []float32) {
	if len(src) == 0 {
		return
	}
	_ = dst[Words(len(src))-1]
	along(setOf(t), &dst[0], &src[0], len(src))
}

// Matrix rounds rows of cols numbers, lds apart, to rows of Words(cols) words that lie together. Slices that are too short panic.
func Matrix(t isa.Target, dst []uint32, src []float32, rows, cols, lds int) {
	words := Words(cols)
	if cols == lds && cols%2 == 0 {
		Along(t, dst, src[:rows*cols])
		return
	}
	for r := range rows {
		Along(t, dst[r*words:], src[r*lds:][:cols])
	}
}

// Across rounds k rows of width numbers, 1 to Lanes, that lie lds apart, to Words(k) rows of Lanes words that lie together: word j of row i
// holds column j of rows 2i and 2i+1. Words behind width, and the halves for which there is no row, are zero. Slices that are too
// short panic.
func Across(t isa.Target, dst []uint32, src []float32, k, width, lds int) {
	if k == 0 {
		return
	}
	_, _, _ = dst[Words(k)*Lanes-1], src[(k-1)*lds+width-1], uint(Lanes-width)
	if k > 1 {
		across(setOf(t), &dst[0], &src[0], &src[lds], k/2, lds, width)
	}
	if k%2 != 0 {
		across(setOf(t), &dst[k/2*Lanes], &src[(k-1)*lds], &zeros[0], 1, lds, width)
	}
}

// zeros stand for the row behind an odd number of rows.
var zeros [Lanes]float32

// setOf returns the set whose kernels a target runs.
func setOf(t isa.Target) isa.Set {
	if t.BFloat16() {
		return t.Set
	}
	return isa.Portable
}

// OfFloats returns floats as the words that stand in their place.
func OfFloats(floats []float32) []uint32 {
	return unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(floats))), len(floats))
}

// Floats returns words as the floats in whose place they stand.
func Floats(words []uint32) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(words))), len(words))
}
