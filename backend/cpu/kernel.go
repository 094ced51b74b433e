package cpu

import (
	"fmt"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// kernelProviders returns the user's properties that bring kernels, by the pattern of their fused nodes.
func kernelProviders(properties []property.SubgraphProperty) map[string]backend.KernelProvider {
	m := map[string]backend.KernelProvider{}
	for _, p := range properties {
		if k, ok := property.As[backend.KernelProvider](p); ok {
			m[p.Name()] = k
		}
	}
	return m
}

// lookup returns the operator of a node: the user's kernel for what the user's property fused, else the backend's own.
func (e *executable) lookup(n *graph.Node) (operator, bool) {
	if n.IsCarve(graph.OpFused) {
		if k := e.kernels[n.Str("pattern", "")]; k != nil {
			return operator{Plan: func(p *planner, n *graph.Node) error { return p.userKernel(k, n) }}, true
		}
	}
	return table.Lookup(n)
}

// userKernel emits a user's kernel as a step of its own.
func (p *planner) userKernel(provider backend.KernelProvider, n *graph.Node) error {
	k, err := provider.Kernel(n, p.Bind)
	if err != nil {
		return err
	}
	if k.Run == nil || k.Workspace < 0 {
		return fmt.Errorf("%w: a kernel without Run, or with a workspace of %d bytes", backend.ErrUnavailable, k.Workspace)
	}
	c := &userCall{kernel: k, index: p.calls, workspace: place.Nowhere}
	p.calls++
	var reads, writes []place.Memory
	for _, v := range n.Inputs {
		port := p.userPort(v)
		if v != nil {
			port.at = p.In(v)
			reads = append(reads, port.at)
		}
		c.in = append(c.in, port)
	}
	for _, v := range n.Outputs {
		port := p.userPort(v)
		if v != nil {
			port.at = p.Out(v)
			writes = append(writes, port.at)
		}
		c.out = append(c.out, port)
	}
	if k.Workspace > 0 {
		c.workspace = p.Temp(int(k.Workspace))
		writes = append(writes, c.workspace)
	}
	p.emit(step{serial: c.run}, reads, writes)
	return nil
}

func (p *planner) userPort(v *graph.Value) userPort {
	if v == nil {
		return userPort{at: place.Nowhere}
	}
	return userPort{dtype: v.Type.DType, dims: p.Dims[v.ID]}
}

// userCall is one call of a user's kernel. It is immutable; what a session passes lies in its state.
type userCall struct {
	kernel    backend.Kernel
	index     int // among the instance's user calls
	in, out   []userPort
	workspace place.Memory
}

type userPort struct {
	dtype tensor.DType
	dims  []int
	at    place.Memory
}

// run calls the kernel on the session's memory. It allocates in the first run of a session only.
func (c *userCall) run(st *state) {
	for len(st.calls) <= c.index {
		st.calls = append(st.calls, nil)
	}
	a := st.calls[c.index]
	if a == nil {
		a = &backend.KernelArgs{Inputs: tensorsOf(c.in), Outputs: tensorsOf(c.out), Workers: &device.Workers{}}
		st.calls[c.index] = a
	}
	point(st, a.Inputs, c.in)
	point(st, a.Outputs, c.out)
	if c.workspace.Slot >= 0 {
		a.Workspace = st.Bytes(c.workspace)
	}
	a.Workers.Run = st.run
	st.err = c.kernel.Run(st.ctx, a)
}

func tensorsOf(ports []userPort) []*tensor.Tensor {
	out := make([]*tensor.Tensor, len(ports))
	for i, p := range ports {
		if p.at.Slot >= 0 {
			out[i] = &tensor.Tensor{DType: p.dtype, Shape: p.dims}
		}
	}
	return out
}

// point sets the storage of tensors to the ports' places in this run.
func point(st *state, ts []*tensor.Tensor, ports []userPort) {
	for i, p := range ports {
		if p.at.Slot >= 0 {
			b := st.Bytes(p.at)
			ts[i].Data = b[:len(b):len(b)]
		}
	}
}
