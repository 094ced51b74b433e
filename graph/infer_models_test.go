package graph_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/onnx"
	"github.com/carve-dev/carve/graph/tensor"
)

// modelTests returns a folder of ONNX's backend tests; it skips where they are not present.
func modelTests(elem ...string) string {
	GinkgoHelper()
	dir := filepath.Join(append([]string{"..", "..", "shared", "onnx-backend-tests"}, elem...)...)
	if _, err := os.Stat(dir); err != nil {
		Skip("ONNX's backend tests are not present")
	}
	return dir
}

// contradiction tells how an inferred type contradicts a declared one; "" where it does not.
func contradiction(declared, inferred graph.Type) string {
	if inferred.Kind == graph.KindUnknown || declared.Kind == graph.KindUnknown {
		return ""
	}
	if inferred.Kind != declared.Kind || inferred.DType != declared.DType && inferred.DType != tensor.Invalid {
		return fmt.Sprintf("%v declared as %v", inferred, declared)
	}
	if inferred.Elem != nil && declared.Elem != nil {
		return contradiction(*declared.Elem, *inferred.Elem)
	}
	if inferred.Shape == nil || declared.Shape == nil {
		return ""
	}
	wrong := len(inferred.Shape) != len(declared.Shape)
	for i := 0; !wrong && i < len(inferred.Shape); i++ {
		n, ok := inferred.Shape[i].Const()
		m, ok2 := declared.Shape[i].Const()
		wrong = ok && ok2 && n != m
	}
	if wrong {
		return fmt.Sprintf("%v declared as %v", inferred, declared)
	}
	return ""
}

// weaker reports whether an inferred type knows less than a declared one: type, rank, or a dim that is a number.
func weaker(declared, inferred graph.Type) bool {
	if declared.Kind != graph.KindTensor {
		return inferred.Kind == graph.KindUnknown
	}
	if inferred.DType == tensor.Invalid || declared.Shape != nil && inferred.Shape == nil {
		return true
	}
	for i, d := range declared.Shape {
		_, ok := d.Const()
		if _, have := inferred.Shape[i].Const(); ok && !have {
			return true
		}
	}
	return false
}

// inferBare forgets what the model declares of its results, infers, and returns declared and inferred types of the outputs.
func inferBare(m *onnx.Model) (declared, inferred []graph.Type, err error) {
	for _, v := range m.Graph.Outputs {
		declared = append(declared, v.Type)
	}
	for n := range m.Graph.Nodes() {
		for _, v := range n.Outputs {
			if v != nil {
				v.Type = graph.Type{}
			}
		}
	}
	if err := graph.InferGraph(m.Graph); err != nil {
		return nil, nil, err
	}
	for _, v := range m.Graph.Outputs {
		inferred = append(inferred, v.Type)
	}
	for n := range m.Graph.Nodes() {
		if err := graph.CheckNode(n); err != nil {
			return nil, nil, err
		}
	}
	return declared, inferred, nil
}

var _ = Describe("Inference of ONNX's backend tests", func() {
	for _, kind := range []struct {
		name    string
		unknown int // models whose outputs depend on data
	}{{"node", 300}, {"simple", 9}, {"pytorch-converted", 0}, {"pytorch-operator", 0}, {"light", 0}} {
		It("agrees with the declared outputs of "+kind.name, func(ctx SpecContext) {
			expectModels(ctx, kind.name, kind.unknown, func(string, *onnx.Model) ([]graph.Type, error) { return nil, nil })
		})
	}
	It("agrees with the data of node, given the inputs as constants", func(ctx SpecContext) {
		expectModels(ctx, "node", 60, bindData)
	})
	It("agrees with the data of simple, given the inputs as constants", func(ctx SpecContext) {
		expectModels(ctx, "simple", 8, bindData)
	})
})

// bindData replaces the inputs of a model by the constants of its first data set and returns the types of the outputs.
func bindData(path string, m *onnx.Model) ([]graph.Type, error) {
	dir := filepath.Join(filepath.Dir(path), "test_data_set_0")
	g := m.Graph
	for i, v := range g.Inputs {
		if !v.Type.IsTensor() {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("input_%d.pb", i)))
		if err != nil {
			return nil, err
		}
		_, t, err := tensor.ParseProto(b, nil)
		if err != nil {
			return nil, err
		}
		g.ReplaceUses(v, g.AddConst(v.Name+".data", t))
	}
	var want []graph.Type
	for i, v := range g.Outputs {
		t := graph.Type{}
		if v.Type.IsTensor() {
			b, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("output_%d.pb", i)))
			if err != nil {
				return nil, err
			}
			_, data, err := tensor.ParseProto(b, nil)
			if err != nil {
				return nil, err
			}
			t = graph.TypeOf(data)
		}
		want = append(want, t)
	}
	return want, nil
}

// expectModels infers every model of a kind and compares its outputs with what prepare returns, or else what the model
// declares. At most unknown of them may have outputs that are not inferred as far.
func expectModels(ctx context.Context, kind string, unknown int, prepare func(string, *onnx.Model) ([]graph.Type, error)) {
	GinkgoHelper()
	paths, err := filepath.Glob(filepath.Join(modelTests(kind), "*", "model.onnx"))
	Expect(err).NotTo(HaveOccurred())
	if len(paths) == 0 {
		paths, err = filepath.Glob(filepath.Join(modelTests(kind), "*.onnx"))
		Expect(err).NotTo(HaveOccurred())
	}
	Expect(paths).NotTo(BeEmpty())
	var wrong, less []string
	for _, path := range paths {
		name := strings.TrimPrefix(path, modelTests(kind))
		problem, known := checkModel(ctx, path, prepare)
		if problem != "" {
			wrong = append(wrong, name+": "+problem)
		}
		if !known {
			less = append(less, name)
		}
	}
	fmt.Fprintf(GinkgoWriter, "%d models, %d of them with outputs that need data:\n%s\n", len(paths), len(less), strings.Join(less, "\n"))
	Expect(strings.Join(wrong, "\n")).To(BeEmpty())
	Expect(len(less)).To(BeNumerically("<=", unknown))
}

func checkModel(ctx context.Context, path string, prepare func(string, *onnx.Model) ([]graph.Type, error)) (problem string, known bool) {
	m, err := onnx.Load(ctx, path, nil)
	if err != nil {
		return "load: " + err.Error(), true
	}
	defer m.Close()
	want, err := prepare(path, m)
	if err != nil {
		return "data: " + err.Error(), true
	}
	declared, inferred, err := inferBare(m)
	if err != nil {
		return err.Error(), true
	}
	if want != nil {
		declared = want
	}
	known = true
	for i := range declared {
		if s := contradiction(declared[i], inferred[i]); s != "" {
			return fmt.Sprintf("output %d: %s", i, s), true
		}
		known = known && !weaker(declared[i], inferred[i])
	}
	return "", known
}
