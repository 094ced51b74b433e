package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/kernel/shortrow"
	"github.com/carve-dev/carve/internal/place"
)

// leastTaken is how many columns the pieces of a list have on average at least, for which kernels take them.
const leastTaken = 4

// takeColumns emits what takes elements of four bytes of the last axis by a constant list of places, where kernels take them faster than they
// are copied one by one. It reports whether it did.
func (p *planner) takeColumns(index *graph.Value, src, dst place.Memory, rows, length int) bool {
	kernels := shortrow.For(p.target)
	if !index.IsConst() || !kernels.Fast() || src.Pitch != 0 || dst.Pitch != 0 {
		return false
	}
	list, err := p.Ints(index)
	if err != nil {
		return false
	}
	for _, at := range list {
		if at < 0 || at >= length {
			return false
		}
	}
	pieces, count := shortrow.Pieces(list), len(list)
	if count < leastTaken*len(pieces) {
		return false
	}
	p.emit(step{chunks: ceilDiv(rows, rowsTogether), grain: grainFor(float64(rowsTogether*len(pieces)) * 3), body: func(st *state, _, lo, hi int) {
		to, from := of[float32](st, dst), of[float32](st, src)
		for ; lo < hi; lo++ {
			first := lo * rowsTogether
			n := min(rowsTogether, rows-first)
			for i := range pieces {
				kernels.Take(to[first*count:], count, from[first*length:], length, n, &pieces[i])
			}
		}
	}}, []place.Memory{src}, []place.Memory{dst})
	return true
}
