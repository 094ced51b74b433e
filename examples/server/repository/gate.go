package repository

import (
	"container/heap"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carve-dev/carve/examples/server/oip"
)

// gate lets so many runs through at a time. Who waits goes by rank, then by arrival; the queue is bounded.
//
// Threads of runs hold mu too, which give way to all others: one that wakes somebody is off its processor at once, for as long as others
// have something to do. So nobody is woken with mu held, and requests are turned down without it.
type gate struct {
	limit   int                     // of those that wait
	filling func()                  // is called where half as many wait as may, or more; nil for nobody
	crowded func(still func() bool) // see Options; nil for nobody
	strain  atomic.Int64            // when strained was last called, in nanoseconds from epoch on; 0 for never
	length  atomic.Int64            // of waiting

	mu      sync.Mutex // guards what follows
	free    int
	waiting waiters
	arrived uint64
	since   time.Time // when the last place was taken
}

// epoch is what strain counts from.
var epoch = time.Now()

// crowd is for how long all places are taken before that is told.
const crowd = time.Millisecond

// lasting is for how long strain is taken to last.
const lasting = time.Second

type waiter struct {
	rank  int // see Batching.rank
	order uint64
	index int // in the heap; -1 once it is out
	ready chan struct{}
}

// enter waits for a place, until ctx ends. The error is Overloaded where the queue is full, or ctx's.
func (g *gate) enter(ctx context.Context, rank int) error {
	if g.length.Load() >= int64(max(g.limit, 1)) { // all places are taken, or others would not wait
		return g.full()
	}
	g.mu.Lock()
	if g.take() {
		g.mu.Unlock()
		return nil
	}
	n := len(g.waiting)
	if n >= g.limit {
		g.mu.Unlock()
		return g.full()
	}
	g.arrived++
	w := &waiter{rank: rank, order: g.arrived, ready: make(chan struct{})}
	heap.Push(&g.waiting, w)
	g.length.Store(int64(n + 1))
	g.mu.Unlock()
	if g.filling != nil && 2*n >= g.limit {
		g.filling()
	}
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	if w.index < 0 { // let through at the same moment: the next one's turn
		next := g.next()
		g.mu.Unlock()
		next.wake()
		return ctx.Err()
	}
	heap.Remove(&g.waiting, w.index)
	g.length.Store(int64(len(g.waiting)))
	g.mu.Unlock()
	return ctx.Err()
}

// full turns a request down.
func (g *gate) full() error {
	if g.filling != nil {
		g.filling()
	}
	return oip.Errorf(oip.Overloaded, "the model's queue is full: %d requests wait", g.limit)
}

// try takes a place where one is free.
func (g *gate) try() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.take()
}

// take is try with mu held.
func (g *gate) take() bool {
	if g.free == 0 {
		return false
	}
	if g.free--; g.free == 0 && g.crowded != nil {
		g.since = time.Now()
	}
	return true
}

// strained notes that requests are turned down, or will be soon.
func (g *gate) strained() { g.strain.Store(max(int64(time.Since(epoch)), 1)) }

func (g *gate) leave() {
	g.mu.Lock()
	crowded := g.crowded != nil && g.pressed() && time.Since(g.since) >= crowd
	next := g.next()
	g.mu.Unlock()
	next.wake()
	if crowded {
		g.crowded(g.overloaded)
	}
}

// overloaded reports whether all places are taken while requests are turned down, or will be soon.
func (g *gate) overloaded() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.pressed()
}

// pressed is overloaded with mu held.
func (g *gate) pressed() bool {
	at := g.strain.Load()
	return g.free == 0 && at > 0 && time.Since(epoch)-time.Duration(at) < lasting
}

// next gives a place on, and returns whose it is, nil for nobody's. It is called with mu held; the caller wakes that one.
func (g *gate) next() *waiter {
	if len(g.waiting) == 0 {
		g.free++
		return nil
	}
	w := heap.Pop(&g.waiting).(*waiter)
	g.length.Store(int64(len(g.waiting)))
	return w
}

// wake lets a waiter through; nil is nobody.
func (w *waiter) wake() {
	if w != nil {
		close(w.ready)
	}
}

// waiters is a heap; see container/heap.
type waiters []*waiter

func (w waiters) Len() int { return len(w) }

func (w waiters) Less(i, j int) bool {
	if w[i].rank != w[j].rank {
		return w[i].rank < w[j].rank
	}
	return w[i].order < w[j].order
}

func (w waiters) Swap(i, j int) {
	w[i], w[j] = w[j], w[i]
	w[i].index, w[j].index = i, j
}

func (w *waiters) Push(x any) {
	x.(*waiter).index = len(*w)
	*w = append(*w, x.(*waiter))
}

func (w *waiters) Pop() any {
	last := (*w)[len(*w)-1]
	*w = (*w)[:len(*w)-1]
	last.index = -1
	return last
}
