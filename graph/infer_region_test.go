package graph_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// region makes a graph of the inputs; body adds nodes and returns the outputs.
func region(inputs []string, body func(c steps, in []*graph.Value) []*graph.Value) *graph.Graph {
	GinkgoHelper()
	g := graph.New("region")
	var in []*graph.Value
	for _, s := range inputs {
		in = append(in, operand(g, s))
	}
	g.SetOutputs(body(steps{g}, in)...)
	return g
}

// plain adds a node without inferring it.
func plain(g *graph.Graph, op string, inputs []*graph.Value, attrs ...graph.Attr) *graph.Value {
	return g.AddNode(graph.NodeSpec{Op: graph.Op{Name: op}, Inputs: inputs, Outputs: []string{op}, Attrs: attrs}).Outputs[0]
}

var _ = Describe("Inference of regions", func() {
	type vals = []*graph.Value
	owner := func(g *graph.Graph, op string, outputs int, in, captures vals, regions ...graph.Region) *graph.Node {
		spec := graph.NodeSpec{Op: graph.Op{Name: op}, Name: op, Inputs: in, Captures: captures, Regions: regions}
		for range outputs {
			spec.Outputs = append(spec.Outputs, "y")
		}
		return g.AddNode(spec)
	}
	arm := func(op string, attrs ...graph.Attr) *graph.Graph {
		g := graph.New(op)
		x := g.AddCapture("x", graph.Type{})
		g.SetOutputs(plain(g, op, vals{x}, attrs...))
		return g
	}
	arms := func(a, b *graph.Graph) []graph.Region {
		return []graph.Region{{Name: "then_branch", Graph: a}, {Name: "else_branch", Graph: b}}
	}
	var g *graph.Graph
	BeforeEach(func() { g = graph.New("g") })

	It("joins the arms of an If", func() {
		n := owner(g, "If", 1, vals{operand(g, "bool[]")}, vals{operand(g, "f32[N,4,1]")}, arms(arm("Relu"), arm("ReduceSum"))...)
		Expect(graph.InferNode(n)).To(Succeed())
		Expect(shown(n.Outputs[0])).To(Equal("f32[?1,?2,1]"))
	})
	It("gives up the rank where the arms differ in it", func() {
		n := owner(g, "If", 1, vals{operand(g, "bool[]")}, vals{operand(g, "f32[N,4]")}, arms(arm("Relu"), arm("Flatten", num("axis", 0)))...)
		Expect(graph.InferNode(n)).To(Succeed())
		Expect(shown(n.Outputs[0])).To(Equal("f32[?1,?2]"))
		n = owner(g, "If", 1, vals{operand(g, "bool[]")}, vals{operand(g, "f32[N,4]")}, arms(arm("Relu"), arm("ReduceSum", num("keepdims", 0)))...)
		Expect(graph.InferNode(n)).To(Succeed())
		Expect(shown(n.Outputs[0])).To(Equal("f32[*]"))
	})
	It("takes the arm of a known condition, and bears that the other does not fit", func() {
		cond := g.AddConst("c", tensor.From([]bool{false}, 1))
		squeeze := graph.New("squeeze")
		x := squeeze.AddCapture("x", graph.Type{})
		squeeze.SetOutputs(plain(squeeze, "Squeeze", vals{x, operand(squeeze, "=[1]")}))
		n := owner(g, "If", 1, vals{cond}, vals{operand(g, "f32[N,4]")}, arms(squeeze, arm("Relu"))...)
		Expect(graph.InferNode(n)).To(Succeed())
		Expect(shown(n.Outputs[0])).To(Equal("f32[N,4]"))
	})
	It("refuses arms of different types", func() {
		n := owner(g, "If", 1, vals{operand(g, "bool[]")}, vals{operand(g, "f32[N]")}, arms(arm("Relu"), arm("IsNaN"))...)
		Expect(graph.InferNode(n)).To(MatchError(graph.ErrTypeMismatch))
	})
	It("hands the contents of captures to the regions", func() {
		body := graph.New("a")
		x, s := body.AddCapture("x", graph.Type{}), body.AddCapture("s", graph.Type{})
		body.SetOutputs(plain(body, "Reshape", vals{x, s}))
		other := graph.New("b")
		x, s = other.AddCapture("x", graph.Type{}), other.AddCapture("s", graph.Type{})
		other.SetOutputs(plain(other, "Reshape", vals{x, s}))
		n := owner(g, "If", 1, vals{operand(g, "bool[]")}, vals{operand(g, "f32[N,8]"), operand(g, "#[N,2,4]")}, arms(body, other)...)
		Expect(graph.InferNode(n)).To(Succeed())
		Expect(shown(n.Outputs[0])).To(Equal("f32[N,2,4]"))
	})

	loop := func(m, cond string, initial []string, outputs int, body *graph.Graph) *graph.Node {
		in := vals{operand(g, m), operand(g, cond)}
		for _, s := range initial {
			in = append(in, operand(g, s))
		}
		return owner(g, "Loop", outputs, in, nil, graph.Region{Name: "body", Graph: body})
	}
	It("keeps the shapes of carried values that no iteration changes, and stacks scan outputs", func() {
		body := region(ins("i64[]", "bool[]", "?"), func(c steps, in []*graph.Value) []*graph.Value {
			return vals{in[1], plain(c.g, "Relu", vals{in[2]}), plain(c.g, "Neg", vals{in[2]})}
		})
		n := loop("#T", "", ins("f32[N,4]"), 2, body)
		Expect(graph.InferNode(n)).To(Succeed())
		Expect(shown(n.Outputs[0])).To(Equal("f32[N,4]"))
		Expect(shown(n.Outputs[1])).To(Equal("f32[T,N,4]"))
	})
	It("gives up the dims that an iteration changes, and no others", func() {
		body := region(ins("i64[]", "bool[]", "?"), func(c steps, in []*graph.Value) []*graph.Value {
			twice := plain(c.g, "Concat", vals{in[2], in[2]}, num("axis", 0))
			return vals{in[1], twice, plain(c.g, "Neg", vals{in[2]})}
		})
		n := loop("=5", "", ins("f32[3,C]"), 2, body)
		Expect(graph.InferNode(n)).To(Succeed())
		Expect(shown(n.Outputs[0])).To(MatchRegexp(`^f32\[\?\d+,C\]$`))
		Expect(shown(n.Outputs[1])).To(MatchRegexp(`^f32\[5,\?\d+,C\]$`))
		for m := range body.Nodes() { // nothing of the first iteration is left
			Expect(m.Outputs[0].Type.Shape[0].Backed()).To(BeFalse())
		}
	})
	It("gives up a rank that grows", func() {
		body := region(ins("i64[]", "bool[]", "?"), func(c steps, in []*graph.Value) []*graph.Value {
			return vals{in[1], plain(c.g, "Unsqueeze", vals{in[2], operand(c.g, "=[0]")})}
		})
		n := loop("=5", "", ins("f32[3]"), 1, body)
		Expect(graph.InferNode(n)).To(Succeed())
		Expect(shown(n.Outputs[0])).To(Equal("f32[*]"))
	})
	It("does not know how often a loop runs that ends by its condition", func() {
		body := region(ins("i64[]", "bool[]", "?"), func(c steps, in []*graph.Value) []*graph.Value {
			stop := plain(c.g, "Greater", vals{in[0], operand(c.g, "=3")})
			return vals{stop, in[2], in[0]}
		})
		n := loop("=5", "bool[]", ins("f32[3]"), 2, body)
		Expect(graph.InferNode(n)).To(Succeed())
		Expect(shown(n.Outputs[0])).To(Equal("f32[3]"))
		Expect(shown(n.Outputs[1])).To(MatchRegexp(`^i64\[\?\d+\]$`))
	})
	It("trusts no shape that passes through an unknown operator", func() {
		body := region(ins("i64[]", "bool[]", "?"), func(c steps, in []*graph.Value) []*graph.Value {
			n := c.g.AddNode(graph.NodeSpec{Op: graph.Op{Domain: "com.example", Name: "Thing"}, Inputs: in[2:], Outputs: []string{"t"}})
			return vals{in[1], n.Outputs[0]}
		})
		n := loop("=5", "", ins("f32[3]"), 1, body)
		Expect(graph.InferNode(n)).To(Succeed())
		Expect(shown(n.Outputs[0])).To(Equal("f32[*]"))
	})
	It("refuses a carried value that changes its type", func() {
		body := region(ins("i64[]", "bool[]", "?"), func(c steps, in []*graph.Value) []*graph.Value {
			return vals{in[1], plain(c.g, "Cast", vals{in[2]}, num("to", 7))}
		})
		Expect(graph.InferNode(loop("=5", "", ins("f32[3]"), 1, body))).To(MatchError(graph.ErrTypeMismatch))
	})
	It("refuses a body with other ports than its owner", func() {
		body := region(ins("i64[]", "bool[]"), func(c steps, in []*graph.Value) []*graph.Value { return vals{in[1]} })
		Expect(graph.InferNode(loop("=5", "", ins("f32[3]"), 1, body))).To(MatchError(graph.ErrArity))
	})
	It("ends soon for loops nested deep", func() {
		var nest func(depth int) *graph.Graph
		nest = func(depth int) *graph.Graph {
			return region(ins("i64[]", "bool[]", "?"), func(c steps, in []*graph.Value) []*graph.Value {
				x := plain(c.g, "Concat", vals{in[2], in[2]}, num("axis", 0))
				if depth > 0 {
					n := owner(c.g, "Loop", 1, vals{operand(c.g, "=2"), nil, x}, nil, graph.Region{Name: "body", Graph: nest(depth - 1)})
					x = n.Outputs[0]
				}
				return vals{in[1], x}
			})
		}
		n := loop("=5", "", ins("f32[3,C]"), 1, nest(40))
		Expect(graph.InferNode(n)).To(Succeed())
	})

	It("scans", func() {
		body := region(ins("?", "?"), func(c steps, in []*graph.Value) []*graph.Value {
			sum := plain(c.g, "Add", vals{in[0], in[1]})
			return vals{sum, sum}
		})
		n := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "Scan"}, Inputs: vals{operand(g, "f32[B,4]"), operand(g, "f32[B,T,4]")},
			Outputs: []string{"s", "y"}, Regions: []graph.Region{{Name: "body", Graph: body}},
			Attrs: []graph.Attr{num("num_scan_inputs", 1), ints("scan_input_axes", 1), ints("scan_output_axes", -2)}})
		Expect(graph.InferNode(n)).To(Succeed())
		Expect(shown(n.Outputs[0])).To(Equal("f32[B,4]"))
		Expect(shown(n.Outputs[1])).To(Equal("f32[B,T,4]"))
	})
	It("maps sequences", func() {
		body := region(ins("?"), func(c steps, in []*graph.Value) []*graph.Value { return vals{plain(c.g, "Shape", vals{in[0]})} })
		n := owner(g, "SequenceMap", 1, vals{operand(g, "seq(f32[3,H])")}, nil, graph.Region{Name: "body", Graph: body})
		Expect(graph.InferNode(n)).To(Succeed())
		Expect(shown(n.Outputs[0])).To(Equal("seq(i64[2])"))
	})
	DescribeTable("infers carve's own operators through their bodies", func(op string) {
		body := region(ins("?", "?"), func(c steps, in []*graph.Value) []*graph.Value {
			return vals{plain(c.g, "Relu", vals{plain(c.g, "MatMul", in)}), plain(c.g, "Shape", vals{in[0]})}
		})
		n := g.AddNode(graph.NodeSpec{Op: graph.Op{Domain: graph.CarveDomain, Name: op}, Inputs: vals{operand(g, "f32[N,4]"), operand(g, "f32[4,8]")},
			Outputs: []string{"a", "b"}, Regions: []graph.Region{{Name: "body", Graph: body}}})
		Expect(graph.InferNode(n)).To(Succeed())
		Expect(shown(n.Outputs[0])).To(Equal("f32[N,8]"))
		Expect(shown(n.Outputs[1])).To(Equal("i64[2] = [N,4]"))
		Expect(graph.CheckNode(n)).To(Succeed())
	}, Entry(nil, graph.OpFused), Entry(nil, graph.OpSubgraph))
})
