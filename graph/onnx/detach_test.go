package onnx_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/onnx"
	"github.com/carve-dev/carve/graph/tensor"
)

var _ = Describe("Detach", func() {
	big := tensor.From(make([]float32, 256), 256)
	small := tensor.From([]float32{1, 2}, 2)
	detached := func() *graph.Graph {
		g := graph.New("g")
		g.Opsets[""] = 17
		x := g.AddInput("x", graph.TensorType(tensor.Float32, graph.ShapeOf(256)))
		sum := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "Sum"}, Name: "sum", Inputs: []*graph.Value{x, g.AddConst("a", big), g.AddConst("b", big)}, Outputs: []string{"y"}})
		g.AddConst("s", small)
		g.SetOutputs(sum.Outputs[0])
		return g
	}

	It("refers to large constants, each once, and Parse gives the same tensors back", func(ctx SpecContext) {
		data, weights, err := onnx.Detach(ctx, &onnx.Model{Graph: detached()})
		Expect(err).NotTo(HaveOccurred())
		Expect(len(data)).To(BeNumerically("<", 1024))
		Expect(weights).To(HaveLen(1))
		Expect(weights[0]).To(BeIdenticalTo(big))
		m, err := onnx.Parse(ctx, data, &onnx.Options{Weights: weights})
		Expect(err).NotTo(HaveOccurred())
		byName := map[string]*tensor.Tensor{}
		for v := range m.Graph.Constants() {
			byName[v.Name] = v.Const
		}
		Expect(byName["a"]).To(BeIdenticalTo(big))
		Expect(byName["b"]).To(BeIdenticalTo(big))
		Expect(tensor.Elements[float32](byName["s"])).To(Equal([]float32{1, 2}))
	})

	It("writes what is not compact as a compact copy", func(ctx SpecContext) {
		g := detached()
		columns := tensor.From(make([]float32, 1024), 32, 32)
		columns.Strides = []int{1, 32}
		g.AddConst("t", columns)
		_, weights, err := onnx.Detach(ctx, &onnx.Model{Graph: g})
		Expect(err).NotTo(HaveOccurred())
		Expect(weights).To(HaveLen(2))
		Expect(weights[1].IsCompact()).To(BeTrue())
	})

	DescribeTable("does not read a list that is another one", func(ctx SpecContext, list []*tensor.Tensor) {
		data, _, err := onnx.Detach(ctx, &onnx.Model{Graph: detached()})
		Expect(err).NotTo(HaveOccurred())
		_, err = onnx.Parse(ctx, data, &onnx.Options{Weights: list})
		Expect(err).To(MatchError(onnx.ErrExternalData))
	},
		Entry("none", nil),
		Entry("empty", []*tensor.Tensor{}),
		Entry("nil", []*tensor.Tensor{nil}),
		Entry("of another size", []*tensor.Tensor{tensor.From([]float32{1, 2}, 2)}),
	)
})
