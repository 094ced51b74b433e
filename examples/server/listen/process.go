package listen

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Processors are those that Go uses in the whole process. There is one of it.
//
// Go looks at the network when a processor has nothing else to do. Where runs of models keep all of them busy, requests are read, answered
// and refused tens of milliseconds late. So there are twice as many while that is so and requests are turned down: those that runs do not use
// wait for the network, and the system lets them go first. At other times more of them would only make each step of a request, and each run
// that ends, wake a thread.
type Processors struct {
	// Runs is how many of them runs of models may keep busy: repository.Options.Runs.
	Runs int

	crowded atomic.Int64 // when runs last kept all of them busy, in nanoseconds from begin on
	twice   atomic.Bool
	mu      sync.Mutex // guards still, and is held while their number changes
	still   func() bool
	begin   time.Time
	heap    *heap
}

// PrepareProcess returns the process's processors, for repository.Options. With the first call Go's memory is bounded by what is in use and
// some garbage, by debug.SetMemoryLimit, where GOGC is not off: see heap. GOMEMLIMIT is the most.
var PrepareProcess = sync.OnceValue(func() *Processors {
	return &Processors{Runs: runtime.GOMAXPROCS(0), begin: time.Now(), heap: boundHeap()}
})

// calm is how long after runs have kept all processors busy there are as many as before.
const calm = 100 * time.Millisecond

// Crowded says that runs have kept all processors busy for a while, with requests turned down, and may do so still:
// repository.Options.Crowded.
func (p *Processors) Crowded(still func() bool) {
	p.crowded.Store(int64(time.Since(p.begin)))
	if p.twice.Load() || !p.mu.TryLock() {
		return
	}
	defer p.mu.Unlock()
	if p.twice.CompareAndSwap(false, true) {
		p.still = still
		runtime.GOMAXPROCS(2 * p.Runs)
		p.heap.widen()
		time.AfterFunc(calm, p.settle)
	}
}

// settle takes the additional processors away when runs have left some of the others idle for long enough.
func (p *Processors) settle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.begin)-time.Duration(p.crowded.Load()) < calm || p.still() {
		time.AfterFunc(calm, p.settle)
		return
	}
	runtime.GOMAXPROCS(p.Runs)
	p.twice.Store(false)
}
