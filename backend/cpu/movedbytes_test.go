package cpu_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

var _ = Describe("Resize of integers", func() {
	It("agrees with the reference kernels", seeds(60, func(m *model) {
		mode := pick(m, "nearest", "linear")
		dt := pick(m, tensor.Uint8, tensor.Int8)
		if mode == "nearest" {
			dt = pick(m, dt, tensor.Bool, tensor.Int16, tensor.Int32, tensor.Int64)
		}
		x, err := tensor.New(dt, m.between(1, 2), m.between(1, 3), m.between(1, 9), m.between(1, 40))
		Expect(err).NotTo(HaveOccurred())
		for i, b := 0, x.Bytes(); i < len(b); i++ {
			if b[i] = byte(m.r.IntN(256)); dt == tensor.Bool {
				b[i] &= 1
			} else if m.chance(2) && i > 0 {
				b[i] = b[i-1] // between equal ones lies nothing else
			}
		}
		args := []any{m.given(x), nil}
		if m.chance(2) {
			args = append(args, nil, m.ints(int64(x.Shape[0]), int64(x.Shape[1]), int64(m.between(1, 40)), int64(m.between(1, 90))))
		} else {
			scale := func() float32 { return pick[float32](m, 0.5, 1, 2, 3, 1.7, 0.6, 4) }
			h, w := max(scale(), 1/float32(x.Shape[2])), max(scale(), 1/float32(x.Shape[3]))
			args = append(args, m.data(tensor.From([]float32{1, 1, h, w}, 4)))
		}
		m.exact(m.op("Resize", append(args, graph.StringAttr("mode", mode),
			graph.StringAttr("coordinate_transformation_mode", pick(m, "half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_half_pixel_for_nn")),
			graph.StringAttr("nearest_mode", pick(m, "round_prefer_floor", "round_prefer_ceil", "floor", "ceil")))...))
	}))

	It("and of floats, where channels lie last, agrees with the reference kernels", seeds(40, func(m *model) {
		x := m.input(m.between(1, 2), m.between(1, 9), m.between(1, 20), m.between(1, 40))
		if m.chance(3) {
			x = m.op("Cast", m.op("Mul", x, m.scalar(40)), graph.IntAttr("to", 3))
		}
		d := m.known[x].Shape
		args := []any{x, nil, nil, m.ints(int64(d[0]), int64(d[1]+m.between(1, 20)), int64(m.between(1, 40)), int64(d[3]))}
		if m.chance(2) {
			args = []any{x, nil, m.data(tensor.From([]float32{1, pick[float32](m, 2, 3, 1.7), pick[float32](m, 1, 2, 1.3), 1}, 4))}
		}
		m.sample(m.op("Resize", append(args, graph.StringAttr("mode", pick(m, "nearest", "linear")),
			graph.StringAttr("coordinate_transformation_mode", pick(m, "half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_half_pixel_for_nn")),
			graph.StringAttr("nearest_mode", pick(m, "round_prefer_floor", "round_prefer_ceil", "floor", "ceil")))...))
	}))

	It("cuts what lies between bytes, and gives no less than the least of its neighbours", func() {
		m := newModel(1)
		y := m.op("Resize", m.given(tensor.From([]uint8{7, 7, 9, 12}, 1, 1, 1, 4)), nil, m.data(tensor.From([]float32{1, 1, 1, 3}, 4)), graph.StringAttr("mode", "linear"))
		Expect(tensor.Of[uint8](m.known[y])).To(Equal([]uint8{7, 7, 7, 7, 7, 7, 8, 9, 10, 11, 12, 12}))
		m.exact(y)
		s := m.op("Resize", m.given(tensor.From([]int8{-7, -7, -9, -12}, 1, 1, 1, 4)), nil, m.data(tensor.From([]float32{1, 1, 1, 3}, 4)), graph.StringAttr("mode", "linear"))
		Expect(tensor.Of[int8](m.known[s])).To(Equal([]int8{-7, -7, -7, -7, -7, -7, -8, -9, -10, -11, -12, -12}))
		m.exact(s)
	})
})

var _ = Describe("Transpose of elements of one and two bytes", func() {
	It("agrees with the reference kernels", seeds(80, func(m *model) {
		shape := m.shape(m.between(2, 4), 1, 5)
		shape[m.r.IntN(len(shape))], shape[m.r.IntN(len(shape))] = m.between(1, 150), m.between(1, 70)
		perm := make([]int64, len(shape))
		for i, a := range m.r.Perm(len(shape)) {
			perm[i] = int64(a)
		}
		if m.chance(3) { // pictures of three channels
			shape, perm = []int{m.between(1, 3), m.between(1, 30), pick(m, m.between(1, 30), 2200), 3}, []int64{0, 3, 1, 2}
			if m.chance(2) {
				shape, perm = []int{shape[0], 3, shape[1], shape[2]}, []int64{0, 2, 3, 1}
			}
		}
		x, err := tensor.New(pick(m, tensor.Uint8, tensor.Int8, tensor.Bool, tensor.Int16, tensor.Uint16, tensor.Float16), shape...)
		Expect(err).NotTo(HaveOccurred())
		for i := range x.Bytes() {
			if x.Bytes()[i] = byte(m.r.IntN(256)); x.DType == tensor.Bool {
				x.Bytes()[i] &= 1
			}
		}
		m.exact(m.op("Transpose", m.feed(x), graph.IntsAttr("perm", perm...)))
	}))
	It("of narrow matrices agrees with the reference kernels", seeds(40, func(m *model) {
		few, long := m.between(5, 15), pick(m, m.between(10, 40), m.between(200, 600))
		shape, perm := []int{m.between(1, 3), few, long}, []int64{0, 2, 1}
		switch m.r.IntN(4) {
		case 0:
			shape = []int{shape[0], long, few}
		case 1:
			shape, perm = []int{few, shape[0], long}, []int64{2, 1, 0}
		case 2:
			shape, perm = []int{long, shape[0], few}, []int64{2, 1, 0}
		}
		m.exact(m.op("Transpose", m.feed(bytesOf(m, pick(m, tensor.Uint8, tensor.Int16, tensor.Float16), shape...)), graph.IntsAttr("perm", perm...)))
	}))

	It("of short rows agrees with the reference kernels", seeds(60, func(m *model) {
		dt := pick(m, tensor.Uint8, tensor.Int16, tensor.Int32, tensor.Int64)
		shape := append(m.shape(3, 1, 9), pick(m, m.between(1, 36), 2, 4, 8))
		x := m.feed(bytesOf(m, dt, shape...))
		perm := []int64{0, 1, 2, 3}
		for i, a := range m.r.Perm(3) {
			perm[i] = int64(a)
		}
		y := m.op("Transpose", x, graph.IntsAttr("perm", perm...))
		last := int64(shape[3])
		from := m.r.Int64N(last)
		m.exact(y, m.op("Concat", x, m.op("Slice", x, m.ints(from), m.ints(last), m.ints(3)), x, axis(3)))
	}))
})
