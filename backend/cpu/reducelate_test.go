package cpu_test

import (
	"errors"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/reference"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

var _ = Describe("Reductions by axes that the run finds", func() {
	It("agree with the reference kernels", seeds(120, func(m *model) {
		shape := make([]int, m.between(1, 4))
		for i := range shape {
			shape[i] = pick(m, 1, 2, 3, 5, 9, 17)
		}
		var axes []int64
		for a := range shape {
			if m.r.IntN(2) == 0 {
				axes = append(axes, int64(pick(m, a, a-len(shape))))
			}
		}
		op := pick(m, "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceSumSquare", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceProd")
		t := m.floats(shape...)
		for i, s := 0, tensor.Of[float32](t); i < len(s); i++ {
			s[i] = 0.5 + s[i]*s[i]
		}
		x := m.feed(as(t, pick(m, tensor.Float32, tensor.Float64, tensor.Int32, tensor.Int64, tensor.Uint32), false))
		list := m.feedAs(graph.TensorType(tensor.Int64, graph.Shape{graph.Sym("K")}), tensor.From(axes, len(axes)))
		m.version(18)
		m.sample(m.op(op, x, list, graph.IntAttr("keepdims", int64(m.r.IntN(2))), graph.IntAttr("noop_with_empty_axes", int64(m.r.IntN(2)))))
	}))

	It("refuse axes that there are not, or that are named twice, as the reference kernels do", func(ctx SpecContext) {
		m := newModel(1)
		list := m.feedAs(graph.TensorType(tensor.Int64, graph.Shape{graph.Sym("K")}), tensor.From([]int64{1}))
		x := m.input(5, 7)
		m.g.SetOutputs(m.op("ReduceSum", x, list))
		p, err := carve.Compile(ctx, carve.FromGraph(m.g), &carve.Options{Backends: []backend.Config{{Name: "cpu"}}})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(p.Close)
		for _, axes := range [][]int64{{0, 0, -2}, {0, -2}, {2}, {-3, 1}} {
			_, err = p.Run(ctx, map[string]tensor.Value{x.Name: m.feeds[x.Name], list.Name: tensor.From(axes)})
			var e *reference.Error
			Expect(errors.As(err, &e)).To(BeTrue(), "%v: %v", axes, err)
			Expect(e.Op.Name).To(Equal("ReduceSum"))
		}
	})

	It("allocate nothing once they are planned", func(ctx SpecContext) {
		m := newModel(1)
		list := m.feedAs(graph.TensorType(tensor.Int64, graph.Shape{graph.Sym("K")}), tensor.From([]int64{0, 2}, 2))
		Expect(m.allocations(ctx, m.op("ReduceMean", m.input(5, 7, 9), list))).To(BeZero())
	})
})
