package graph_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
)

var _ = Describe("ParseSchema", func() {
	It("reads ports, attributes and types", func() {
		s, err := graph.ParseSchema("com.example", "Op", 3, "in X:T W:tensor(int64)? Rest*+:any\nout Y:T\n\n"+
			"at axis:int=-1 mode:string! names:strings=a,b scale:float=0.5 pads:ints=1,2 w:floats=1,2.5 t:tensor\nty T=float,double U=int64")
		Expect(err).To(MatchError(graph.ErrSchema), "a port goes NAME:TYPE with its marks behind the type")
		Expect(s).To(BeNil())
		s, err = graph.ParseSchema("com.example", "Op", 3, "in X:T W?:tensor(int64) Rest*+:T\nout Y:T\n\n"+
			"at axis:int=-1 mode:string! names:strings=a,b scale:float=0.5 pads:ints=1,2 w:floats=1,2.5 t:tensor\nty T=float,double U=int64")
		Expect(err).NotTo(HaveOccurred())
		Expect(s.Since).To(Equal(3))
		Expect(s.Inputs).To(Equal([]graph.Param{{Name: "X", Type: "T"}, {Name: "W", Type: "tensor(int64)", Optional: true},
			{Name: "Rest", Type: "T", Variadic: true, Hetero: true}}))
		Expect(s.Outputs).To(Equal([]graph.Param{{Name: "Y", Type: "T"}}))
		Expect(s.Types).To(Equal(map[string][]string{"T": {"tensor(float)", "tensor(double)"}, "U": {"tensor(int64)"}}))
		var attrs []string
		for _, a := range s.Attrs {
			text := a.Name + " " + a.Kind.String()
			if a.Default != nil {
				text += " " + a.Default.String()
			}
			attrs = append(attrs, text)
		}
		Expect(attrs).To(Equal([]string{"axis int axis=-1", "mode string", `names strings names=["a" "b"]`, "scale float scale=0.5", "pads ints pads=[1 2]",
			"w floats w=[1 2.5]", "t tensor"}))
		Expect(s.Attrs[1].Required).To(BeTrue())
	})

	DescribeTable("refuses", func(text, why string) {
		_, err := graph.ParseSchema("com.example", "Op", 1, text)
		Expect(err).To(MatchError(graph.ErrSchema))
		Expect(err).To(MatchError(ContainSubstring(why)))
	},
		Entry("nothing", "", "no outputs"),
		Entry("another line", "out Y:tensor(float)\nwhat", `"what"`),
		Entry("a line twice", "out Y:tensor(float)\nout Z:tensor(float)", "two lines"),
		Entry("a port without a type", "out Y", `"Y" of type ""`),
		Entry("a type that is none", "out Y:tensor(real)", "neither a variable nor a type"),
		Entry("a variable's type that is none", "out Y:T\nty T=real", `type "real"`),
		Entry("a variable twice", "out Y:T\nty T=float T=double", `"T=double"`),
		Entry("a list in front of others", "in X*:tensor(float) Y:tensor(float)\nout Z:tensor(float)", "last one"),
		Entry("an attribute of no kind", "out Y:tensor(float)\nat a:graph", `"a:graph"`),
		Entry("an attribute twice", "out Y:tensor(float)\nat a:int a:int", `"a:int"`),
		Entry("a default that is no number", "out Y:tensor(float)\nat a:int=x", `"a:int=x"`),
		Entry("a default of what is required", "out Y:tensor(float)\nat a:int!=1", `"a:int!=1"`),
		Entry("a default of a tensor", "out Y:tensor(float)\nat a:tensor=1", `"a:tensor=1"`),
		Entry("a text without end", strings.Repeat("x", 1<<17), "131072 bytes"),
	)

	DescribeTable("refuses an operator", func(domain, name string) {
		_, err := graph.ParseSchema(domain, name, 1, "out Y:tensor(float)")
		Expect(err).To(MatchError(graph.ErrOperator))
	},
		Entry("of the default domain", "ai.onnx", "Relu2"),
		Entry("of carve's", "carve", "Fused2"),
		Entry("without a name", "com.example", ""),
	)
})

var _ = Describe("BindSchemas", func() {
	It("finds nodes of unknown operators, in regions too, by the version that the graph imports", func() {
		g, err := graph.Parse(`graph {
  opset 17
  opset "com.example" 4
  input %x: f32[2]
  %a = com.example::Op(%x) "outer"
  %y = Relu(%a) "relu"
  output %y
}`)
		Expect(err).NotTo(HaveOccurred())
		s, err := graph.ParseSchema("com.example", "Op", 2, "in X:T\nout Y:T\nty T=float")
		Expect(err).NotTo(HaveOccurred())
		s.Infer = func(c *graph.Inference) error { c.SetType(0, c.Type(0)); return nil }
		var asked []int
		bound := g.BindSchemas(func(domain, name string, version int) *graph.Schema {
			asked = append(asked, version)
			Expect(domain + " " + name).To(Equal("com.example Op"))
			return s
		})
		Expect(bound).To(Equal(1))
		Expect(asked).To(Equal([]int{4}))
		Expect(graph.InferGraph(g)).To(Succeed())
		Expect(g.Outputs[0].Type.String()).To(Equal("f32[2]"))
		Expect(graph.Verify(g)).To(Succeed())
	})
})
