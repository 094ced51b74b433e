package listen

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// heap has Go collect garbage when all of its memory together, stacks and what lies unused between objects included, reaches a bound.
//
// By itself Go lets the heap grow to twice of what a collection has found in use, whatever else there is. Weights lie outside of the heap,
// which is then so small that under load it would be collected a hundred times a second, a fourth of a small request's processor time. And
// where many requests wait, what is in use differs from one collection to the next: memory grows to twice the most that there ever was, and
// stays there. The bound leaves room for as much garbage as Go would, and for usualGarbage at least. It is left as it is while the room is
// between a quarter and twice of that.
//
// Where a server has too much to do, it has as many connections as there happened to be requests at one moment, and clients keep them: some
// 40 kB each, of buffers and of stacks. From the first overload on there is room for them: what they take is taken from it.
type heap struct {
	share   float64 // garbage of what is in use, as GOGC has it
	most    int64   // GOMEMLIMIT
	samples []metrics.Sample

	mu    sync.Mutex // guards what follows, and samples
	least int64      // garbage
	bound int64
}

// How much garbage is collected at a time, at least: as a rule, and once requests have been turned down.
const (
	usualGarbage = 32 << 20
	wideGarbage  = 64 << 20
)

// The classes of memory that are looked at, by index.
const (
	total = iota
	released
	free
	objects
	unused
	live
)

// boundHeap bounds Go's memory from now on. It does nothing where collections are off.
func boundHeap() *heap {
	h := &heap{share: float64(debug.SetGCPercent(-1)) / 100, most: debug.SetMemoryLimit(-1), least: usualGarbage}
	for _, name := range []string{
		total: "/memory/classes/total:bytes", released: "/memory/classes/heap/released:bytes", free: "/memory/classes/heap/free:bytes",
		objects: "/memory/classes/heap/objects:bytes", unused: "/memory/classes/heap/unused:bytes", live: "/gc/heap/live:bytes",
	} {
		h.samples = append(h.samples, metrics.Sample{Name: name})
	}
	if h.share >= 0 {
		h.follow()
	}
	return h
}

// follow settles the bound now and after each collection.
func (h *heap) follow() {
	h.settle()
	runtime.AddCleanup(new(*heap), (*heap).follow, h) // of an object that the next collection finds unused
}

// settle fits the bound to what is in use.
func (h *heap) settle() {
	h.mu.Lock()
	defer h.mu.Unlock()
	used, garbage := h.look()
	h.set(nextBound(h.bound, used, garbage))
}

// widen makes room for what overload brings, once. It does nothing where collections are off.
func (h *heap) widen() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.share < 0 || h.least == wideGarbage {
		return
	}
	h.least = wideGarbage
	used, garbage := h.look()
	h.set(max(h.bound, used+garbage))
}

// look returns how many bytes are in use, and how many of garbage there is to be room for. It is called with mu held.
func (h *heap) look() (used, garbage int64) {
	metrics.Read(h.samples)
	of := func(i int) int64 { return int64(h.samples[i].Value.Uint64()) }
	used = of(total) - of(released) - of(free) - of(objects) - of(unused) + of(live)
	return used, max(int64(h.share*float64(of(live))), h.least)
}

// set sets the bound. It is called with mu held.
func (h *heap) set(bound int64) {
	if bound = min(bound, h.most); bound != h.bound {
		h.bound = bound
		debug.SetMemoryLimit(bound)
	}
}

// nextBound returns the bound that follows another, where so much is in use and there is to be room for so much garbage.
func nextBound(bound, used, garbage int64) int64 {
	if room := bound - used; room >= garbage/4 && room <= 2*garbage {
		return bound
	}
	return used + garbage
}
