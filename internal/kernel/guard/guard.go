// Package guard hands out float32 buffers that end (or begin) exactly at a page that may not be touched, so that tests of
// kernels in assembly, which no race detector or sanitizer sees, catch reads and writes outside of the given range. Only
// tests import it.
package guard

import (
	"fmt"
	"math"
	"unsafe"
)

// Side says on which side of the buffer the forbidden page lies directly; on the other side a margin lies between.
type Side int

const (
	// End puts the last element directly before the forbidden page: reading past the end faults.
	End Side = iota
	// Start puts the first element directly after the forbidden page.
	Start
)

// canary is a NaN with a payload that no kernel makes.
const canary = 0x7fc5a5a5

// Buffer is a guarded range of floats. It is for one goroutine.
type Buffer struct {
	Data  []float32 // the range, filled with a NaN that spoils every result it gets into
	whole []float32 // the pages that may be touched, Data within
	first int       // index of Data in whole
	pages []byte
}

// New returns a buffer of n ≥ 0 floats. On systems without memory protection only writes are detected, by Check. The caller
// frees it.
func New(n int, side Side) (*Buffer, error) {
	whole, pages, err := allocate(n)
	if err != nil {
		return nil, fmt.Errorf("guard: %w", err)
	}
	b := &Buffer{whole: whole, pages: pages}
	for i := range whole {
		whole[i] = math.Float32frombits(canary)
	}
	if side == End {
		b.first = len(whole) - n
	}
	b.Data = whole[b.first : b.first+n : b.first+n]
	return b, nil
}

// Check returns an error that names the first element outside of Data that was overwritten.
func (b *Buffer) Check() error {
	for i, v := range b.whole {
		if (i < b.first || i >= b.first+len(b.Data)) && math.Float32bits(v) != canary {
			return fmt.Errorf("guard: element %d, outside of [0, %d), was overwritten", i-b.first, len(b.Data))
		}
	}
	return nil
}

// CheckGaps returns an error that names the first element overwritten between the rows of a matrix in Data with cols columns
// and row stride ld.
func (b *Buffer) CheckGaps(cols, ld int) error {
	for i, v := range b.Data {
		if i%ld >= cols && math.Float32bits(v) != canary {
			return fmt.Errorf("guard: element %d, between rows, was overwritten", i)
		}
	}
	return nil
}

// floats reinterprets pages.
func floats(b []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}
