package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// Pad with elements of the operand: its edge, its mirror image, or its other end. Row-major, for every element type.

// repeatedIndex returns the index on an axis of n elements that stands at place k beyond or within it.
func repeatedIndex(mode string, k, n int) int {
	modulo := func(k, n int) int {
		if k %= n; k < 0 {
			k += n
		}
		return k
	}
	switch {
	case k >= 0 && k < n:
		return k
	case mode == "edge":
		return min(max(k, 0), n-1)
	case mode == "wrap":
		return modulo(k, n)
	case n == 1:
		return 0
	}
	if k = modulo(k, 2*(n-1)); k >= n { // reflect
		k = 2*(n-1) - k
	}
	return k
}

// stretch is a run of a row of the result, whose elements lie a step apart in a row of the operand: one behind the other, in the opposite order,
// or they are one element.
type stretch struct{ dst, src, length, step int }

// stretches describes a row of the result.
func stretches(index []int) []stretch {
	var runs []stretch
	for i, k := range index {
		if last := len(runs) - 1; last >= 0 {
			r := &runs[last]
			if step := k - index[i-1]; step >= -1 && step <= 1 && (r.length == 1 || step == r.step) {
				r.step, r.length = step, r.length+1
				continue
			}
		}
		runs = append(runs, stretch{i, k, 1, 1})
	}
	return runs
}

// ends are the few elements of a row in front of and behind the longest of its stretches in the operand's order: indices of the operand.
type ends struct {
	front, back []int
	middle      stretch
}

// endsOf returns the ends of rows, if they are few.
func endsOf(index []int, runs []stretch) (e ends, few bool) {
	for _, r := range runs {
		if r.step == 1 && r.length > e.middle.length {
			e.middle = r
		}
	}
	e.front, e.back = index[:e.middle.dst], index[e.middle.dst+e.middle.length:]
	return e, max(len(e.front), len(e.back)) <= fewElements
}

// withEnds is stretched for a row with few ends, of elements of one number. In a caller's loop its variables would lie in memory.
//
//go:noinline
func withEnds[T any](d, s []T, e *ends) {
	for k, at := range e.front {
		d[k] = s[at]
	}
	copy(d[e.middle.dst:][:e.middle.length], s[e.middle.src:])
	d = d[len(d)-len(e.back):]
	for k, at := range e.back {
		d[k] = s[at]
	}
}

// stretched writes a row of the result, whose elements are of unit numbers each.
func stretched[T any](d, s []T, runs []stretch, unit int) {
	for i := range runs {
		r := &runs[i]
		to := d[r.dst*unit:][:r.length*unit]
		switch {
		case unit == 1 && r.length <= fewElements:
			for k, at := 0, r.src; k < len(to); k, at = k+1, at+r.step {
				to[k] = s[at]
			}
		case r.step == 1:
			copy(to, s[r.src*unit:][:len(to)])
		case unit > 1:
			for k := range r.length {
				copy(to[k*unit:][:unit], s[(r.src+k*r.step)*unit:])
			}
		case r.step == 0:
			fillRow(to, s[r.src])
		default:
			for k, x := range s[r.src-r.length+1:][:r.length] {
				to[len(to)-1-k] = x
			}
		}
	}
}

func planPadRepeated(p *planner, n *graph.Node, before []int) error {
	x, y := n.Inputs[0], n.Outputs[0]
	dx, dy, mode := p.Dims[x.ID], p.Dims[y.ID], n.Str("mode", "")
	if product(dx) == 0 {
		return property.Because(property.ShapeReason, "nothing to repeat in %v", dx)
	}
	var r repeatedRows
	for a := range dx {
		index := make([]int, dy[a])
		for i := range index {
			index[i] = repeatedIndex(mode, i-before[a], dx[a])
		}
		r.index = append(r.index, index)
	}
	r.without(dx)
	r.runs = stretches(r.index[len(r.dims)-1])
	switch x.Type.DType.Size() {
	case 1:
		padRepeated[uint8](p, n, &r)
	case 2:
		padRepeated[uint16](p, n, &r)
	case 4:
		padRepeated[uint32](p, n, &r)
	case 8:
		padRepeated[uint64](p, n, &r)
	default:
		padRepeated[complex128](p, n, &r)
	}
	return nil
}

