package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/place"
)

// find looks a node's operator up: the user's kernel for what the user's property fused, else the backend's own. It reports
// whether there is one.
func (e *executable) find(n *graph.Node) bool {
	op, ok := operator{Plan: (*planner).userKernel}, true
	if !e.kernels.Has(n) {
		op, ok = tableOf(n).Lookup(n)
	}
	e.ops[n.ID] = op
	return ok
}

// userKernel emits a user's kernel as a step of its own.
func (p *planner) userKernel(n *graph.Node) error {
	c, err := p.e.kernels.Call(p.Plan, n)
	if err != nil {
		return err
	}
	index := p.calls
	p.calls++
	p.steps = append(p.steps, step{serial: func(st *state) { st.call(c, index) }})
	return nil
}

// call runs the instance's index-th user's kernel. It allocates in the first run of a session only.
func (st *state) call(c *place.Call, index int) {
	for len(st.calls) <= index {
		st.calls = append(st.calls, nil)
	}
	if st.calls[index] == nil {
		st.calls[index] = c.Arguments()
	}
	st.calls[index].Workers.Run = st.run
	st.err = c.Run(st.ctx, &st.Storage, st.calls[index])
}
