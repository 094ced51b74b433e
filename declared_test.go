package carve_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/onnx"
	"github.com/carve-dev/carve/graph/tensor"
)

// nodeCase is a test of a single operator of the standard, with its first data set.
type nodeCase struct {
	name    string
	model   *onnx.Model
	feeds   map[string]tensor.Value
	outputs []tensor.Value
	random  bool // only type and shape of the outputs are determined
}

func openNodeCase(ctx context.Context, dir string) (*nodeCase, error) {
	m, err := onnx.Load(ctx, filepath.Join(dir, "model.onnx"), nil)
	if err != nil {
		return nil, err
	}
	c := &nodeCase{name: filepath.Base(dir), model: m, feeds: map[string]tensor.Value{}}
	for n := range m.Graph.Nodes() {
		c.random = c.random || n.Schema != nil && n.Schema.Random || n.Is("Dropout") && n.Input(2) != nil
	}
	read := func(prefix string, vs []*graph.Value, take func(v *graph.Value, x tensor.Value)) error {
		for i, v := range vs {
			b, err := os.ReadFile(filepath.Join(dir, "test_data_set_0", fmt.Sprintf("%s_%d.pb", prefix, i)))
			if errors.Is(err, os.ErrNotExist) {
				return nil
			}
			if err != nil {
				return err
			}
			_, x, err := tensor.ParseValue(b, onnx.ValueKind(v.Type), nil)
			if err != nil {
				return err
			}
			take(v, x)
		}
		return nil
	}
	return c, errors.Join(
		read("input", m.Graph.Inputs, func(v *graph.Value, x tensor.Value) { c.feeds[v.Name] = x }),
		read("output", m.Graph.Outputs, func(_ *graph.Value, x tensor.Value) { c.outputs = append(c.outputs, x) }))
}

// lies are wrong declarations of a result, by what is wrong with them.
var lies = []struct {
	what string
	tell func(t graph.Type) graph.Type
}{
	{"other dims", func(t graph.Type) graph.Type {
		return redim(t, func(d graph.Dim) graph.Dim { return d.Add(graph.D(1)) })
	}},
	{"huge dims", func(t graph.Type) graph.Type { return redim(t, func(graph.Dim) graph.Dim { return graph.D(40) }) }},
	{"no elements", func(t graph.Type) graph.Type { return redim(t, func(graph.Dim) graph.Dim { return graph.D(0) }) }},
	{"another rank", func(t graph.Type) graph.Type {
		t.Shape = append(slices.Clone(t.Shape), graph.D(2))
		return t
	}},
	{"a scalar", func(t graph.Type) graph.Type {
		t.Shape = graph.Shape{}
		return t
	}},
	{"another element type", func(t graph.Type) graph.Type {
		switch t.DType {
		case tensor.Float64:
			t.DType = tensor.Uint8
		default:
			t.DType = tensor.Float64
		}
		return t
	}},
	{"a symbol of the exporter", func(t graph.Type) graph.Type { return redim(t, func(graph.Dim) graph.Dim { return graph.Sym("k") }) }},
}

func redim(t graph.Type, f func(d graph.Dim) graph.Dim) graph.Type {
	t.Shape = slices.Clone(t.Shape)
	for i, d := range t.Shape {
		t.Shape[i] = f(d)
	}
	return t
}

// declare changes what a graph, and the graphs in it, say of the results of nodes. What is not said is taken as a vector.
func declare(g *graph.Graph, tell func(t graph.Type) graph.Type) {
	for n := range g.Nodes() {
		for _, v := range n.Outputs {
			if v == nil || v.Type.Kind > graph.KindTensor {
				continue
			}
			t := v.Type
			if t.Kind == graph.KindUnknown {
				t = graph.TensorType(tensor.Float32, graph.ShapeOf(2))
			}
			v.Type = tell(t)
		}
		for _, r := range n.Regions {
			declare(r.Graph, tell)
		}
	}
}

