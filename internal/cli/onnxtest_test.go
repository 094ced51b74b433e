package cli_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/zootest"
)

// A backend whose driver panics when it is told to.
func init() {
	backend.Register("panics", func(c backend.Config) (backend.Backend, error) {
		if c.Options["now"] != "" {
			panic("boom")
		}
		return nil, backend.ErrUnavailable
	})
}

// unary is a model with one node.
func unary(op string, in graph.Type) *graph.Graph {
	g := newGraph()
	g.SetOutputs(add(g, op, "n", "y", []*graph.Value{g.AddInput("x", in)}))
	return g
}

// endless is a model with a loop that never ends.
func endless() *graph.Graph {
	g := newGraph()
	x := g.AddInput("x", f32(1))
	body := newGraph()
	body.AddInput("i", typ(tensor.Int64))
	cond := body.AddInput("c", typ(tensor.Bool))
	carried := body.AddInput("s", f32(1))
	body.SetOutputs(add(body, "Identity", "same", "c1", []*graph.Value{cond}), add(body, "Neg", "neg", "s1", []*graph.Value{carried}))
	n := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "Loop"}, Name: "loop", Inputs: []*graph.Value{nil, g.AddConst("true", tensor.Scalar(true)), x},
		Outputs: []string{"y"}, Regions: []graph.Region{{Name: "body", Graph: body}}})
	g.SetOutputs(n.Outputs[0])
	return g
}

