package vec

import (
	"math"

	"github.com/carve-dev/carve/internal/kernel/isa"
)

// ReduceOp is a reduction of many elements to one.
type ReduceOp uint8

// The reductions.
const (
	ReduceSum        ReduceOp = iota // Σ x
	ReduceMax                        // the greatest; NaN if any is
	ReduceMin                        // the least; NaN if any is
	ReduceSumSquares                 // Σ x²
	ReduceSumAbs                     // Σ |x|
	numReduceOps
)

// start is the result for no elements.
func (o ReduceOp) start() float32 {
	switch o {
	case ReduceMax:
		return float32(math.Inf(-1))
	case ReduceMin:
		return float32(math.Inf(1))
	}
	return 0
}

// reduceBlock is how many elements of a row are combined in float32 chains; the results of blocks are combined in float64, so
// that sums of long rows keep their digits.
const reduceBlock = 1 << 13

// ReduceRows writes the reduction of each row of src[rows, cols] to dst[rows]. With cols = 0 that is 0 or an infinity.
func (v Kernels) ReduceRows(op ReduceOp, dst, src []float32, lds, rows, cols int) {
	if rows <= 0 {
		return
	}
	if op >= numReduceOps {
		panic("vec: no such reduction")
	}
	d := at(dst, rows)
	if cols <= 0 {
		for r := range rows {
			dst[r] = op.start()
		}
		return
	}
	s := at(src, extent(rows, cols, lds))
	if cols <= reduceBlock {
		step := max(1, blockElements/cols)
		for r := 0; r < rows; r += step {
			reduce(v.set, op, advance(d, r), advance(s, r*lds), cols, min(step, rows-r), lds)
		}
		return
	}
	for r := range rows {
		total := float64(op.start())
		for c := 0; c < cols; c += reduceBlock {
			var part float32
			reduce(v.set, op, &part, advance(s, r*lds+c), min(reduceBlock, cols-c), 1, lds)
			switch op {
			case ReduceMax:
				total = max(total, float64(part))
			case ReduceMin:
				total = min(total, float64(part))
			default:
				total += float64(part)
			}
		}
		dst[r] = float32(total)
	}
}

// Mean writes the mean of each row of src[rows, cols] to dst[rows]; NaN with cols = 0.
func (v Kernels) Mean(dst, src []float32, lds, rows, cols int) {
	v.ReduceRows(ReduceSum, dst, src, lds, rows, cols)
	for r := range rows {
		dst[r] /= float32(cols)
	}
}

// columnRows is how many rows one call of a column kernel takes.
const columnRows = 64

// columnWidth is how many columns it takes.
const columnWidth = 2048

// Rows that AVX2 combines at a time, where they have at least so many columns. On an AMD Zen 3, 128x3072 takes 0.63 to 0.8 of its time by columns of all rows, 1024x1024
// 0.6, and 48x768 in the second-level cache as long; rows of 64 would take 1.1.
const (
	streamRows  = 8
	streamWidth = 256
)

// ReduceColumns writes the reduction of each column of src[rows, cols] to dst[cols]: blocks of 64 rows are combined row by row,
// then the blocks in order, so that a division of the columns changes nothing.
func (v Kernels) ReduceColumns(op ReduceOp, dst, src []float32, lds, rows, cols int) {
	if cols <= 0 {
		return
	}
	if op >= numReduceOps {
		panic("vec: no such reduction")
	}
	d := at(dst, cols)
	first := op.start()
	for c := range cols {
		dst[c] = first
	}
	if rows <= 0 {
		return
	}
	s := at(src, extent(rows, cols, lds))
	for c := 0; c < cols; c += columnWidth {
		n := min(columnWidth, cols-c)
		v.columns(op, advance(d, c), advance(s, c), n, min(columnRows, rows), lds)
		for r := columnRows; r < rows; r += columnRows {
			var part [columnWidth]float32
			for i := range n {
				part[i] = first
			}
			v.columns(op, &part[0], advance(s, r*lds+c), n, min(columnRows, rows-r), lds)
			binary(v.set, op.join(), VV, advance(d, c), advance(d, c), &part[0], n, 1, 0, 0, 0)
		}
	}
}

// columns combines columns of rows into dst, with AVX2 few rows at a time where rows are long: they come from behind the second-level cache as streams that the
// processor fetches ahead, which many short pieces are not.
func (v Kernels) columns(op ReduceOp, dst, src *float32, n, rows, lds int) {
	step := rows
	if v.set == isa.AVX2 && n >= streamWidth {
		step = streamRows
	}
	for r := 0; r < rows; r += step {
		reduceColumns(v.set, op, dst, advance(src, r*lds), n, min(step, rows-r), lds)
	}
}

// join combines partial results.
func (o ReduceOp) join() BinaryOp {
	switch o {
	case ReduceMax:
		return Max
	case ReduceMin:
		return Min
	}
	return Add
}

// combine is one step of a reduction.
func combine(op ReduceOp, acc, x float32) float32 {
	switch op {
	case ReduceSum:
		return acc + x
	case ReduceMax:
		return max(acc, x)
	case ReduceMin:
		return min(acc, x)
	case ReduceSumSquares:
		return acc + float32(x*x)
	}
	return acc + float32(math.Abs(float64(x)))
}

// genericReduce is the portable version of the reductions along rows.
func genericReduce(op ReduceOp, dst, src *float32, n, rows, lds int) {
	for r := range rows {
		acc := [4]float32{op.start(), op.start(), op.start(), op.start()}
		for i, x := range view(advance(src, r*lds), n) {
			acc[i&3] = combine(op, acc[i&3], x)
		}
		out := advance(dst, r)
		switch op {
		case ReduceMax:
			*out = max(acc[0], acc[1], acc[2], acc[3])
		case ReduceMin:
			*out = min(acc[0], acc[1], acc[2], acc[3])
		default:
			*out = (acc[0] + acc[1]) + (acc[2] + acc[3])
		}
	}
}

// genericReduceColumns is the portable version of the reductions over rows.
func genericReduceColumns(op ReduceOp, dst, src *float32, n, rows, lds int) {
	d := view(dst, n)
	for r := range rows {
		for c, x := range view(advance(src, r*lds), n) {
			d[c] = combine(op, d[c], x)
		}
	}
}
