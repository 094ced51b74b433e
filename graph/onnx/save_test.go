package onnx_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/onnx"
	"github.com/carve-dev/carve/graph/tensor"
)

// written writes a model and reads it back.
func written(m *onnx.Model) *onnx.Model {
	GinkgoHelper()
	var b bytes.Buffer
	Expect(onnx.Write(context.Background(), &b, nil, m, nil)).To(Succeed())
	return parse(b.Bytes())
}

var _ = DescribeTable("a model written and read is the same", func(b []byte) {
	m := parse(b)
	again := written(m)
	Expect(again.Graph.String()).To(Equal(m.Graph.String()))
	Expect(again.Outputs).To(Equal(m.Outputs))
	Expect(again.Producer).To(Equal(m.Producer))
	Expect(again.IRVersion).To(Equal(m.IRVersion))
},
	Entry("one node", relu()),
	Entry("metadata", append(relu(), msg{}.str(2, "p").sub(14, msg{}.str(1, "k").str(2, "v"))...)),
	Entry("outputs that repeat, are inputs, are initializers", model(join(initializer(vector("w", 1)), input("x", f32(1)),
		gnode(node("Relu", "", names("x"), names("y"))), output("y", "x", "w", "y", "x", "w")))),
	Entry("types", model(join(input("s", msg{}.sub(4, msg{}.sub(1, f32("N", "2*N")))), input("o", msg{}.sub(9, msg{}.sub(1, f32()))),
		input("m", msg{}.sub(5, msg{}.int(1, 7).sub(2, f32(3)))), input("n", f32("N", "N+1")), output("s")))),
	Entry("unknown dims of results", model(join(input("x", f32("N")), gnode(node("Relu", "", names("x"), names("a"))), gnode(node("Relu", "", names("a"), names("y"))),
		output("y"), msg{}.sub(13, info("a", f32("p", "q", "p")))))),
	Entry("attributes", model(join(gnode(call("d", node("Op", "n", names("", "x", ""), names("", "y"), msg{}.str(1, "strs").str(9, "a", "").int(20, 8),
		msg{}.str(1, "e").int(20, 7), msg{}.str(1, "t").sub(14, f32(2)).int(20, 13), floatAttr("f", 0), intAttr("i", 0), msg{}.str(1, "s").int(20, 3),
		msg{}.str(1, "ts").sub(10, vector("", 1)).int(20, 9),
		msg{}.str(1, "gs").sub(11, output("x"), output("x")).int(20, 10), graphAttr("z", output("x"))))), input("x", f32(1)), output("y")), opset("d", 1))),
	Entry("names that are not unique, and nodes whose name is another's result", model(join(gnode(node("Relu", "same", names("x"), names("a"))),
		gnode(node("Relu", "same", names("a"), names("b"))), gnode(node("Relu", "y", names("b"), names("c"))),
		gnode(node("Relu", "", names("c"), names("y"))), input("x", f32(1)), output("y")))),
	Entry("constants of outer graphs", model(join(
		gnode(node("Constant", "k", nil, names("k"), floatAttr("value_float", 2))),
		gnode(node("If", "i", names("c"), names("y"),
			graphAttr("then_branch", join(initializer(vector("own", 1)), gnode(node("Sum", "r", names("k", "w", "own"), names("t"))), output("t"))),
			graphAttr("else_branch", join(gnode(node("If", "deep", names("c"), names("d"), graphAttr("then_branch", output("w")), graphAttr("else_branch", output("k")))), output("d"))))),
		initializer(vector("w", 1)), input("c", boolean()), output("y")))),
	Entry("functions", bomb(3)),
)

