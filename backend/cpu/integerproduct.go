package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/place"
)

// Products of matrices of integers of 32 and 64 bits, which wrap around: those that count, and look up, row by row.

// integerProduct returns what plans a MatMul of integers, nil for other nodes.
func integerProduct(n *graph.Node) func(p *planner, n *graph.Node) error {
	if !n.Is("MatMul") {
		return nil
	}
	switch n.Inputs[0].Type.DType {
	case tensor.Int32, tensor.Uint32: // of both the products have the same bits
		return planIntegerProduct[int32]
	case tensor.Int64, tensor.Uint64:
		return planIntegerProduct[int64]
	}
	return nil
}

func planIntegerProduct[T int32 | int64](p *planner, n *graph.Node) error {
	da, db := matrixDims(p.Dims[n.Inputs[0].ID], p.Dims[n.Inputs[1].ID])
	rows, k, cols := da[len(da)-2], da[len(da)-1], db[len(db)-1]
	batch := batchDims(da[:len(da)-2], db[:len(db)-2])
	a, b := matricesAt(place.Memory{}, batch, da).off, matricesAt(place.Memory{}, batch, db).off
	ma, mb, dst := p.In(n.Inputs[0]), p.In(n.Inputs[1]), p.Out(n.Outputs[0])
	p.emit(step{chunks: len(a) * rows, grain: grainFor(float64(k*cols)*0.5 + 10), body: func(st *state, _, lo, hi int) {
		x, y, z := of[T](st, ma), of[T](st, mb), of[T](st, dst)
		for i := lo; i < hi; i++ {
			out := z[i*cols:][:cols]
			clear(out)
			for j, v := range x[a[i/rows]+i%rows*k:][:k] {
				for c, w := range y[b[i/rows]+j*cols:][:cols] {
					out[c] += v * w
				}
			}
		}
	}}, []place.Memory{ma, mb}, []place.Memory{dst})
	return nil
}
