package cpu_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// small adds an input of small whole numbers of a type.
func small(m *model, dt tensor.DType, shape ...int) *graph.Value {
	GinkgoHelper()
	t, err := tensor.New(dt, shape...)
	Expect(err).NotTo(HaveOccurred())
	v := make([]float64, t.Len())
	lo := -3
	if dt == tensor.Bool || dt == tensor.Uint8 {
		lo = 0
	}
	hi := 3
	if dt == tensor.Bool {
		hi = 1
	}
	for i := range v {
		v[i] = float64(m.between(lo, hi))
	}
	if dt.IsFloat() {
		Expect(tensor.Encode(t, v)).To(Succeed())
	} else {
		whole := make([]int64, len(v))
		for i, x := range v {
			whole[i] = int64(x)
		}
		Expect(tensor.EncodeInts(t, whole)).To(Succeed())
	}
	return m.feed(t)
}

var _ = Describe("comparisons", func() {
	It("agree with the reference kernels", seeds(40, func(m *model) {
		shape := []int{m.between(1, 3), m.between(1, 4), m.between(1, 20)}
		dt := pick(m, tensor.Float32, tensor.Int32, tensor.Int64, tensor.Uint8, tensor.Int8)
		op := pick(m, "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")
		if m.chance(8) {
			dt, op = tensor.Bool, "Equal"
		}
		a, b := small(m, dt, shape...), small(m, dt, broadcastTo(m, shape)...)
		if m.chance(2) {
			a, b = b, a
		}
		y := m.op(op, a, b)
		m.sample(y, m.op("Not", y))
	}))

	It("with NaN are false", func() {
		m := newModel(1)
		x := m.input(4)
		zero := m.op("Mul", x, m.scalar(0))
		nan := m.op("Div", zero, zero)
		m.check(m.op("Equal", nan, nan), m.op("Less", nan, x), m.op("GreaterOrEqual", x, nan), m.op("LessOrEqual", nan, x))
	})
})

var _ = Describe("Where", func() {
	It("agrees with the reference kernels", seeds(40, func(m *model) {
		shape := []int{m.between(1, 3), m.between(1, 4), m.between(1, 20)}
		if m.chance(10) {
			shape[1] = 0
		}
		dt := pick(m, tensor.Float32, tensor.Int32, tensor.Int64, tensor.Bool, tensor.Uint8, tensor.Float64)
		c := small(m, tensor.Bool, broadcastTo(m, shape)...)
		m.sample(m.op("Where", c, small(m, dt, broadcastTo(m, shape)...), small(m, dt, shape...)))
	}))
})

var _ = Describe("boolean operators", func() {
	It("agree with the reference kernels", seeds(20, func(m *model) {
		shape := []int{m.between(1, 3), m.between(1, 20)}
		a, b := small(m, tensor.Bool, shape...), small(m, tensor.Bool, broadcastTo(m, shape)...)
		m.sample(m.op(pick(m, "And", "Or", "Xor"), a, b))
	}))
})
