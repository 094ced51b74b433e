package cpu

import (
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// whereEmpty is the plan of a reduction, or of what it makes of no elements.
func whereEmpty(plan func(p *planner, n *graph.Node) error) func(p *planner, n *graph.Node) error {
	return func(p *planner, n *graph.Node) error {
		if product(p.Dims[n.Inputs[0].ID]) > 0 {
			return plan(p, n)
		}
		t, err := tensor.Convert(reducedEmpty(n.Op.Name, n.Inputs[0].Type.DType), n.Outputs[0].Type.DType, nil)
		if err == nil {
			p.fill(p.Own(t.Bytes()), p.Out(n.Outputs[0]))
		}
		return err
	}
}

// reducedEmpty is what a reduction makes of no elements: the neutral element, as ONNX has it since version 20, and 0 for means,
// which it leaves undefined.
func reducedEmpty(op string, dt tensor.DType) *tensor.Tensor {
	sign := 0
	switch op {
	case "ReduceProd":
		return tensor.Scalar(1.0)
	case "ReduceMax", "ReduceLogSum", logSumExpName:
		sign = -1
	case "ReduceMin":
		sign = 1
	}
	switch {
	case sign == 0:
		return tensor.Scalar(0.0)
	case dt.IsFloat():
		return tensor.Scalar(math.Inf(sign))
	case dt == tensor.Bool || dt.IsUnsigned():
		return tensor.Scalar(int64(min(0, -sign))) // all bits
	}
	lowest := int64(-1) << (dt.Bits() - 1)
	if sign > 0 {
		return tensor.Scalar(^lowest)
	}
	return tensor.Scalar(lowest)
}
