package carve_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend/reference"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/partition"
)

// tableNet adds the product of two constants to its input: a table of positions times weights.
func tableNet() (m *carve.Model, product *graph.Node) {
	GinkgoHelper()
	g, err := graph.Parse("graph \"table\" {\n  opset 17\n  input %x: f32[200,201]\n}")
	Expect(err).NotTo(HaveOccurred())
	table := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "MatMul"}, Name: "table", Outputs: []string{"t"},
		Inputs: []*graph.Value{g.AddConst("a", wave(200, 300)), g.AddConst("b", wave(300, 201))}})
	y := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "Sub"}, Inputs: []*graph.Value{table.Outputs[0], g.Inputs[0]}, Outputs: []string{"y"}, Name: "sum"})
	g.SetOutputs(y.Outputs[0])
	m = carve.FromGraph(g)
	DeferCleanup(m.Close)
	return m, table
}

var _ = Describe("long folding", func() {
	// fold returns what the product is folded to.
	fold := func(ctx SpecContext, o *carve.Options) []float32 {
		GinkgoHelper()
		m, _ := tableNet()
		p, err := carve.Compile(ctx, m, o)
		Expect(err).NotTo(HaveOccurred())
		defer p.Close()
		r, err := p.Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Folded).To(HaveLen(1))
		zero, err := tensor.New(tensor.Float32, 200, 201)
		Expect(err).NotTo(HaveOccurred())
		out, err := p.Run(ctx, map[string]tensor.Value{"x": zero})
		Expect(err).NotTo(HaveOccurred())
		return floats(out["y"])
	}
	a, b := wave(200, 300), wave(300, 201)

	It("is done by the kernels that would run the node", func(ctx SpecContext) {
		e, err := carve.NewEvaluator(nil)
		Expect(err).NotTo(HaveOccurred())
		defer e.Close()
		want, err := e.Eval(ctx, "MatMul", nil, []*tensor.Tensor{a, b})
		Expect(err).NotTo(HaveOccurred())
		Expect(fold(ctx, nil)).To(Equal(floats(want[0])))
	})

	It("of a reduction counts what it reads", func(ctx SpecContext) {
		x := wave(600, 500)
		e, err := carve.NewEvaluator(nil)
		Expect(err).NotTo(HaveOccurred())
		defer e.Close()
		axes := tensor.From([]int64{1}, 1)
		want, err := e.Eval(ctx, "ReduceLogSumExp", nil, []*tensor.Tensor{x, axes})
		Expect(err).NotTo(HaveOccurred())
		g, err := graph.Parse("graph \"sum\" {\n  opset 18\n  input %x: f32[600,1]\n}")
		Expect(err).NotTo(HaveOccurred())
		sum := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "ReduceLogSumExp"}, Name: "sum", Outputs: []string{"s"},
			Inputs: []*graph.Value{g.AddConst("c", x), g.AddConst("axes", axes)}})
		y := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "Sub"}, Inputs: []*graph.Value{sum.Outputs[0], g.Inputs[0]}, Outputs: []string{"y"}, Name: "less"})
		g.SetOutputs(y.Outputs[0])
		m := carve.FromGraph(g)
		defer m.Close()
		p, err := carve.Compile(ctx, m, nil)
		Expect(err).NotTo(HaveOccurred())
		defer p.Close()
		zero, err := tensor.New(tensor.Float32, 600, 1)
		Expect(err).NotTo(HaveOccurred())
		out, err := p.Run(ctx, map[string]tensor.Value{"x": zero})
		Expect(err).NotTo(HaveOccurred())
		Expect(floats(out["y"])).To(Equal(floats(want[0])))
		other, err := reference.Evaluate(ctx, sum, []tensor.Value{x, axes})
		Expect(err).NotTo(HaveOccurred())
		Expect(floats(out["y"])).NotTo(Equal(floats(other[0])))
	})

	DescribeTable("is done by the oracle's kernels", func(ctx SpecContext, o *carve.Options) {
		_, n := tableNet()
		want, err := reference.Evaluate(ctx, n, []tensor.Value{a, b})
		Expect(err).NotTo(HaveOccurred())
		Expect(fold(ctx, o)).To(Equal(floats(want[0])))
	},
		Entry("where there are no others", &carve.Options{Backends: onReference}),
		Entry("where others may not have the node", &carve.Options{Pins: []partition.Pin{{Node: "table", Backend: "cpu", Exclude: true}}}),
	)

	It("is done by the oracle's kernels where a node makes much of little", func(ctx SpecContext) {
		g, err := graph.Parse(`graph "wide" {
  opset 17
  input %x: f32[1]
  const %one = i64[1,1]{7}
  const %dims = i64[2]{1000, 300}
  %wide = Expand(%one, %dims) "wide"
  %float = Cast(%wide; to=1) "float"
  %y = Add(%float, %x) "sum"
  output %y
}`)
		Expect(err).NotTo(HaveOccurred())
		m := carve.FromGraph(g)
		defer m.Close()
		p, err := carve.Compile(ctx, m, nil)
		Expect(err).NotTo(HaveOccurred())
		defer p.Close()
		r, err := p.Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Folded).To(HaveLen(2))
		x, err := tensor.New(tensor.Float32, 1)
		Expect(err).NotTo(HaveOccurred())
		out, err := p.Run(ctx, map[string]tensor.Value{"x": x})
		Expect(err).NotTo(HaveOccurred())
		Expect(floats(out["y"])).To(HaveEach(float32(7)))
	})
})
