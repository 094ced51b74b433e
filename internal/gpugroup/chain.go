package gpugroup

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/gpukernel"
	"github.com/carve-dev/carve/internal/place"
)

// buffers emits plans one after another until one fails. Without a planner it only sees whether there are kernels.
type buffers struct {
	p   *planner
	d   gpukernel.Device
	err error
}

// fail keeps the first error.
func (b *buffers) fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

func (b *buffers) temp(bytes int) place.Memory {
	if b.p == nil {
		return place.Nowhere
	}
	return b.p.Temp(bytes)
}

func (b *buffers) in(v *graph.Value) place.Memory {
	if b.p == nil || v == nil {
		return place.Nowhere
	}
	return b.p.In(v)
}

// out returns the place of a node's result; nowhere for one that is left out.
func (b *buffers) out(n *graph.Node, i int) place.Memory {
	if b.p == nil || i >= len(n.Outputs) || n.Outputs[i] == nil {
		return place.Nowhere
	}
	return b.p.Out(n.Outputs[i])
}

func (b *buffers) product(name string, s gpukernel.ProductShape, at map[string]place.Memory) {
	if b.err != nil {
		return
	}
	plan, err := gpukernel.Product(name, b.d, s)
	b.emit(1, plan, err, at)
}

func (b *buffers) render(name string, prog *gpukernel.Program, at map[string]place.Memory) {
	if b.err != nil {
		return
	}
	plan, err := gpukernel.Render(name, b.d, prog)
	b.emit(0, plan, err, at)
}

func (b *buffers) emit(work int, plan *gpukernel.Plan, err error, at map[string]place.Memory) {
	if b.fail(err); b.err != nil || b.p == nil {
		return
	}
	b.err = b.p.emit(work, plan, at)
}
