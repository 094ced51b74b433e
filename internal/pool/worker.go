package pool

import (
	"runtime"
	"sync/atomic"
	"time"
)

// pausesPerRound is how often a worker looks at the claim word between two looks at everything else (about 1 µs).
const pausesPerRound = 32

// coreRounds is how often a worker that has nothing to do looks on which processor it is.
const coreRounds = 8

// worker is one goroutine of the pool. Index 0 is the goroutine that calls For, so workers count from 1.
type worker struct {
	pool   *workers
	index  int
	token  chan struct{} // holds at most one: sent by whoever turns parked to false
	parked atomic.Bool
	quit   atomic.Bool
}

// main runs chunks until the pool ends. A loop body that calls runtime.Goexit ends the goroutine; its place is taken by a
// new one, because the index must stay served.
func (w *worker) main() {
	over := false
	defer func() {
		if !over {
			go w.main()
		}
	}()
	w.serve()
	over = true
	w.pool.started.Done()
}

// serve claims chunks, spins between loops and parks when nobody has wanted it for long enough.
func (w *worker) serve() {
	p := w.pool
	last := time.Now() // when a chunk was last seen
	rest := napTime
	for round := 1; ; round++ {
		work := w.spin()
		if (work || round%coreRounds == 0) && w.besideCaller() && !(work && p.age() > loopGap) {
			if work {
				work, last = false, time.Now()
			}
			nap(rest)
			rest = min(2*rest, longestNap)
		}
		if work {
			rest = napTime
			for p.take(w.index) > 0 {
				p.chunk(w.index)
			}
			last, round = time.Now(), 0
			continue
		}
		if w.quit.Load() {
			return
		}
		if round%pausesPerRound == 0 {
			runtime.Gosched()
		}
		wanted := int32(w.index) < p.want.Load()
		idle, gap := time.Since(last), loopGap
		if p.yielding.Load() > 0 {
			gap = yieldGap
		}
		if idle > gap || !wanted && (idle > lingerTime || p.hush.Load()) {
			w.park(wanted)
			last, round = time.Now(), 0
		}
	}
}

// besideCaller reports whether the worker has the processor of the caller of the current loop, or of the last one in the active Runs.
// There it would take half of the processor from the caller, which does the chunks as soon itself, and waits for a slice of the
// system's, some milliseconds, for one that the worker began. Where other programs have the rest of the processors, Linux
// leaves the two together for as long as they run. A loop that is older than such slices loses nothing by a worker there.
func (w *worker) besideCaller() bool {
	p := w.pool
	here := core()
	if here == unknownCore || here != p.core.Load() || p.want.Load() == 0 {
		return false
	}
	confirm()
	return core() == p.core.Load()
}

// spin looks at the claim word for about a microsecond and reports whether there is a chunk for this worker.
func (w *worker) spin() bool {
	for range pausesPerRound {
		if threads, left := split(w.pool.word.Load()); left > 0 && w.index < threads {
			return true
		}
		pause()
	}
	return false
}

// park blocks until somebody wakes the worker; wanted says whether an active Run wanted it when it decided to park. What
// arrived between the decision and the announcement is seen by the second look, because whoever brings it looks at sleeping
// after publishing it.
func (w *worker) park(wanted bool) {
	p := w.pool
	p.sleeping.Add(1)
	w.parked.Store(true)
	threads, left := split(p.word.Load())
	work := left > 0 && w.index < threads
	if work || w.quit.Load() || !wanted && int32(w.index) < p.want.Load() {
		if w.parked.CompareAndSwap(true, false) {
			p.sleeping.Add(-1)
			return
		}
	}
	<-w.token
}
