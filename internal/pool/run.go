package pool

import (
	"runtime"
	"time"
)

// Run is the time in which one caller uses the pool: workers keep spinning between its loops. The zero value and nil are
// valid Runs whose loops are serial. A Run is used by one goroutine at a time; different Runs may be active at once.
type Run struct {
	threads int  // 0 when not begun
	claims  bool // shared counts it: workers are awake for it
	parked  bool // inside Park
	yields  bool // its workers leave their cores in short gaps
	loops   bool // a loop of it had work for others since it began
	serial  bool // none had, before it began again
	alone   bool // loops are serial
}

// BeginRun starts a Run with at most the given number of threads, the caller's included. 0 means GOMAXPROCS, which is also
// the upper bound. The caller ends it with End.
func BeginRun(threads int) *Run {
	r := new(Run)
	r.Begin(threads)
	return r
}

// Begin starts the Run, like BeginRun but without an allocation, for callers that keep a Run and use it again. Beginning a
// Run that has begun ends it first. Where no loop since the Begin before was worth more than one thread, workers stay
// asleep until one is: those of a small model's run would take processors from its caller's other goroutines for nothing.
func (r *Run) Begin(threads int) { r.begin(threads, false) }

// BeginYielding is Begin for a caller who has goroutines at work beside its loops, such as a device's queue: workers that
// see no loop for 20 µs leave their cores to those, and the next loop wakes them. A worker that spins holds a processor of
// Go's scheduler, and with all of them held a goroutine that is ready has to wait until the caller itself blocks.
func (r *Run) BeginYielding(threads int) { r.begin(threads, true) }

func (r *Run) begin(threads int, yields bool) {
	r.End()
	r.threads, r.yields = limit(threads), yields
	if yields {
		shared.yielding.Add(1)
	}
	if !r.serial {
		r.claim()
	}
}

// claim has workers awake for the Run.
func (r *Run) claim() {
	r.claims = true
	shared.begin(r.threads)
}

// Alone has the loops of the Run be serial until it ends. Workers stay asleep when it begins again, unless awake says otherwise.
func (r *Run) Alone(awake bool) { r.alone, r.loops = true, r.loops || awake }

// End ends the Run. The workers spin for another 200 µs and then park. Ending a Run twice, or nil, does nothing.
func (r *Run) End() {
	if r == nil || r.threads == 0 {
		return
	}
	if r.claims && !r.parked {
		shared.end(r.threads, false)
	}
	if r.yields {
		shared.yielding.Add(-1)
	}
	*r = Run{serial: !r.loops}
}

// Park takes the Run's claim on the workers back until Resume: before the caller hands the cores to a library with threads
// of its own. Workers that no other Run wants stop spinning within a few microseconds. Loops in between are serial.
func (r *Run) Park() {
	if r == nil || r.threads == 0 || r.parked {
		return
	}
	r.parked = true
	if r.claims {
		shared.end(r.threads, true)
	}
}

// Resume undoes Park and wakes the workers that were awake. It reports false where the Run was not parked.
func (r *Run) Resume() bool {
	if r == nil || !r.parked {
		return false
	}
	r.parked = false
	if r.claims {
		shared.begin(r.threads)
	}
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
	if r == nil || r.threads <= 1 || r.parked || r.alone || n <= grain {
		serial(n, fn, arg)
		return
	}
	if !r.loops { // as it is not in a loop inside another, on whichever goroutine
		r.loops = true
		if !r.claims {
			r.claim()
		}
	}
	if !shared.busy.TryLock() {
		serial(n, fn, arg)
		return
	}
	if failure := shared.run(r.threads, n, grain, fn, arg); failure != nil {
		panic(failure)
	}
}

// run executes one loop with the workers and returns what fn panicked with. It is called with busy held and gives it back.
func (p *workers) run(threads, n, grain int, fn func(any, int, int, int), arg any) (failure *Panic) {
	units := (n-1)/grain + 1
	chunks := min(units, threads*chunksPerThread)
	p.loop = loop{fn: fn, arg: arg, n: n, grain: grain, units: units, chunks: chunks, threads: threads, ranges: min(threads, chunks, maxRanges)}
	p.done.Store(0)
	for i := range p.loop.ranges {
		p.taken[i].Store(0)
	}
	p.core.Store(core())
	p.began.Store(int64(time.Since(epoch)))
	own := 0
	defer func() { // deferred, because a body may call runtime.Goexit on the caller's goroutine
		failure = p.finish(own)
	}()
	p.word.Store(join(threads, chunks))
	p.wakeUpTo(threads)
	for {
		if p.take(0) == 0 {
			return nil
		}
		own++
		p.chunk(0)
	}
}

// finish waits for the chunks that workers claimed, clears the loop and frees the workers for the next one.
func (p *workers) finish(own int) *Panic {
	for p.take(0) > 0 { // only after Goexit: the chunks that nobody claimed are dropped
		own++
	}
	claimed := p.loop.chunks - own
	var due time.Duration
	for round := 1; int(p.done.Load()) < claimed; round++ {
		pause()
		if round%1024 != 0 {
			continue
		}
		age := p.age()
		if due == 0 {
			due = age + max(patience, 2*age/time.Duration(max(own, 1)))
		}
		if age > due {
			nap(patience / 2)
		} else {
			runtime.Gosched()
		}
	}
	failure := p.failed.Swap(nil)
	p.loop = loop{} // keep nothing of the caller's alive
	p.busy.Unlock()
	return failure
}

// age returns how long ago the current loop, or the last one, began.
func (p *workers) age() time.Duration { return time.Since(epoch) - time.Duration(p.began.Load()) }

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

// pick returns the chunk for a claim of a worker: the next of the worker's own range, or else of the first range behind it that
// has one. There is one for every claim, because no more chunks are claimed than there are.
func (p *workers) pick(worker int) int {
	l := &p.loop
	for r := worker * l.ranges / l.threads; ; r = (r + 1) % l.ranges {
		first, end := l.chunks*r/l.ranges, l.chunks*(r+1)/l.ranges
		if int(p.taken[r].Load()) >= end-first {
			continue
		}
		if i := first + int(p.taken[r].Add(1)) - 1; i < end {
			return i
		}
	}
}

// chunk runs one chunk that was claimed.
func (p *workers) chunk(worker int) {
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
		lo, hi := p.loop.bounds(p.pick(worker))
		p.loop.fn(p.loop.arg, worker, lo, hi)
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

// split takes the claim word apart, join puts it together.
func split(word uint64) (threads, left int) { return int(word >> 32), int(word & (1<<32 - 1)) }

func join(threads, left int) uint64 { return uint64(threads)<<32 | uint64(left) }
