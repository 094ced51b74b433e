package cpu

import (
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/double"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// Operators on float64 are rows of a table of their own, by the names of those on float32: row-major all of them, contiguous, and
// not fused. Elements are gone through by the kernels of package double, products are those of package gemm.

// doubleTable has the operators on float64.
var doubleTable = operators.Table[func(n *graph.Node) ([]graph.Signature, *property.Reason), *planner]{}

// isDouble reports whether every present value is a float64 tensor.
func isDouble(vs ...*graph.Value) bool {
	for _, v := range vs {
		if v != nil && !(v.Type.IsTensor() && v.Type.DType == tensor.Float64) {
			return false
		}
	}
	return true
}

// tableOf returns the table that has the operator of a node: that of strings where there are some, that of float64 where the first result that there is is one, and there is such
// a row.
func tableOf(n *graph.Node) operators.Table[func(n *graph.Node) ([]graph.Signature, *property.Reason), *planner] {
	if hasTexts(n) {
		return textTable
	}
	first := slices.IndexFunc(n.Outputs, func(v *graph.Value) bool { return v != nil })
	if first >= 0 && isDouble(n.Outputs[first]) || comparesDoubles(n) {
		if _, ok := doubleTable.Lookup(n); ok {
			return doubleTable
		}
	}
	return table
}

// registerDoubles adds rows to the table of float64. All operands have to be float64, but for those from number others on; 0 is all.
func registerDoubles(op operator, others int, names ...string) {
	own := op.Signatures
	op.Signatures = func(n *graph.Node) ([]graph.Signature, *property.Reason) {
		if why := alignsByAxis(n); why != nil {
			return nil, why
		}
		for i, v := range n.Inputs {
			if (others == 0 || i < others) && !isDouble(v) {
				return nil, property.Because(property.DTypeReason, "operands of float64 only, %v is %v", v, v.Type)
			}
		}
		if own != nil {
			return own(n)
		}
		return operators.RowMajor(n), nil
	}
	for _, name := range names {
		doubleTable.Register(name, op)
	}
}

// f64 returns a place's memory as float64.
func f64(st *state, m place.Memory) []float64 { return of[float64](st, m) }

// doubles are the kernels of float64 for the target.
func (p *planner) doubles() double.Kernels { return double.For(p.target) }

// oneDouble returns the number that a constant of float64 holds.
func oneDouble(v *graph.Value) (x float64, ok bool) {
	if v == nil || !v.IsConst() || v.Const.DType != tensor.Float64 || v.Const.Len() != 1 {
		return 0, false
	}
	var one [1]float64
	if tensor.Decode(one[:], v.Const) != nil {
		return 0, false
	}
	return one[0], true
}

// settleDouble lets the result overwrite an operand of its shape.
func settleDouble(p *planner, n *graph.Node) {
	y := n.Outputs[0]
	for _, v := range n.Inputs {
		if v != nil && isDouble(v) && sameDims(p.Dims[v.ID], p.Dims[y.ID]) && p.inPlace(y, v) {
			return
		}
	}
}
