package cpu_test

import (
	"math"

	. "github.com/onsi/ginkgo/v2"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

var _ = Describe("pooling", func() {
	It("windows larger than the image, which the last step of ceil_mode makes, agree with the reference kernels", seeds(6, func(m *model) {
		x := m.input(1, m.between(1, 20), 2, 2)
		m.sample(m.op(pick(m, "MaxPool", "AveragePool"), x, kernel(3, 3), strides(2, 2), graph.IntAttr("ceil_mode", 1)))
	}))

	It("images of few channels agree with the reference kernels", seeds(60, func(m *model) {
		x := m.input(m.between(1, 2), m.between(1, 20), m.between(1, 12), m.between(20, 70)) // of many, too, whose large windows are two passes
		if m.chance(2) {
			x = m.op("Relu", x)
		}
		k, l := m.between(1, 9), m.between(1, 9)
		d, e := m.between(1, 2), m.between(1, 2)
		args := []any{x, kernel(int64(k), int64(l)), strides(m.int64s(2, 1, 3)...), dilations(int64(d), int64(e)), graph.IntAttr("ceil_mode", int64(m.r.IntN(2)))}
		if tall, wide := d*(k-1)+1, e*(l-1)+1; tall > m.known[x].Shape[2] || m.chance(2) { // every window sees something
			args = append(args, pads(int64(tall/2), int64(wide/2), int64(tall/2), int64(wide/2)))
		}
		op := "MaxPool"
		if m.chance(2) {
			op, args[3] = "AveragePool", graph.IntAttr("count_include_pad", int64(m.r.IntN(2)))
		}
		y := m.op(op, args...)
		m.sample(y, m.op("Exp", y))
	}))

	It("maxima of windows that have a NaN are NaN, as those of the reference kernels", seeds(60, func(m *model) {
		t := m.floats(m.between(1, 2), m.between(1, 40), m.between(3, 12), m.between(3, 70))
		for s, n := tensor.Of[float32](t), m.between(0, 9); n > 0; n-- {
			s[m.r.IntN(len(s))] = pick(m, float32(math.NaN()), math.Float32frombits(0xffc00001))
		}
		x := m.feed(t)
		if m.chance(2) { // in blocks of channels
			x = m.op("Conv", x, m.constant(m.between(1, 40), t.Shape[1], 1, 1))
		}
		if m.chance(3) {
			m.sample(m.op("GlobalMaxPool", x))
			return
		}
		m.sample(m.op("MaxPool", x, kernel(int64(m.between(1, 3)), int64(m.between(1, 3))), strides(m.int64s(2, 1, 3)...), graph.IntAttr("ceil_mode", int64(m.r.IntN(2)))))
	}))

	It("means of windows that see padding alone, which are 0, agree with the reference kernels", seeds(12, func(m *model) {
		rank, ones := m.between(1, 3), []int64{}
		for range 2 * rank {
			ones = append(ones, 2)
		}
		x := m.input(m.shape(2+rank, 1, 5)...)
		y := m.op("AveragePool", x, kernel(ones[:rank]...), pads(ones...), graph.IntAttr("count_include_pad", int64(m.between(0, 1))))
		pick(m, m.sample, m.sampleDouble)(y)
	}))
})