// hide puts a Reshape behind each tensor input, to a shape that only a run knows, and feeds that.
func hide(g *graph.Graph, feeds map[string]tensor.Value) map[string]tensor.Value {
	out := map[string]tensor.Value{}
	for name, x := range feeds {
		out[name] = x
	}
	for _, v := range slices.Clone(g.Inputs) {
		x, ok := feeds[v.Name].(*tensor.Tensor)
		if !ok || v.Type.Kind != graph.KindTensor || v.NumUses() == 0 {
			continue
		}
		dims := make([]int64, len(x.Shape))
		for i, d := range x.Shape {
			dims[i] = int64(d)
		}
		name := "shape of " + v.Name
		shape := g.AddInput(name, graph.TensorType(tensor.Int64, graph.ShapeOf(len(dims))))
		out[name] = tensor.From(dims, len(dims))
		n := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "Reshape", Since: 25}, Name: "hide " + v.Name,
			Attrs: []graph.Attr{graph.IntAttr("allowzero", 1)}, Inputs: []*graph.Value{v, shape}, Outputs: []string{v.Name + " hidden"}})
		n.Outputs[0].Type = v.Type
		g.ReplaceUses(v, n.Outputs[0])
		n.SetOperand(0, v)
	}
	return out
}

// agrees runs a program and says what is wrong with the results, "" where nothing is.
func (c *nodeCase) agrees(ctx context.Context, g *graph.Graph, feeds map[string]tensor.Value, o *carve.Options) error {
	m := carve.FromGraph(g)
	defer m.Close()
	p, err := carve.Compile(ctx, m, o)
	if err != nil {
		return err
	}
	defer p.Close()
	got, err := p.Run(ctx, feeds)
	if err != nil {
		return err
	}
	for i, want := range c.outputs {
		x, same := got[g.Outputs[i].Name], false
		switch w := want.(type) {
		case *tensor.Tensor:
			t, ok := x.(*tensor.Tensor)
			same = ok && t.String() == w.String() && (c.random || closeTo(t, w))
		default:
			same = fmt.Sprintf("%T", x) == fmt.Sprintf("%T", w)
		}
		if !same {
			return fmt.Errorf("output %d is %v, want %v", i, x, want)
		}
	}
	return nil
}

func closeTo(a, b *tensor.Tensor) bool {
	if a.DType == tensor.String || a.DType.IsComplex() {
		return true // what is written beside such values is not numbers
	}
	x, y := make([]float64, a.Len()), make([]float64, b.Len())
	if errors.Join(tensor.Decode(x, a), tensor.Decode(y, b)) != nil {
		return false
	}
	for i := range x {
		d := x[i] - y[i]
		if x[i] != y[i] && !(x[i] != x[i] && y[i] != y[i]) && !(d <= 1e-4+2e-2*abs(y[i]) && -d <= 1e-4+2e-2*abs(y[i])) {
			return false
		}
	}
	return true
}

func abs(x float64) float64 { return max(x, -x) }

// eachNodeCase calls fn with every case of a single operator of the standard that passes as it stands.
func eachNodeCase(ctx context.Context, fn func(i int, c *nodeCase) error) {
	GinkgoHelper()
	root := filepath.Join("..", "shared", "onnx-backend-tests", "node")
	entries, err := os.ReadDir(root)
	if err != nil {
		Skip("the ONNX backend tests are not here: " + root)
	}
	var wrong []string
	tried := 0
	for i, e := range entries {
		c, err := openNodeCase(ctx, filepath.Join(root, e.Name()))
		Expect(err).NotTo(HaveOccurred(), e.Name())
		if err := fn(i, c); err != nil {
			wrong = append(wrong, e.Name()+": "+err.Error())
		}
		tried++
		Expect(c.model.Close()).To(Succeed())
	}
	Expect(wrong).To(BeEmpty(), "%d of %d:\n%s", len(wrong), tried, strings.Join(wrong, "\n"))
}

