package place

import (
	"context"
	"fmt"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/property"
)

// Kernels are those that users' properties bring, by the pattern of their fused nodes.
type Kernels map[string]func(fused *graph.Node, b graph.Bindings) (property.Kernel, error)

// KernelsOf returns the kernels of the properties that have one.
func KernelsOf(properties []property.SubgraphProperty) Kernels {
	m := Kernels{}
	for _, p := range properties {
		if r := property.RuleOf(p); r.Kernel != nil {
			m[r.ID] = r.Kernel
		}
	}
	return m
}

// Has reports whether a user's kernel runs n.
func (k Kernels) Has(n *graph.Node) bool {
	return n.IsCarve(graph.OpFused) && k[n.Str("pattern", "")] != nil
}

// Call is one call of a user's kernel. It is immutable; the arguments belong to a session.
type Call struct {
	kernel    property.Kernel
	in, out   []port
	workspace Memory
}

type port struct {
	dtype tensor.DType
	dims  []int
	at    Memory
}

// Call prepares a user's kernel for the shapes of node n, and notes its step. The error is the kernel's own, or wraps
// backend.ErrUnavailable where there is nothing to call.
func (k Kernels) Call(p *Plan, n *graph.Node) (*Call, error) {
	kernel, err := k[n.Str("pattern", "")](n, p.Bind)
	if err != nil {
		return nil, err
	}
	if kernel.Run == nil || kernel.Workspace < 0 {
		return nil, fmt.Errorf("%w: a kernel without Run, or with a workspace of %d bytes", backend.ErrUnavailable, kernel.Workspace)
	}
	c := &Call{kernel: kernel, workspace: Nowhere}
	var reads, writes []Memory
	for _, v := range n.Inputs {
		at := port{at: Nowhere}
		if v != nil {
			at = port{dtype: v.Type.DType, dims: p.Dims[v.ID], at: p.In(v)}
			reads = append(reads, at.at)
		}
		c.in = append(c.in, at)
	}
	for _, v := range n.Outputs {
		at := port{at: Nowhere}
		if v != nil {
			at = port{dtype: v.Type.DType, dims: p.Dims[v.ID], at: p.Out(v)}
			writes = append(writes, at.at)
		}
		c.out = append(c.out, at)
	}
	if kernel.Workspace > 0 {
		c.workspace = p.Temp(int(kernel.Workspace))
		writes = append(writes, c.workspace)
	}
	p.Step(1, reads, writes)
	return c, nil
}

// KeepInputs makes inputs live until the last step: a user's kernel may fail, and the fallback reads them then.
func KeepInputs(r *backend.Requirements) {
	for i := range r.Inputs {
		r.Inputs[i].Last = max(r.Steps-1, 0)
	}
}

// Arguments returns the arguments of a session's calls, without storage yet.
func (c *Call) Arguments() *property.KernelArgs {
	return &property.KernelArgs{Inputs: tensorsOf(c.in), Outputs: tensorsOf(c.out), Workers: &device.Workers{}}
}

// Run calls the kernel on a session's memory, with arguments that Arguments made. It allocates nothing.
func (c *Call) Run(ctx context.Context, s *Storage, a *property.KernelArgs) error {
	c.point(s, a.Inputs, c.in)
	c.point(s, a.Outputs, c.out)
	a.Workspace = s.Bytes(c.workspace)
	return c.kernel.Run(ctx, a)
}

func tensorsOf(ports []port) []*tensor.Tensor {
	out := make([]*tensor.Tensor, len(ports))
	for i, p := range ports {
		if p.at.Slot >= 0 {
			out[i] = &tensor.Tensor{DType: p.dtype, Shape: p.dims}
		}
	}
	return out
}

// point sets the storage of tensors to the ports' places in this run.
func (*Call) point(s *Storage, ts []*tensor.Tensor, ports []port) {
	for i, p := range ports {
		if p.at.Slot >= 0 {
			b := s.Bytes(p.at)
			ts[i].Data = b[:len(b):len(b)]
		}
	}
}
