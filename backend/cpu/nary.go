package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/kernel/vec"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/property"
)

// Sum, Mean, Max and Min of any number of operands: a chain of binary operators in the result's place.

var naryOps = map[string]vec.BinaryOp{"Sum": vec.Add, "Mean": vec.Add, "Max": vec.Max, "Min": vec.Min}

func narySignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if isBinary(n) {
		return binarySignatures(n)
	}
	if isWhole(n.Inputs[0]) {
		return operators.RowMajor(n), nil
	}
	if !operators.IsFloat32(n.Inputs...) {
		return nil, operators.NotFloat32(n.Inputs[0])
	}
	for _, v := range n.Inputs {
		if v == nil || !v.Type.Shape.Equal(n.Outputs[0].Type.Shape) {
			return operators.RowMajor(n), nil
		}
	}
	return followSignatures(n, len(n.Inputs)), nil
}

// isBinary reports whether n is the binary operator of its name.
func isBinary(n *graph.Node) bool {
	return len(n.Inputs) == 2 && n.Op.Name != "Mean" && n.Op.Name != "Sum"
}

func settleNary(p *planner, n *graph.Node) {
	if isBinary(n) {
		settleBinary(p, n)
	}
}

func planNary(p *planner, n *graph.Node) error {
	if isBinary(n) {
		return planBinary(p, n)
	}
	if isWhole(n.Inputs[0]) {
		return integerKinds[n.Inputs[0].Type.DType].chain(p, n)
	}
	y := n.Outputs[0]
	dst := p.Out(y)
	first, out := n.Inputs[0], p.laid(y)
	if len(n.Inputs) == 1 {
		p.copyStep(dst, p.In(first), p.Bytes(y))
		return nil
	}
	op := naryOps[n.Op.Name]
	p.binaryOver(op, newBroadcast(out, p.laid(first), p.laid(n.Inputs[1])), p.In(first), p.In(n.Inputs[1]), dst)
	for _, v := range n.Inputs[2:] {
		p.binaryOver(op, newBroadcast(out, out, p.laid(v)), dst, p.In(v), dst)
	}
	if n.Op.Name == "Mean" {
		by, kernels := 1/float32(len(n.Inputs)), p.kernels
		elements(p, dst, dst, p.stored(y), 0.1, func(d, s []float32) { kernels.BinaryScalar(vec.Mul, d, s, by) })
	}
	return nil
}

func init() {
	for name := range naryOps {
		table.Register(name, operator{Signatures: narySignatures, Settle: settleNary, Plan: planNary, Strided: binaryStrided})
	}
}
