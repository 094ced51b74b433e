package exec

import (
	"context"
	"fmt"
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// Control flow in a group is the backend's that has claimed it whole; the interpreter runs it for that.

// region evaluates a region of a node whose operands, inputs and captures, have these values, and returns its results.
func (in *interpreter) region(ctx context.Context, n *graph.Node, g *graph.Graph, operands, inputs []tensor.Value) ([]tensor.Value, error) {
	if len(inputs) != len(g.Inputs) {
		return nil, fmt.Errorf("%w: region %s of %v takes %d inputs, found %d", ErrRun, g.Name, n, len(g.Inputs), len(inputs))
	}
	sub := &interpreter{m: in.m, body: g, bindings: in.bindings, reserve: in.reserve, captures: operands[len(n.Inputs):]}
	known := slices.Concat(g.Inputs, g.Captures)
	tensors := make([]*tensor.Tensor, len(known))
	for i, v := range slices.Concat(inputs, sub.captures) {
		tensors[i], _ = v.(*tensor.Tensor)
	}
	if b, err := bindOperands(in.bindings, g, known, tensors); err == nil { // what else is open shows where it is asked for
		sub.bindings = b
	}
	vals, err := sub.evaluate(ctx, inputs, nil)
	if err != nil {
		return nil, err
	}
	out := make([]tensor.Value, len(g.Outputs))
	for i, v := range g.Outputs {
		out[i] = vals[v.ID]
	}
	return out, nil
}

// control runs an If, a Loop or a Scan. operands are its inputs, then its captures.
func (in *interpreter) control(ctx context.Context, n *graph.Node, operands []tensor.Value) ([]tensor.Value, error) {
	switch {
	case n.Is("If"):
		cond, err := truth(operands[0])
		if err != nil {
			return nil, err
		}
		name := "else_branch"
		if cond {
			name = "then_branch"
		}
		if g := n.Region(name); g != nil {
			return in.region(ctx, n, g, operands, nil)
		}
		return nil, fmt.Errorf("%w: no %s", ErrRun, name)
	case n.Is("Loop"):
		return in.loop(ctx, n, operands)
	}
	return in.scan(ctx, n, operands)
}

// loop runs a Loop.
func (in *interpreter) loop(ctx context.Context, n *graph.Node, operands []tensor.Value) ([]tensor.Value, error) {
	trips, goes := int64(-1), true
	var err error
	if operands[0] != nil {
		if trips, err = count(operands[0]); err != nil {
			return nil, err
		}
	}
	if operands[1] != nil {
		if goes, err = truth(operands[1]); err != nil {
			return nil, err
		}
	}
	body := n.Region("body")
	carried := slices.Clone(operands[2:len(n.Inputs)])
	stacks := make([][]*tensor.Tensor, len(body.Outputs)-1-len(carried))
	for it := int64(0); goes && (trips < 0 || it < trips); it++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		out, err := in.region(ctx, n, body, operands, append([]tensor.Value{tensor.Scalar(it), tensor.Scalar(goes)}, carried...))
		if err != nil {
			return nil, err
		}
		if goes, err = truth(out[0]); err != nil {
			return nil, err
		}
		copy(carried, out[1:])
		if err := push(stacks, out[1+len(carried):]); err != nil {
			return nil, err
		}
	}
	return stacked(carried, stacks, body, scanSpec{})
}

// scan runs a Scan of operator set 9 or later.
func (in *interpreter) scan(ctx context.Context, n *graph.Node, operands []tensor.Value) ([]tensor.Value, error) {
	s, body := scanAttrs(n), n.Region("body")
	count, _, _, _ := n.Carried()
	src, length, err := scanned(operands[count:len(n.Inputs)], s)
	if err != nil {
		return nil, err
	}
	carried := slices.Clone(operands[:count])
	stacks := make([][]*tensor.Tensor, len(body.Outputs)-count)
	for it := range length {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		args := slices.Clone(carried)
		args, err := s.appendSlices(args, src, it, length)
		if err != nil {
			return nil, err
		}
		out, err := in.region(ctx, n, body, operands, args)
		if err != nil {
			return nil, err
		}
		copy(carried, out)
		if err := push(stacks, out[count:]); err != nil {
			return nil, err
		}
	}
	return stacked(carried, stacks, body, s)
}

// push adds a slice to each stack.
func push(stacks [][]*tensor.Tensor, slices []tensor.Value) error {
	for k, v := range slices {
		t, ok := v.(*tensor.Tensor)
		if !ok {
			return fmt.Errorf("%w: scan output %d is no tensor", ErrRun, k)
		}
		stacks[k] = append(stacks[k], t)
	}
	return nil
}

// stacked returns the results of a loop: what it carried, then what it stacked.
func stacked(carried []tensor.Value, stacks [][]*tensor.Tensor, body *graph.Graph, s scanSpec) ([]tensor.Value, error) {
	out := slices.Clone(carried)
	for k, list := range stacks {
		if at(s.outDirs, k) != 0 {
			slices.Reverse(list)
		}
		t, err := stack(list, at(s.outAxes, k), body.Outputs[len(body.Outputs)-len(stacks)+k].Type)
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}
