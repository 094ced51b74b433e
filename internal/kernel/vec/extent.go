package vec

import "unsafe"

// blockElements bounds the elements that one call of assembly works on: some tens of microseconds for the slowest function.
const blockElements = 1 << 15

// extent returns how many elements rows of cols elements with stride ld reach over; rows, cols > 0.
func extent(rows, cols, ld int) int { return (rows-1)*ld + cols }

// at returns the first of n > 0 elements, having checked that they are there.
func at(x []float32, n int) *float32 {
	_ = x[:n:n]
	return unsafe.SliceData(x)
}

// advance moves a pointer by n elements; nil stays nil.
func advance(x *float32, n int) *float32 {
	if x == nil {
		return nil
	}
	return (*float32)(unsafe.Add(unsafe.Pointer(x), 4*n))
}

// view is the n elements at x.
func view(x *float32, n int) []float32 { return unsafe.Slice(x, n) }

// blocks calls do for pieces of rows x cols elements that are at most blockElements large: whole rows where they fit, parts of
// one row otherwise.
func blocks(rows, cols int, do func(row, col, rows, cols int)) {
	if cols > blockElements {
		for r := range rows {
			for c := 0; c < cols; c += blockElements {
				do(r, c, 1, min(blockElements, cols-c))
			}
		}
		return
	}
	step := max(1, blockElements/cols)
	for r := 0; r < rows; r += step {
		do(r, 0, min(step, rows-r), cols)
	}
}