var _ = Describe("Write", func() {
	It("gives outputs their names after passes have moved them", func() {
		m := parse(relu())
		g := m.Graph
		g.SetOutput(0, g.Inputs[0])
		again := written(m)
		Expect(again.Outputs).To(Equal([]string{"y"}))
		Expect(again.Graph.Outputs[0].Producer.Is("Identity")).To(BeTrue())
		g.SetOutputs(g.Inputs[0], g.Inputs[0])
		m.Outputs = []string{"p", "p"}
		Expect(written(m).Outputs).To(Equal([]string{"p", "p"}))
		m.Outputs = []string{"p", "q"}
		Expect(written(m).Outputs).To(Equal([]string{"p", "q"}))
	})

	It("renames values of branches that hide a value that the branch uses", func() {
		m := parse(model(join(
			gnode(node("Exp", "exp", names("x"), names("v"))),
			gnode(node("If", "i", names("c"), names("y"),
				graphAttr("then_branch", join(gnode(node("Relu", "r", names("x"), names("v"))), output("v"))),
				graphAttr("else_branch", output("v")))),
			input("c", boolean()), input("x", f32(1)), output("y"))))
		again := written(m)
		for n := range again.Graph.Nodes() {
			if n.Is("If") {
				Expect(n.Region("then_branch").Outputs[0].Producer.Op.Name).To(Equal("Relu"))
				Expect(n.Region("else_branch").Outputs[0].IsCapture()).To(BeTrue())
			}
		}
		Expect(written(again).Graph.String()).To(Equal(again.Graph.String()))
	})

	It("names what has no name, and keeps outer names out of branches", func() {
		g := graph.New("g")
		g.Opsets[""] = 21
		x := g.AddInput("x", graph.TensorType(tensor.Float32, graph.ShapeOf(2)))
		a := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "Relu"}, Inputs: []*graph.Value{x}, Outputs: []string{""}})
		b := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "Exp"}, Inputs: []*graph.Value{a.Outputs[0]}, Outputs: []string{"x"}})
		g.SetOutputs(b.Outputs[0])
		again := written(&onnx.Model{Graph: g})
		Expect(again.Graph.NumNodes()).To(Equal(2))
		Expect(again.Graph.Outputs[0].Producer.Inputs[0].Producer.Inputs[0]).To(BeIdenticalTo(again.Graph.Inputs[0]))
	})

	It("writes dims values whose elements are numbers, and refuses others", func() {
		m := parse(relu())
		d := m.Graph.AddDims("d", []graph.Dim{graph.D(3), graph.D(-1)}, false)
		m.Graph.SetOutputs(d)
		m.Outputs = []string{"d"}
		Expect(tensor.Elements[int64](written(m).Graph.Outputs[0].Const)).To(Equal([]int64{3, -1}))
		m.Graph.SetOutputs(m.Graph.AddDims("s", []graph.Dim{graph.Sym("N")}, true))
		err := onnx.Write(context.Background(), &bytes.Buffer{}, nil, m, nil)
		Expect(err).To(MatchError(onnx.ErrUnsupported))
		Expect(err).To(MatchError(ContainSubstring("value s")))
	})

	It("refuses an operator in a form that the operator set does not have", func() {
		m := parse(relu())
		m.Graph.Opsets[""] = 6
		err := onnx.Write(context.Background(), &bytes.Buffer{}, nil, m, nil)
		Expect(err).To(MatchError(onnx.ErrUnsupportedOpset))
		Expect(err).To(MatchError(ContainSubstring("node r")))
	})
})

// stopper counts what is written, and stops the writer at its first MiB.
type stopper struct {
	stop    func()
	written int
}

func (s *stopper) Write(b []byte) (int, error) {
	if s.written += len(b); s.written >= 1<<20 {
		s.stop()
	}
	return len(b), nil
}

