package cpu_test

import (
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

var _ = Describe("element-wise operators that follow each other", func() {
	It("agree with the reference kernels where tensors are larger than a part", seeds(40, func(m *model) {
		shape := []int{m.between(1, 4), m.between(20, 60), pick(m, 64, 100, 129, 300)}
		for shape[0]*shape[1]*shape[2] < 3*4096 {
			shape[1] *= 2
		}
		values := []*graph.Value{m.input(shape...), m.input(shape...)}
		any := func() *graph.Value { return values[m.r.IntN(len(values))] }
		other := func() *graph.Value {
			switch m.r.IntN(6) {
			case 0:
				return m.scalar(float32(m.between(-3, 3)))
			case 1:
				return m.op("Abs", m.input(shape[2]))
			case 2:
				return m.op("Neg", m.input(shape[0], 1, shape[2]))
			case 3:
				return m.input(shape[1], 1)
			}
			return any()
		}
		for range m.between(3, 12) {
			switch m.r.IntN(5) {
			case 0: // elements of other sizes, which do not lie in the place of those before in order
				half := m.op("Cast", any(), graph.IntAttr("to", int64(pick(m, tensor.Float16, tensor.BFloat16))))
				values = append(values, m.op("Cast", half, graph.IntAttr("to", int64(tensor.Float32))))
			case 2:
				values = append(values, m.op(pick(m, "Abs", "Neg", "Sigmoid", "Relu", "Floor"), any()))
			case 1:
				values = append(values, m.op(pick(m, "Sub", "Mul"), other(), any()))
			default:
				values = append(values, m.op(pick(m, "Add", "Sub", "Mul", "Max"), any(), other()))
			}
			if len(values) > 4 { // what nobody reads any more gives its place to others
				values = values[1:]
			}
		}
		outputs := []*graph.Value{values[len(values)-1]}
		if m.chance(2) {
			outputs = append(outputs, m.op("ReduceMax", values[0], m.ints(-1)))
		}
		m.sample(outputs...)
	}))

	It("agree with the reference kernels beside others of other sizes", seeds(10, func(m *model) {
		var parts []any
		for range 3 {
			x := m.input(m.between(41, 80), pick(m, 300, 512, 600))
			cols := m.known[x].Shape[1]
			for range m.between(1, 3) {
				x = m.op("Neg", m.op("Add", x, m.input(cols)))
			}
			parts = append(parts, m.op("Reshape", x, m.ints(-1)))
		}
		m.sample(m.op("Concat", append(parts, axis(0))...))
	}))

	It("agree with the reference kernels with rows of several lengths", seeds(6, func(m *model) {
		rows := func(x *graph.Value, cols int) *graph.Value {
			return m.op(pick(m, "Add", "Mul"), m.op("Reshape", x, m.ints(-1, int64(cols))), m.input(cols))
		}
		m.sample(rows(rows(m.input(5*m.between(5, 15), 600), 300), 500))
	}))

	It("serve other lengths in one program, with the bits of each operator alone", func(ctx SpecContext) {
		g, err := graph.Parse(`graph {
  opset 17
  input %x: f32[n,300]
  input %y: f32[n,300]
  input %row: f32[300]
  %a = Add(%x, %y)
  %b = Mul(%a, %row)
  %c = Sub(%a, %b)
  %d = Abs(%b)
  %e = Max(%c, %d)
  %h = Cast(%e; to=10)
  %f = Cast(%h; to=1)
  %z = Add(%f, %a)
  %s = ReduceMax(%b; axes=[1])
  output %z, %s
}`)
		Expect(err).NotTo(HaveOccurred())
		Expect(graph.InferGraph(g)).To(Succeed())
		cm := carve.FromGraph(g)
		defer cm.Close()
		open := func(name string, threads int) *carve.Program {
			p, err := carve.Compile(ctx, cm, &carve.Options{Backends: []backend.Config{{Name: name}}, Threads: threads, Strict: true})
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(p.Close)
			return p
		}
		programs := []*carve.Program{open("reference", 1), open("cpu", 1), open("cpu", 3)}
		m := newModel(1)
		for n := range 70 {
			for _, rows := range []int{n + 20, 90 - n, 3 * (n % 7)} {
				feeds := map[string]tensor.Value{"x": m.floats(rows, 300), "y": m.floats(rows, 300), "row": m.floats(300)}
				want, err := programs[0].Run(ctx, feeds)
				Expect(err).NotTo(HaveOccurred())
				for i, p := range programs[1:] {
					got, err := p.Run(ctx, feeds)
					Expect(err).NotTo(HaveOccurred())
					for name, v := range want {
						Expect(slices.Equal(got[name].(*tensor.Tensor).Bytes(), v.(*tensor.Tensor).Bytes())).To(BeTrue(), "%s of %d rows, program %d", name, rows, i)
					}
				}
			}
		}
	})
})
