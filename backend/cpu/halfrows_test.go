package cpu_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// rowOperator returns the result of an operator on rows.
func rowOperator(m *model) *graph.Value {
	shape := m.shape(m.between(1, 4), 1, 12)
	if m.chance(4) {
		shape[len(shape)-1] = m.between(4000, 9000)
	}
	switch op := pick(m, "LayerNormalization", "RMSNormalization", "RotaryEmbedding", "GlobalAveragePool", "GlobalMaxPool", ""); op {
	case "GlobalAveragePool", "GlobalMaxPool":
		return m.op(op, m.input(append([]int{m.between(1, 2), m.between(1, 9)}, shape[:min(len(shape), 2)]...)...))
	case "LayerNormalization", "RMSNormalization":
		a := m.r.IntN(len(shape))
		args := []any{m.input(shape...), operand(m, shape[a:]...)}
		if op == "LayerNormalization" && m.chance(2) {
			args = append(args, operand(m, shape[a:]...))
		}
		return m.op(op, append(args, axis(a-len(shape)), graph.FloatAttr("epsilon", 0.01))...)
	case "RotaryEmbedding":
		batch, heads, length, half := m.between(1, 2), m.between(1, 9), m.between(1, 40), m.between(1, 40)
		attrs := []any{graph.IntAttr("interleaved", int64(m.r.IntN(2)))}
		x := []int{batch, heads, length, 2 * half}
		if m.chance(2) {
			x, attrs = []int{batch, length, heads * 2 * half}, append(attrs, graph.IntAttr("num_heads", int64(heads)))
		}
		return m.op(op, append([]any{m.input(x...), operand(m, batch, length, half), operand(m, batch, length, half)}, attrs...)...)
	}
	unary := []string{"Sign", "Exp", "Tanh", "Abs", "Floor", "Round", "Relu", "Elu", "HardSigmoid", "Softplus", "LeakyRelu", "Gelu"}
	return m.op(unary[m.r.IntN(len(unary))], m.input(shape...))
}

var _ = Describe("rows of half precision", func() {
	It("are widened, computed and rounded without casts of their own", seeds(150, func(m *model) {
		y := rowOperator(m)
		m.g.SetOutputs(y)
		for dt := range halfTypes {
			wide, feeds := m.half(dt, true)
			want, _ := mustExecute(wide, feeds, referenceAlone())
			g, feeds := m.half(dt, false)
			set := pick(m, backend.Config{Name: "cpu"}, backend.Config{Name: "cpu", Options: map[string]string{"isa": "portable"}})
			got, r := mustExecute(g, feeds, &carve.Options{Backends: []backend.Config{set, {Name: "reference"}}, Threads: m.between(1, 3)})
			_, elsewhere := casts(r)
			Expect(elsewhere).To(BeEmpty(), "seed %d\n%v", m.seed, m)
			Expect(r.Groups).To(ContainElement(HaveField("Ops", ContainElement("half-rows"))), "seed %d\n%v", m.seed, m)
			Expect(near(got[y.Name].(*tensor.Tensor), want[y.Name].(*tensor.Tensor), 1.01)).To(Succeed(), "seed %d\n%v", m.seed, m)
		}
	}))

	It("that are long, and fewer than the workers, are computed as the reference kernels do", func() {
		m := newModel(1)
		y := m.op("GlobalMaxPool", m.input(1, 2, 700, 600))
		m.g.SetOutputs(y)
		wide, feeds := m.half(tensor.Float16, true)
		want, _ := mustExecute(wide, feeds, referenceAlone())
		g, feeds := m.half(tensor.Float16, false)
		got, _ := mustExecute(g, feeds, &carve.Options{Strict: true, Threads: 3})
		Expect(near(got[y.Name].(*tensor.Tensor), want[y.Name].(*tensor.Tensor), 0)).To(Succeed())
	})

	It("are cast where somebody else reads them, or what is made of them", func() {
		m := newModel(2)
		x := m.input(3, 40)
		y := m.op("Exp", x)
		z := m.op("Tanh", y)
		m.g.SetOutputs(y, z)
		for dt := range halfTypes {
			wide, feeds := m.half(dt, true)
			want, _ := mustExecute(wide, feeds, referenceAlone())
			g, feeds := m.half(dt, false)
			got, _ := mustExecute(g, feeds, &carve.Options{Strict: true})
			for _, v := range []*graph.Value{y, z} {
				Expect(near(got[v.Name].(*tensor.Tensor), want[v.Name].(*tensor.Tensor), 1.01)).To(Succeed())
			}
		}
	})
})
