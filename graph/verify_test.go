package graph_test

import (
	"errors"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// violated expects Verify to name that invariant.
func violated(g *graph.Graph, want graph.Invariant, message string) {
	GinkgoHelper()
	var ve *graph.VerifyError
	Expect(errors.As(graph.Verify(g), &ve)).To(BeTrue())
	Expect(ve.Invariant).To(Equal(want), ve.Error())
	Expect(ve.Error()).To(ContainSubstring(message))
}

const verified = `graph "main" {
  opset 13
  input %x: f32[N,4]
  input %c: bool[]
  const %w = f32[]{2}
  dims %d = i64 [N,4]
  %a: f32[N,4] = Mul(%x, %w) "a"
  %b: f32[N,4] = If(%c | %a, %x) "if" {
    then_branch: graph "then" {
      capture %a: f32[N,4]
      capture %x: f32[N,4]
      %s: f32[N,4] = Add(%a, %x) "s"
      output %s
    }
    else_branch: graph "else" {
      capture %a: f32[N,4]
      capture %x: f32[N,4]
      output %a
    }
  }
  %r: f32[N,4] = Reshape(%b, %d) "r"
  output %r, %r, %x
}
`

var _ = Describe("Verify", func() {
	sound := func() *graph.Graph { return parse(verified) }

	It("accepts a sound graph, and one with nothing in it", func() {
		Expect(graph.Verify(sound())).To(Succeed())
		Expect(graph.Verify(graph.New(""))).To(Succeed())
	})
	DescribeTable("names the invariant that the text of a graph breaks",
		func(text string, want graph.Invariant, message string) { violated(parse(text), want, message) },
		Entry("cycle", "graph { %a = Neg(%b)\n %b = Neg(%a)\n}", graph.InvAcyclic, "cycle"),
		Entry("own operand", "graph { %a = Neg(%a) \"n\"\n}", graph.InvAcyclic, `Neg "n"`),
		Entry("attribute of no kind", "graph { %a = X(; a=none)\n}", graph.InvAttrs, `"a"`),
		Entry("captures of no region", "graph { input %x\n X(| %x)\n}", graph.InvRegions, "1 captures without a region"),
		Entry("capture of another type", "graph { input %x: f32[]\n X(| %x) { a: graph { capture %x: i64[] } }\n}", graph.InvRegions, "captured by region \"a\" as i64[]"),
		Entry("two regions of one name", "graph { X() { a: graph { }\n a: graph { } }\n}", graph.InvRegions, "two regions"),
		Entry("captures without an owner", "graph { capture %x }", graph.InvRegions, "without an owner"),
		Entry("too few inputs", "graph { input %x: f32[]\n %y = Add(%x) \"add\"\n}", graph.InvSchema, "input 1"),
		Entry("mismatched types", "graph { input %x: f32[]\n input %y: i64[]\n %z = Add(%x, %y)\n}", graph.InvSchema, "type mismatch"),
		Entry("in a region", "graph \"m\" { X() \"x\" { a: graph { input %x: f32[]\n %y = Neg(%x, %x) } }\n}", graph.InvSchema, "m/x/a"),
		Entry("known integers of a float", "graph { input %x: f32[2] dims [1,2]\n}", graph.InvDims, "f32[2]"),
		Entry("known integers of another length", "graph { input %x: i64[2] dims [1]\n}", graph.InvDims, "1 known integers"),
		Entry("known integers of a matrix", "graph { input %x: i64[1,1] dims [1]\n}", graph.InvDims, "1 known integers"),
		Entry("formats mixed", "graph { input %x: f32[1,2,3,4]\n %y: f32[1,2,3,4] @host:NCHW16c = Relu(%x)\n}", graph.InvFormats, "no Convert stands between"),
		Entry("format of a port", "graph { input %x: f32[1,2,3,4]\n %y: f32[1,2,3,4] @host:NCHW16c = Relu(%x) ports(@host:NCHW16c -> @host:NCHW16c)\n}", graph.InvFormats, "is in host:row-major where input 0 is in"),
		Entry("ports of another number", "graph { input %x\n %y = X(%x) ports(-> @host:NCHW)\n}", graph.InvFormats, "signature has 0 inputs"),
		Entry("ports that vary", "graph { input %x\n %y = X(%x) ports($0 -> @host:NCHW)\n}", graph.InvFormats, "variable"),
		Entry("type across a conversion", "graph { input %x: f32[2]\n %y: f32[3] @host:NCHW16c = carve::Convert(%x)\n}", graph.InvFormats, "converted from"),
		Entry("format across a border", "graph { input %x: f32[1,2,3,4] @host:NHWC\n %y: f32[1,2,3,4] = carve::Fused(%x) { body: graph { input %x: f32[1,2,3,4]\n %y: f32[1,2,3,4] = Relu(%x)\n output %y } }\n}", graph.InvFormats, "outside of the body"),
		Entry("body of another arity", "graph { input %x: f32[]\n %y: f32[] = carve::Fused(%x) { body: graph { } }\n}", graph.InvRegions, "does not have its inputs"),
	)
	It("bounds how deep regions are nested", func() {
		deep := func(n int) *graph.Graph {
			g := graph.New("leaf")
			for range n {
				outer := graph.New("g")
				outer.AddNode(graph.NodeSpec{Op: graph.Op{Name: "X"}, Regions: []graph.Region{{Name: "a", Graph: g}}})
				g = outer
			}
			return g
		}
		Expect(graph.Verify(deep(graph.MaxRegionDepth))).To(Succeed())
		violated(deep(graph.MaxRegionDepth+1), graph.InvRegions, "deeper than 64")
		Expect(deep(100000).String()).To(ContainSubstring("graph"))
	})
	It("accepts formats that signatures, conversions and borders explain", func() {
		Expect(graph.Verify(parse(`graph {
  input %x: f32[1,16,3,4]
  const %w = f32[1]{1} @cuda:0:row-major
  %c: f32[1,16,3,4] @host:NCHW16c = carve::Convert(%x)
  %r: f32[1,16,3,4] @host:NCHW16c = Relu(%c)
  %s: f32[1,16,3,4] @host:NHWC = X(%r, %w) as "s"
  %f: f32[1,16,3,4] @host:NHWC = carve::Fused(%s) {
    body: graph {
      input %x: f32[1,16,3,4] @host:NHWC
      %y: f32[1,16,3,4] @host:NHWC = Relu(%x)
      output %y
    }
  }
  output %f
}`))).To(Succeed())
	})
	DescribeTable("names the invariant that a change behind the graph's back breaks",
		func(damage func(*graph.Graph), want graph.Invariant, message string) {
			g := sound()
			damage(g)
			violated(g, want, message)
		},
		Entry("operand replaced", func(g *graph.Graph) { node(g, "a").Inputs[0] = g.Inputs[1] }, graph.InvUses, "operand 0"),
		Entry("operand of another graph", func(g *graph.Graph) { node(g, "a").Inputs[0] = graph.New("").AddInput("z", graph.Type{}) }, graph.InvOperands, "another graph"),
		Entry("region names an outer value", func(g *graph.Graph) { node(g, "if").Regions[0].Graph.Captures[0] = g.Inputs[0] }, graph.InvValues, "main/if/then_branch"),
		Entry("operand dropped", func(g *graph.Graph) { node(g, "a").Inputs = node(g, "a").Inputs[:1] }, graph.InvOperands, "2 use slots for 1 inputs"),
		Entry("operand forgotten", func(g *graph.Graph) { node(g, "a").Inputs[1] = nil }, graph.InvUses, "operands, but"),
		Entry("capture omitted", func(g *graph.Graph) { node(g, "if").Captures[0] = nil }, graph.InvOperands, "capture 0 is omitted"),
		Entry("output replaced", func(g *graph.Graph) { g.Outputs[0] = g.Inputs[1] }, graph.InvOutputs, "counted"),
		Entry("output of another graph", func(g *graph.Graph) { g.Outputs[0] = graph.New("").AddInput("z", graph.Type{}) }, graph.InvOutputs, "not a value"),
		Entry("capture added to a region", func(g *graph.Graph) { node(g, "if").Regions[1].Graph.AddCapture("z", graph.Type{}) }, graph.InvRegions, "3 captures, its owner 2"),
		Entry("input listed twice", func(g *graph.Graph) { g.Inputs = append(g.Inputs, g.Inputs[0]) }, graph.InvSSA, "defined twice"),
		Entry("constant listed as an input", func(g *graph.Graph) {
			for v := range g.Constants() {
				g.Inputs = append(g.Inputs, v)
			}
		}, graph.InvValues, "of kind"),
		Entry("result listed by another node", func(g *graph.Graph) { node(g, "r").Outputs[0] = node(g, "a").Outputs[0] }, graph.InvSSA, "defined twice"),
		Entry("producer replaced", func(g *graph.Graph) { node(g, "a").Outputs[0].Producer = node(g, "r") }, graph.InvSSA, "knows output 0 of Reshape"),
		Entry("nil input", func(g *graph.Graph) { g.Inputs[0] = nil }, graph.InvValues, "nil"),
		Entry("node id", func(g *graph.Graph) { node(g, "a").ID = node(g, "r").ID }, graph.InvNodes, "taken"),
		Entry("type of a constant", func(g *graph.Graph) { node(g, "a").Inputs[1].Type.DType = tensor.Int64 }, graph.InvConstants, "of type i64[]"),
		Entry("data of a constant", func(g *graph.Graph) { node(g, "a").Inputs[1].Const.Data = nil }, graph.InvConstants, "disagree"),
		Entry("constant without data", func(g *graph.Graph) { node(g, "a").Inputs[1].Const = nil }, graph.InvConstants, "no data"),
		Entry("result with data", func(g *graph.Graph) { node(g, "a").Outputs[0].Const = tensor.Scalar(float32(1)) }, graph.InvConstants, "no constant"),
		Entry("dims value without dims", func(g *graph.Graph) { node(g, "r").Inputs[1].Dims = nil }, graph.InvDims, "without dims"),
		Entry("attributes out of order", func(g *graph.Graph) {
			node(g, "a").Attrs = graph.Attrs{graph.IntAttr("b", 1), graph.IntAttr("a", 1)}
		}, graph.InvAttrs, `"a" stands after "b"`),
		Entry("region of another node", func(g *graph.Graph) { node(g, "if").Regions[0].Graph = graph.New("z") }, graph.InvRegions, "owned by another"),
		Entry("region without a graph", func(g *graph.Graph) { node(g, "if").Regions[0].Graph = nil }, graph.InvRegions, "no graph"),
	)
})

// node returns the node of that name.
func node(g *graph.Graph, name string) *graph.Node {
	GinkgoHelper()
	for n := range g.Nodes() {
		if n.Name == name {
			return n
		}
	}
	Fail("no node " + name)
	return nil
}
