package cpu

import (
	"slices"

	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/place"
)

// paddedRows is a Pad with one element, row by row along the last axis that it changes.
type paddedRows struct {
	dims, dx, before, strides []int // of the axes in front of that one, strides of the operand in bytes
	row, from, to, skip       int   // bytes of a row of the result, where those of the operand begin and end there, and what is left out in front of them
}

// begin returns where part i of the operand, of those along all axes up to a, begins; what is negative where all of it is padding.
func (r *paddedRows) begin(i, a int) int {
	at := r.skip
	for ; a >= 0; a-- {
		k := i%r.dims[a] - r.before[a]
		if k < 0 || k >= r.dx[a] {
			return -1
		}
		at += k * r.strides[a]
		i /= r.dims[a]
	}
	return at
}

// padRows emits a Pad of elements of size bytes, with one that is read when it runs.
func (p *planner) padRows(dx, dy, before []int, size int, element, src, dst place.Memory) {
	if len(dx) == 0 {
		p.copyStep(dst, src, size)
		return
	}
	axes := len(dx)
	for axes > 1 && before[axes-1] == 0 && dx[axes-1] == dy[axes-1] {
		axes--
	}
	last, unit := axes-1, product(dx[axes:])*size
	lo, hi := max(-before[last], 0), min(dx[last], dy[last]-before[last])
	strides := tensor.CompactStrides(dx)
	for a := range strides {
		strides[a] *= size
	}
	r := paddedRows{dims: dy[:last], dx: dx, before: before, strides: strides, row: dy[last] * unit, skip: lo * unit}
	if lo < hi {
		r.from, r.to = (lo+before[last])*unit, (hi+before[last])*unit
	}
	high := 1 // of a matrix of the result
	if last > 0 {
		high = dy[last-1]
	}
	p.emit(step{chunks: product(r.dims), grain: grainFor(float64(r.row)*0.05 + 10), body: func(st *state, _, lo, hi int) {
		d, s, e := st.Bytes(dst), st.Bytes(src), st.Bytes(element)[:size]
		zero := !slices.ContainsFunc(e, func(b byte) bool { return b != 0 })
		pad := func(d []byte) {
			if zero {
				clear(d)
			} else {
				repeat(d, e)
			}
		}
		for i, matrix := lo, -2; i < hi; i++ {
			row, at := d[i*r.row:(i+1)*r.row], r.skip
			if last > 0 {
				k := i % high
				if k == 0 || matrix == -2 {
					matrix = r.begin(i/high, last-2)
				}
				if at, k = matrix, k-r.before[last-1]; k < 0 || k >= r.dx[last-1] {
					at = -1
				} else if at >= 0 {
					at += k * r.strides[last-1]
				}
			}
			if at < 0 || r.from == r.to {
				pad(row)
				continue
			}
			pad(row[:r.from])
			copy(row[r.from:r.to], s[at:])
			pad(row[r.to:])
		}
	}}, []place.Memory{element, src}, []place.Memory{dst})
}
