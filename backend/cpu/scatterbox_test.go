package cpu_test

import (
	. "github.com/onsi/ginkgo/v2"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

var _ = Describe("boxes of constant indices", func() {
	It("that are updated agree with the reference kernels, and others", seeds(60, func(m *model) {
		shape := m.shape(m.between(1, 4), 1, 9)
		k := m.between(1, len(shape))
		grid, start, step := make([]int, k), make([]int, k), make([]int, k)
		count := 1
		for a, d := range shape[:k] {
			grid[a] = m.between(1, d)
			step[a] = m.between(1, max(1, (d-1)/max(1, grid[a]-1)))
			start[a] = m.between(0, d-1-(grid[a]-1)*step[a])
			if m.chance(3) {
				start[a] -= d // all of the axis' indices are negative
			}
			count *= grid[a]
		}
		at := make([]int64, 0, count*k)
		for i := range count {
			rest, tuple := i, make([]int64, k)
			for a := k - 1; a >= 0; a-- {
				tuple[a] = int64(start[a] + rest%grid[a]*step[a])
				rest /= grid[a]
			}
			at = append(at, tuple...)
		}
		if m.chance(4) { // another element in the place of one
			i := m.between(0, count-1) * k
			copy(at[i:i+k], at[m.between(0, count-1)*k:])
		}
		data := anyType(m, shape...)
		updates := small(m, data.Type.DType, append(append([]int{}, grid...), shape[k:]...)...)
		index := m.data(tensor.From(at, append(append([]int{}, grid...), k)...))
		m.sample(m.op("ScatterND", data, index, updates, graph.StringAttr("reduction", "none")))
	}))
})
