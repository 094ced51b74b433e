package cli_test

import (
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/mxnet"
	"github.com/carve-dev/carve/graph/onnx"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/mxnettest"
)

// perceptron writes a model of MXNet, and returns the path of its symbol.
func perceptron() string {
	GinkgoHelper()
	dir := GinkgoT().TempDir()
	path := filepath.Join(dir, "net-symbol.json")
	Expect(os.WriteFile(path, []byte(mxnettest.Perceptron), 0o600)).To(Succeed())
	Expect(os.WriteFile(filepath.Join(dir, "net-0003.params"), mxnettest.PerceptronParams(), 0o600)).To(Succeed())
	return path
}

var _ = Describe("a model of MXNet", func() {
	It("is taken by every command", func(ctx SpecContext) {
		model := perceptron()
		Expect(succeeds(ctx, "inspect", model).stdout).To(And(ContainSubstring("Apache MXNet 1.9.1"), ContainSubstring("f32[batch,2]")))
		Expect(succeeds(ctx, "partition", model).stdout).To(ContainSubstring("100.0%"))
		Expect(succeeds(ctx, "report", model).stdout).NotTo(BeEmpty())
		Expect(succeeds(ctx, "dump", model).stdout).To(ContainSubstring("fc2"))
		Expect(succeeds(ctx, "bench", model, "--time", "0", "--shape", "data=2,2", "--json").stdout).NotTo(BeEmpty())
		file := filepath.Join(GinkgoT().TempDir(), "m.carve")
		succeeds(ctx, "bundle", model, "-o", file)
		succeeds(ctx, "run", file)
	})
	It("runs on the shapes of what it is fed, to any layer", func(ctx SpecContext) {
		dir, data := GinkgoT().TempDir(), writeNPY(tensor.From([]float32{1, 2, 3, 4}, 2, 2))
		succeeds(ctx, "run", perceptron(), "--input", "data="+data, "--output-layer", "fc1_output", "--output", dir, "--check")
		t, err := tensor.ReadNPYFile(filepath.Join(dir, "fc1_output.npy"))
		Expect(err).NotTo(HaveOccurred())
		Expect(tensor.Of[float32](t)).To(Equal([]float32{1, 2, 3, -1, 3, 4, 7, -3}))
	})
	It("says which options are another format's", func(ctx SpecContext) {
		Expect(fails(ctx, "run", perceptron(), "--override", "fc1_weight")).To(ContainSubstring("no initializers among its inputs"))
		Expect(fails(ctx, "run", save(ctx, stem()), "--output-layer", "x")).To(ContainSubstring("for models of Apache MXNet"))
		Expect(fails(ctx, "run", perceptron(), "--output-layer", "x")).To(ContainSubstring("no such output"))
		Expect(fails(ctx, "run", perceptron(), "--params", "missing.params")).To(ContainSubstring("missing.params"))
	})
})

var _ = Describe("convert", func() {
	It("writes a model of MXNet as ONNX that computes the same", func(ctx SpecContext) {
		model, dir := perceptron(), GinkgoT().TempDir()
		data := writeNPY(tensor.From([]float32{1, 2, 3, 4}, 2, 2))
		result := func(path string) []float32 {
			GinkgoHelper()
			out := GinkgoT().TempDir()
			succeeds(ctx, "run", path, "--input", "data="+data, "--output", out)
			t, err := tensor.ReadNPYFile(filepath.Join(out, "softmax_output.npy"))
			Expect(err).NotTo(HaveOccurred())
			return tensor.Of[float32](t)
		}
		for _, args := range [][]string{nil, {"--opset", "17"}, {"--external-data"}} {
			out := filepath.Join(dir, "net.onnx")
			succeeds(ctx, append([]string{"convert", model, out}, args...)...)
			Expect(result(out)).To(Equal(result(model)))
			m, err := onnx.Load(ctx, out, nil)
			Expect(err).NotTo(HaveOccurred())
			Expect(m.Graph.Inputs[0].Type.String()).To(Equal("f32[batch,2]"))
			if len(args) == 2 {
				Expect(m.Opsets).To(Equal(map[string]int{"": 17}))
			}
			Expect(m.Close()).To(Succeed())
		}
	})
	It("takes ONNX models too, and refuses what it cannot say before anything is written", func(ctx SpecContext) {
		out := filepath.Join(GinkgoT().TempDir(), "out.onnx")
		succeeds(ctx, "convert", save(ctx, stem()), out)
		Expect(os.Remove(out)).To(Succeed())
		Expect(fails(ctx, "convert", perceptron(), out, "--opset", "9")).To(ContainSubstring("--opset 9: expected 13 to"))
		symbol := filepath.Join(GinkgoT().TempDir(), "gamma.json")
		Expect(os.WriteFile(symbol, []byte(`{"nodes":[{"op":"null","name":"x","inputs":[]},{"op":"gamma","name":"y","inputs":[[0,0]]}],"heads":[[1,0]]}`), 0o600)).To(Succeed())
		succeeds(ctx, "convert", symbol, out)
		m, err := onnx.Load(ctx, out, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(m.Opsets).To(Equal(map[string]int{"": mxnet.Opset}))
		Expect(m.Graph.Outputs[0].Name).To(Equal("y_output"))
		Expect(m.Close()).To(Succeed())
		Expect(os.Remove(out)).To(Succeed())
		Expect(os.WriteFile(symbol, []byte(`{"nodes":[{"op":"null","name":"x","inputs":[]},{"op":"_contrib_box_nms","name":"y","inputs":[[0,0]]}],"heads":[[1,0]]}`), 0o600)).To(Succeed())
		Expect(fails(ctx, "convert", symbol, out)).To(SatisfyAll(ContainSubstring("expand"), ContainSubstring("y"), ContainSubstring("give the shapes of the inputs")))
		Expect(out).NotTo(BeAnExistingFile())
		g, err := graph.Parse("graph { opset 17\n opset \"com.microsoft\" 1\n input %x: f32[2]\n %y: f32[2] = com.microsoft::Gelu(%x) \"g\"\n output %y }")
		Expect(err).NotTo(HaveOccurred())
		Expect(fails(ctx, "convert", save(ctx, g), out)).To(ContainSubstring(`no standard operators for com.microsoft.Gelu "g"`))
		Expect(out).NotTo(BeAnExistingFile())
	})
})
