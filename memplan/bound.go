package memplan

import (
	"context"
	"math"
	"math/bits"
)

// LowerBound returns a height that no plan for bufs can go below: the largest
// sum of sizes alive at one time, sizes rounded up to the least alignment
// among all buffers, and of buffers that share space only as many counted as
// cannot share. It returns math.MaxInt64 where the sum is larger, and 0 for
// buffers that Pack refuses. Cost O(n log n).
func LowerBound(bufs []Buffer) int64 {
	if checkBuffers(bufs) != nil {
		return 0
	}
	p := &problem{bufs: bufs}
	h := newHalt(context.Background())
	spans, _ := p.compress(h)
	p.computeBound(spans, h)
	return p.bound
}

// wide is a 128-bit integer.
type wide struct{ hi, lo uint64 }

func (w *wide) add(x int64) {
	var carry uint64
	w.lo, carry = bits.Add64(w.lo, uint64(x), 0)
	w.hi += carry
}

func (w *wide) sub(x int64) {
	var borrow uint64
	w.lo, borrow = bits.Sub64(w.lo, uint64(x), 0)
	w.hi -= borrow
}

func (w *wide) addWide(v wide) {
	var carry uint64
	w.lo, carry = bits.Add64(w.lo, v.lo, 0)
	w.hi += v.hi + carry
}

// computeBound sets the lower bound from the spans of all buffers, and
// reports whether it came to an end before h did.
func (p *problem) computeBound(spans []span, h halt) bool {
	grain := int64(math.MaxInt64)
	for i := range p.bufs {
		b := &p.bufs[i]
		if !b.takesSpace() {
			continue
		}
		grain = min(grain, b.alignment())
		if b.Fixed {
			p.bound = max(p.bound, b.Offset+b.Size)
		}
	}
	counted, ok := countedSpans(p.bufs, spans, h)
	if !ok {
		return false
	}
	load := make([]wide, p.sections+1)
	padded := false
	for i, s := range counted {
		size := p.bufs[s.buffer].Size
		pad := -size & (grain - 1)
		padded = padded || pad != 0
		load[s.first].add(size)
		load[s.first].add(pad)
		load[s.last].sub(size)
		load[s.last].sub(pad)
		if i&chunkMask == 0 && h.stopped() {
			return false
		}
	}
	// The topmost buffer of a section needs no padding behind it.
	var spare []int64
	if padded {
		var ok bool
		if spare, ok = largestPads(p.bufs, counted, p.sections, grain, h); !ok {
			return false
		}
	}
	var sum wide
	for s := range p.sections {
		sum.addWide(load[s])
		height := sum
		if padded {
			height.sub(spare[s])
		}
		if height.hi != 0 || height.lo > math.MaxInt64 {
			p.bound, p.endless = math.MaxInt64, true
			return true
		}
		p.bound = max(p.bound, int64(height.lo))
	}
	return true
}

// largestPads returns for every section the largest padding of a buffer in it,
// or false when h ended.
func largestPads(bufs []Buffer, spans []span, sections int32, grain int64, h halt) ([]int64, bool) {
	pad := func(i int32) int64 { return -bufs[spans[i].buffer].Size & (grain - 1) }
	keys := make([]uint64, len(spans))
	for i := range keys {
		keys[i] = descending(pad(int32(i)))
	}
	var byPad sorter
	order, ok := byPad.sort(keys, h)
	if !ok {
		return nil, false
	}
	out := make([]int64, sections)
	next := identity(int(sections) + 1) // next[s]: first section from s on that has none yet
	find := func(s int32) int32 {
		for next[s] != s {
			next[s] = next[next[s]]
			s = next[s]
		}
		return s
	}
	for k, i := range order {
		if k&chunkMask == 0 && h.stopped() {
			return nil, false
		}
		for s := find(spans[i].first); s < spans[i].last; s = find(s) {
			out[s] = pad(i)
			next[s] = s + 1
		}
	}
	return out, true
}
