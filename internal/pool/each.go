package pool

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// Each calls fn for 0 to n-1 on goroutines of its own, at most as many as threads or the processors, whichever is more, and
// returns the error of the lowest index, or ctx's where that ended first. A panic of fn, or of progress, is an error. progress, where it is
// not nil, is told after each call, by one goroutine at a time. It is for long work, such as compilation: a loop of a kernel
// belongs to a Run.
func Each(ctx context.Context, n, threads int, progress func(done, total int), fn func(i int) error) error {
	errs := make([]error, n)
	var next, done atomic.Int64
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range min(n, max(threads, runtime.GOMAXPROCS(0))) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for {
				i := int(next.Add(1)) - 1
				if i >= n || ctx.Err() != nil {
					return
				}
				errs[i] = guarded(func() error { return fn(i) })
				if progress == nil {
					continue
				}
				told := guarded(func() error {
					mu.Lock()
					defer mu.Unlock()
					progress(int(done.Add(1)), n)
					return nil
				})
				errs[i] = cmp.Or(errs[i], told)
			}
		}()
	}
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Spread calls fn for ranges that cover [0, n), on goroutines as Each does. A panic of fn is the caller's, as an error.
func Spread(n, threads int, fn func(lo, hi int)) {
	threads = max(threads, runtime.GOMAXPROCS(0))
	parts := min(n, threads*chunksPerThread)
	err := Each(context.Background(), parts, threads, nil, func(i int) error {
		fn(n*i/parts, n*(i+1)/parts)
		return nil
	})
	if err != nil {
		panic(err)
	}
}

// guarded turns a panic of fn into an error.
func guarded(fn func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("internal error: %v\n%s", r, debug.Stack())
		}
	}()
	return fn()
}
