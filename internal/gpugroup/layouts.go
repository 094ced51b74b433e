package gpugroup

import (
	"fmt"
	"slices"
	"sync"

	"github.com/carve-dev/carve/graph"
)

// groupFilters are the numbers of filters in a group for which weights of grouped convolutions are packed once. For others they
// are packed in each run.
var groupFilters = []int{2, 4, 8, 16, 32, 64, 128, 256}

// layouts returns those in which devices hold tensors. They are not to be changed.
var layouts = sync.OnceValue(func() []graph.Layout {
	list := []graph.Layout{graph.RowMajor, transposed()}
	for _, rank := range []int{3, 4, 5} {
		l, _ := images(rank)
		list = append(list, l, weightLayout(rank, 1, 1))
	}
	for _, k := range groupFilters {
		list = append(list, weightLayout(4, 2, k))
	}
	return list
})

// layout parses a tag that is written in this package.
func layout(tag string) graph.Layout {
	l, err := graph.ParseLayout(tag)
	if err != nil {
		panic(err)
	}
	return l
}

// images returns the layout of activations inside of convolutional parts: channels last. ok is false where there is none.
func images(rank int) (l graph.Layout, ok bool) {
	switch rank {
	case 3:
		return layout("acb"), true
	case 4:
		return graph.NHWC, true
	case 5:
		return layout("acdeb"), true
	}
	return graph.RowMajor, false
}

// transposed is the layout of a matrix whose columns lie together.
func transposed() graph.Layout { return layout("ba") }

// weightLayout is that of the weights of a convolution: by group, place in the window, channel, filter.
func weightLayout(rank, groups, filters int) graph.Layout {
	inner := map[int]string{3: "cb", 4: "cdb", 5: "cdeb"}[rank]
	if groups == 1 {
		return layout(inner + "a")
	}
	return layout(fmt.Sprintf("A%s%da", inner, filters))
}

// packs reports whether weightLayout has converters.
func packs(rank, groups, filters int) bool {
	return groups == 1 || rank == 4 && slices.Contains(groupFilters, filters)
}