// repeatedRows says which element of the operand every element of the result, of these dims, is.
type repeatedRows struct {
	dims, strides []int
	index         [][]int // on each axis
	runs          []stretch
	unit          int // numbers of an element: those of the axes that are left out
}

// smallRow and smallMatrix are how long rows, and how large matrices, are at most that are written element by element, from a table of indices: rows of their own take longer.
const (
	smallRow    = 24
	smallMatrix = 1 << 12
)

// table returns which element of a matrix of the operand each of one of the result is.
func (r *repeatedRows) table() []int32 {
	last := len(r.dims) - 1
	var table []int32
	for _, row := range r.index[last-1] {
		for _, column := range r.index[last] {
			table = append(table, int32(row*r.strides[last-1]+column))
		}
	}
	return table
}

// without sets all but the indices and runs for an operand of dims dx, and leaves the last axes out where each element is its own.
func (r *repeatedRows) without(dx []int) {
	r.strides, r.unit = tensor.CompactStrides(dx), 1
	for last := len(dx) - 1; last > 0 && isOnce(r.index[last], dx[last]); last-- {
		r.index, r.unit = r.index[:last], r.unit*dx[last]
	}
	for _, index := range r.index {
		r.dims = append(r.dims, len(index))
	}
}

// isOnce reports whether an index is all numbers below n in their order.
func isOnce(index []int, n int) bool {
	for i, at := range index {
		if at != i {
			return false
		}
	}
	return len(index) == n
}

// from returns where row i of the result begins in the operand, of those along all axes up to a.
func (r *repeatedRows) from(i, a int) int {
	sum := 0
	for ; a >= 0; a-- {
		sum += r.index[a][i%r.dims[a]] * r.strides[a]
		i /= r.dims[a]
	}
	return sum
}

// pick writes the elements that a table names.
func pick[T any](d, s []T, table []int32) {
	d = d[:len(table)]
	for k, at := range table {
		d[k] = s[at]
	}
}

func padRepeated[T tensor.Element](p *planner, n *graph.Node, r *repeatedRows) {
	src, dst, last := p.In(n.Inputs[0]), p.Out(n.Outputs[0]), len(r.dims)-1
	high, wide := 1, r.dims[last]*r.unit // of a matrix of the result
	if last > 0 {
		high = r.dims[last-1]
	}
	if last > 0 && r.unit == 1 && wide <= smallRow && high*wide <= smallMatrix {
		table := r.table()
		p.emit(step{chunks: product(r.dims[:last-1]), grain: grainFor(float64(len(table)) * 0.6), body: func(st *state, _, lo, hi int) {
			d, s := of[T](st, dst), of[T](st, src)
			for i := lo; i < hi; i++ {
				pick(d[i*len(table):][:len(table)], s[r.from(i, last-2):], table)
			}
		}}, []place.Memory{src}, []place.Memory{dst})
		return
	}
	ends, few := endsOf(r.index[last], r.runs)
	few = few && r.unit == 1
	p.emit(step{chunks: product(r.dims[:last]), grain: grainFor(float64(wide)*0.3 + float64(len(r.runs))*5), body: func(st *state, _, lo, hi int) {
		d, s := of[T](st, dst), of[T](st, src)
		for i, row, matrix := lo, lo%high, -1; i < hi; i, row = i+1, row+1 {
			if row == high || matrix < 0 {
				row, matrix = i%high, r.from(i/high, last-2)
			}
			from := matrix
			if last > 0 {
				from += r.index[last-1][row] * r.strides[last-1]
			}
			if to := d[i*wide:][:wide]; few {
				withEnds(to, s[from:], &ends)
			} else {
				stretched(to, s[from:], r.runs, r.unit)
			}
		}
	}}, []place.Memory{src}, []place.Memory{dst})
}
