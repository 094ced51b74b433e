package exec

import (
	"context"
	"fmt"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/property"
)

// toHost returns t, stored in format f, as a host row-major tensor.
func (m *Machine) toHost(ctx context.Context, t *tensor.Tensor, f graph.Format) (*tensor.Tensor, error) {
	if f == graph.HostFormat {
		return t, nil
	}
	out, err := tensor.New(t.DType, t.Shape...)
	if err != nil {
		return nil, err
	}
	return out, m.env.Transfer.Into(ctx, out, t, f, graph.HostFormat, nil)
}

// fromHost stores the host row-major tensor t into dst, whose format is f.
func (m *Machine) fromHost(ctx context.Context, dst, t *tensor.Tensor, f graph.Format) error {
	if f != graph.HostFormat {
		return m.env.Transfer.Into(ctx, dst, t, graph.HostFormat, f, nil)
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

// fallback returns the instance that stands in for a group whose backend refused the shapes.
func (m *Machine) fallback(ctx context.Context, st *Step, b graph.Bindings, cause error) backend.Instance {
	m.fell(ctx, st, property.SpecializeFail, "group refused the shapes and falls back to the reference kernels", cause)
	return &interpreter{m: m, body: st.Node.Regions[0].Graph, bindings: b}
}

// runFallback runs a group again, after a failure at run time, with the reference kernels, once.
func (m *Machine) runFallback(ctx context.Context, st *Step, b graph.Bindings, a *backend.RunArgs, cause error) error {
	m.fell(ctx, st, property.RunFailed, "group failed and is run again by the reference kernels", cause)
	in := &interpreter{m: m, body: st.Node.Regions[0].Graph, bindings: b}
	if _, err := in.Enqueue(ctx, a); err != nil {
		return fmt.Errorf("%w (and its fallback failed: %w)", cause, err)
	}
	return nil
}
