package graph_test

import (
	"io"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

var _ = Describe("graphs and nodes that are nil, and zero values", func() {
	It("are errors", func(ctx SpecContext) {
		var g *graph.Graph
		var n *graph.Node
		second := func(_ any, err error) error { return err }
		for _, err := range []error{
			graph.InferNode(n), graph.InferGraph(g), second(graph.InferModel(g)), graph.CheckNode(n), graph.CheckOperands(n, nil),
			graph.Verify(g), graph.VerifyBut(g, graph.InvNodes), second(graph.Simplify(ctx, g, nil)), graph.Print(io.Discard, g, nil),
			second(g.Topo()), second(graph.ConvAttrs(n, nil)), second(graph.PoolAttrs(n)), second(graph.ReduceAxes(n, nil, 2)),
			second(graph.New("").Inline(n)),
		} {
			Expect(err).To(MatchError(graph.ErrNil))
		}
	})

	It("say nothing where there is no error", func() {
		Expect(graph.NewShapeChecks(nil).Check(nil)).To(Succeed())
		Expect(graph.TypeOf(nil)).To(Equal(graph.Type{}))
		size, sum := graph.Checksum(nil)
		Expect([]any{size, sum}).To(Equal([]any{0, uint64(0)}))
		_, ok := graph.Axes(nil, nil)
		Expect(ok).To(BeFalse())
		Expect(graph.UniformSignature("plain", nil, graph.HostFormat)).To(Equal(graph.Signature{Name: "plain"}))
		Expect((&graph.InferError{}).Error()).NotTo(BeEmpty())
		Expect((&graph.VerifyError{}).Error()).NotTo(BeEmpty())
	})

	It("the zero graph is an empty one, and takes values and nodes", func(ctx SpecContext) {
		g := &graph.Graph{}
		Expect(graph.Verify(g)).To(Succeed())
		Expect(graph.InferGraph(g)).To(Succeed())
		_, err := graph.Simplify(nil, g, nil) //nolint:staticcheck // a context that is nil never ends
		Expect(err).NotTo(HaveOccurred())
		x := g.AddInput("x", graph.TensorType(tensor.Float32, graph.ShapeOf(2)))
		g.SetOutputs(g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "Neg"}, Inputs: []*graph.Value{x}, Outputs: []string{"y"}}).Outputs...)
		Expect(graph.InferGraph(g)).To(Succeed())
		Expect(g.Outputs[0].Type).To(Equal(x.Type))
	})
})

var _ = It("operators that are newer than their operator set are refused with ErrVersion, which names both", func() {
	g := graph.New("newer")
	g.Opsets[""] = 13
	x := g.AddInput("x", graph.TensorType(tensor.Float32, graph.ShapeOf(2)))
	n := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "Mish"}, Name: "m", Inputs: []*graph.Value{x}, Outputs: []string{"y"}})
	g.SetOutputs(n.Outputs...)
	for _, err := range []error{graph.InferGraph(g), graph.CheckNode(n), graph.InferNode(n)} {
		Expect(err).To(MatchError(graph.ErrVersion))
		Expect(err.Error()).To(SatisfyAll(ContainSubstring(`Mish "m"`), ContainSubstring("at least 18")))
	}
	Expect(graph.Verify(g)).To(MatchError(graph.ErrVersion))
})

var _ = It("a Max with a name left out is refused, as are other holes in lists of operands", func() {
	for _, op := range []string{"Max", "Min", "Sum", "Mean", "Concat"} {
		for _, hole := range []int{0, 1, 2} {
			g := graph.New("hole")
			g.Opsets[""] = 17
			x := g.AddInput("x", graph.TensorType(tensor.Float32, graph.ShapeOf(2)))
			in := []*graph.Value{x, x, x}
			in[hole] = nil
			n := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: op}, Inputs: in, Outputs: []string{"y"}, Attrs: []graph.Attr{graph.IntAttr("axis", 0)}})
			if op != "Concat" {
				n.Attrs = nil
			}
			Expect(graph.CheckNode(n)).To(MatchError(graph.ErrArity), "%s without operand %d", op, hole)
			Expect(graph.InferNode(n)).To(MatchError(graph.ErrArity), "%s without operand %d", op, hole)
		}
	}
})
