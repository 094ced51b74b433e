package mkl

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// lookup returns the operator of a node: the user's kernel for what the user's property fused, else the backend's own.
func (e *executable) lookup(n *graph.Node) (operator, bool) {
	if e.kernels.Has(n) {
		return operator{Plan: (*planner).userKernel}, true
	}
	return table.Lookup(n)
}

// userKernel emits a user's kernel as a step of its own, on the thread that calls the library.
func (p *planner) userKernel(n *graph.Node) error {
	c, err := p.e.kernels.Call(p.Plan, n)
	if err != nil {
		return err
	}
	index := p.calls
	p.calls++
	p.steps = append(p.steps, step{host: func(st *state) error { return st.call(c, index) }})
	return nil
}

// call runs the instance's index-th user's kernel. Carve's workers, which are parked while the library's threads have the
// processors, are the kernel's meanwhile. It allocates in the first run of a session only.
func (st *state) call(c *place.Call, index int) error {
	if st.kernels == nil {
		st.kernels = make([]*property.KernelArgs, st.in.calls)
	}
	if st.kernels[index] == nil {
		st.kernels[index] = c.Arguments()
	}
	st.kernels[index].Workers.Run = st.run
	if st.run.Resume() {
		defer st.run.Park()
	}
	return c.Run(st.ctx, &st.Storage, st.kernels[index])
}
