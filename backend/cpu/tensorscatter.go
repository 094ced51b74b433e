package cpu

import (
	"math"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// TensorScatter writes what is new into a cache of a fixed length, from a place of its own in each row of a batch on. Only that is moved where nobody else
// reads the cache as it was.

func tensorScatterSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	x := n.Inputs[0]
	if rank := len(x.Type.Shape); rank < 2 || len(n.Inputs[1].Type.Shape) != rank || axisOf(n, -2, rank) == 0 {
		return nil, property.Because(property.ShapeReason, "%v in %v", n.Inputs[1].Type, x.Type)
	}
	if v := n.Input(2); v != nil && v.Type.DType != tensor.Int64 || n.Inputs[1].Type.DType != x.Type.DType {
		return nil, property.Because(property.DTypeReason, "%v in %v", n.Inputs[1].Type, x.Type)
	}
	return operators.RowMajor(n), nil
}

func planTensorScatter(p *planner, n *graph.Node) error {
	x, u := n.Inputs[0], n.Inputs[1]
	d, du := p.Dims[x.ID], p.Dims[u.ID]
	axis, batch := axisOf(n, -2, len(d)), d[0]
	for a := range d {
		if a != axis && du[a] != d[a] || du[a] > d[a] {
			return property.Because(property.ShapeReason, "%v in %v", du, d)
		}
	}
	if v := n.Input(2); v != nil && !sameDims(p.Dims[v.ID], []int{batch}) {
		return property.Because(property.ShapeReason, "%v indices for %v", p.Dims[v.ID], d)
	}
	bytes, length, fresh := product(d[axis+1:])*x.Type.DType.Size(), d[axis], du[axis]
	outer := product(d[:axis])
	perRow, circular := outer/max(batch, 1), n.Str("mode", "linear") == "circular"
	base, src, index, dst := p.In(x), p.In(u), p.In(n.Input(2)), p.Out(n.Outputs[0])
	if base != dst {
		p.copyStep(dst, base, p.Bytes(x))
	}
	p.emit(step{chunks: outer, grain: grainFor(float64(fresh*bytes)*0.1 + 10), body: func(st *state, _, lo, hi int) {
		from, to, starts := st.Bytes(src), st.Bytes(dst), of[int64](st, index)
		for o := lo; o < hi; o++ {
			start := int64(0)
			if starts != nil {
				start = starts[o/perRow]
			}
			if most := int64(length - fresh); start < 0 || !circular && start > most {
				if circular {
					most = math.MaxInt64
				}
				panic(backend.OutOfRange(n, 2, start, 0, most))
			}
			at := int(start % int64(length))
			row, cache := from[o*fresh*bytes:][:fresh*bytes], to[o*length*bytes:][:length*bytes]
			k := copy(cache[at*bytes:], row)
			copy(cache, row[k:])
		}
	}}, []place.Memory{src, index}, []place.Memory{dst})
	return nil
}

func init() {
	table.Register("TensorScatter", operator{Signatures: tensorScatterSignatures, Settle: overFirst, Plan: planTensorScatter})
}
