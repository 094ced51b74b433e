package gpugroup

import (
	"context"
	"runtime"
	"sync"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/gpukernel"
	"github.com/carve-dev/carve/internal/kernelstore"
)

// executable is a compiled subgraph, generic in its symbols. It is immutable.
type executable struct {
	specialize func(ctx context.Context, b graph.Bindings) (backend.Instance, error)
	whole      backend.Instance // of a subgraph without symbols
}

// NewExecutable returns an executable whose instances specialize makes. That of a subgraph without symbols is made at once, so that one
// whose kernels do not compile is left to the next backend, and not to the run time's fallback.
func NewExecutable(ctx context.Context, sub *graph.Graph, specialize func(context.Context, graph.Bindings) (backend.Instance, error)) (backend.Executable, error) {
	e := &executable{specialize: specialize}
	if !static(sub) {
		return e, nil
	}
	var err error
	if e.whole, err = specialize(ctx, nil); err != nil {
		return nil, err
	}
	return e, nil
}

// Specialize implements backend.Executable: kernels are written for the shapes, and compiled.
func (e *executable) Specialize(ctx context.Context, b graph.Bindings) (backend.Instance, error) {
	if e.whole != nil {
		return e.whole, nil
	}
	return e.specialize(ctx, b)
}

// Close implements backend.Executable.
func (*executable) Close() error { return nil }

// static reports whether nothing depends on symbols.
func static(sub *graph.Graph) bool {
	known := func(dims []graph.Dim) bool {
		_, ok := graph.Shape(dims).Static()
		return ok
	}
	for n := range sub.Nodes() {
		for _, v := range n.Outputs {
			if v != nil && v.Type.IsTensor() && !known(v.Type.Shape) {
				return false
			}
		}
	}
	for _, v := range sub.Inputs {
		if !known(v.Type.Shape) {
			return false
		}
	}
	for v := range sub.Constants() {
		if v.IsDims() && !known(v.Dims) {
			return false
		}
	}
	return true
}

// Specialize plans a subgraph for concrete shapes, and has its kernels compiled. It returns the kernel of every step, as kernel finds
// it among what a plan was compiled to, nothing for the call of a library, and what to Release when they are not used any more.
func Specialize[P, K any](ctx context.Context, d *Device, sub *graph.Graph, b graph.Bindings,
	acquire func(context.Context, *gpukernel.Plan) (*kernelstore.Entry[P], error), kernel func(p P, name string) K,
) (g *Group, kernels []K, programs []*kernelstore.Entry[P], err error) {
	if g, err = d.Plan(ctx, sub, b); err != nil {
		return nil, nil, nil, err
	}
	programs, err = Compile(g.Plans, func(p *gpukernel.Plan) (*kernelstore.Entry[P], error) { return acquire(ctx, p) }, (*kernelstore.Entry[P]).Release)
	if err != nil {
		g.Release()
		return nil, nil, nil, err
	}
	for i := range g.Steps {
		s := &g.Steps[i]
		if s.Call != nil {
			var none K
			kernels = append(kernels, none)
			continue
		}
		kernels = append(kernels, kernel(programs[s.Plan].Program, s.Launch.Kernel.Name))
	}
	return g, kernels, programs, nil
}

// Release gives compiled kernels back.
func Release[P any](programs []*kernelstore.Entry[P]) {
	for _, p := range programs {
		p.Release()
	}
}

// Compile has the kernels of plans compiled, several plans at a time, and returns what compile did of each. After an error nothing
// is left: what succeeded is released.
func Compile[P any](plans []*gpukernel.Plan, compile func(*gpukernel.Plan) (P, error), release func(P)) ([]P, error) {
	list, errs := make([]P, len(plans)), make([]error, len(plans))
	var wg sync.WaitGroup
	next := make(chan int)
	for range min(len(plans), runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			for i := range next {
				list[i], errs[i] = compile(plans[i])
			}
		})
	}
	for i := range plans {
		next <- i
	}
	close(next)
	wg.Wait()
	for _, err := range errs {
		if err == nil {
			continue
		}
		for i, p := range list {
			if errs[i] == nil {
				release(p)
			}
		}
		return nil, err
	}
	return list, nil
}
