package cpu

import (
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/fuse"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// Comparisons, boolean operators, Where and Pow: row-major, by plain loops except where floats are many.

type ordered interface {
	~float32 | ~float64 | ~int32 | ~int64 | ~uint8 | ~int8
}

var comparisons = []string{"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"}

func compareSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if why := alignsByAxis(n); why != nil {
		return nil, why
	}
	a := n.Input(0)
	switch a.Type.DType {
	case tensor.Float32, tensor.Int32, tensor.Int64, tensor.Uint8, tensor.Int8:
		return operators.RowMajor(n), nil
	case tensor.Bool:
		if n.Op.Name == "Equal" {
			return operators.RowMajor(n), nil
		}
	}
	return nil, operators.NotFloat32(a)
}

func planCompare(p *planner, n *graph.Node) error {
	switch n.Inputs[0].Type.DType {
	case tensor.Float32:
		return elementwise2(p, n, compareFunc[float32](n.Op.Name))
	case tensor.Int32:
		return elementwise2(p, n, compareFunc[int32](n.Op.Name))
	case tensor.Int64:
		return elementwise2(p, n, compareFunc[int64](n.Op.Name))
	case tensor.Int8:
		return elementwise2(p, n, compareFunc[int8](n.Op.Name))
	}
	return elementwise2(p, n, compareFunc[uint8](n.Op.Name))
}

func compareFunc[T ordered](name string) func(a, b T) bool {
	switch name {
	case "Equal":
		return func(a, b T) bool { return a == b }
	case "Greater":
		return func(a, b T) bool { return a > b }
	case "GreaterOrEqual":
		return func(a, b T) bool { return a >= b }
	case "Less":
		return func(a, b T) bool { return a < b }
	}
	return func(a, b T) bool { return a <= b }
}

func boolSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if why := alignsByAxis(n); why != nil {
		return nil, why
	}
	return operators.RowMajor(n), nil
}

func planBool(p *planner, n *graph.Node) error {
	switch n.Op.Name {
	case "And":
		return elementwise2(p, n, func(a, b bool) bool { return a && b })
	case "Or":
		return elementwise2(p, n, func(a, b bool) bool { return a || b })
	}
	return elementwise2(p, n, func(a, b bool) bool { return a != b })
}

func planNot(p *planner, n *graph.Node) error {
	return elementwise1(p, n, func(x bool) bool { return !x })
}

func whereSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	switch n.Inputs[1].Type.DType.Size() {
	case 1, 4, 8:
		return operators.RowMajor(n), nil
	}
	return nil, operators.NotFloat32(n.Inputs[1])
}

func planWhere(p *planner, n *graph.Node) error {
	switch n.Inputs[1].Type.DType.Size() {
	case 1:
		return where[uint8](p, n)
	case 4:
		return where[uint32](p, n)
	}
	return where[uint64](p, n)
}

func where[T tensor.Element](p *planner, n *graph.Node) error {
	c, x, y, r := n.Inputs[0], n.Inputs[1], n.Inputs[2], n.Outputs[0]
	mc, mx, my, dst := p.In(c), p.In(x), p.In(y), p.Out(r)
	b := newBroadcast(p.laid(r), p.laid(c), p.laid(x), p.laid(y))
	if b.total == 0 {
		return nil
	}
	p.emit(step{chunks: b.rows, grain: grainFor(float64(b.inner) + 10), body: func(st *state, _, lo, hi int) {
		d, cond, s, t := of[T](st, dst), of[bool](st, mc), of[T](st, mx), of[T](st, my)
		for row := lo; row < hi; row++ {
			oc, ox, oy := b.offset(0, row), b.offset(1, row), b.offset(2, row)
			at := b.result(row)
			out := d[at : at+b.inner]
			for i := range out {
				if cond[oc] {
					out[i] = s[ox]
				} else {
					out[i] = t[oy]
				}
				oc += b.step[0]
				ox += b.step[1]
				oy += b.step[2]
			}
		}
	}}, []place.Memory{mc, mx, my}, []place.Memory{dst})
	return nil
}

func powSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if why := alignsByAxis(n); why != nil {
		return nil, why
	}
	if !operators.IsFloat32(n.Inputs...) {
		return nil, operators.NotFloat32(n.Inputs[0])
	}
	return operators.RowMajor(n), nil
}

// scalarPower returns the exponent of a Pow that raises each element to the same one.
func scalarPower(p *planner, n *graph.Node) (y float32, ok bool) {
	y, ok = fuse.Scalar(n.Inputs[1])
	return y, ok && sameDims(p.Dims[n.Inputs[0].ID], p.Dims[n.Outputs[0].ID])
}

func settlePow(p *planner, n *graph.Node) {
	if _, ok := scalarPower(p, n); ok {
		overFirst(p, n)
	}
}

func planPow(p *planner, n *graph.Node) error {
	y, ok := scalarPower(p, n)
	if !ok {
		return elementwise2(p, n, func(a, b float32) float32 { return float32(math.Pow(float64(a), float64(b))) })
	}
	kernels := p.kernels
	elements(p, p.In(n.Inputs[0]), p.Out(n.Outputs[0]), p.stored(n.Outputs[0]), 0.12, func(d, s []float32) { kernels.Pow(d, s, y) })
	return nil
}

func init() {
	for _, name := range comparisons {
		table.Register(name, operator{Signatures: compareSignatures, Plan: planCompare, Strided: operators.WholeDims[*planner]})
	}
	for _, name := range []string{"And", "Or", "Xor"} {
		table.Register(name, operator{Signatures: boolSignatures, Plan: planBool, Strided: operators.WholeDims[*planner]})
	}
	table.Register("Not", operator{Signatures: boolSignatures, Plan: planNot, Strided: anyRows})
	table.Register("Where", operator{Signatures: whereSignatures, Plan: planWhere, Strided: operators.WholeDims[*planner]})
	table.Register("Pow", operator{Signatures: powSignatures, Settle: settlePow, Plan: planPow, Strided: operators.WholeDims[*planner]})
}
