package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/element"
	"github.com/carve-dev/carve/internal/kernel/isa"
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
	set := p.target.Set
	p.emit(step{chunks: len(a) * rows, grain: grainFor(float64(k*cols)*0.5 + 10), body: func(st *state, _, lo, hi int) {
		x, y, z := of[T](st, ma), of[T](st, mb), of[T](st, dst)
		for lo < hi {
			n := min(hi-lo, rows-lo%rows) // rows of one product
			integerRows(set, z[lo*cols:][:n*cols], x[a[lo/rows]+lo%rows*k:][:n*k], y[b[lo/rows]:], k, cols)
			lo += n
		}
	}}, []place.Memory{ma, mb}, []place.Memory{dst})
	return nil
}

// integerRows writes rows of a product of matrices, in strips of columns whose part of the second operand the first-level cache holds.
func integerRows[T int32 | int64](set isa.Set, out, left, right []T, k, cols int) {
	const strip = 1 << 12 // elements
	if k == 0 {
		clear(out)
		return
	}
	for c, wide := 0, max(strip/k/32*32, 32); c < cols; c += wide {
		for i := 0; i*cols < len(out); i++ {
			element.Products(set, out[i*cols+c:][:min(wide, cols-c)], left[i*k:][:k], right[c:], cols)
		}
	}
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
