package gpugroup

import (
	"context"
	"runtime"
	"sync"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/gpukernel"
	"github.com/carve-dev/carve/internal/kernelstore"
)

// Specialize plans a subgraph for concrete shapes, and has its kernels compiled. It returns the kernel of every step, as kernel finds
// it among what a plan was compiled to, and what to Release when they are not used any more.
func Specialize[P, K any](ctx context.Context, d *Device, sub *graph.Graph, b graph.Bindings,
	acquire func(context.Context, *gpukernel.Plan) (*kernelstore.Entry[P], error), kernel func(p P, name string) K,
) (g *Group, kernels []K, programs []*kernelstore.Entry[P], err error) {
	if g, err = d.Plan(ctx, sub, b); err != nil {
		return nil, nil, nil, err
	}
	programs, err = Compile(g.Plans, func(p *gpukernel.Plan) (*kernelstore.Entry[P], error) { return acquire(ctx, p) }, (*kernelstore.Entry[P]).Release)
	if err != nil {
		return nil, nil, nil, err
	}
	for i := range g.Steps {
		s := &g.Steps[i]
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
