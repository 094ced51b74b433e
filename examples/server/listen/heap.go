package listen

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
	"time"
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
//
// A collection takes 1.5 to 3 ms of a process with few objects, however much garbage there is, and a server that is busy for 80 % of the time
// takes four times as long to make up for that. So that fewer than one request in a hundred has to do with it, there are to be two seconds
// between collections: garbage at a time is doubled, up to mostGarbage and to an eighth of the container's memory, where they have come
// sooner for as long as lasting. That holds while few bytes are in use and many requests come between two collections: where messages are large,
// or models are loaded, what that takes is to be bounded by what is said to bound it.
type heap struct {
	share   float64 // garbage of what is in use, as GOGC has it
	widest  int64   // mostGarbage, or less in a small container
	most    int64   // GOMEMLIMIT
	samples []metrics.Sample

	mu    sync.Mutex // guards what follows, and samples
	least int64      // garbage
	bound int64
	asked func() int64  // how many requests there have been; nil for nobody knows
	seen  int64         // how many there had been at the last collection
	count int64         // of collections that nobody has asked for
	last  time.Time     // when there was one
	since time.Time     // since when each has come soon behind another
	worth time.Duration // for how long that has to be so: lasting
}

// How much garbage is collected at a time, at least: as a rule, once requests have been turned down, and where collections would be closer
// than apart otherwise.
const (
	usualGarbage = 32 << 20
	wideGarbage  = 64 << 20
	mostGarbage  = 256 << 20
	apart        = 2 * time.Second
	lasting      = 5 * time.Second
	few          = 16 << 20
	many         = 1000 // requests
)

// The classes of memory that are looked at, by index.
const (
	total = iota
	released
	free
	objects
	unused
	live
	collections
)

// boundHeap bounds Go's memory from now on. It does nothing where collections are off.
func boundHeap() *heap {
	h := &heap{share: float64(debug.SetGCPercent(-1)) / 100, most: debug.SetMemoryLimit(-1), least: usualGarbage, widest: min(mostGarbage, containerMemory()/8), worth: lasting}
	for _, name := range []string{
		total: "/memory/classes/total:bytes", released: "/memory/classes/heap/released:bytes", free: "/memory/classes/heap/free:bytes",
		objects: "/memory/classes/heap/objects:bytes", unused: "/memory/classes/heap/unused:bytes", live: "/gc/heap/live:bytes",
		collections: "/gc/cycles/automatic:gc-cycles",
	} {
		h.samples = append(h.samples, metrics.Sample{Name: name})
	}
	if h.share >= 0 {
		h.follow()
	}
	return h
}

// containerMemory returns how many bytes of memory Linux leaves to the process's control group, math.MaxInt64 where nothing says so.
func containerMemory() int64 {
	for _, file := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		if b, err := os.ReadFile(file); err == nil {
			if n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil && n > 0 {
				return n
			}
		}
	}
	return math.MaxInt64
}

// follow settles the bound now and after each collection.
func (h *heap) follow() {
	h.settle()
	runtime.AddCleanup(new(*heap), (*heap).follow, h) // of an object that the next collection finds unused
}

// settle fits the bound to what is in use, and the garbage to how soon the last collection has come.
func (h *heap) settle() {
	h.mu.Lock()
	defer h.mu.Unlock()
	used, live := h.look()
	if n := h.of(collections); n > h.count {
		now := time.Now()
		if now.Sub(h.last) > apart*time.Duration(n-h.count) || live > few || h.came() < many*(n-h.count) {
			h.since = now
		}
		h.count, h.last = n, now
		if now.Sub(h.since) > h.worth && h.least < h.widest {
			h.since = now
			h.grow(min(2*h.least, h.widest), used, live)
			return
		}
	}
	h.set(nextBound(h.bound, used, h.garbage(live)))
}

// came returns how many requests have come since it was last called. It is called with mu held.
func (h *heap) came() int64 {
	if h.asked == nil {
		return 0
	}
	before := h.seen
	h.seen = h.asked()
	return h.seen - before
}

// widen makes room for what overload brings, once. It does nothing where collections are off.
func (h *heap) widen() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.share < 0 || h.least >= wideGarbage {
		return
	}
	used, live := h.look()
	h.grow(wideGarbage, used, live)
}

// grow has more garbage from now on. It is called with mu held.
func (h *heap) grow(least, used, live int64) {
	h.least = least
	h.set(max(h.bound, used+h.garbage(live)))
}

// look reads the samples, and returns how many bytes are in use, and how many of objects among them. It is called with mu held.
func (h *heap) look() (used, alive int64) {
	metrics.Read(h.samples)
	return h.of(total) - h.of(released) - h.of(free) - h.of(objects) - h.of(unused) + h.of(live), h.of(live)
}

// of returns a sample.
func (h *heap) of(i int) int64 { return int64(h.samples[i].Value.Uint64()) }

// garbage returns how many bytes of garbage there is to be room for.
func (h *heap) garbage(live int64) int64 {
	least := h.least
	if live > few {
		least = min(least, wideGarbage)
	}
	return max(int64(h.share*float64(live)), least)
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