var _ = Describe("what a model declares of results", func() {
	// Each operator has one lie by default, and all of them under the label.
	all := func(ctx context.Context, hidden bool, every bool, o *carve.Options) {
		GinkgoHelper()
		tried := 0
		eachNodeCase(ctx, func(i int, c *nodeCase) error {
			g, err := c.model.Graph.Clone()
			if err != nil {
				return err
			}
			if c.agrees(ctx, g, c.feeds, o) != nil {
				return nil // another spec's
			}
			tried++
			for k, lie := range lies {
				if !every && k != i%len(lies) {
					continue
				}
				if g, err = c.model.Graph.Clone(); err != nil {
					return err
				}
				feeds := c.feeds
				if hidden {
					feeds = hide(g, feeds)
				}
				declare(g, lie.tell)
				if err := c.agrees(ctx, g, feeds, o); err != nil {
					return fmt.Errorf("%s: %w", lie.what, err)
				}
			}
			return nil
		})
		Expect(tried).To(BeNumerically(">", 1400))
	}

	It("is not believed, whatever the operator", func(ctx SpecContext) { all(ctx, false, false, nil) })

	It("is not believed: every lie of every operator", Label("slow"), func(ctx SpecContext) {
		for _, hidden := range []bool{false, true} {
			all(ctx, hidden, true, &carve.Options{Verify: true, Poison: true})
			all(ctx, hidden, true, &carve.Options{Backends: onReference})
		}
	})

	It("is not believed where shapes depend on data, whatever the operator", func(ctx SpecContext) { all(ctx, true, false, nil) })
})

var _ = Describe("a wrong declaration", func() {
	texts := func(declared string) string {
		return "graph {\n  opset 17\n  input %x: f32[2,3]\n  input %s: i64[2]\n  %r = Reshape(%x, %s)\n  %e: " + declared + " = Exp(%r)\n  %y: " + declared + " = Add(%e, %e)\n  output %y\n}"
	}

	It("is overruled, logged once and reported", func(ctx SpecContext) {
		for _, declared := range []string{"f32[1,3]", "f32[64,64]", "f32[6]", "f64[2,3]"} {
			var seen journal
			p := compile(ctx, textModel(texts(declared)), &carve.Options{Logger: slog.New(&seen)})
			for range 2 {
				out, err := p.Run(ctx, map[string]tensor.Value{"x": wave(2, 3), "s": tensor.From([]int64{2, 3}, 2)})
				Expect(err).NotTo(HaveOccurred())
				Expect(out["y"].(*tensor.Tensor).String()).To(Equal("f32[2,3]"))
				into(ctx, p, map[string]tensor.Value{"x": wave(2, 3), "s": tensor.From([]int64{2, 3}, 2)}, out)
			}
			r, err := p.Report(ctx, nil)
			Expect(err).NotTo(HaveOccurred())
			Expect(r.Overruled).To(ContainElement(HaveField("Value", "y")))
			Expect(seen.lines).To(ContainElement(ContainSubstring("declared type is wrong")))
		}
	})

	It("of a dim that the compiler knows is overruled before a run", func(ctx SpecContext) {
		p := compile(ctx, textModel("graph {\n  opset 17\n  input %x: f32[2,N]\n  %y: f32[3,N] = Exp(%x)\n  output %y\n}"), nil)
		r, err := p.Report(ctx, map[string][]int{"x": {2, 4}})
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Overruled).To(Equal([]carve.OverruledReport{{Value: "y", Declared: "f32[3,N]", Computed: "f32[2,N]"}}))
		Expect(p.Outputs()[0].Type.String()).To(Equal("f32[2,N]"))
	})

	It("of an input is an error of the run", func(ctx SpecContext) {
		p := compile(ctx, textModel("graph {\n  opset 17\n  input %x: f32[2,3]\n  %y = Exp(%x)\n  output %y\n}"), nil)
		_, err := p.Run(ctx, map[string]tensor.Value{"x": wave(3, 2)})
		Expect(err).To(MatchError(carve.ErrInput))
	})
})
