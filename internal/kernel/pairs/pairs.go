package pairs

import (
	"unsafe"

	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/reorder"
)

// Type is the type of the numbers of words; the zero value stands for float32, of which words hold one and nothing is rounded.
type Type uint8

// The types.
const (
	Float32 Type = iota
	BFloat16
	Float16
)

// String returns the name of the type as options have it.
func (y Type) String() string { return [...]string{"f32", "bf16", "f16"}[y] }

// On reports whether kernels of a target multiply the type: portable Go multiplies all.
func (y Type) On(t isa.Target) bool {
	return t.Set == isa.Portable || y == Float32 || y == BFloat16 && t.BFloat16() || y == Float16 && t.Float16()
}

// Words returns how many words n numbers take.
func Words(n int) int { return (n + 1) / 2 }

// Lanes is the most words of a row that Across writes.
const Lanes = 16

// Along rounds a row of numbers to Words(len(src)) words of a type; the upper half of the last is zero where their number is odd. A dst that
// is too short panics.
func (y Type) Along(t isa.Target, dst []uint32, src []float32) {
	if len(src) == 0 {
		return
	}
	dst = dst[:Words(len(src))]
	if y == BFloat16 {
		along(setOf(t), &dst[0], &src[0], len(src))
		return
	}
	halves := Halves(dst)
	halves[len(halves)-1] = 0
	reorder.ToHalf(t, halves, src, reorder.Float16)
}

// Matrix rounds rows of cols numbers, lds apart, to rows of Words(cols) words that lie together. Slices that are too short panic.
func (y Type) Matrix(t isa.Target, dst []uint32, src []float32, rows, cols, lds int) {
	words := Words(cols)
	if cols == lds && cols%2 == 0 {
		y.Along(t, dst, src[:rows*cols])
		return
	}
	for r := range rows {
		y.Along(t, dst[r*words:], src[r*lds:][:cols])
	}
}

// Across rounds k rows of width numbers, 1 to Lanes, that lie lds apart, to Words(k) rows of Lanes words that lie together. Row i holds rows
// 2i and 2i+1: of bfloat16, word j is column j of both; of float16, the one lies behind the other, as instructions on it want them. What is
// behind width, and the row that there is not, is zero. Slices that are too short panic.
func (y Type) Across(t isa.Target, dst []uint32, src []float32, k, width, lds int) {
	if k == 0 {
		return
	}
	_, _, _ = dst[Words(k)*Lanes-1], src[(k-1)*lds+width-1], uint(Lanes-width)
	if y == Float16 {
		halves := Halves(dst[:Words(k)*Lanes])
		if width < Lanes || k%2 != 0 {
			clear(halves)
		}
		if width == Lanes && lds == Lanes {
			width, k = k*Lanes, 1
		}
		for r := range k {
			reorder.ToHalf(t, halves[r*Lanes:], src[r*lds:][:width], reorder.Float16)
		}
		return
	}
	if k > 1 {
		across(setOf(t), &dst[0], &src[0], &src[lds], k/2, lds, width)
	}
	if k%2 != 0 {
		across(setOf(t), &dst[k/2*Lanes], &src[(k-1)*lds], &zeros[0], 1, lds, width)
	}
}

// Beside rounds n rows of blocks of 16 numbers to bfloat16: row i of block k is at src[k*block+i*lds], and the words of its blocks, at least one, lie beside each
// other at dst[i*ldd]. Slices that are too short panic.
func Beside(t isa.Target, dst []uint32, src []float32, n, blocks, block, lds, ldd int) {
	_, _ = dst[(n-1)*ldd+blocks*Lanes/2-1], src[(blocks-1)*block+(n-1)*lds+Lanes-1]
	const some = 16 // rows whose words stay in the first-level cache until the next block's are written
	for from := 0; from < n; from += some {
		for k := 0; k < blocks; k += 2 {
			a := src[k*block+from*lds:]
			var b *float32
			if k+1 < blocks {
				b = &a[block]
			}
			beside(setOf(t), &dst[from*ldd+k*Lanes/2], &a[0], b, min(some, n-from), lds, ldd)
		}
	}
}

// At returns number j of row i of what Across wrote.
func (y Type) At(words []uint32, i, j int) float32 {
	if y == Float16 {
		var x [1]float32
		reorder.FromHalf(isa.Target{}, x[:], Halves(words)[i*Lanes+j:][:1], reorder.Float16)
		return x[0]
	}
	if word := words[i/2*Lanes+j]; i%2 == 0 {
		return Low(word)
	} else {
		return High(word)
	}
}

// zeros stand for the row behind an odd number of rows.
var zeros [Lanes]float32

// setOf returns the set whose kernels of bfloat16 a target runs.
func setOf(t isa.Target) isa.Set {
	if t.BFloat16() {
		return t.Set
	}
	return isa.Portable
}

// Halves returns words as what they hold, the lower halves first.
func Halves(words []uint32) []uint16 {
	return unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(words))), 2*len(words))
}

// OfFloats returns floats as the words that stand in their place.
func OfFloats(floats []float32) []uint32 {
	return unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(floats))), len(floats))
}

// Floats returns words as the floats in whose place they stand.
func Floats(words []uint32) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(words))), len(words))
}
