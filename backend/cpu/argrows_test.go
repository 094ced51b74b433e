package cpu_test

import (
	"math"

	. "github.com/onsi/ginkgo/v2"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// peaks are numbers of which many are equal, with some infinities, zeros of both signs and, where nan is set, NaN.
func peaks(m *model, nan bool, shape ...int) *graph.Value {
	t := m.floats(shape...)
	x := tensor.Of[float32](t)
	odd := []float32{float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.Copysign(0, -1)), 0}
	if nan {
		odd = append(odd, float32(math.NaN()))
	}
	often := pick(m, 3, 50, 1000)
	for i, v := range x {
		x[i] = float32(math.Round(float64(v)))
		if m.chance(often) {
			x[i] = odd[m.r.IntN(len(odd))]
		}
	}
	return m.feed(t)
}

var _ = Describe("places of the greatest and least", func() {
	It("in long rows, many rows and many columns agree with the reference kernels", seeds(60, func(m *model) {
		shape := pick(m,
			[]int{m.between(20, 600), m.between(1, 9)},                    // so few that many rows are turned at once
			[]int{m.between(1, 200), m.between(20, 90)},                   // rows on both sides of few elements and of many at once
			[]int{m.between(1, 3), m.between(8000, 9000)},                 // longer than a block of the reduction
			[]int{m.between(1, 3), m.between(2, 30), m.between(200, 600)}, // columns, more than are gone down at a time
			[]int{m.between(2, 9), m.between(1, 5), m.between(1, 9), m.between(1, 9)})
		a := m.between(-len(shape), len(shape)-1)
		x := peaks(m, m.chance(2), shape...)
		if m.chance(3) {
			x = small(m, pick(m, tensor.Int64, tensor.Int32, tensor.Uint8, tensor.Float64), shape...)
		}
		m.check(m.op(pick(m, "ArgMax", "ArgMin"), x, axis(a), graph.IntAttr("keepdims", int64(m.r.IntN(2))), graph.IntAttr("select_last_index", int64(m.r.IntN(2)))))
	}))
})
