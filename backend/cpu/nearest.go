package cpu

import (
	"slices"
	"unsafe"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/conv"
	"github.com/carve-dev/carve/internal/kernel/element"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// Resize and Upsample to nearest neighbours over any axes, row-major, along the last axis that changes.

// nearestRows says which element of the operand every element of the result is.
type nearestRows struct {
	repeatedRows
	columns []int // the index on the last axis
	length  int   // of that
	twice   bool  // columns are all elements, each two times
	pairs   bool  // and rows of a matrix all rows, so too
	set     isa.Set
}

func planNearest(p *planner, n *graph.Node, r resizing) error {
	dx, dy := p.Dims[n.Inputs[0].ID], p.Dims[n.Outputs[0].ID]
	if product(dy) == 0 {
		return nil
	}
	if product(dx) == 0 {
		return property.Because(property.ShapeReason, "%v is made of nothing", dy)
	}
	size := n.Inputs[0].Type.DType.Size()
	if len(dx) == 0 {
		p.copyStep(p.Out(n.Outputs[0]), p.In(n.Inputs[0]), size)
		return nil
	}
	rows := nearestRows{set: p.target.Set}
	for a := range dx {
		scale := 0.0
		if len(r.factors) == len(dx) {
			scale = r.factors[a]
		}
		var index []int
		for _, i := range conv.NearestAxis(dx[a], dy[a], scale, r.coordinates, r.rounding).First {
			index = append(index, int(i))
		}
		rows.index = append(rows.index, index)
	}
	rows.without(dx)
	last := len(rows.dims) - 1
	rows.columns, rows.length = rows.index[last], dx[last]
	rows.twice = isTwice(rows.columns, rows.length) && rows.unit == 1
	rows.pairs = rows.twice && last > 0 && isTwice(rows.index[last-1], dx[last-1])
	if size == 1 && len(dx) == 4 && last == 3 && rows.twice && isTwice(rows.index[2], dx[2]) && isOnce(rows.index[0], dx[0]) && isOnce(rows.index[1], dx[1]) {
		return resizeTwice(p, n, dx[2], rows.length)
	}
	switch size {
	case 1:
		emitNearest[uint8](p, n, &rows)
	case 2:
		emitNearest[uint16](p, n, &rows)
	case 4:
		emitNearest[uint32](p, n, &rows)
	default:
		emitNearest[uint64](p, n, &rows)
	}
	return nil
}

// isTwice reports whether an axis is all indices below n, each two times.
func isTwice(first []int, n int) bool {
	for i, at := range first {
		if at != i/2 {
			return false
		}
	}
	return len(first) == 2*n
}

func emitNearest[T tensor.Element](p *planner, n *graph.Node, r *nearestRows) {
	src, dst := p.In(n.Inputs[0]), p.Out(n.Outputs[0])
	last := len(r.dims) - 1
	high, wide := 1, r.dims[last]*r.unit // of a matrix of the result
	if last > 0 {
		high = r.dims[last-1]
	}
	p.emit(step{chunks: product(r.dims[:last]), grain: grainFor(float64(wide) * 0.5), body: func(st *state, _, lo, hi int) {
		d, s := of[T](st, dst), of[T](st, src)
		before := -1 // where the row before begins
		for i, k, matrix, made := lo, lo%high, -1, -1; i < hi; i, k = i+1, k+1 {
			if i < made {
				continue
			}
			if k == high || matrix < 0 {
				k, matrix = i%high, r.from(i/high, last-2)
			}
			row, from := d[i*wide:(i+1)*wide], matrix
			if last > 0 {
				from += r.index[last-1][k] * r.strides[last-1]
			}
			switch {
			case from == before:
				copy(row, d[(i-1)*wide:])
			case r.pairs && k%2 == 0 && i+1 < hi && unsafe.Sizeof(row[0]) == 4:
				pairs := min(high-k, hi-i) / 2
				made = i + 2*pairs
				element.Twice(r.set, wordsOf(d[i*wide:made*wide]), wordsOf(s[from:][:pairs*r.length]), r.length, true)
				from += (pairs - 1) * r.length
			default:
				nearestRow(row, s[from:][:r.length*r.unit], r)
			}
			before = from
		}
	}}, []place.Memory{src}, []place.Memory{dst})
}

// wordsOf returns elements of 32 bits as such. They share memory.
func wordsOf[T any](x []T) []uint32 {
	return unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(x))), len(x))
}

// nearestRow writes a row of a result.
func nearestRow[T any](row, from []T, r *nearestRows) {
	switch u := r.unit; {
	case u > 1:
		for x, at := range r.columns {
			copy(row[x*u:][:u], from[at*u:])
		}
	case r.twice && unsafe.Sizeof(row[0]) == 4:
		element.Twice(r.set, wordsOf(row), wordsOf(from), len(from), false)
	default:
		for x, at := range r.columns {
			row[x] = from[at]
		}
	}
}

// nearestSignatures are those of a Resize or Upsample to nearest neighbours over any axes.
func nearestSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if r, why := resizingOf(n); why != nil {
		return nil, why
	} else if r.linear || !slices.Contains([]int{0, len(n.Inputs[0].Type.Shape)}, len(r.factors)) {
		return nil, property.Because(property.Attribute, "not to nearest neighbours")
	}
	return resizeElementSignatures(n)
}
