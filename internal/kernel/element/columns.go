package element

import (
	"unsafe"

	"github.com/carve-dev/carve/internal/kernel/isa"
)

// Made is what elements are made into before they are folded.
type Made uint8

// Elements as they are, their squares, and their sizes, those of the least numbers being the numbers themselves.
const (
	Plain Made = iota
	Squares
	Sizes
)

// Columns writes what op, one of Add, Mul, Max and Min, makes of rows rows of len(dst) elements, ld apart, element by element; of Squares and Sizes it is Add. It
// reports whether there is a kernel; rows of less than a vector have none. dst and src share no memory.
func Columns[T Integer](set isa.Set, op Op, made Made, dst, src []T, ld, rows int) bool {
	c, size := code[T](), int(unsafe.Sizeof(T(0)))
	if !hasKernels(set) {
		return false
	}
	if made == Sizes && c < 4 {
		made = Plain
	}
	return inStrips(dst, src, width/size, ld, rows, func(dst, src []T, rows, more, n int) {
		columns(set, op, made, c, bytesAt(dst, 0), bytesAt(src, 0), ld*size, rows, more, n)
	})
}

// WideColumns is Columns of sums of int32, or of their squares, in float64.
func WideColumns(set isa.Set, squares bool, dst []float64, src []int32, ld, rows int) bool {
	if !hasKernels(set) {
		return false
	}
	return inStrips(dst, src, 4, ld, rows, func(dst []float64, src []int32, rows, more, n int) {
		columnsWide(set, squares, &dst[0], &src[0], 4*ld, rows, more, n)
	})
}

// inStrips calls a kernel for n vectors of each elements, and for a last one that reaches back, of some rows at a time. more is 0 for the first rows.
func inStrips[D, S any](dst []D, src []S, each, ld, rows int, kernel func(dst []D, src []S, rows, more, n int)) bool {
	n := len(dst) / each
	if n == 0 || rows == 0 {
		return false
	}
	_ = src[(rows-1)*ld+len(dst)-1]
	whole := func(first, n int) {
		for row := 0; row < rows; {
			some := min(rows-row, max(most/n, 1))
			kernel(dst[first:], src[row*ld+first:], some, min(row, 1), n)
			row += some
		}
	}
	for at := 0; at < n; at += most {
		whole(at*each, min(n-at, most))
	}
	if back := len(dst) - each; len(dst)%each != 0 {
		whole(back, 1)
	}
	return true
}

// Extremes looks through rows rows of len(best) elements, ld apart: an element that stands so to that of best, as Less, AtMost, Greater or AtLeast says, takes its
// place, and the number of its row, the first of which is first, that of at. It reports whether there is a kernel; rows of less than a vector have none. src shares
// no memory with the others.
func Extremes(set isa.Set, c Comparison, best []float32, at []uint32, src []float32, ld, rows, first int) bool {
	const each = width / 4
	n := len(best) / each
	if !hasKernels(set) || n == 0 || c == Equal {
		return false
	}
	if rows <= 0 {
		return true
	}
	at, _ = at[:len(best)], src[(rows-1)*ld+len(best)-1]
	columns := func(k, n int) {
		for row := 0; row < rows; {
			some := min(rows-row, max(most/n, 1))
			extremes(set, c, &best[k], &at[k], &src[row*ld+k], 4*ld, some, first+row, n)
			row += some
		}
	}
	for k := 0; k < n; k += most {
		columns(k*each, min(n-k, most))
	}
	if len(best)%each != 0 {
		columns(len(best)-each, 1) // elements that were looked at change nothing when they are again
	}
	return true
}
