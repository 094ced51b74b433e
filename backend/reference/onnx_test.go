package reference_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend/reference"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/onnx"
	"github.com/carve-dev/carve/graph/tensor"
)

// errControlFlow marks cases whose regions only the host scheduler runs.
var errControlFlow = errors.New("control flow")

// evaluate runs a graph node by node. Of control flow it knows If.
func evaluate(ctx context.Context, g *graph.Graph, inputs, captures []tensor.Value) ([]tensor.Value, error) {
	values := make([]tensor.Value, g.ValueIDs())
	for i, v := range g.Captures {
		values[v.ID] = captures[i]
	}
	for i, v := range g.Inputs {
		if i < len(inputs) {
			values[v.ID] = inputs[i]
		}
	}
	for v := range g.Constants() {
		if v.Const != nil {
			values[v.ID] = v.Const
			continue
		}
		dims := make([]int64, len(v.Dims))
		for i, d := range v.Dims {
			n, ok := d.Const()
			if !ok {
				return nil, fmt.Errorf("dims value %v", v)
			}
			dims[i] = n
		}
		t := tensor.From(dims)
		t.Shape = t.Shape[:len(v.Type.Shape)]
		values[v.ID] = t
	}
	order, err := g.Topo()
	if err != nil {
		return nil, err
	}
	for _, n := range order {
		in := make([]tensor.Value, n.NumOperands())
		for i, v := range n.Operands() {
			in[i] = values[v.ID]
		}
		if n.Is("If") {
			branch := n.Region("else_branch")
			if in[0].(*tensor.Tensor).Int64At(0) != 0 {
				branch = n.Region("then_branch")
			}
			out, err := evaluate(ctx, branch, nil, in[len(n.Inputs):])
			if err != nil {
				return nil, err
			}
			for i, v := range n.Outputs {
				if v != nil {
					values[v.ID] = out[i]
				}
			}
			continue
		}
		if n.Is("Loop", "Scan", "SequenceMap") {
			return nil, errControlFlow
		}
		if err := reference.Supports(n); err != nil {
			return nil, fmt.Errorf("%v: %w", n, err)
		}
		out, err := reference.Evaluate(ctx, n, in)
		if err != nil {
			return nil, err
		}
		for i, v := range n.Outputs {
			if v != nil {
				if out[i] == nil {
					return nil, fmt.Errorf("%v: no output %d", n, i)
				}
				values[v.ID] = out[i]
			}
		}
	}
	results := make([]tensor.Value, len(g.Outputs))
	for i, v := range g.Outputs {
		results[i] = values[v.ID]
	}
	return results, nil
}

func readValues(dir, prefix string, types []graph.Type) ([]tensor.Value, error) {
	var out []tensor.Value
	for i, t := range types {
		b, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("%s_%d.pb", prefix, i)))
		if errors.Is(err, os.ErrNotExist) {
			break
		}
		if err != nil {
			return nil, err
		}
		_, v, err := tensor.ParseValue(b, onnx.ValueKind(t), nil)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

// differ returns what differs between two values, "" where they agree within the tolerances.
func differ(got, want tensor.Value, rtol, atol float64) string {
	switch w := want.(type) {
	case *tensor.Tensor:
		g, ok := got.(*tensor.Tensor)
		if !ok {
			return fmt.Sprintf("%T, want %v", got, w)
		}
		return differTensor(g, w, rtol, atol)
	case *tensor.Sequence:
		g, ok := got.(*tensor.Sequence)
		if !ok || len(g.Items) != len(w.Items) {
			return fmt.Sprintf("%v, want %d items", got, len(w.Items))
		}
		for i := range w.Items {
			if d := differ(g.Items[i], w.Items[i], rtol, atol); d != "" {
				return fmt.Sprintf("item %d: %s", i, d)
			}
		}
		return ""
	case *tensor.Optional:
		g, ok := got.(*tensor.Optional)
		if !ok || (g.Item == nil) != (w.Item == nil) {
			return fmt.Sprintf("%v, want %v", got, w)
		}
		if w.Item == nil {
			return ""
		}
		return differ(g.Item, w.Item, rtol, atol)
	}
	return fmt.Sprintf("%T", want)
}

