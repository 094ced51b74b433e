package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// CumSum and Trilu.

// constInt returns the integer that a constant of one element holds, 0 for no value.
func constInt(v *graph.Value) (int64, bool) {
	if v == nil {
		return 0, true
	}
	if !v.IsConst() || v.Const.Len() != 1 || v.Const.DType != tensor.Int64 && v.Const.DType != tensor.Int32 {
		return 0, false
	}
	return v.Const.Int64At(0), true
}

func cumSumSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	x := n.Inputs[0]
	switch x.Type.DType {
	case tensor.Float32, tensor.Float64, tensor.Int32, tensor.Int64, tensor.Uint32, tensor.Uint64:
	default:
		return nil, operators.NotFloat32(x)
	}
	a, ok := constInt(n.Input(1))
	rank := int64(len(x.Type.Shape))
	if !ok || a < -rank || a >= rank {
		return nil, property.Because(property.Unsupported, "axis %v is not known at compile time", n.Input(1))
	}
	return operators.RowMajor(n), nil
}

func planCumSum(p *planner, n *graph.Node) error {
	switch n.Inputs[0].Type.DType {
	case tensor.Float32:
		return cumSum[float32, float64](p, n)
	case tensor.Float64:
		return cumSum[float64, float64](p, n)
	case tensor.Int32, tensor.Uint32: // sums wrap around, and have the same bits
		return cumSum[int32, int32](p, n)
	}
	return cumSum[int64, int64](p, n)
}

// cumSum adds up elements T in A.
func cumSum[T, A float32 | float64 | int32 | int64](p *planner, n *graph.Node) error {
	d := p.Dims[n.Inputs[0].ID]
	a, _ := constInt(n.Input(1))
	axis := int(a)
	if axis < 0 {
		axis += len(d)
	}
	count, inner := d[axis], product(d[axis+1:])
	exclusive, reverse := n.Int("exclusive", 0) != 0, n.Int("reverse", 0) != 0
	src, dst := p.In(n.Inputs[0]), p.Out(n.Outputs[0])
	p.emit(step{chunks: product(d[:axis]) * inner, grain: grainFor(float64(count) * 2), body: func(st *state, _, lo, hi int) {
		o, s := of[T](st, dst), of[T](st, src)
		for i := lo; i < hi; i++ {
			at, by := i/inner*count*inner+i%inner, inner
			if reverse {
				at, by = at+(count-1)*inner, -inner
			}
			var sum A
			for range count {
				x := A(s[at])
				if exclusive {
					o[at] = T(sum)
				}
				sum += x
				if !exclusive {
					o[at] = T(sum)
				}
				at += by
			}
		}
	}}, []place.Memory{src}, []place.Memory{dst})
	return nil
}

func triluSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if _, ok := constInt(n.Input(1)); !ok {
		return nil, property.Because(property.Unsupported, "diagonal %v is not known at compile time", n.Input(1))
	}
	if len(n.Inputs[0].Type.Shape) < 2 {
		return nil, property.Because(property.ShapeReason, "%v is %v", n.Inputs[0], n.Inputs[0].Type)
	}
	return operators.RowMajor(n), nil
}

// planTrilu copies the part of each row on one side of a diagonal and zeroes the rest.
func planTrilu(p *planner, n *graph.Node) error {
	x := n.Inputs[0]
	d, size := p.Dims[x.ID], x.Type.DType.Size()
	rows, cols := d[len(d)-2], d[len(d)-1]
	k, _ := constInt(n.Input(1))
	k = min(max(k, int64(-rows)), int64(cols))
	upper := n.Int("upper", 1) != 0
	src, dst := p.In(x), p.Out(n.Outputs[0])
	p.emit(step{chunks: product(d[:len(d)-1]), grain: grainFor(float64(cols*size)*0.05 + 10), body: func(st *state, _, lo, hi int) {
		o, s := st.Bytes(dst), st.Bytes(src)
		for i := lo; i < hi; i++ {
			from, to := 0, min(max(i%rows+int(k)+1, 0), cols) // below the diagonal
			if upper {
				from, to = min(max(i%rows+int(k), 0), cols), cols
			}
			row := o[i*cols*size : (i+1)*cols*size]
			clear(row[:from*size])
			copy(row[from*size:to*size], s[(i*cols+from)*size:])
			clear(row[to*size:])
		}
	}}, []place.Memory{src}, []place.Memory{dst})
	return nil
}

func init() {
	table.Register("CumSum", operator{Signatures: cumSumSignatures, Plan: planCumSum})
	table.Register("Trilu", operator{Signatures: triluSignatures, Plan: planTrilu})
}
