package fake

import (
	"fmt"
	"slices"
	"sync"
)

// clock is a vector clock: by stream, up to which of its pieces of work everything is known to be over. Stream 0 is the
// host. See Fidge, "Timestamps in message-passing systems that preserve the partial ordering", 1988, and, for what is kept of
// each piece of memory, Flanagan and Freund, "FastTrack", 2009 (doi:10.1145/1542476.1542490).
type clock []uint64

// has reports whether piece tick of a stream is known to be over.
func (c clock) has(stream int, tick uint64) bool { return stream < len(c) && c[stream] >= tick }

// join returns what c and o know together; c may be changed.
func (c clock) join(o clock) clock {
	for len(c) < len(o) {
		c = append(c, 0)
	}
	for i, t := range o {
		c[i] = max(c[i], t)
	}
	return c
}

// tick returns c with one more piece of a stream; c may be changed.
func (c clock) tick(stream int) clock {
	for len(c) <= stream {
		c = append(c, 0)
	}
	c[stream]++
	return c
}

// access is what a piece of work does to a range of a block.
type access struct {
	from, to int64
	write    bool
	stream   int
	tick     uint64
	what     string
}

// watch knows the order of all work, and keeps what was wrong with it.
type watch struct {
	mu      sync.Mutex
	host    clock // what the host has waited for
	streams int   // that there were, the host's included
	faults  []string
}

// maxFaults bounds the list: one mistake may be made in every run.
const maxFaults = 100

func (w *watch) fault(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faultLocked(format, args...)
}

func (w *watch) faultLocked(format string, args ...any) {
	if len(w.faults) < maxFaults {
		w.faults = append(w.faults, fmt.Sprintf(format, args...))
	}
}

// known returns what the host knows to be over.
func (w *watch) known() clock {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.host)
}

// learn lets the host know what a clock knows.
func (w *watch) learn(c clock) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.host = w.host.join(c)
}

// newStream returns the number of a stream.
func (w *watch) newStream() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.streams++
	return w.streams
}

// piece is one piece of work while it is done.
type piece struct {
	w      *watch
	stream int
	clock  clock
	what   string
}

// onHost returns a piece of work that the host does itself.
func (w *watch) onHost(what string) *piece {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.host = w.host.tick(0)
	return &piece{w, 0, slices.Clone(w.host), what}
}

// touch notes that the piece reads or writes a range of a block, and whether that is in order.
func (p *piece) touch(b *block, off, n int64, write bool) {
	if n == 0 {
		return
	}
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	a := access{off, off + n, write, p.stream, p.clock[p.stream], p.what}
	if b.freed {
		p.w.faultLocked("%s uses a block of %v that is freed", p.what, b.device)
	}
	keep := b.accesses[:0]
	for _, o := range b.accesses {
		over := p.clock.has(o.stream, o.tick)
		if !over && o.stream != a.stream && o.from < a.to && a.from < o.to && (o.write || write) {
			p.w.faultLocked("%s and %s are not ordered, but touch bytes %d to %d of a block of %v", o.what, p.what, max(o.from, a.from), min(o.to, a.to), b.device)
			over = true // once is enough
		}
		// What comes after this piece comes after what it covers.
		if inside := a.from <= o.from && o.to <= a.to; !(inside && over && (write || !o.write && o.stream == a.stream)) {
			keep = append(keep, o)
		}
	}
	b.accesses = append(keep, a)
	if len(b.accesses) > 512 {
		b.accesses = slices.DeleteFunc(b.accesses, func(o access) bool { return p.w.host.has(o.stream, o.tick) })
	}
}

// free notes that the host gives a block back.
func (w *watch) free(b *block) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b.freed = true
	for _, o := range b.accesses {
		if !w.host.has(o.stream, o.tick) {
			w.faultLocked("a block of %v is freed, but nobody waited for %s", b.device, o.what)
			return
		}
	}
}
