package graph_test

import (
	"math/rand/v2"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

var _ = Describe("shape checks", func() {
	// node returns a graph of one operator over inputs of these shapes; nil where they do not fit together.
	node := func(op string, shapes []graph.Shape) *graph.Graph {
		g := graph.New(op)
		g.Opsets[""] = 17
		spec := graph.NodeSpec{Op: graph.Op{Name: op}, Name: op, Outputs: []string{"y"}}
		for i, s := range shapes {
			t := tensor.Float32
			if op == "Where" && i == 0 {
				t = tensor.Bool
			}
			spec.Inputs = append(spec.Inputs, g.AddInput("x"+string(rune('0'+i)), graph.TensorType(t, s)))
		}
		if op == "Cast" {
			spec.Attrs = []graph.Attr{graph.IntAttr("to", 1)}
		}
		g.SetOutputs(g.AddNode(spec).Outputs...)
		if graph.InferGraph(g) != nil {
			return nil
		}
		return g
	}

	It("leave out nodes alone that run with all values of symbols, with the shape that was inferred", func() {
		r := rand.New(rand.NewPCG(15, 1))
		n, m := graph.Sym("n"), graph.Sym("m")
		dims := []graph.Dim{graph.D(1), graph.D(1), graph.D(3), graph.D(4), n, n, m, n.Add(graph.D(2)), n.Min(graph.D(3)), n.Mul(m)}
		operands := map[string]int{"Add": 2, "Pow": 2, "Max": 3, "Equal": 2, "Where": 3, "MatMul": 2, "Erf": 1, "Relu": 1, "Cast": 1}
		kept, left := map[string]int{}, map[string]int{}
		for range 6000 {
			op := []string{"Add", "Pow", "Max", "Equal", "Where", "MatMul", "MatMul", "Erf", "Relu", "Cast"}[r.IntN(10)]
			shapes := make([]graph.Shape, operands[op])
			for i := range shapes {
				for range r.IntN(4) {
					shapes[i] = append(shapes[i], dims[r.IntN(len(dims))])
				}
				if shapes[i] == nil {
					shapes[i] = graph.Shape{}
				}
			}
			g := node(op, shapes)
			if g == nil {
				continue
			}
			for range graph.NewShapeChecks(g).Graph().Nodes() {
				kept[op]++
				g = nil
			}
			if g == nil {
				continue
			}
			left[op]++
			for range 8 {
				b := graph.Bindings{"n": int64(r.IntN(5)), "m": int64(1 + r.IntN(4))}
				static := make([]graph.Shape, len(shapes))
				for i, s := range shapes {
					values, err := s.Eval(b, nil)
					Expect(err).NotTo(HaveOccurred())
					static[i] = graph.ShapeOf(values...)
				}
				want, err := g.Outputs[0].Type.Shape.Eval(b, nil)
				Expect(err).NotTo(HaveOccurred())
				at := node(op, static)
				Expect(at).NotTo(BeNil(), "%s %v at %v", op, shapes, b)
				Expect(at.Outputs[0].Type.Shape).To(Equal(graph.ShapeOf(want...)), "%s %v at %v", op, shapes, b)
			}
		}
		for op := range operands {
			Expect(left[op]).To(BeNumerically(">", 20), op)
			if operands[op] > 1 {
				Expect(kept[op]).To(BeNumerically(">", 20), op)
			}
		}
	})
})
