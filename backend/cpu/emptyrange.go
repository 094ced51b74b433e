package cpu

import (
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/place"
)

// Nodes whose result is empty compute nothing, but indices out of range are faults of the data all the same.

// indexing is which operand of a node indexes another one.
type indexing struct {
	operand int
	fromEnd bool // negative ones count from the end
	counts  bool // the length itself is admitted
	// lengths returns of how many elements indices choose: i of lengths[i%len(lengths)], for an operand of dims d and indices of dims index.
	lengths func(n *graph.Node, d, index []int) []int
}

var indexings = map[string]indexing{
	"Gather":          {operand: 1, fromEnd: true, lengths: axisLength},
	"ScatterElements": {operand: 1, fromEnd: true, lengths: axisLength},
	"Scatter":         {operand: 1, fromEnd: true, lengths: axisLength},
	"GatherND": {operand: 1, fromEnd: true, lengths: func(n *graph.Node, d, index []int) []int {
		return d[n.Int("batch_dims", 0):][:index[len(index)-1]]
	}},
	"ScatterND":       {operand: 1, fromEnd: true, lengths: func(_ *graph.Node, d, index []int) []int { return d[:index[len(index)-1]] }},
	"ReverseSequence": {operand: 1, counts: true, lengths: func(n *graph.Node, d, _ []int) []int { return d[n.Int("time_axis", 0):][:1] }},
	"RoiAlign":        {operand: 2, lengths: func(_ *graph.Node, d, _ []int) []int { return d[:1] }},
}

func axisLength(n *graph.Node, d, _ []int) []int { return d[axisOf(n, 0, len(d)):][:1] }

// checkIndices emits what is left of a node with nothing to compute: a look at its indices.
func (p *planner) checkIndices(n *graph.Node) error {
	x, ok := indexings[n.Op.Name]
	if !ok || n.Op.Domain != "" {
		return nil
	}
	index := n.Inputs[x.operand]
	dims := p.Dims[index.ID]
	count := product(dims)
	if count == 0 {
		return nil
	}
	lengths := x.lengths(n, p.Dims[n.Inputs[0].ID], dims)
	if len(lengths) == 0 {
		return nil
	}
	src := p.In(index)
	p.emit(step{serial: func(st *state) {
		if index.Type.DType == tensor.Int32 {
			for i, k := range of[int32](st, src)[:count] {
				x.check(n, int64(k), lengths[i%len(lengths)])
			}
			return
		}
		for i, k := range of[int64](st, src)[:count] {
			x.check(n, k, lengths[i%len(lengths)])
		}
	}}, []place.Memory{src}, nil)
	return nil
}

// check panics with a *backend.RangeError, which Enqueue returns, where index k of length elements is out of range.
func (x *indexing) check(n *graph.Node, k int64, length int) {
	low, high := int64(0), int64(length)-1
	if x.fromEnd {
		low = -int64(length)
	}
	if x.counts {
		high++
	}
	if k < low || k > high {
		panic(backend.OutOfRange(n, x.operand, k, low, high))
	}
}
