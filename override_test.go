package carve_test

import (
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/onnx"
	"github.com/carve-dev/carve/graph/tensor"
)

// scaled writes a model y = x·w + b whose initializers w and b are inputs as well, and returns its path.
func scaled(ctx SpecContext) string {
	GinkgoHelper()
	g := graph.New("scaled")
	g.Opsets[""] = 17
	vector := graph.TensorType(tensor.Float32, graph.Shape{graph.D(2)})
	x, w, b := g.AddInput("x", vector), g.AddInput("w", vector), g.AddInput("b", vector)
	m := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "Mul"}, Name: "mul", Inputs: []*graph.Value{x, w}, Outputs: []string{"m"}})
	y := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "Add"}, Name: "add", Inputs: []*graph.Value{m.Outputs[0], b}, Outputs: []string{"y"}})
	g.SetOutputs(y.Outputs[0])
	path := filepath.Join(GinkgoT().TempDir(), "scaled.onnx")
	Expect(onnx.Save(ctx, path, &onnx.Model{Graph: g, IRVersion: 8,
		Defaults: map[string]*tensor.Tensor{"w": tensor.From([]float32{2, 3}), "b": tensor.From([]float32{10, 20})}}, nil)).To(Succeed())
	return path
}

var _ = Describe("initializers that are inputs too", func() {
	x := tensor.From([]float32{1, 1})
	var path string
	BeforeEach(func(ctx SpecContext) { path = scaled(ctx) })
	open := func(ctx SpecContext, names ...string) *carve.Model {
		GinkgoHelper()
		m, err := onnx.Load(ctx, path, &onnx.Options{Override: names})
		Expect(err).NotTo(HaveOccurred())
		return carve.FromONNX(m)
	}
	run := func(ctx SpecContext, p *carve.Program, feeds map[string]tensor.Value) []float32 {
		GinkgoHelper()
		out, err := p.Run(ctx, feeds)
		Expect(err).NotTo(HaveOccurred())
		return f32s(out["y"])
	}

	It("are constants, and no input overrides them", func(ctx SpecContext) {
		m, err := carve.Open(ctx, path)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(m.Close)
		p := compile(ctx, m, nil)
		Expect(p.Inputs()).To(HaveLen(1))
		Expect(run(ctx, p, map[string]tensor.Value{"x": x})).To(Equal([]float32{12, 23}))
		_, err = p.Run(ctx, map[string]tensor.Value{"x": x, "w": x})
		Expect(err).To(MatchError(carve.ErrInput))
	})

	DescribeTable("stay inputs with a default where that is asked for", func(ctx SpecContext, o *carve.Options) {
		m := open(ctx, "w")
		DeferCleanup(m.Close)
		o.Verify = true
		p := compile(ctx, m, o)
		var names []string
		for _, in := range p.Inputs() {
			Expect(in.Optional).To(Equal(in.Name == "w"))
			names = append(names, in.Name)
		}
		Expect(names).To(Equal([]string{"x", "w"}))
		for range 2 {
			Expect(run(ctx, p, map[string]tensor.Value{"x": x})).To(Equal([]float32{12, 23}))
			Expect(run(ctx, p, map[string]tensor.Value{"x": x, "w": tensor.From([]float32{5, 6})})).To(Equal([]float32{15, 26}))
		}
		y := tensor.From([]float32{0, 0})
		Expect(p.RunInto(ctx, []*tensor.Tensor{x, nil}, []*tensor.Tensor{y})).To(Succeed())
		Expect(f32s(y)).To(Equal([]float32{12, 23}))
		Expect(p.RunInto(ctx, []*tensor.Tensor{x, x}, []*tensor.Tensor{y})).To(Succeed())
		Expect(f32s(y)).To(Equal([]float32{11, 21}))
		_, err := p.Run(ctx, map[string]tensor.Value{"w": x})
		Expect(err).To(MatchError(carve.ErrInput), "x has no default")
		_, err = p.Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
	},
		Entry("cpu", &carve.Options{}),
		Entry("reference", &carve.Options{Backends: onReference}),
		Entry("weights copied", &carve.Options{CopyWeights: true}),
		Entry("strict", &carve.Options{Backends: []backend.Config{{Name: "cpu"}}, Strict: true}),
	)

	It("bring the shape of their data where nothing else says it", func(ctx SpecContext) {
		g := graph.New("open")
		g.Opsets[""] = 17
		x := g.AddInput("x", graph.TensorType(tensor.Float32, graph.Shape{graph.D(2)}))
		w := g.AddInput("w", graph.TensorType(tensor.Float32, graph.Shape{graph.Sym("K"), graph.D(2)}))
		y := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "Add"}, Name: "add", Inputs: []*graph.Value{x, w}, Outputs: []string{"y"}})
		g.SetOutputs(y.Outputs[0])
		m := carve.FromONNX(&onnx.Model{Graph: g, Defaults: map[string]*tensor.Tensor{"w": tensor.From([]float32{1, 2, 3, 4}, 2, 2)}})
		DeferCleanup(m.Close)
		p := compile(ctx, m, nil)
		report, err := p.Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(report.Dims).To(Equal(map[string]int64{"K": 2}))
		feeds := map[string]tensor.Value{"x": tensor.From([]float32{10, 20})}
		Expect(run(ctx, p, feeds)).To(Equal([]float32{11, 22, 13, 24}))
		differs, err := p.Check(ctx, feeds)
		Expect(err).NotTo(HaveOccurred())
		Expect(differs).To(BeNil())
		out, _, err := p.RunProfiled(ctx, feeds)
		Expect(err).NotTo(HaveOccurred())
		Expect(f32s(out["y"])).To(Equal([]float32{11, 22, 13, 24}))
		feeds["w"] = tensor.From([]float32{5, 5}, 1, 2)
		Expect(run(ctx, p, feeds)).To(Equal([]float32{15, 25}))
	})

	It("may all stay inputs, and each run gives those that it wants", func(ctx SpecContext) {
		m := open(ctx, "w", "b")
		DeferCleanup(m.Close)
		p := compile(ctx, m, nil)
		Expect(run(ctx, p, map[string]tensor.Value{"x": x, "b": x})).To(Equal([]float32{3, 4}))
		Expect(run(ctx, p, map[string]tensor.Value{"x": x})).To(Equal([]float32{12, 23}))
	})
})

