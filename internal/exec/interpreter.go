package exec

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
)

// interpreter runs a group's body node by node with the reference kernels, in host row-major tensors: the fallback of a
// group that a backend refuses at run time, and the oracle of Check. Values in other formats are converted at the edges;
// Convert nodes inside change nothing. Memory lies outside of the plan.
type interpreter struct {
	m        *Machine
	body     *graph.Graph
	bindings graph.Bindings
	captures []tensor.Value          // of a region
	reserve  func(bytes int64) error // counts what is held and worked in; nil: nobody counts
	nudge    *rand.Rand              // moves results in their last places; nil: they stay as they are
}

// Requirements implements backend.Instance: nothing beside the ports.
func (in *interpreter) Requirements() backend.Requirements { return backend.Requirements{Steps: 1} }

// Enqueue implements backend.Instance.
func (in *interpreter) Enqueue(ctx context.Context, a *backend.RunArgs) (device.Event, error) {
	var held int64
	if a.Reserve != nil {
		counting := *in
		counting.reserve = a.Reserve
		in = &counting
		defer func() { _ = a.Reserve(-held) }() // giving back does not fail
	}
	inputs := make([]tensor.Value, len(in.body.Inputs))
	for i, v := range in.body.Inputs {
		t, err := in.m.toHost(ctx, a.Inputs[i], v.Format)
		if err != nil {
			return nil, err
		}
		inputs[i] = t
	}
	vals, err := in.evaluate(ctx, inputs, func(_ *graph.Node, _, results []tensor.Value) error {
		if in.reserve == nil {
			return nil
		}
		var n int64
		for _, v := range results {
			n += valueBytes(v)
		}
		if err := in.reserve(n); err != nil {
			return err
		}
		held += n
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i, v := range in.body.Outputs {
		t, ok := vals[v.ID].(*tensor.Tensor)
		if !ok {
			return nil, fmt.Errorf("%w: output %v is no tensor", ErrRun, v)
		}
		dst := a.Outputs[i]
		if dst == nil {
			if dst, err = a.Alloc(i, t.DType, t.Shape); err != nil {
				return nil, err
			}
		}
		if err := in.m.fromHost(ctx, dst, t, v.Format); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// evaluate computes every value of the body, by id. visit, where it is not nil, sees each node with its operands' values
// and results, may put others in the results' place, and may stop the evaluation with an error.
func (in *interpreter) evaluate(ctx context.Context, inputs []tensor.Value, visit func(n *graph.Node, operands, results []tensor.Value) error) ([]tensor.Value, error) {
	g := in.body
	vals := make([]tensor.Value, g.ValueIDs())
	for i, v := range g.Inputs {
		vals[v.ID] = inputs[i]
	}
	for i, v := range g.Captures {
		if i < len(in.captures) {
			vals[v.ID] = in.captures[i]
		}
	}
	for v := range g.Constants() {
		if v.IsDims() {
			t, err := v.EvalDims(in.bindings)
			if err != nil {
				return nil, err
			}
			vals[v.ID] = t
			continue
		}
		t, err := in.m.toHost(ctx, v.Const, v.Format)
		if err != nil {
			return nil, err
		}
		vals[v.ID] = t
	}
	order, err := g.Topo()
	if err != nil {
		return nil, err
	}
	for _, n := range order {
		operands := make([]tensor.Value, n.NumOperands())
		for k, v := range n.Operands() {
			operands[k] = vals[v.ID]
		}
		results, err := in.node(ctx, n, operands)
		if err != nil {
			return nil, err
		}
		if in.nudge != nil {
			if err := nudge(in.nudge, n, results); err != nil {
				return nil, err
			}
		}
		if visit != nil {
			if err := visit(n, operands, results); err != nil {
				return nil, err
			}
		}
		for k, v := range n.Outputs {
			if v != nil {
				vals[v.ID] = results[k]
			}
		}
	}
	return vals, nil
}

func (in *interpreter) node(ctx context.Context, n *graph.Node, operands []tensor.Value) ([]tensor.Value, error) {
	switch {
	case n.IsCarve(graph.OpConvert):
		return operands[:1], nil
	case n.IsCarve(graph.OpFused):
		sub := &interpreter{m: in.m, body: n.Regions[0].Graph, bindings: in.bindings, reserve: in.reserve, nudge: in.nudge}
		vals, err := sub.evaluate(ctx, operands, nil)
		if err != nil {
			return nil, err
		}
		out := make([]tensor.Value, len(sub.body.Outputs))
		for i, v := range sub.body.Outputs {
			out[i] = vals[v.ID]
		}
		return out, nil
	case n.IsControl():
		return in.control(ctx, n, operands)
	}
	return in.m.env.Evaluate(ctx, n, operands, in.reserve)
}
