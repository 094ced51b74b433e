package cpu

import (
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/place"
)

// updateBox emits the ScatterND that writes a box of its operand, whose indices are constants, as exporters write y[:, 1:] = x, and reports whether
// n is one: no index is read in a run.
func (p *planner) updateBox(n *graph.Node, src, updates, dst place.Memory) bool {
	index := n.Inputs[1].Const
	if index == nil || n.Str("reduction", "none") != "none" {
		return false
	}
	start, step, ok := graph.IndexBox(index)
	d, k := p.Dims[n.Inputs[0].ID], len(start)
	if !ok || k > len(d) {
		return false
	}
	c := copySpec{dims: slices.Concat(index.Shape[:k], d[k:]), size: n.Inputs[0].Type.DType.Size()}
	c.src, c.dst = stridesAt(updates, c.dims, c.size), stridesAt(dst, d, c.size)
	for a := range start {
		if start[a] < 0 {
			start[a] += d[a]
		}
		if start[a] < 0 || start[a]+(c.dims[a]-1)*step[a] >= d[a] {
			return false // an error of the run
		}
		c.dstOff += start[a] * c.dst[a]
		c.dst[a] *= step[a]
	}
	p.copyStep(dst, src, p.Bytes(n.Inputs[0]))
	p.strided(c, updates, dst)
	return true
}
