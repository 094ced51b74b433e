package device

import "github.com/carve-dev/carve/internal/pool"

// Workers do a run's work on the host's processors, within its limit of threads: carve's pool, for kernels and converters
// of whoever has none. Nil, and the zero value, are serial. They are used by one goroutine at a time.
type Workers struct {
	Run     *pool.Run
	Threads int // where Run is nil: goroutines started for each call, which spin for nothing; for long work outside of runs
}

// Parallel calls fn for ranges that cover [0, n) and returns when all calls have. Each call may come from another goroutine,
// so results must not depend on which ranges there are. Ranges have at least one element.
func (w *Workers) Parallel(n int, fn func(lo, hi int)) {
	switch {
	case n <= 0:
	case w == nil || w.Run == nil && w.Threads <= 1:
		fn(0, n)
	case w.Run == nil:
		pool.Spread(n, w.Threads, fn)
	default:
		w.Run.For(n, 1, callRange, fn) // fn as the argument: a closure around it would be an allocation
	}
}

func callRange(fn any, _, lo, hi int) { fn.(func(lo, hi int))(lo, hi) }
