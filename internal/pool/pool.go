package pool

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// lingerTime is how long a worker spins after the last Run ended; a server that answers one request after the other
	// then pays no wake-up between them.
	lingerTime = 200 * time.Microsecond
	// loopGap is how long a worker spins inside an active Run without seeing a loop. A gap that long hides the wake-up
	// (about 20 µs) that the next loop pays.
	loopGap = 5 * time.Millisecond
	// yieldGap is the same while a Run is active whose caller has other goroutines at work.
	yieldGap = 20 * time.Microsecond
	// chunksPerThread balances cores of unequal speed against the cost of a claim.
	chunksPerThread = 4
	// maxRanges bounds the ranges that a loop is divided into: beyond it several threads begin in the same one.
	maxRanges = 16
	// napTime is how long a worker sleeps that has the caller's processor, twice as long each time in a row up to longestNap:
	// so the caller goes on, and the worker may wake up on another one.
	napTime    = 200 * time.Microsecond
	longestNap = time.Millisecond
	// patience is how long the caller waits for a chunk, in addition to twice the time of its own ones, before it sleeps for
	// half of that again and again: the worker that has the chunk may wait for this processor.
	patience = 100 * time.Microsecond
	// unknownCore is the number of a processor that the system does not tell.
	unknownCore = -1
	// maxThreads bounds the threads of a Run, so that chunks are counted in 32 bits.
	maxThreads = 1 << 16
)

// workers is the state of the pool. There is one, shared; tests make their own.
type workers struct {
	mu      sync.Mutex // guards refs, started, wanted and the growth of list
	refs    int
	started sync.WaitGroup
	wanted  []int // wanted[t] is the number of active Runs with t threads

	list     atomic.Pointer[[]*worker] // copied on growth
	want     atomic.Int32              // the most threads that an active Run has, 0 with none active
	hush     atomic.Bool               // park at once, do not linger
	yielding atomic.Int32              // active Runs begun by BeginYielding
	sleeping atomic.Int32              // workers that are parked or about to be

	busy sync.Mutex // held for the length of a parallel loop

	core  atomic.Int32 // the processor that the caller had when the last loop or Run began, or unknownCore
	began atomic.Int64 // when that was, in nanoseconds from epoch on

	_ [64]byte
	// word is what chunks are claimed from: threads<<32 | chunks left. A claim is one CAS from left to left-1. Everything
	// that decides whether a worker may claim is in the word, and the loop's fields are read after the claim, so a late
	// worker whose CAS succeeds has a chunk of the current loop, whichever loop it read the word from. Counting down makes
	// zero the closed state, and an epoch in the word unnecessary.
	word atomic.Uint64
	_    [64]byte
	done atomic.Int32 // chunks of the current loop that workers have finished
	_    [64]byte
	// taken counts the chunks of each range of the loop that were begun, and attempts beyond its end: see pick.
	taken [maxRanges]struct {
		atomic.Int32
		_ [60]byte
	}

	// The current loop: written with busy held and no chunk left, read by those who claimed a chunk.
	loop   loop
	failed atomic.Pointer[Panic]
}

// loop describes one parallel loop over [0, n) in chunks of some units each, of grain items.
type loop struct {
	fn                      func(arg any, worker, lo, hi int)
	arg                     any
	n, grain, units, chunks int
	threads, ranges         int
}

// bounds returns the items of chunk i. Chunks differ by at most one unit.
func (l *loop) bounds(i int) (lo, hi int) {
	return l.units * i / l.chunks * l.grain, min(l.n, l.units*(i+1)/l.chunks*l.grain)
}

var shared workers

var epoch = time.Now()

// Acquire counts one more user of the pool. Workers start when the first Run needs them. It is safe for concurrent use.
func Acquire() { shared.acquire() }

// Release counts one user less; the last one ends the workers and waits until they are gone. A Run that is still active
// then runs its loops serially. Release must not be called from inside a loop body. A Release without its Acquire does
// nothing. It is safe for concurrent use.
func Release() { shared.release() }

func (p *workers) acquire() {
	p.mu.Lock()
	p.refs++
	p.mu.Unlock()
}

func (p *workers) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refs == 0 {
		return
	}
	if p.refs--; p.refs > 0 {
		return
	}
	list := p.list.Swap(nil)
	if list == nil {
		return
	}
	for _, w := range *list {
		w.quit.Store(true)
		p.wake(w)
	}
	p.started.Wait() // with mu held: two workers never have the same index
}

// begin counts a Run with the given number of threads and makes sure that its workers exist and are awake.
func (p *workers) begin(threads int) {
	p.mu.Lock()
	for len(p.wanted) <= threads {
		p.wanted = append(p.wanted, 0)
	}
	p.wanted[threads]++
	if int32(threads) > p.want.Load() {
		p.want.Store(int32(threads))
	}
	p.hush.Store(false)
	confirm()
	p.core.Store(core())
	if p.refs > 0 {
		p.grow(threads)
	}
	p.mu.Unlock()
	p.wakeUpTo(threads)
}

// end takes a Run back out of the count. With hush, workers that nobody else wants park without lingering.
func (p *workers) end(threads int, hush bool) {
	p.mu.Lock()
	p.wanted[threads]--
	top := int(p.want.Load())
	for top > 0 && p.wanted[top] == 0 {
		top--
	}
	p.want.Store(int32(top))
	if hush {
		p.hush.Store(true)
	}
	p.mu.Unlock()
}

// grow starts workers until there is one for every thread but the caller's. It is called with mu held.
func (p *workers) grow(threads int) {
	var old []*worker
	if l := p.list.Load(); l != nil {
		old = *l
	}
	if len(old) >= threads-1 {
		return
	}
	list := append(make([]*worker, 0, threads-1), old...)
	for len(list) < threads-1 {
		w := &worker{pool: p, index: len(list) + 1, token: make(chan struct{}, 1)}
		list = append(list, w)
		p.started.Add(1)
		go w.main()
	}
	p.list.Store(&list)
}

// wakeUpTo wakes the parked workers with an index below threads.
func (p *workers) wakeUpTo(threads int) {
	if p.sleeping.Load() == 0 {
		return
	}
	l := p.list.Load()
	if l == nil {
		return
	}
	list := *l
	for _, w := range list[:min(len(list), threads-1)] {
		p.wake(w)
	}
}

// wake wakes one worker if it is parked.
func (p *workers) wake(w *worker) {
	if w.parked.CompareAndSwap(true, false) {
		p.sleeping.Add(-1)
		w.token <- struct{}{}
	}
}

// limit returns how many threads a Run that asks for n may have.
func limit(n int) int {
	procs := runtime.GOMAXPROCS(0)
	if n <= 0 || n > procs {
		n = procs
	}
	return min(n, maxThreads)
}
