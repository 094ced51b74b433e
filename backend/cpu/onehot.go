package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// OneHot of integers, of a depth that is known when shapes are: the first of two values everywhere, and the second at the indices, of which
// those outside of the axis have none.

func hotSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	x, values := n.Inputs[0], n.Inputs[2]
	if x.Type.DType != tensor.Int64 && x.Type.DType != tensor.Int32 {
		return nil, property.Because(property.DTypeReason, "%v is %v", x, x.Type.DType)
	}
	if values.Type.DType.Size() == 0 || len(values.Type.Shape) != 1 || !values.Type.Shape[0].Is(2) {
		return nil, property.Because(property.ShapeReason, "%v is %v, not two values", values, values.Type)
	}
	return operators.RowMajor(n), nil
}

func planOneHot(p *planner, n *graph.Node) error {
	x, y := n.Inputs[0], n.Outputs[0]
	d := p.Dims[y.ID]
	axis := axisOf(n, -1, len(d))
	depth, inner := d[axis], product(d[axis+1:])
	size := y.Type.DType.Size()
	src, values, dst := p.In(x), p.In(n.Inputs[2]), p.Out(y)
	const part = 1 << 14 // results that are made of all classes together, while they are in the cache
	some := max(1, part/max(depth, 1))
	parts := ceilDiv(inner, some)
	p.emit(step{chunks: product(d[:axis]) * parts, grain: grainFor(float64(depth*min(inner, some)*size)*0.05 + 10), body: func(st *state, _, lo, hi int) {
		h := hot{depth: depth, inner: inner, parts: parts, some: some, indices: st.hotIndices(x, src)}
		switch v, out := st.Bytes(values), st.Bytes(dst); size {
		case 1:
			setHot(&h, out, v, lo, hi)
		case 2:
			setHot(&h, place.Elements[uint16](out), place.Elements[uint16](v), lo, hi)
		case 4:
			setHot(&h, place.Elements[uint32](out), place.Elements[uint32](v), lo, hi)
		case 8:
			setHot(&h, place.Elements[uint64](out), place.Elements[uint64](v), lo, hi)
		}
	}}, []place.Memory{src, values}, []place.Memory{dst})
	return nil
}

// hot is what a OneHot does: results [outer, depth, inner] of indices [outer, inner], in parts of some of inner.
type hot struct {
	indices

	depth, inner, parts, some int
}

// hotIndices are the indices of a OneHot.
func (st *state) hotIndices(x *graph.Value, m place.Memory) indices {
	if x.Type.DType == tensor.Int64 {
		return indices{wide: of[int64](st, m)}
	}
	return indices{narrow: of[int32](st, m)}
}

// fillWith sets a row to x, fastest to 0.
func fillWith[T uint8 | uint16 | uint32 | uint64](row []T, x T) {
	if x == 0 {
		clear(row)
		return
	}
	fillRow(row, x)
}

// setHot sets parts [lo, hi) of the results to the first of the values, and to the second where indices say.
func setHot[T uint8 | uint16 | uint32 | uint64](h *hot, out, values []T, lo, hi int) {
	off, on := values[0], values[1]
	if h.inner == 1 {
		fillWith(out[lo*h.depth:hi*h.depth], off)
	}
	for c := lo; c < hi; c++ {
		o, from := c/h.parts, c%h.parts*h.some
		n := min(h.some, h.inner-from)
		block := out[o*h.depth*h.inner:][:h.depth*h.inner]
		for k := from; h.inner > 1 && k < len(block); k += h.inner {
			fillWith(block[k:k+n], off)
		}
		for i := from; i < from+n; i++ {
			var k int64
			if h.wide != nil {
				k = h.wide[o*h.inner+i]
			} else {
				k = int64(h.narrow[o*h.inner+i])
			}
			if k < 0 {
				k += int64(h.depth)
			}
			if uint64(k) < uint64(h.depth) {
				block[int(k)*h.inner+i] = on
			}
		}
	}
}

func init() { table.Register("OneHot", operator{Signatures: hotSignatures, Plan: planOneHot}) }
