package repository

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/carve-dev/carve/examples/server/oip"
)

// gate lets so many runs through at a time. Who waits goes by priority, then by arrival; the queue is bounded.
type gate struct {
	mu      sync.Mutex
	free    int
	limit   int // of those that wait
	waiting waiters
	arrived uint64
	filling func()                  // is called where half as many wait as may, or more; nil for nobody
	crowded func(still func() bool) // see Options; nil for nobody
	since   time.Time               // when the last place was taken
	strain  time.Time               // when strained was last called
}

// crowd is for how long all places are taken before that is told.
const crowd = time.Millisecond

// lasting is for how long strain is taken to last.
const lasting = time.Second

type waiter struct {
	priority, order uint64
	index           int // in the heap; -1 once it is out
	ready           chan struct{}
}

// enter waits for a place, until ctx ends. The error is Overloaded where the queue is full, or ctx's.
func (g *gate) enter(ctx context.Context, priority uint64) error {
	g.mu.Lock()
	if g.take() {
		g.mu.Unlock()
		return nil
	}
	if g.filling != nil && 2*len(g.waiting) >= g.limit {
		g.filling()
	}
	if len(g.waiting) >= g.limit {
		g.mu.Unlock()
		return oip.Errorf(oip.Overloaded, "the model's queue is full: %d requests wait", g.limit)
	}
	g.arrived++
	w := &waiter{priority: priority, order: g.arrived, ready: make(chan struct{})}
	heap.Push(&g.waiting, w)
	g.mu.Unlock()
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if w.index < 0 { // let through at the same moment: the next one's turn
		g.pass()
		return ctx.Err()
	}
	heap.Remove(&g.waiting, w.index)
	return ctx.Err()
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
func (g *gate) strained() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.strain = time.Now()
}

func (g *gate) leave() {
	g.mu.Lock()
	crowded := g.crowded != nil && g.pressed() && time.Since(g.since) >= crowd
	g.pass()
	g.mu.Unlock()
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
	return g.free == 0 && !g.strain.IsZero() && time.Since(g.strain) < lasting
}

// pass gives a place on. It is called with mu held.
func (g *gate) pass() {
	if len(g.waiting) == 0 {
		g.free++
		return
	}
	close(heap.Pop(&g.waiting).(*waiter).ready)
}

// waiters is a heap; see container/heap.
type waiters []*waiter

func (w waiters) Len() int { return len(w) }

func (w waiters) Less(i, j int) bool {
	if w[i].priority != w[j].priority {
		return w[i].priority < w[j].priority
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
