package listen

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

// heap has Go collect garbage when all of its memory together, stacks and what lies unused between objects included, reaches a bound.
//
// By itself Go lets the heap grow to twice of what a collection has found in use, whatever else there is. Weights lie outside of the heap,
// which is then so small that under load it would be collected a hundred times a second, a fourth of a small request's processor time. And
// where many requests wait, what is in use differs from one collection to the next: memory grows to twice the most that there ever was, and
// stays there. The bound leaves room for as much garbage as Go would, and for minGarbage at least. It is left as it is while the room is
// between half and twice of that.
type heap struct {
	share   float64 // garbage of what is in use, as GOGC has it
	most    int64   // GOMEMLIMIT
	bound   int64
	samples []metrics.Sample
	settled atomic.Int64 // bound, to be read by others
}

// minGarbage is how much garbage is collected at a time, at least.
const minGarbage = 32 << 20

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
	h := &heap{share: float64(debug.SetGCPercent(-1)) / 100, most: debug.SetMemoryLimit(-1)}
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
	metrics.Read(h.samples)
	of := func(i int) int64 { return int64(h.samples[i].Value.Uint64()) }
	used := of(total) - of(released) - of(free) - of(objects) - of(unused) + of(live)
	garbage := max(int64(h.share*float64(of(live))), minGarbage)
	if room := h.bound - used; room >= garbage/2 && room <= 2*garbage {
		return
	}
	h.bound = min(used+garbage, h.most)
	debug.SetMemoryLimit(h.bound)
	h.settled.Store(h.bound)
}
