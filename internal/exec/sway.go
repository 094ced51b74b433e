package exec

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// Check takes differences for rounding where rounding alone makes them: where terms cancel, as those of distances between points that are
// nearly the same, or where a comparison behind them falls to the other side. How far that goes a body's values are asked for themselves:
// they are computed again, each result moved by a little in its last places.

const (
	swayRounds = 32 // how often a body is computed, at most, with results that are moved
	swayFactor = 2  // how many times as far as they were moved results may be apart
)

// epsilons are the distances between 1 and the next number.
var epsilons = map[tensor.DType]float64{tensor.Float64: 0x1p-52, tensor.Float32: 0x1p-23, tensor.Float16: 0x1p-10, tensor.BFloat16: 0x1p-7}

// choosing are operators that do not round.
var choosing = []string{"Identity", "Dropout", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Slice", "Split", "Concat", "Expand", "Tile", "Gather",
	"GatherElements", "GatherND", "ScatterElements", "ScatterND", "Where", "Pad", "Relu", "Neg", "Abs", "Max", "Min", "Clip", "MaxPool", "GlobalMaxPool", "ReduceMax",
	"ReduceMin", "TopK", "Round", "Floor", "Ceil", "Sign", "ConstantOfShape", "DepthToSpace", "SpaceToDepth", "Compress"}

// nudge moves what a node has computed, in copies.
func nudge(r *rand.Rand, n *graph.Node, results []tensor.Value) error {
	if n.Is(choosing...) || n.IsCarve(graph.OpFused) || n.IsControl() {
		return nil
	}
	for k, v := range results {
		t, ok := v.(*tensor.Tensor)
		if !ok || epsilons[t.DType] == 0 {
			continue
		}
		x := make([]float64, t.Len())
		if err := tensor.Decode(x, t); err != nil {
			return err
		}
		eps, spread := 2*epsilons[t.DType], deviation(x)
		for i, y := range x {
			if y != 0 {
				x[i] = y + eps*(2*r.Float64()-1)*(math.Abs(y)+spread)
			}
		}
		moved, err := tensor.New(t.DType, t.Shape...)
		if err != nil {
			return err
		}
		if err := tensor.Encode(moved, x); err != nil {
			return err
		}
		results[k] = moved
	}
	return nil
}

// deviation is the standard deviation of what is finite.
func deviation(v []float64) float64 {
	var sum, square float64
	for _, x := range v {
		if !math.IsInf(x, 0) && !math.IsNaN(x) {
			sum += x
			square += x * x
		}
	}
	n := float64(max(len(v), 1))
	return math.Sqrt(max(square/n-sum/n*sum/n, 0))
}

// sways reports whether rounding alone moves the outputs of a body as far as they are apart: first returns the first difference that is
// more than far, which is how far rounding has moved each element of what the oracle's kernels compute, nil for what is no tensor.
func (c *checker) sways(ctx context.Context, in *interpreter, inputs []tensor.Value, want func(v *graph.Value) tensor.Value, first func(far [][]float64) (*Difference, error)) (bool, error) {
	out := make([][]float64, len(in.body.Outputs))
	for round := range uint64(swayRounds) {
		moved := *in
		moved.nudge = rand.New(rand.NewPCG(round, 41))
		vals, err := moved.evaluate(ctx, inputs, nil)
		if err != nil {
			return false, err
		}
		for k, v := range in.body.Outputs {
			w, ok := want(v).(*tensor.Tensor)
			m, tensors := vals[v.ID].(*tensor.Tensor)
			if !ok || !tensors {
				continue
			}
			if out[k] == nil {
				out[k] = make([]float64, w.Len())
			}
			sway(out[k], m, w)
		}
		if d, err := first(out); d == nil || err != nil {
			return err == nil, err
		}
	}
	return false, nil
}

// sway raises each element to how far it was moved.
func sway(far []float64, moved, want *tensor.Tensor) {
	switch {
	case !slices.Equal(moved.Shape, want.Shape):
		for i := range far {
			far[i] = math.Inf(1)
		}
	case want.DType == tensor.String:
		for i, x := range want.Strings {
			if moved.Strings[i] != x {
				far[i] = math.Inf(1)
			}
		}
	default:
		x, y := make([]float64, want.Len()), make([]float64, want.Len())
		if tensor.Decode(x, moved) != nil || tensor.Decode(y, want) != nil {
			return // nothing that compare looks at
		}
		for i := range far {
			if d := math.Abs(x[i] - y[i]); d > far[i] {
				far[i] = d
			} else if math.IsNaN(x[i]) != math.IsNaN(y[i]) {
				far[i] = math.Inf(1)
			}
		}
	}
}

// swayed reports whether rounding alone may have made the results of a fused node what they are.
func (c *checker) swayed(ctx context.Context, in *interpreter, n *graph.Node, operands, got, want []tensor.Value, tol tolerance) bool {
	if !n.IsCarve(graph.OpFused) {
		return false
	}
	sub := &interpreter{m: in.m, body: n.Regions[0].Graph, bindings: in.bindings}
	right, err := c.sways(ctx, sub, operands, func(v *graph.Value) tensor.Value { return want[slices.Index(sub.body.Outputs, v)] }, func(far [][]float64) (*Difference, error) {
		for k, v := range n.Outputs {
			if v != nil && k < len(got) && got[k] != nil {
				if d := differs(v, got[k], want[k], tol, far[k]); d != nil {
					return d, nil
				}
			}
		}
		return nil, nil
	})
	return err == nil && right
}