var _ = Describe("Save", func() {
	It("writes weights beside the model, and over the files that the model is mapped from", func(ctx context.Context) {
		dir := GinkgoT().TempDir()
		path := filepath.Join(dir, "m.onnx")
		big := make([]float32, 1000)
		for i := range big {
			big[i] = float32(i)
		}
		m := parse(relu(initializer(vector("small", 1)), initializer(vector("big", big...)), initializer(vector("big2", big...))))
		for range 3 {
			Expect(onnx.Save(ctx, path, m, &onnx.SaveOptions{External: "m.data"})).To(Succeed())
			again, err := onnx.Load(ctx, path, nil)
			Expect(err).NotTo(HaveOccurred())
			Expect(again.Graph.String()).To(Equal(m.Graph.String()))
			for v := range again.Graph.Constants() {
				Expect(v.Const.Len() == 1 || v.Const.IsAligned(64)).To(BeTrue())
			}
			m = again
		}
		files, err := os.ReadDir(dir)
		Expect(err).NotTo(HaveOccurred())
		Expect(files).To(HaveLen(2), "no temporary files stay")
		Expect(m.Close()).To(Succeed())
	})

	It("leaves what was there where one of the two files cannot be", func(ctx context.Context) {
		dir := GinkgoT().TempDir()
		path, data := filepath.Join(dir, "m.onnx"), filepath.Join(dir, "m.data")
		Expect(os.Mkdir(path, 0o700)).To(Succeed())
		Expect(os.WriteFile(data, []byte("of another model"), 0o600)).To(Succeed())
		o := &onnx.SaveOptions{External: "m.data", MinExternal: 1}
		m := parse(model(join(initializer(vector("w", 1)), gnode(node("Relu", "", names("w"), names("y"))), output("y"))))
		Expect(onnx.Save(ctx, path, m, o)).To(MatchError(onnx.ErrNotRegular))
		Expect(os.ReadFile(data)).To(BeEquivalentTo("of another model"))
		Expect(os.Remove(path)).To(Succeed())
		Expect(os.Remove(data)).To(Succeed())
		Expect(os.Mkdir(data, 0o700)).To(Succeed())
		Expect(onnx.Save(ctx, path, m, o)).To(MatchError(onnx.ErrNotRegular))
		Expect(path).NotTo(BeAnExistingFile())
		Expect(onnx.Save(ctx, path, m, &onnx.SaveOptions{External: "m.onnx", MinExternal: 1})).To(MatchError(onnx.ErrUnsupported))
		Expect(os.ReadDir(dir)).To(HaveLen(1))
	})

	It("leaves a model with its own data in a process that ends while it replaces both files", func(ctx context.Context) {
		weights := func(x ...float32) *onnx.Model {
			return parse(model(join(initializer(vector("w", x...)), gnode(node("Relu", "", names("w"), names("y"))), output("y"))))
		}
		o := &onnx.SaveOptions{External: "m.data", MinExternal: 1}
		older, newer := weights(1, 2), weights(3, 4)
		for n, done := 0, false; !done; n++ {
			path := filepath.Join(GinkgoT().TempDir(), "m.onnx")
			Expect(onnx.Save(ctx, path, older, o)).To(Succeed())
			var err error
			done, err = onnx.SaveSome(ctx, path, newer, o, n)
			Expect(err).NotTo(HaveOccurred())
			found, err := onnx.Load(ctx, path, nil)
			Expect(err).NotTo(HaveOccurred())
			want := newer
			if n == 0 {
				want = older
			}
			Expect(found.Graph.String()).To(Equal(want.Graph.String()), "%d steps", n)
			Expect(found.Close()).To(Succeed())
			Expect(onnx.Save(ctx, path, older, o)).To(Succeed())
			found, err = onnx.Load(ctx, path, nil)
			Expect(err).NotTo(HaveOccurred())
			Expect(found.Graph.String()).To(Equal(older.Graph.String()), "behind %d steps", n)
			Expect(found.Close()).To(Succeed())
		}
	})

	It("replaces no device", func(ctx context.Context) {
		path := filepath.Join(GinkgoT().TempDir(), "m.onnx")
		if err := os.Symlink(os.DevNull, path); err != nil {
			Skip("links cannot be made here: " + err.Error())
		}
		Expect(onnx.Save(ctx, path, parse(relu()), nil)).To(MatchError(onnx.ErrNotRegular))
		Expect(os.Readlink(path)).To(Equal(os.DevNull))
	})

	It("writes files of the longest names", func(ctx context.Context) {
		path := filepath.Join(GinkgoT().TempDir(), strings.Repeat("m", 255))
		Expect(onnx.Save(ctx, path, parse(relu()), nil)).To(Succeed())
		Expect(path).To(BeARegularFile())
	})

	DescribeTable("ends with its context while it writes weights, and leaves nothing", func(ctx context.Context, external string) {
		dir := GinkgoT().TempDir()
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		m := parse(relu(initializer(vector("w", make([]float32, 1<<22)...))))
		var head, data stopper
		head.stop, data.stop = stop, stop
		o := &onnx.SaveOptions{External: external}
		if external == "" {
			Expect(onnx.Write(ctx, &head, nil, m, o)).To(MatchError(context.Canceled))
		} else {
			Expect(onnx.Write(ctx, &head, &data, m, o)).To(MatchError(context.Canceled))
		}
		Expect(head.written + data.written).To(BeNumerically("<", 1<<24))
		Expect(onnx.Save(ctx, filepath.Join(dir, "m.onnx"), m, o)).To(MatchError(context.Canceled))
		Expect(os.ReadDir(dir)).To(BeEmpty())
	},
		Entry("in one file", ""),
		Entry("beside the model", "m.data"),
	)
	It("leaves what was there where writing fails", func(ctx context.Context) {
		path := filepath.Join(GinkgoT().TempDir(), "m.onnx")
		Expect(os.WriteFile(path, []byte("old"), 0o600)).To(Succeed())
		m := parse(relu())
		m.Graph.Opsets[""] = 6
		Expect(onnx.Save(ctx, path, m, nil)).To(MatchError(onnx.ErrUnsupportedOpset))
		Expect(os.ReadFile(path)).To(Equal([]byte("old")))
		Expect(onnx.Save(ctx, path, parse(relu()), &onnx.SaveOptions{External: "../m.data"})).To(MatchError(onnx.ErrUnsupported))
	})
})

var _ = It("a node that stands for others keeps its maker's operator", func() {
	m := parse(relu())
	for n := range m.Graph.Nodes() {
		fused, err := m.Graph.Extract([]*graph.Node{n}, graph.NodeSpec{Op: graph.Op{Domain: graph.CarveDomain, Name: graph.OpFused}, Name: "f"})
		Expect(err).NotTo(HaveOccurred())
		Expect(fused.SetOperator(graph.Op{Domain: "com.acme", Name: "Snake"})).To(Succeed())
		break
	}
	again := written(m)
	Expect(graph.Verify(again.Graph)).To(Succeed())
	for n := range again.Graph.Nodes() {
		Expect(n.Op.String()).To(Equal("com.acme.Snake"))
		Expect(n.IsCarve(graph.OpFused)).To(BeTrue())
	}
})
