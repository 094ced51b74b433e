package cpu

import (
	"github.com/carve-dev/carve/internal/kernel/element"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/place"
)

// alternateAtOnce is how many elements takeAlternate takes at a time, and fewAlternate in how short rows a loop takes less.
const (
	alternateAtOnce = 512
	fewAlternate    = 32
)

// takeAlternate copies every second element of src to dst. Pairs are taken apart, of which the second elements are not kept.
func takeAlternate(set isa.Set, dst, src []uint32) {
	var spare [alternateAtOnce]uint32
	n := len(dst)
	if n == 0 {
		return
	}
	for i := 0; i < n-1; i += alternateAtOnce { // behind the last element there may be none
		some := min(alternateAtOnce, n-1-i)
		element.Unzip(set, dst[i:i+some], spare[:some], src[2*i:], some, 2*some)
	}
	dst[n-1] = src[2*(n-1)]
}

// takesAlternate reports whether the rows of a coalesced copy are every second element, of 32 bits, of rows.
func (c *copySpec) takesAlternate() bool {
	last := len(c.dims) - 1
	return last >= 0 && c.size == 4 && c.src[last] == 2 && c.dst[last] == 1 && c.dims[last] >= fewAlternate
}

// alternate emits such a copy.
func (p *planner) alternate(c copySpec, src, dst place.Memory) {
	set, last := p.target.Set, len(c.dims)-1
	n := c.dims[last]
	p.emit(step{chunks: product(c.dims[:last]), grain: grainFor(float64(n)*0.2 + 10), body: func(st *state, _, lo, hi int) {
		d, s := of[uint32](st, dst), of[uint32](st, src)
		w := c.walk(lo, last)
		for ; w.row < hi; w.next() {
			takeAlternate(set, d[w.dst:][:n], s[w.src:][:2*n-1])
		}
	}}, []place.Memory{src}, []place.Memory{dst})
}