var _ = Describe("CopyWeights", func() {
	It("needs the model's file no more after Compile, and counts and frees what it copied", func(ctx SpecContext) {
		path := scaled(ctx)
		m, err := onnx.Load(ctx, path, &onnx.Options{Override: []string{"w"}})
		Expect(err).NotTo(HaveOccurred())
		model := carve.FromONNX(m)
		p := compile(ctx, model, &carve.Options{CopyWeights: true, Backends: onReference})
		Expect(p.Memory().CopiedWeights).To(BeNumerically(">=", 16))
		Expect(p.Memory().CopiedWeights).To(BeNumerically("<", 4096))
		b, err := os.ReadFile(path)
		Expect(err).NotTo(HaveOccurred())
		Expect(os.WriteFile(path, make([]byte, len(b)), 0o600)).To(Succeed()) // the same file, which the model maps
		out, err := p.Run(ctx, map[string]tensor.Value{"x": tensor.From([]float32{1, 1})})
		Expect(err).NotTo(HaveOccurred())
		Expect(f32s(out["y"])).To(Equal([]float32{12, 23}))
		Expect(model.Close()).To(Succeed())
		Expect(p.Close()).To(Succeed())
		Expect(p.Memory().CopiedWeights).To(BeZero())
	})

	It("copies nothing where it is not set", func(ctx SpecContext) {
		m, err := carve.Open(ctx, scaled(ctx))
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(m.Close)
		p := compile(ctx, m, &carve.Options{CopyWeights: false, Backends: onReference})
		Expect(p.Memory().CopiedWeights).To(BeNumerically("<=", 256), "only constants at odd addresses")
	})
})
