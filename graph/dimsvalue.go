package graph

import (
	"fmt"

	"github.com/carve-dev/carve/graph/tensor"
)

// EvalDims returns the integer tensor that a dims value is, given the values of its symbols. The error names the value
// and wraps ErrUnbound or ErrDimValue.
func (v *Value) EvalDims(b Bindings) (*tensor.Tensor, error) {
	data := make([]int64, len(v.Dims))
	for i, d := range v.Dims {
		n, err := d.Eval(b)
		if err != nil {
			return nil, fmt.Errorf("value %v: %w", v, err)
		}
		data[i] = n
	}
	t := tensor.From(data)
	if len(v.Type.Shape) == 0 {
		t.Shape = []int{}
	}
	if v.Type.DType == tensor.Int64 {
		return t, nil
	}
	return tensor.Convert(t, v.Type.DType, nil)
}
