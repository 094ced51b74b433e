package shortrow

import (
	"math"

	"github.com/carve-dev/carve/internal/kernel/isa"
)

// Longest is how many elements a row may have, but for those of Divide.
const Longest = 16

// Piece is a part of a list of columns that Take takes together: Count of them from number At of the list on, which lie less than 32
// columns behind First.
type Piece struct {
	At, Count, First int
	places           [Longest]int32 // behind First
	reach            int            // one more than the greatest of them
}

// takenWindow is within how many columns those of a piece lie.
const takenWindow = 32

// Pieces divides a list of columns, in order, into as few pieces as can be.
func Pieces(list []int) []Piece {
	var out []Piece
	for at := 0; at < len(list); {
		first, last, n := list[at], list[at], 1
		for ; n < Longest && at+n < len(list); n++ {
			low, high := min(first, list[at+n]), max(last, list[at+n])
			if high-low >= takenWindow {
				break
			}
			first, last = low, high
		}
		p := Piece{At: at, Count: n, First: first, reach: last - first + 1}
		for i, c := range list[at : at+n] {
			p.places[i] = int32(c - first)
		}
		out, at = append(out, p), at+n
	}
	return out
}

// Kernels are the functions of this package for one target: see package isa. The zero value is those in portable Go. Safe for concurrent
// use.
type Kernels struct{ set isa.Set }

// For returns the kernels of a target.
func For(t isa.Target) Kernels { return Kernels{t.Set} }

// Fast reports whether there are kernels for the target of what is not divided.
func (k Kernels) Fast() bool { return k.set == isa.AVX512 }

// Norm is what a row is divided by.
type Norm int

// The norms: the sum of absolute values, the root of the sum of squares, and the largest value, or the least float32 where that is larger.
const (
	L1 Norm = iota
	L2
	Max
)

// rows returns how many rows of n elements src has; dst has as many at least.
func rows[T float32 | float64](dst []float32, src []T, n, most int) int {
	if len(src) == 0 {
		return 0
	}
	if n < 1 || n > most || len(dst) < len(src) {
		panic("shortrow: rows of no length that kernels have, or a result that is too short")
	}
	return len(src) / n
}

// Mark writes, for each row of n elements, 1 at the first of the greatest and 0 elsewhere. A NaN in front is passed by none, others are
// passed over. dst may be src.
func (k Kernels) Mark(dst, src []float32, n int) {
	if count := rows(dst, src, n, Longest); count > 0 {
		mark(k.set, &dst[0], &src[0], n, count)
	}
}

// Divide writes each row of n elements, divided by its norm, where that is not 0, in float64. dst may be src.
func (k Kernels) Divide(norm Norm, dst, src []float32, n int) {
	count := rows(dst, src, n, math.MaxInt)
	inParts(count, n, func(at, some int) { divide(k.set, norm, &dst[at*n], &src[at*n], n, some) })
}

// DivideWide is Divide of float64, whose norms are 0 or have an inverse that is finite. dst and src have no memory in common.
func (k Kernels) DivideWide(norm Norm, dst []float32, src []float64, n int) {
	count := rows(dst, src, n, math.MaxInt)
	inParts(count, n, func(at, some int) { divideWide(k.set, norm, &dst[at*n], &src[at*n], n, some) })
}

// inParts hands out rows of n elements, as many as one call may take, which cannot be preempted: one, where a row has more.
func inParts(count, n int, divide func(at, some int)) {
	const most = 1 << 14 // numbers
	for at := 0; at < count; {
		some := min(count-at, max(most/n, 1))
		divide(at, some)
		at += some
	}
}

// Normalise writes (x - mean) / √(variance + epsilon) * scale + bias of each row of n elements; there is a scale and a bias for each row. dst
// may be src.
func (k Kernels) Normalise(dst, src []float32, n int, scale, bias []float32, epsilon float32) {
	if count := rows(dst, src, n, Longest); count > 0 {
		_, _ = scale[count-1], bias[count-1]
		normalise(k.set, &dst[0], &src[0], &scale[0], &bias[0], n, count, epsilon)
	}
}

// Take writes the columns of a piece, from column At of dst on, of rows that are ldd and lds apart. dst and src have no element in common.
func (k Kernels) Take(dst []float32, ldd int, src []float32, lds, rows int, p *Piece) {
	if rows <= 0 {
		return
	}
	_, _ = dst[(rows-1)*ldd+p.At+p.Count-1], src[(rows-1)*lds+p.First+p.reach-1]
	take(k.set, &dst[p.At], ldd, &src[p.First], lds, &p.places[0], p.Count, p.reach, rows)
}