var _ = Describe("onnxtest", func() {
	var dir string
	BeforeEach(func() { dir = GinkgoT().TempDir() })

	// put writes a case of one input and one output.
	put := func(ctx SpecContext, name string, g *graph.Graph, in, out tensor.Value) {
		GinkgoHelper()
		at := filepath.Join(dir, filepath.FromSlash(name))
		saveAt(ctx, filepath.Join(at, "model.onnx"), g)
		writePB(filepath.Join(at, "test_data_set_0", "input_0.pb"), "x", in)
		writePB(filepath.Join(at, "test_data_set_0", "output_0.pb"), "y", out)
	}
	vector := func(v ...float32) *tensor.Tensor { return tensor.From(v) }

	It("does not call what an interruption ended a failure", func(ctx SpecContext) {
		put(ctx, "endless", endless(), vector(1), vector(1))
		soon, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
		Expect(fails(soon, "onnxtest", dir)).To(ContainSubstring("interrupted"))
	})

	It("reports every case by name and cause", func(ctx SpecContext) {
		put(ctx, "a/abs", unary("Abs", f32("N")), vector(-1, 2), vector(1, 2))
		put(ctx, "a/wrong", unary("Abs", f32("N")), vector(-1, 2), vector(1, 3))
		put(ctx, "a/shape", unary("Abs", f32("N")), vector(-1, 2), vector(1))
		put(ctx, "b/magic", unary("NoSuchOperator", f32(1)), vector(1), vector(1))
		put(ctx, "b/endless", endless(), vector(1), vector(1))
		g := graph.New("g")
		g.Opsets[""], g.Opsets["ai.onnx.preview.training"] = 21, 1
		x := g.AddInput("x", f32(1))
		n := g.AddNode(graph.NodeSpec{Op: graph.Op{Domain: "ai.onnx.preview.training", Name: "Gradient"}, Name: "n", Inputs: []*graph.Value{x}, Outputs: []string{"y"},
			Attrs: []graph.Attr{graph.StringsAttr("xs", "x"), graph.StringAttr("y", "x")}})
		g.SetOutputs(n.Outputs[0])
		put(ctx, "b/training", g, vector(1), vector(1))
		put(ctx, "c/drawn", unary("RandomUniformLike", f32("N")), vector(1, 2), vector(-5, -5))
		put(ctx, "c/drawn-wrongly", unary("RandomUniformLike", f32("N")), vector(1, 2), vector(-5))

		file := filepath.Join(GinkgoT().TempDir(), "r.json")
		r := carve(ctx, "onnxtest", dir, "--json", file, "--timeout", "3s", "--jobs", "3")
		Expect(r.code).To(Equal(1))
		Expect(r.stderr).To(BeEmpty())
		lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
		Expect(lines[len(lines)-1]).To(Equal("2 passed, 5 failed, 1 skipped"))
		Expect(lines[0]).To(HavePrefix(`FAIL a/shape: output "y": differs: f32[2], expected f32[1]`))
		Expect(lines[1]).To(Equal(`FAIL a/wrong: output "y": differs: 1 of 2 elements; element 1 is 2, expected 3`))
		Expect(lines[2]).To(Equal("FAIL b/endless: timeout"))
		Expect(lines[3]).To(HavePrefix("FAIL b/magic: unsupported: "))
		Expect(lines[4]).To(Equal("SKIP c/drawn: RandomUniformLike draws random numbers"))
		Expect(lines[5]).To(HavePrefix(`FAIL c/drawn-wrongly: output "y": differs: f32[2], expected f32[1]`))
		var report struct {
			Passed, Failed, Skipped int
			Cases                   []struct {
				Name, Status, Reason string
				Nodes                map[string]int
			}
		}
		b, err := os.ReadFile(file)
		Expect(err).NotTo(HaveOccurred())
		Expect(json.Unmarshal(b, &report)).To(Succeed())
		Expect([]int{report.Passed, report.Failed, report.Skipped}).To(Equal([]int{2, 5, 1}))
		Expect(report.Cases).To(HaveLen(8))
		Expect(report.Cases[0].Name).To(Equal("a/abs"))
		Expect(report.Cases[0].Nodes).To(Equal(map[string]int{"cpu": 1}))
		Expect(report.Cases[4].Name).To(Equal("b/magic"))
		Expect(report.Cases[4].Reason).To(Equal("unsupported"))
		Expect(report.Cases[5].Status).To(Equal("passed"))
	})

	It("feeds a case without inputs, reads data.json, and takes a folder that is a case itself", func(ctx SpecContext) {
		saveAt(ctx, filepath.Join(dir, "light_x.onnx"), unary("Neg", f32("N", 4)))
		writePB(filepath.Join(dir, "light_x_output_0.pb"), "y", tensor.From([]float32{0, -0.25, -0.5, -0.75}, 1, 4))
		put(ctx, "loose", unary("Neg", f32(2)), vector(1, 2), vector(-1.05, -2))
		writeFile(filepath.Join(dir, "loose", "data.json"), []byte(`{"rtol": 0.1, "atol": 0}`))
		Expect(succeeds(ctx, "onnxtest", dir).stdout).To(HaveSuffix("nodes: cpu 2\n2 passed, 0 failed, 0 skipped\n"))
		r := succeeds(ctx, "onnxtest", filepath.Join(dir, "loose"), "--json", "-")
		Expect(r.stdout).To(ContainSubstring(`"name": "loose"`))
		Expect(json.Valid([]byte(r.stdout))).To(BeTrue())
		Expect(r.stderr).To(HaveSuffix("1 passed, 0 failed, 0 skipped\n"))
	})

	It("takes NaN for NaN and infinities for themselves only", func(ctx SpecContext) {
		nan := vector(0)
		copy(nan.Data, []byte{0, 0, 0xc0, 0x7f})
		put(ctx, "nan", unary("Identity", f32(1)), nan, nan)
		put(ctx, "no-nan", unary("Identity", f32(1)), vector(1), nan)
		inf := vector(0)
		copy(inf.Data, []byte{0, 0, 0x80, 0x7f})
		put(ctx, "inf", unary("Identity", f32(1)), inf, inf)
		put(ctx, "no-inf", unary("Identity", f32(1)), vector(3e38), inf)
		r := carve(ctx, "onnxtest", dir)
		Expect(r.stdout).To(And(ContainSubstring("FAIL no-nan"), ContainSubstring("FAIL no-inf"), HaveSuffix("2 passed, 2 failed, 0 skipped\n")))
	})

	It("fails a case whose data set has no outputs, and goes on with the others", func(ctx SpecContext) {
		put(ctx, "a", unary("Neg", f32(1)), vector(1), vector(-1))
		Expect(os.Remove(filepath.Join(dir, "a", "test_data_set_0", "output_0.pb"))).To(Succeed())
		put(ctx, "b", unary("Neg", f32(1)), vector(1), vector(-1))
		r := carve(ctx, "onnxtest", dir)
		Expect(r.code).To(Equal(1))
		Expect(r.stdout).To(And(MatchRegexp(`^FAIL a: .*test_data_set_0: no outputs\n`), HaveSuffix("1 passed, 1 failed, 0 skipped\n")))
	})

	It("survives a panic", func(ctx SpecContext) {
		put(ctx, "case", unary("Neg", f32(1)), vector(1), vector(-1))
		r := carve(ctx, "onnxtest", dir, "--backend", "panics", "--backend-option", "panics.now=1")
		Expect(r.code).To(Equal(1))
		Expect(r.stdout).To(Equal("FAIL case: panic: boom\n0 passed, 1 failed, 0 skipped\n"))
	})

	It("refuses folders without cases", func(ctx SpecContext) {
		Expect(fails(ctx, "onnxtest", dir)).To(ContainSubstring("no ONNX backend test case"))
		Expect(fails(ctx, "onnxtest", filepath.Join(dir, "nowhere"))).To(ContainSubstring("no such file"))
	})

	DescribeTable("passes ONNX's own cases", func(ctx SpecContext, folder, backendName string, atLeast int) {
		cases, err := zootest.Shared("onnx-backend-tests/" + folder)
		if errors.Is(err, zootest.ErrAbsent) {
			Skip(err.Error())
		}
		Expect(err).NotTo(HaveOccurred())
		r := carve(ctx, "onnxtest", cases, "--backend", backendName, "--json", "-")
		var report struct{ Passed, Failed int }
		Expect(json.Unmarshal([]byte(r.stdout), &report)).To(Succeed(), r.stderr)
		Expect(report.Failed).To(BeZero(), r.stderr)
		Expect(report.Passed).To(BeNumerically(">=", atLeast), r.stderr)
	},
		Entry("node, on reference", "node", "reference", 1450),
		Entry("node, on cpu", "node", "cpu", 1450),
		Entry("simple, on cpu", "simple", "cpu", 18),
	)
})
