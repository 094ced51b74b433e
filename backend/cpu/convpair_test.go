package cpu_test

import (
	"math"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/cpu"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// pairCache is a second-level cache so small that what is between two convolutions of small maps does not fit it.
const pairCache = 1 << 9

// pairTail puts an activation behind a convolution, or none.
func pairTail(m *model, y *graph.Value) *graph.Value {
	switch m.between(0, 4) {
	case 0:
		return m.op("Relu", y)
	case 1:
		return m.op("Clip", y, m.scalar(0), m.scalar(6))
	case 2:
		return m.op("Mul", y, m.op("Sigmoid", y))
	case 3:
		return m.op("HardSwish", y)
	}
	return y
}

// pair puts a convolution of a single tap and a depthwise one behind x.
func pair(m *model, x *graph.Value, oc int, attrs ...any) (between, y *graph.Value) {
	c := m.known[x].Shape[1]
	args := []any{x, m.scaled(1/math.Sqrt(float64(c)), oc, c, 1, 1)}
	if m.chance(2) {
		args = append(args, m.constant(oc))
	}
	between = pairTail(m, m.op("Conv", args...))
	args = []any{between, m.scaled(0.3, oc, 1, m.between(1, 5), m.between(1, 5))}
	if m.chance(2) {
		k := 3 + 2*m.between(0, 1)
		args[1] = m.scaled(0.3, oc, 1, k, k)
	}
	if m.chance(2) {
		args = append(args, m.constant(oc))
	}
	return between, pairTail(m, m.op("Conv", append(append(args, group(oc)), attrs...)...))
}

var _ = Describe("a convolution of a single tap with a depthwise one behind", func() {
	It("is right in random sizes", func() {
		units, models := 0, 0
		seeds(240, func(m *model) {
			m.cache = pairCache
			x := m.op("Relu", m.input(m.between(1, 3), m.between(5, 40), m.between(9, 24), m.between(9, 24)))
			_, y := pair(m, x, m.between(2, 70), pads(m.int64s(4, 0, 2)...), strides(int64(m.between(1, 2)), int64(m.between(1, 2))), dilations(1, int64(m.between(1, 2))))
			if m.chance(3) {
				d := m.known[y].Shape
				y = m.op("Concat", y, m.input(d[0], 16, d[2], d[3]), axis(1))
			}
			m.sample(y)
			models++
			if slices.Contains(m.steps, cpu.PairName) {
				units++
			}
		})()
		Expect(units).To(BeNumerically(">", models/2))
	})

	It("is one step where what is between is large, and takes no memory for that", func() {
		m := newModel(1)
		m.cache = pairCache
		_, y := pair(m, m.op("Relu", m.input(1, 24, 20, 20)), 40)
		m.check(y)
		Expect(m.steps).To(ContainElement(cpu.PairName))
		m.cache = 1 << 20
		m.check(y)
		Expect(m.steps).NotTo(ContainElement(cpu.PairName))
	})

	DescribeTable("is none", func(build func(m *model, x *graph.Value) []*graph.Value) {
		m := newModel(2)
		m.cache = pairCache
		m.check(build(m, m.op("Relu", m.input(1, 24, 12, 12)))...)
		Expect(m.steps).NotTo(ContainElement(cpu.PairName))
	},
		Entry("where something else reads what is between", func(m *model, x *graph.Value) []*graph.Value {
			between, y := pair(m, x, 32, pads(2, 2, 2, 2))
			return []*graph.Value{y, m.op("GlobalAveragePool", between)}
		}),
		Entry("where what is between is a result", func(m *model, x *graph.Value) []*graph.Value {
			between, y := pair(m, x, 32, pads(2, 2, 2, 2))
			return []*graph.Value{y, between}
		}),
		Entry("where the first has a stride", func(m *model, x *graph.Value) []*graph.Value {
			a := m.op("Conv", x, m.scaled(0.2, 32, 24, 1, 1), strides(2, 2))
			return []*graph.Value{m.op("Conv", a, m.scaled(0.3, 32, 1, 3, 3), group(32))}
		}),
		Entry("where the first has padding", func(m *model, x *graph.Value) []*graph.Value {
			a := m.op("Conv", x, m.scaled(0.2, 32, 24, 1, 1), pads(1, 1, 1, 1))
			return []*graph.Value{m.op("Conv", a, m.scaled(0.3, 32, 1, 3, 3), group(32))}
		}),
		Entry("where the first adds something", func(m *model, x *graph.Value) []*graph.Value {
			a := m.op("Add", m.op("Conv", x, m.scaled(0.2, 24, 24, 1, 1)), x)
			return []*graph.Value{m.op("Conv", a, m.scaled(0.3, 24, 1, 3, 3), group(24))}
		}),
		Entry("where the second has other groups", func(m *model, x *graph.Value) []*graph.Value {
			a := m.op("Conv", x, m.scaled(0.2, 32, 24, 1, 1))
			return []*graph.Value{m.op("Conv", a, m.scaled(0.3, 32, 2, 3, 3), group(16))}
		}))

	It("is planned anew for each size of a batch that is open", func() {
		for _, images := range []int{1, 2, 5} {
			m := newModel(3)
			m.cache = 4 << 10
			shape := graph.Shape{graph.Sym("N"), graph.D(24), graph.D(9), graph.D(9)}
			x := m.op("Relu", m.feedAs(graph.TensorType(tensor.Float32, shape), m.floats(images, 24, 9, 9)))
			_, y := pair(m, x, 32, pads(1, 1, 1, 1))
			m.check(y)
			if images == 5 {
				Expect(m.steps).To(ContainElement(cpu.PairName))
			}
		}
	})

	It("serves other numbers of images in one program, with the bits of the two apart", func(ctx SpecContext) {
		m := newModel(4)
		first := m.floats(3, 8, 16, 16)
		x := m.feedAs(graph.TensorType(tensor.Float32, graph.Shape{graph.Sym("N"), graph.D(8), graph.D(16), graph.D(16)}), first)
		_, y := pair(m, m.op("Relu", x), 48, pads(1, 1, 1, 1))
		m.g.SetOutputs(y)
		cm := carve.FromGraph(m.g)
		defer cm.Close()
		open := func(cache, threads int) *carve.Program {
			b, err := cpu.Open(backend.Config{Name: "cpu"})
			Expect(err).NotTo(HaveOccurred())
			p, err := carve.Compile(ctx, cm, &carve.Options{Backends: []backend.Config{{Name: "cpu"}}, Open: map[string]backend.Backend{"cpu": cpu.WithCache(b, 2, cache)}, Threads: threads})
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(p.Close)
			return p
		}
		programs := []*carve.Program{open(1<<30, 1), open(16<<10, 1), open(16<<10, 2), open(16<<10, 3)}
		for _, n := range []int{3, 1, 2, 9, 8, 1, 70} { // of 49 KB each
			feeds := map[string]tensor.Value{x.Name: m.floats(n, 8, 16, 16)}
			var want []byte
			for i, p := range programs {
				got, err := p.Run(ctx, feeds)
				Expect(err).NotTo(HaveOccurred())
				bytes := got[y.Name].(*tensor.Tensor).Bytes()
				if i == 0 {
					want = bytes
				}
				Expect(slices.Equal(bytes, want)).To(BeTrue(), "%d images, program %d", n, i)
			}
		}
	})
})
