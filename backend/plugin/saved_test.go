package plugin_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/plugin"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/onnx"
	"github.com/carve-dev/carve/graph/tensor"
)

var _ = Describe("a compiled group of a plugin", func() {
	// group is one of a graph of operator set 17: a Fused node of Mul and Relu, and what is around it.
	group := func() *graph.Graph {
		numbers := strings.TrimSuffix(strings.Repeat("3, ", 512), ", ")
		g, err := graph.Parse("graph \"g\" {\n  opset 17\n  input %x: f32[N,512]\n  const %w = f32[512]{" + numbers + "}\n" +
			"  %m = Mul(%x, %w) \"mul\"\n  %r = Relu(%m) \"relu\"\n  %y = Neg(%r) \"neg\"\n  output %y\n}\n")
		Expect(err).NotTo(HaveOccurred())
		Expect(graph.InferGraph(g)).To(Succeed())
		order, err := g.Topo()
		Expect(err).NotTo(HaveOccurred())
		fused, err := g.Fuse(order[:2], graph.NodeSpec{Op: graph.Op{Domain: graph.CarveDomain, Name: graph.OpFused}, Name: "both",
			Attrs: []graph.Attr{graph.StringAttr("pattern", "mul-relu")}})
		Expect(err).NotTo(HaveOccurred())
		sub, err := g.Extract([]*graph.Node{fused, order[2]}, graph.NodeSpec{Op: graph.Op{Domain: graph.CarveDomain, Name: graph.OpSubgraph}, Name: "group"})
		Expect(err).NotTo(HaveOccurred())
		return sub.Regions[0].Graph
	}
	open := func(odd string) *plugin.Backend {
		l, err := plugin.Open(build(GinkgoTB(), "testdata/odd.c", "-DODD="+odd))
		Expect(err).NotTo(HaveOccurred())
		b, err := l.Open("odd", nil)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(b.Close)
		return b
	}
	// save compiles the group and returns what it is saved as.
	save := func(ctx SpecContext, b *plugin.Backend, g *graph.Graph) ([]byte, error) {
		e, err := b.Compile(ctx, g, backend.CompileOptions{})
		Expect(err).NotTo(HaveOccurred())
		defer func() { Expect(e.Close()).To(Succeed()) }()
		s, ok := e.(backend.Saver)
		Expect(ok).To(BeTrue())
		return s.Save(ctx)
	}

	It("is there as a model with its weights beside it", func(ctx SpecContext) {
		data, err := save(ctx, open("SAVES"), group())
		Expect(err).NotTo(HaveOccurred())
		Expect(len(data)).To(BeNumerically("<", 1024), "weights are beside the bytes")
		m, err := onnx.Parse(ctx, data, &onnx.Options{Weights: []*tensor.Tensor{tensor.From(make([]float32, 512), 512)}})
		Expect(err).NotTo(HaveOccurred())
		Expect(m.Opsets).To(Equal(map[string]int{"": 17}))
		var ops []string
		order, err := m.Graph.Topo()
		Expect(err).NotTo(HaveOccurred())
		for _, n := range order {
			ops = append(ops, n.Op.String())
		}
		Expect(ops).To(Equal([]string{"Mul", "Relu", "Neg"}))
		Expect(m.Graph.Inputs[0].Type.String()).To(Equal("f32[N,512]"))
	})

	It("is loaded from what it was saved as, and not from anything else", func(ctx SpecContext) {
		b := open("SAVES")
		data, err := save(ctx, b, group())
		Expect(err).NotTo(HaveOccurred())
		Expect(b.Fingerprint()).To(ContainSubstring(`processor "odd"`))
		e, err := b.Load(ctx, group(), data, backend.CompileOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(e.Close()).To(Succeed())
		_, err = b.Load(ctx, group(), data[1:], backend.CompileOptions{})
		Expect(err).To(MatchError(ContainSubstring("saved from another graph")))
		_, err = b.Load(ctx, group(), nil, backend.CompileOptions{})
		Expect(err).To(MatchError(backend.ErrUnavailable))
	})

	It("is not kept by a plugin that keeps nothing", func(ctx SpecContext) {
		for _, odd := range []string{"RIGHT", "SAVES_NOTHING"} {
			data, err := save(ctx, open(odd), group())
			Expect(err).NotTo(HaveOccurred())
			Expect(data).To(BeNil())
		}
		_, err := open("RIGHT").Load(ctx, group(), []byte{1}, backend.CompileOptions{})
		Expect(err).To(MatchError(backend.ErrUnavailable))
	})

	It("that is saved as bytes without end is an error", func(ctx SpecContext) {
		_, err := save(ctx, open("SAVES_ENDLESS"), group())
		Expect(err).To(MatchError(plugin.ErrPlugin))
	})

	It("goes without its form as a model where ONNX cannot express it", func(ctx SpecContext) {
		g := group()
		v := g.Outputs[0]
		n := g.AddNode(graph.NodeSpec{Op: graph.Op{Domain: graph.CarveDomain, Name: graph.OpConvert}, Inputs: []*graph.Value{v}, Outputs: []string{"c"}})
		n.Outputs[0].Type, n.Outputs[0].Format = v.Type, graph.On(graph.NHWC)
		data, err := save(ctx, open("SAVES"), g)
		Expect(err).NotTo(HaveOccurred())
		Expect(data).To(BeNil())
	})
})
