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
			left, right := x[a[i/rows]+i%rows*k:][:k], y[b[i/rows]:]
			for len(left) >= 4 { // what is summed is read and written once for four rows
				p, q, r, s := left[0], left[1], left[2], left[3]
				second, third, fourth := right[cols:][:len(out)], right[2*cols:][:len(out)], right[3*cols:][:len(out)]
				for c, w := range right[:len(out)] {
					out[c] += p*w + q*second[c] + r*third[c] + s*fourth[c]
				}
				left, right = left[4:], right[4*cols:]
			}
			for j, v := range left {
				for c, w := range right[j*cols:][:cols] {
					out[c] += v * w
				}
			}
		}
	}}, []place.Memory{ma, mb}, []place.Memory{dst})
	return nil
}

// integerGemm returns what plans a Gemm of integers whose factors are 1, nil for other nodes.
func integerGemm(n *graph.Node) func(p *planner, n *graph.Node) error {
	if !n.Is("Gemm") || n.Float("alpha", 1) != 1 || n.Float("beta", 1) != 1 && n.Input(2) != nil {
		return nil
	}
	switch n.Inputs[0].Type.DType {
	case tensor.Int32, tensor.Uint32:
		return planIntegerGemm[int32]
	case tensor.Int64, tensor.Uint64:
		return planIntegerGemm[int64]
	}
	return nil
}

func planIntegerGemm[T int32 | int64](p *planner, n *graph.Node) error {
	da, db := p.Dims[n.Inputs[0].ID], p.Dims[n.Inputs[1].ID]
	rows, k, row, across := da[0], da[1], da[1], 1 // from one row of A to the next, and within one
	if n.Int("transA", 0) != 0 {
		rows, k, row, across = k, rows, 1, da[1]
	}
	cols, down, along := db[1], db[1], 1
	if n.Int("transB", 0) != 0 {
		cols, down, along = db[0], 1, db[1]
	}
	ma, mb, mc, dst := p.In(n.Inputs[0]), p.In(n.Inputs[1]), p.In(n.Input(2)), p.Out(n.Outputs[0])
	var addend [2]int // from one row of C to the next, and within one
	if c := n.Input(2); c != nil {
		d := append([]int{1, 1}, p.Dims[c.ID]...)
		if d = d[len(d)-2:]; d[1] > 1 {
			addend[1] = 1
		}
		if d[0] > 1 {
			addend[0] = d[1]
		}
	}
	p.emit(step{chunks: rows, grain: grainFor(float64(k*cols)*0.5 + 10), body: func(st *state, _, lo, hi int) {
		x, y, c, z := of[T](st, ma), of[T](st, mb), of[T](st, mc), of[T](st, dst)
		for i := lo; i < hi; i++ {
			out := z[i*cols:][:cols]
			clear(out)
			for j := range out {
				if c != nil {
					out[j] = c[i*addend[0]+j*addend[1]]
				}
			}
			for j := range k {
				v, from := x[i*row+j*across], y[j*down:]
				for q := range out {
					out[q] += v * from[q*along]
				}
			}
		}
	}}, []place.Memory{ma, mb, mc}, []place.Memory{dst})
	return nil
}
