package cli_test

import (
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/onnx"
	"github.com/carve-dev/carve/graph/tensor"
)

func typ(dt tensor.DType, dims ...any) graph.Type {
	s := graph.Shape{}
	for _, d := range dims {
		switch d := d.(type) {
		case int:
			s = append(s, graph.D(d))
		case string:
			s = append(s, graph.Sym(d))
		}
	}
	return graph.TensorType(dt, s)
}

func f32(dims ...any) graph.Type { return typ(tensor.Float32, dims...) }

// newGraph returns an empty graph of a current operator set.
func newGraph() *graph.Graph {
	g := graph.New("g")
	g.Opsets[""] = 21
	return g
}

// add appends a node with one result.
func add(g *graph.Graph, op, name, out string, ins []*graph.Value, attrs ...graph.Attr) *graph.Value {
	return g.AddNode(graph.NodeSpec{Op: graph.Op{Name: op}, Name: name, Inputs: ins, Attrs: attrs, Outputs: []string{out}}).Outputs[0]
}

// save writes a model into a folder of the spec's own and returns its path.
func save(ctx SpecContext, g *graph.Graph) string {
	GinkgoHelper()
	path := filepath.Join(GinkgoT().TempDir(), "model.onnx")
	saveAt(ctx, path, g)
	return path
}

func saveAt(ctx SpecContext, path string, g *graph.Graph) {
	GinkgoHelper()
	Expect(os.MkdirAll(filepath.Dir(path), 0o755)).To(Succeed())
	Expect(onnx.Save(ctx, path, &onnx.Model{Graph: g, IRVersion: 10, Opsets: g.Opsets, Producer: "specs"}, nil)).To(Succeed())
}

// affine is y = Relu(x·w + b) for x of [N, 3] and w of [3, 2], and y reshaped to [-1].
func affine() *graph.Graph {
	g := newGraph()
	x := g.AddInput("x", f32("N", 3))
	w := g.AddConst("w", tensor.From([]float32{1, 0, 0, 1, -1, 1}, 3, 2))
	b := g.AddConst("b", tensor.From([]float32{0.5, -10}, 2))
	m := add(g, "MatMul", "mul", "m", []*graph.Value{x, w})
	a := add(g, "Add", "add", "a", []*graph.Value{m, b})
	y := add(g, "Relu", "relu", "y", []*graph.Value{a})
	flat := add(g, "Reshape", "flatten", "flat/y", []*graph.Value{y, g.AddConst("minus", tensor.From([]int64{-1}))})
	g.SetOutputs(y, flat)
	return g
}

func writeFile(path string, b []byte) {
	GinkgoHelper()
	Expect(os.MkdirAll(filepath.Dir(path), 0o755)).To(Succeed())
	Expect(os.WriteFile(path, b, 0o644)).To(Succeed())
}

// writeNPY writes a tensor into a folder of the spec's own.
func writeNPY(t *tensor.Tensor) string {
	GinkgoHelper()
	path := filepath.Join(GinkgoT().TempDir(), "x.npy")
	f, err := os.Create(path)
	Expect(err).NotTo(HaveOccurred())
	Expect(tensor.WriteNPY(f, t)).To(Succeed())
	Expect(f.Close()).To(Succeed())
	return path
}

// writePB writes a value as protobuf.
func writePB(path, name string, v tensor.Value) {
	GinkgoHelper()
	b, err := tensor.AppendValue(nil, name, v)
	Expect(err).NotTo(HaveOccurred())
	writeFile(path, b)
}
