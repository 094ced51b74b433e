package mkl

import (
	"github.com/carve-dev/carve/graph"
)

// The library's weights of a convolution with groups have a dim more than ONNX's: [G, O, I, …] for [G·O, I, …]. A layout of
// the one is written as one of the other where the groups lie one behind the other.

// foldGroups turns a structure over [G, O, I, …] into a layout over [G·O, I, …].
func foldGroups(b blocking) (graph.Layout, bool) {
	l, ok := b.layout()
	if !ok {
		return l, false
	}
	d, err := l.Describe(len(b.dims))
	if err != nil || d.Order[0] != 0 {
		return l, false
	}
	single := b.dims[1] == 1 // one output per group
	var order []int
	var blocks []graph.Block
	for i, k := range d.Order {
		switch {
		case k == 0:
			order = append(order, 0)
		case k == 1:
			if !single && i != 1 {
				return l, false
			}
		default:
			order = append(order, k-1)
		}
	}
	for _, x := range d.Blocks {
		switch {
		case x.Dim == 0 && single:
		case x.Dim == 1 && !single && b.padded[1] == b.dims[1]:
			x.Dim = 1
		case x.Dim < 2:
			return l, false
		}
		blocks = append(blocks, graph.Block{Dim: max(x.Dim-1, 0), Size: x.Size})
	}
	return tagLayout(order, blocks)
}

// unfoldGroups turns a layout over [G·O, I, …] into one over [G, O, I, …].
func unfoldGroups(l graph.Layout, rank int, single bool) (graph.Layout, bool) {
	d, err := l.Describe(rank)
	if err != nil || d.Order[0] != 0 {
		return l, false
	}
	order := []int{0, 1}
	for _, k := range d.Order[1:] {
		order = append(order, k+1)
	}
	var blocks []graph.Block
	for _, x := range d.Blocks {
		k := x.Dim + 1
		if x.Dim == 0 && single {
			k = 0
		}
		blocks = append(blocks, graph.Block{Dim: k, Size: x.Size})
	}
	return tagLayout(order, blocks)
}

// swapped exchanges the first two dims of a layout: the library counts a transposed convolution's outputs first, and the
// columns of a matrix product's second operand.
func swapped(l graph.Layout, rank int) (graph.Layout, bool) {
	d, err := l.Describe(rank)
	if err != nil {
		return l, false
	}
	swap := func(k int) int {
		if k < 2 {
			return 1 - k
		}
		return k
	}
	order := make([]int, rank)
	for i, k := range d.Order {
		order[i] = swap(k)
	}
	var blocks []graph.Block
	for _, x := range d.Blocks {
		blocks = append(blocks, graph.Block{Dim: swap(x.Dim), Size: x.Size})
	}
	return tagLayout(order, blocks)
}
