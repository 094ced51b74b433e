package graph_test

import (
	"maps"
	"math/rand/v2"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

var _ = Describe("shape checks", func() {
	// node returns a graph of one operator over inputs of these shapes, whose axes choice decides about; nil where they do not fit together.
	node := func(op string, shapes []graph.Shape, choice int) *graph.Graph {
		g := graph.New(op)
		g.Opsets[""] = 17
		spec := graph.NodeSpec{Op: graph.Op{Name: op}, Name: op, Outputs: []string{"y"}}
		for i, s := range shapes {
			t := tensor.Float32
			switch {
			case op == "Where" && i == 0:
				t = tensor.Bool
			case op == "Gather" && i == 1:
				t = tensor.Int64
			case op == "MatMulInteger" || op == "DequantizeLinear" && i == 0:
				t = tensor.Uint8
			}
			spec.Inputs = append(spec.Inputs, g.AddInput("x"+string(rune('0'+i)), graph.TensorType(t, s)))
		}
		rank := len(shapes[0])
		switch op {
		case "Cast":
			spec.Attrs = []graph.Attr{graph.IntAttr("to", 1)}
		case "Concat":
			spec.Attrs = []graph.Attr{graph.IntAttr("axis", int64(choice%(rank+1))-1)}
		case "Trilu":
			spec.Inputs = append(spec.Inputs, g.AddConst("k", tensor.From([]int64{1})))
		case "Gather":
			spec.Attrs = []graph.Attr{graph.IntAttr("axis", int64(choice%(2*rank+1)-rank))}
		case "Unsqueeze":
			spec.Inputs = append(spec.Inputs, g.AddConst("axes", tensor.From([]int64{int64(choice % (rank + 1))}, 1)))
		case "Transpose":
			var perm []int64
			for i := range rank {
				perm = append(perm, int64((i+choice)%rank))
			}
			if choice%4 > 0 {
				spec.Attrs = []graph.Attr{graph.IntsAttr("perm", perm...)}
			}
		case "DynamicQuantizeLinear":
			spec.Outputs = append(spec.Outputs, "scale", "zero")
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
		operands := map[string]int{"Add": 2, "Pow": 2, "Max": 3, "Equal": 2, "Where": 3, "MatMul": 2, "Erf": 1, "Relu": 1, "Cast": 1,
			"MatMulInteger": 2, "Softmax": 1, "Gather": 2, "Transpose": 1, "Unsqueeze": 1, "Concat": 2, "Trilu": 1, "DequantizeLinear": 2, "DynamicQuantizeLinear": 1}
		ops := slices.Sorted(maps.Keys(operands))
		kept, left := map[string]int{}, map[string]int{}
		for range 16000 {
			op, choice := ops[r.IntN(len(ops))], r.IntN(64)
			shapes := make([]graph.Shape, operands[op])
			for i := range shapes {
				for range r.IntN(4) {
					shapes[i] = append(shapes[i], dims[r.IntN(len(dims))])
				}
				if shapes[i] == nil {
					shapes[i] = graph.Shape{}
				}
			}
			g := node(op, shapes, choice)
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
				at := node(op, static, choice)
				Expect(at).NotTo(BeNil(), "%s %v at %v", op, shapes, b)
				Expect(at.Outputs[0].Type.Shape).To(Equal(graph.ShapeOf(want...)), "%s %v at %v", op, shapes, b)
			}
		}
		for op := range operands {
			Expect(left[op]).To(BeNumerically(">", 20), op)
			if operands[op] > 1 && op != "Gather" {
				Expect(kept[op]).To(BeNumerically(">", 20), op)
			}
		}
	})

	It("leave out what computes with dims as they say", func() {
		g := parse(`graph {
  opset 17
  input %x: f32[N,M]
  const %first = i64[]{0}
  const %second = i64[]{1}
  %s = Shape(%x) "s"
  %n = Gather(%s, %first) "n"
  %m = Gather(%s, %second) "m"
  %sum = Add(%n, %m) "sum"
  %product = Mul(%n, %sum) "product"
  %less = Sub(%product, %m) "less"
  %same = Cast(%sum; to=7) "same"
  %short = Cast(%sum; to=6) "short"
  %even = Equal(%sum, %m) "even"
  %ratio = Div(%sum, %n) "ratio"
  output %less, %same, %short, %even, %ratio
}`)
		Expect(graph.InferGraph(g)).To(Succeed())
		var kept []string
		for n := range graph.NewShapeChecks(g).Graph().Nodes() {
			kept = append(kept, n.Name)
		}
		Expect(kept).To(ConsistOf("short", "ratio"))
	})

	It("leave out what moves dims to where constants say, and keep what reads them", func() {
		g := parse(`graph {
  opset 17
  input %x: f32[N,M]
  input %i: i64[]
  const %first = i64[]{0}
  const %axes = i64[1]{0}
  const %four = i64[1]{4}
  %s = Shape(%x) "s"
  %n = Gather(%s, %first) "n"
  %n1 = Unsqueeze(%n, %axes) "n1"
  %m = Gather(%s, %i) "m"
  %m1 = Unsqueeze(%m, %axes) "m1"
  %to = Concat(%n1, %m1, %four; axis=0) "to"
  %end = Shape(%x; start=1) "end"
  %y = Expand(%x, %end) "y"
  output %y, %to
}`)
		Expect(graph.InferGraph(g)).To(Succeed())
		var kept []string
		for n := range graph.NewShapeChecks(g).Graph().Nodes() {
			kept = append(kept, n.Name)
		}
		Expect(kept).To(ConsistOf("m", "end", "y"))
	})
})
