package pool

import "runtime"

// Run is the time in which one caller uses the pool: workers keep spinning between its loops. The zero value and nil are
// valid Runs whose loops are serial. A Run is used by one goroutine at a time; different Runs may be active at once.
type Run struct {
	threads int  // 0 when not begun
	parked  bool // inside Park
}

// BeginRun starts a Run with at most the given number of threads, the caller's included. 0 means GOMAXPROCS, which is also
// the upper bound. The caller ends it with End.
func BeginRun(threads int) *Run {
	r := new(Run)
	r.Begin(threads)
	return r
}

// Begin starts the Run, like BeginRun but without an allocation, for callers that keep a Run and use it again. Beginning a
// Run that has begun ends it first.
func (r *Run) Begin(threads int) {
	r.End()
	r.threads = limit(threads)
	shared.begin(r.threads)
}

// End ends the Run. The workers spin for another 200 µs and then park. Ending a Run twice, or nil, does nothing.
func (r *Run) End() {
	if r == nil || r.threads == 0 {
		return
	}
	if !r.parked {
		shared.end(r.threads, false)
	}
	r.threads, r.parked = 0, false
}

// Park takes the Run's claim on the workers back until Resume: before the caller hands the cores to a library with threads
// of its own. Workers that no other Run wants stop spinning within a few microseconds. Loops in between are serial.
func (r *Run) Park() {
	if r == nil || r.threads == 0 || r.parked {
		return
	}
	r.parked = true
	shared.end(r.threads, true)
}

// Resume undoes Park and wakes the workers. It reports false where the Run was not parked.
func (r *Run) Resume() bool {
	if r == nil || !r.parked {
		return false
	}
	r.parked = false
	shared.begin(r.threads)
	return true
}

// Threads returns the number of threads that loops of this Run may use, the caller's included: at least 1. Worker indexes
// are below it, so it is the number of scratch areas to provide.
func (r *Run) Threads() int {
	if r == nil || r.threads == 0 {
		return 1
	}
	return r.threads
}

// For calls fn for parts [lo, hi) that cover [0, n) once each, in any order and partly at the same time, and returns when
// all have returned. Every lo is a multiple of grain, which is also the fewest items worth a call (1 if lower); choose it so
// that a call takes 5 µs or more. worker is below Threads and no two calls of one loop that overlap in time have the same,
// so fn may use scratch memory by worker. Which worker runs which part is not defined: a result that must not depend on it
// is written by index and never summed per worker.
//
// A loop inside fn is serial, with worker 0: it takes its scratch by the outer loop's index. So is a loop of a Run while
// another Run's loop has the workers. For allocates nothing when arg is a pointer and fn is no closure.
//
// If fn panics, the parts that have not begun are skipped and For panics with a *Panic, on the caller's goroutine, after
// all running parts have returned.
func (r *Run) For(n, grain int, fn func(arg any, worker, lo, hi int), arg any) {
	if n <= 0 {
		return
	}
	grain = max(grain, 1)
	if r == nil || r.threads <= 1 || r.parked || n <= grain || !shared.busy.TryLock() {
		serial(n, fn, arg)
		return
	}
	if failure := shared.run(r.threads, n, grain, fn, arg); failure != nil {
		panic(failure)
	}
}

// run executes one loop with the workers and returns what fn panicked with. It is called with busy held and gives it back.
func (p *workers) run(threads, n, grain int, fn func(any, int, int, int), arg any) (failure *Panic) {
	size, chunks := cut(n, grain, threads*chunksPerThread)
	p.loop = loop{fn: fn, arg: arg, n: n, size: size, chunks: chunks}
	p.done.Store(0)
	own := 0
	defer func() { // deferred, because a body may call runtime.Goexit on the caller's goroutine
		failure = p.finish(own)
	}()
	p.word.Store(join(threads, chunks))
	p.wakeUpTo(threads)
	for {
		left := p.take(0)
		if left == 0 {
			return nil
		}
		own++
		p.chunk(0, left)
	}
}

// finish waits for the chunks that workers claimed, clears the loop and frees the workers for the next one.
func (p *workers) finish(own int) *Panic {
	for p.take(0) > 0 { // only after Goexit: the chunks that nobody claimed are dropped
		own++
	}
	claimed := p.loop.chunks - own
	for round := 1; int(p.done.Load()) < claimed; round++ {
		pause()
		if round%1024 == 0 {
			runtime.Gosched()
		}
	}
	failure := p.failed.Swap(nil)
	p.loop = loop{} // keep nothing of the caller's alive
	p.busy.Unlock()
	return failure
}

// take claims a chunk for the thread with the given index. It returns how many were left, that one included: 0 for none.
func (p *workers) take(index int) int {
	for {
		word := p.word.Load()
		threads, left := split(word)
		if left == 0 || index >= threads {
			return 0
		}
		if p.word.CompareAndSwap(word, word-1) {
			return left
		}
	}
}

// chunk runs the chunk that was claimed when left chunks were left.
func (p *workers) chunk(worker, left int) {
	finished := false
	defer func() {
		if !finished {
			p.failed.CompareAndSwap(nil, caught(recover()))
		}
		if worker > 0 {
			p.done.Add(1)
		}
	}()
	if p.failed.Load() == nil {
		l := &p.loop
		lo := (l.chunks - left) * l.size
		l.fn(l.arg, worker, lo, lo+min(l.size, l.n-lo))
	}
	finished = true
}

// serial runs a loop as one part on the caller's goroutine.
func serial(n int, fn func(any, int, int, int), arg any) {
	finished := false
	defer func() {
		if !finished {
			if v := recover(); v != nil {
				panic(caught(v))
			}
		}
	}()
	fn(arg, 0, 0, n)
	finished = true
}

// cut returns the size of a chunk, a multiple of grain, and the number of chunks, at most most.
func cut(n, grain, most int) (size, chunks int) {
	units := (n-1)/grain + 1
	per := (units-1)/most + 1
	return per * grain, (units-1)/per + 1
}

// split takes the claim word apart, join puts it together.
func split(word uint64) (threads, left int) { return int(word >> 32), int(word & (1<<32 - 1)) }

func join(threads, left int) uint64 { return uint64(threads)<<32 | uint64(left) }
