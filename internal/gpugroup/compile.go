package gpugroup

import (
	"runtime"
	"sync"

	"github.com/carve-dev/carve/internal/gpukernel"
)

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
