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
	size, wide := y.Type.DType.Size(), x.Type.DType == tensor.Int64
	src, values, dst := p.In(x), p.In(n.Inputs[2]), p.Out(y)
	p.emit(step{chunks: product(d[:axis]), grain: grainFor(float64(depth*inner*size)*0.05 + 10), body: func(st *state, _, lo, hi int) {
		v, out := st.Bytes(values), st.Bytes(dst)
		repeat(out[lo*depth*inner*size:hi*depth*inner*size], v[:size])
		for o := lo; o < hi; o++ {
			for i := range inner {
				var k int64
				if at := o*inner + i; wide {
					k = of[int64](st, src)[at]
				} else {
					k = int64(of[int32](st, src)[at])
				}
				if k < 0 {
					k += int64(depth)
				}
				if uint64(k) < uint64(depth) {
					copy(out[((o*depth+int(k))*inner+i)*size:][:size], v[size:2*size])
				}
			}
		}
	}}, []place.Memory{src, values}, []place.Memory{dst})
	return nil
}

func init() { table.Register("OneHot", operator{Signatures: hotSignatures, Plan: planOneHot}) }