func differTensor(g, w *tensor.Tensor, rtol, atol float64) string {
	if g.String() != w.String() {
		return fmt.Sprintf("%v, want %v", g, w)
	}
	n := w.Len()
	switch {
	case w.DType == tensor.String:
		for i := range n {
			if g.Strings[i] != w.Strings[i] {
				return fmt.Sprintf("element %d is %q, want %q", i, g.Strings[i], w.Strings[i])
			}
		}
		return ""
	case w.DType.IsComplex():
		part := tensor.Float32
		if w.DType == tensor.Complex128 {
			part = tensor.Float64
		}
		g = &tensor.Tensor{DType: part, Shape: []int{2 * n}, Data: g.Bytes()}
		w = &tensor.Tensor{DType: part, Shape: []int{2 * n}, Data: w.Bytes()}
		return differTensor(g, w, rtol, atol)
	}
	a, b := make([]float64, n), make([]float64, n)
	if err := errors.Join(tensor.Decode(a, g), tensor.Decode(b, w)); err != nil {
		return err.Error()
	}
	for i := range a {
		if a[i] == b[i] || a[i] != a[i] && b[i] != b[i] {
			continue
		}
		if !(math.Abs(a[i]-b[i]) <= atol+rtol*math.Abs(b[i])) {
			return fmt.Sprintf("element %d of %v is %v, want %v", i, w, a[i], b[i])
		}
	}
	return ""
}

// runCase runs all data sets of a case and returns what is wrong with it.
func runCase(ctx context.Context, dir string) error {
	m, err := onnx.Load(ctx, filepath.Join(dir, "model.onnx"), nil)
	if err != nil {
		return err
	}
	defer m.Close()
	tolerance := struct{ Rtol, Atol float64 }{1e-3, 1e-7}
	if b, err := os.ReadFile(filepath.Join(dir, "data.json")); err == nil {
		if err := json.Unmarshal(b, &tolerance); err != nil {
			return err
		}
	}
	sets, _ := filepath.Glob(filepath.Join(dir, "test_data_set_*"))
	if len(sets) == 0 {
		return errors.New("no data")
	}
	random := false
	for n := range m.Graph.Nodes() {
		random = random || n.Schema != nil && n.Schema.Random || n.Is("Dropout") && n.Input(2) != nil && n.Attrs.Lookup("seed") == nil
	}
	var inTypes, outTypes []graph.Type
	for _, v := range m.Graph.Inputs {
		inTypes = append(inTypes, v.Type)
	}
	for _, v := range m.Graph.Outputs {
		outTypes = append(outTypes, v.Type)
	}
	for _, set := range sets {
		in, err := readValues(set, "input", inTypes)
		if err != nil {
			return err
		}
		want, err := readValues(set, "output", outTypes)
		if err != nil {
			return err
		}
		got, err := evaluate(ctx, m.Graph, in, nil)
		if err != nil {
			return err
		}
		if len(want) == 0 {
			return errors.New("no expected outputs")
		}
		for i, w := range want {
			if random && fmt.Sprint(got[i]) == fmt.Sprint(w) {
				continue // only shape and type are determined
			}
			if d := differ(got[i], w, tolerance.Rtol, tolerance.Atol); d != "" {
				return fmt.Errorf("output %d: %s", i, d)
			}
		}
	}
	return nil
}

var _ = Describe("ONNX's own node tests", func() {
	It("pass", func(ctx SpecContext) {
		root := filepath.Join("..", "..", "..", "shared", "onnx-backend-tests", "node")
		entries, err := os.ReadDir(root)
		if err != nil {
			Skip("the ONNX backend tests are not here: " + root)
		}
		passed, control := 0, 0
		var failures []string
		for _, e := range entries {
			switch err := runCase(ctx, filepath.Join(root, e.Name())); {
			case err == nil:
				passed++
			case errors.Is(err, errControlFlow):
				control++
			default:
				failures = append(failures, fmt.Sprintf("%s: %v", e.Name(), err))
			}
		}
		AddReportEntry("node cases", fmt.Sprintf("%d of %d pass, %d need control flow; the others:\n%s", passed, len(entries), control,
			strings.Join(failures, "\n")), ReportEntryVisibilityNever)
		Expect(failures).To(BeEmpty())
	})
})
