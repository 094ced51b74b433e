package cpu_test

import (
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/kernel/isa"
)

// sameBits expects the outputs of a model to have the same bits on each of some sets of kernels.
func sameBits(m *model, on []isa.Target, outputs ...*graph.Value) {
	GinkgoHelper()
	m.sample(outputs...)
	for _, t := range on {
		got, _ := mustExecute(m.g, m.feeds, &carve.Options{Strict: true, Backends: []backend.Config{{Name: "cpu", Options: map[string]string{"isa": t.String()}}}})
		for _, y := range outputs[1:] {
			Expect(got[y.Name].(*tensor.Tensor).Bytes()).To(Equal(got[outputs[0].Name].(*tensor.Tensor).Bytes()), "seed %d, %v, %v", m.seed, t, m)
		}
	}
}

var _ = Describe("MatMul", func() {
	It("of a second operand whose rows lie pages apart agrees with the reference kernels", seeds(8, func(m *model) {
		rows, k, n := m.between(30, 70), m.between(1, 40), 1024*m.between(1, 2)
		a := m.input(m.between(1, 3), m.between(1, 2), rows, k)
		b := append(slices.Clone(pick(m, m.known[a].Shape[:2], []int{1, m.known[a].Shape[1]}, []int{m.known[a].Shape[0], 1}, nil)), k, n)
		m.sample(activate(m, m.op("MatMul", a, m.input(b...))))
	}))

	It("broadcasts ranks from 1 to 5", seeds(80, func(m *model) {
		rows, k, cols := m.between(1, 20), m.between(1, 40), m.between(1, 40)
		if m.chance(12) {
			k = 0
		}
		batch := m.shape(m.between(0, 3), 1, 3)
		a, b := append(broadcastTo(m, batch), rows, k), append(broadcastTo(m, batch), k, cols)
		if m.chance(2) {
			a = append(append([]int{}, batch...), rows, k)
		} else if m.chance(2) {
			b = append(append([]int{}, batch...), k, cols)
		}
		if m.chance(8) {
			a = []int{k}
		}
		if m.chance(8) {
			b = []int{k}
		}
		y := m.op("MatMul", operand(m, a...), operand(m, b...))
		if m.chance(3) && len(m.known[y].Shape) > 0 {
			y = m.op("Add", y, m.constant(broadcastTo(m, m.known[y].Shape)...))
		}
		if m.chance(3) {
			y = m.op("Add", operand(m, m.known[y].Shape...), y)
		}
		if m.chance(2) {
			y = activate(m, y)
		}
		m.sample(y)
	}))

	It("packs a second operand that is read often and fills the caches", func() {
		m := newModel(2)
		y := m.op("MatMul", m.input(260, 600), m.input(600, 521))
		z := m.op("MatMul", m.input(513, 300), m.input(300, 400)) // with more than 1 MiB of second-level cache
		m.check(m.op("Relu", m.op("Add", y, m.input(260, 521))), m.op("Relu", z))
	})

	It("multiplies single columns by dot products, of constants and of a run, in batches as alone", seeds(30, func(m *model) {
		batch, rows, k := m.between(1, 4), m.between(1, 50), m.between(64, 300)
		x, w := m.floats(batch*rows, k), m.floats(k)
		x3, column, row, across := tensor.From(tensor.Of[float32](x), batch, rows, k), tensor.From(tensor.Of[float32](w), k, 1), tensor.From(tensor.Of[float32](w), 1, k), graph.IntAttr("transB", 1)
		y := []*graph.Value{m.op("Gemm", m.feed(x), m.feed(row), across)}
		for _, v := range []*graph.Value{m.op("MatMul", m.feed(x3), m.feed(column)), m.op("MatMul", m.feed(x3), m.data(column)), m.op("Gemm", m.feed(x), m.data(row), across),
			m.op("MatMul", m.feed(x3), m.op("Expand", m.feed(column), m.ints(int64(batch), int64(k), 1)))} { // a matrix of each
			y = append(y, m.op("Reshape", v, m.ints(int64(batch*rows), 1)))
		}
		sameBits(m, isa.Targets(), y...)
	}))

	It("adds rows of a greater rank", func() {
		m := newModel(1)
		x := m.op("Neg", m.input(4, 5))
		m.check(m.op("Relu", m.op("Add", m.op("MatMul", x, m.constant(5, 7)), m.constant(1, 1, 7))),
			m.op("Relu", m.op("Add", m.op("MatMul", x, m.constant(5, 1)), m.constant(4, 1))),
			m.op("Relu", m.op("Add", m.constant(3, 4, 7), m.op("MatMul", x, m.constant(5, 7)))))
	})
})

var _ = Describe("Gemm", func() {
	It("agrees with the reference kernels", seeds(80, func(m *model) {
		rows, k, cols := pick(m, 1, 2, 5, 17, 50), m.between(1, 40), pick(m, 1, 3, 10, 16, 40)
		ta, tb := m.chance(4), m.chance(2)
		a, b := []int{rows, k}, []int{k, cols}
		var attrs []any
		if ta {
			a, attrs = []int{k, rows}, append(attrs, graph.IntAttr("transA", 1))
		}
		if tb {
			b, attrs = []int{cols, k}, append(attrs, graph.IntAttr("transB", 1))
		}
		if m.chance(4) {
			attrs = append(attrs, graph.FloatAttr("alpha", 0.5))
		}
		if m.chance(4) {
			attrs = append(attrs, graph.FloatAttr("beta", 1.5))
		}
		args := []any{operand(m, a...), operand(m, b...)}
		if m.chance(4) {
			args[1] = m.constant(b...)
		}
		if !m.chance(4) {
			args = append(args, operand(m, pick(m, []int{}, []int{1}, []int{cols}, []int{1, cols}, []int{rows, 1}, []int{1, 1}, []int{rows, cols})...))
		}
		y := m.op("Gemm", append(args, attrs...)...)
		if m.chance(2) {
			y = m.op("Add", y, operand(m, rows, cols))
		}
		m.sample(activate(m, y))
	}))

	packing := slices.DeleteFunc(isa.Targets(), func(t isa.Target) bool { return t.Set == isa.Portable })

	It("packs what a run gives by columns for many rows, as it does constants", seeds(30, func(m *model) {
		rows, k, cols := m.between(32, 80), m.between(20, 90), m.between(16, 70)
		w := m.floats(cols, k)
		x, c, across := m.input(rows, k), m.constant(cols), graph.IntAttr("transB", 1)
		sameBits(m, packing, m.op("Gemm", x, m.data(w), c, across), m.op("Gemm", x, m.feed(w), c, across))
	}))

	It("multiplies up to four long columns of constants by dot products", seeds(20, func(m *model) {
		rows, k, cols := m.between(1, 31), m.between(64, 200), m.between(1, 4)
		w := m.floats(cols, k)
		x, across := m.input(rows, k), graph.IntAttr("transB", 1)
		sameBits(m, isa.Targets(), m.op("Gemm", x, m.feed(w), across), m.op("Gemm", x, m.data(w), across))
	}))
})
