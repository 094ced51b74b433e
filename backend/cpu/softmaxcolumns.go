package cpu

import (
	"math"

	"github.com/carve-dev/carve/internal/kernel/vec"
	"github.com/carve-dev/carve/internal/place"
)

const (
	mostBeside   = 1024 // columns of a softmax at a time
	mostGathered = 32   // rows of columns that are brought together
	wideGathered = 16   // columns of which there are enough where they lie
)

// softmaxColumns emits a softmax over the middle one of three dims, for columns that lie side by side, of which vectors hold
// several. It reports whether it did: where columns are few, very long or lie apart, rows are made of them instead.
func (p *planner) softmaxColumns(src, dst place.Memory, dims []int, logarithm bool) bool {
	outer, rows, inner := dims[0], dims[1], dims[2]
	from, known := src.Strides(dims, 4)
	to, known2 := dst.Strides(dims, 4)
	if !known || !known2 || from[2] != 1 || to[2] != 1 || outer*rows*inner == 0 {
		return false
	}
	width := p.columnsAtOnce(rows)
	if 4*rows*min(width, inner) > p.target.SecondCache()/2 {
		return false
	}
	c := besides{kernels: p.kernels, logarithm: logarithm, rows: rows, ldd: to[1], lds: from[1]}
	switch {
	case logarithm && inner < wideGathered && rows <= mostGathered:
		p.gatheredColumns(src, dst, dims, from, to, width)
		return true
	case !c.pays(inner):
		return false
	}
	blocks := (inner + width - 1) / width
	work := p.scratch(4 * vec.ColumnsWork * rows)
	if logarithm {
		work = p.scratch(4 * 4 * mostBeside)
	}
	p.emit(step{chunks: outer * blocks, grain: grainFor(float64(rows*min(width, inner)) * 0.6), body: func(st *state, worker, lo, hi int) {
		d, s, w := st.F32(dst), st.F32(src), work.floats(st, worker)
		for i := lo; i < hi; i++ {
			first := i % blocks * width
			c.softmax(d[i/blocks*to[0]+first:], s[i/blocks*from[0]+first:], w, min(width, inner-first))
		}
	}}, []place.Memory{src}, []place.Memory{dst, work.at})
	return true
}

// pays reports whether kernels for so many columns take less time than one for rows that are made of them.
func (c *besides) pays(columns int) bool {
	rows, n := float64(c.rows), float64(columns)
	nanos := 30 + 4.5*rows*math.Ceil(n/16)
	if c.logarithm {
		nanos = 140 + (11+0.45*n)*rows
	}
	return columns >= 64 || nanos < (45+0.5*rows)*n
}

// gatheredColumns emits a softmax's logarithm over short columns of which few lie side by side: those of several matrices, with these strides, are
// brought together, some width of them.
func (p *planner) gatheredColumns(src, dst place.Memory, dims, from, to []int, width int) {
	outer, rows, inner := dims[0], dims[1], dims[2]
	some := min(width/inner, outer) // matrices at a time
	ld := some * inner
	c := besides{kernels: p.kernels, logarithm: true, rows: rows, ldd: ld, lds: ld}
	work := p.scratch(4 * (rows*ld + 4*mostBeside))
	p.emit(step{chunks: ceilDiv(outer, some), grain: grainFor(float64(rows*ld) * 1.5), body: func(st *state, worker, lo, hi int) {
		w := work.floats(st, worker)
		x, w := w[:rows*ld], w[rows*ld:]
		for i := lo * some; i < min(hi*some, outer); i += some {
			d, s, n := st.F32(dst)[i*to[0]:], st.F32(src)[i*from[0]:], min(some, outer-i)
			copyRows(x, s, n, rows, inner, [4]int{inner, ld, from[0], from[1]})
			c.softmax(x, x, w, n*inner)
			copyRows(d, x, n, rows, inner, [4]int{to[0], to[1], inner, ld})
		}
	}}, []place.Memory{src}, []place.Memory{dst, work.at})
}

// copyRows copies matrices[rows, cols] by strides: those of the matrices and rows of dst, and of src.
func copyRows(dst, src []float32, matrices, rows, cols int, by [4]int) {
	for m := range matrices {
		for r := range rows {
			copy(dst[m*by[0]+r*by[1]:][:cols], src[m*by[2]+r*by[3]:])
		}
	}
}

// columnsAtOnce is how many columns of so many rows stay in half of the first cache, but enough for calls of kernels to be worth it.
func (p *planner) columnsAtOnce(rows int) int {
	const few = 128
	return min(max(p.target.FirstCache()/2/4/rows/few, 1)*few, mostBeside)
}

// besides are columns of a matrix that lie side by side, with its rows at these distances.
type besides struct {
	kernels   vec.Kernels
	logarithm bool
	rows      int
	ldd, lds  int
}

// softmax computes the first n columns, n at most mostBeside. dst may be src; work is scratch memory.
func (c *besides) softmax(dst, src, work []float32, n int) {
	k := c.kernels
	if !c.logarithm {
		k.SoftmaxColumns(dst, c.ldd, src, c.lds, work, c.rows, n)
		return
	}
	top, sum := work[:n], work[mostBeside:][:n]
	k.ReduceColumns(vec.ReduceMax, top, src, c.lds, c.rows, n)
	k.BinaryRows(vec.Sub, vec.VV, dst, c.ldd, src, c.lds, top, 0, c.rows, n)
	c.exponentials(sum, dst, work[2*mostBeside:])
	k.Apply(vec.Log, sum, sum, vec.Params{})
	k.BinaryRows(vec.Sub, vec.VV, dst, c.ldd, dst, c.ldd, sum, 0, c.rows, n)
}

// exponentials writes to sum those of each column of x, some rows at a time; work is scratch memory.
func (c *besides) exponentials(sum, x, work []float32) {
	k, n := c.kernels, len(sum)
	some, part := work[:mostBeside], work[mostBeside:][:n]
	clear(sum)
	for r, step := 0, mostBeside/n; r < c.rows; r += step {
		step := min(step, c.rows-r)
		k.ApplyRows(vec.Exp, some, n, x[r*c.ldd:], c.ldd, step, n, vec.Params{})
		k.ReduceColumns(vec.ReduceSum, part, some, n, step, n)
		k.Binary(vec.Add, sum, sum, part)
	}
}
