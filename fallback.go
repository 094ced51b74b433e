package carve

import (
	"context"
	"fmt"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/reference"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/property"
)

// interpreter runs a group's body node by node with the reference kernels, in host row-major tensors: the fallback of a
// group that a backend refuses at run time, and the oracle of Check. Values in other formats are converted at the edges;
// Convert nodes inside change nothing. Memory lies outside of the plan.
type interpreter struct {
	p        *Program
	body     *graph.Graph
	bindings graph.Bindings
}

// Requirements implements backend.Instance: nothing beside the ports.
func (in *interpreter) Requirements() backend.Requirements { return backend.Requirements{Steps: 1} }

// Enqueue implements backend.Instance.
func (in *interpreter) Enqueue(ctx context.Context, a *backend.RunArgs) (device.Event, error) {
	inputs := make([]tensor.Value, len(in.body.Inputs))
	for i, v := range in.body.Inputs {
		t, err := in.p.toHost(ctx, a.Inputs[i], v.Format)
		if err != nil {
			return nil, err
		}
		inputs[i] = t
	}
	vals, err := in.evaluate(ctx, inputs, nil)
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
		if err := in.p.fromHost(ctx, dst, t, v.Format); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// evaluate computes every value of the body, by id. visit, where it is not nil, sees each node with its operands' values
// and results, and may stop the evaluation with an error.
func (in *interpreter) evaluate(ctx context.Context, inputs []tensor.Value, visit func(n *graph.Node, operands, results []tensor.Value) error) ([]tensor.Value, error) {
	g := in.body
	vals := make([]tensor.Value, g.ValueIDs())
	for i, v := range g.Inputs {
		vals[v.ID] = inputs[i]
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
		t, err := in.p.toHost(ctx, v.Const, v.Format)
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
		operands := make([]tensor.Value, len(n.Inputs))
		for k, v := range n.Inputs {
			if v != nil {
				operands[k] = vals[v.ID]
			}
		}
		results, err := in.node(ctx, n, operands)
		if err != nil {
			return nil, err
		}
		for k, v := range n.Outputs {
			if v != nil {
				vals[v.ID] = results[k]
			}
		}
		if visit != nil {
			if err := visit(n, operands, results); err != nil {
				return nil, err
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
		sub := &interpreter{p: in.p, body: n.Regions[0].Graph, bindings: in.bindings}
		vals, err := sub.evaluate(ctx, operands, nil)
		if err != nil {
			return nil, err
		}
		out := make([]tensor.Value, len(sub.body.Outputs))
		for i, v := range sub.body.Outputs {
			out[i] = vals[v.ID]
		}
		return out, nil
	}
	return reference.Evaluate(ctx, n, operands)
}

// toHost returns t, stored in format f, as a host row-major tensor.
func (p *Program) toHost(ctx context.Context, t *tensor.Tensor, f graph.Format) (*tensor.Tensor, error) {
	if f == graph.HostFormat {
		return t, nil
	}
	out, err := tensor.New(t.DType, t.Shape...)
	if err != nil {
		return nil, err
	}
	return out, p.move(ctx, out, t, f, graph.HostFormat)
}

// fromHost stores the host row-major tensor t into dst, whose format is f.
func (p *Program) fromHost(ctx context.Context, dst, t *tensor.Tensor, f graph.Format) error {
	if f != graph.HostFormat {
		return p.move(ctx, dst, t, graph.HostFormat, f)
	}
	if dst.DType == tensor.String {
		copy(dst.Strings, t.Strings)
		return nil
	}
	if len(dst.Bytes()) != len(t.Bytes()) {
		return fmt.Errorf("%w: %v into %v", tensor.ErrShape, t, dst)
	}
	copy(dst.Bytes(), t.Bytes())
	return nil
}

// move converts along the cheapest path, through host memory of Go where there is more than one hop.
func (p *Program) move(ctx context.Context, dst, src *tensor.Tensor, from, to graph.Format) error {
	path, err := p.registry.PathOf(from, to, src.DType, len(src.Shape))
	if err != nil {
		return err
	}
	for i, hop := range path {
		next := dst
		if i < len(path)-1 {
			size, err := p.registry.Size(hop.To, src.DType, src.Shape)
			if err != nil {
				return err
			}
			if !hop.To.Device.IsHost() {
				dev := p.devices[canonical(hop.To.Device)]
				m, err := dev.Alloc(size)
				if err != nil {
					return err
				}
				defer dev.Free(m)
				next = &tensor.Tensor{DType: src.DType, Shape: src.Shape, Device: hop.To.Device, Handle: m.Handle}
			} else {
				buf, err := tensor.New(tensor.Uint8, int(size))
				if err != nil {
					return err
				}
				next = &tensor.Tensor{DType: src.DType, Shape: src.Shape, Data: buf.Data}
			}
		}
		run, err := hop.Plan(src.DType, src.Shape)
		if err != nil {
			return err
		}
		if err := run(ctx, next, src, nil); err != nil {
			return err
		}
		src = next
	}
	return nil
}

// fallback returns the instance that stands in for a group whose backend refused the shapes.
func (p *Program) fallback(ctx context.Context, st *step, b graph.Bindings, cause error) backend.Instance {
	p.fell(ctx, st, property.SpecializeFail, "group refused the shapes and falls back to the reference kernels", cause)
	return &interpreter{p: p, body: st.node.Regions[0].Graph, bindings: b}
}

// fell keeps the reason of a group's first fallback for the report, and logs it.
func (p *Program) fell(ctx context.Context, st *step, code property.Code, what string, cause error) {
	p.mu.Lock()
	known := p.fallen[st.node] != nil
	if !known {
		p.fallen[st.node] = property.Because(code, "%v", cause)
	}
	p.mu.Unlock()
	if !known {
		p.o.Logger.WarnContext(ctx, what, "backend", st.node.Backend, "nodes", nodeList(st.node.Provenance()), "error", cause)
	}
}

// runFallback runs a group again, after a failure at run time, with the reference kernels, once.
func (p *Program) runFallback(ctx context.Context, st *step, b graph.Bindings, a *backend.RunArgs, cause error) error {
	p.fell(ctx, st, property.RunFailed, "group failed and is run again by the reference kernels", cause)
	in := &interpreter{p: p, body: st.node.Regions[0].Graph, bindings: b}
	if _, err := in.Enqueue(ctx, a); err != nil {
		return fmt.Errorf("%w (and its fallback failed: %w)", cause, err)
	}
	return nil
}
