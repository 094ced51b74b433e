package graph_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend/reference"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// kernels evaluates with the reference backend.
type kernels struct{}

func (kernels) Eval(ctx context.Context, n *graph.Node, inputs []tensor.Value) ([]tensor.Value, error) {
	return reference.Evaluate(ctx, n, inputs)
}

// names returns the provenance of all nodes, nested ones included, sorted.
func names(g *graph.Graph) []string {
	var out []string
	for n := range g.Nodes() {
		out = append(out, n.Provenance()...)
		for _, r := range n.Regions {
			out = append(out, names(r.Graph)...)
		}
	}
	slices.Sort(out)
	return out
}

// simplify infers and simplifies a graph, verifies it after every pass, and checks that no name is lost or doubled.
func simplify(g *graph.Graph, o graph.SimplifyOptions) *graph.SimplifyReport {
	GinkgoHelper()
	Expect(graph.InferGraph(g)).To(Succeed())
	Expect(graph.Verify(g)).To(Succeed())
	inOtherTypes(g, o)
	before := names(g)
	if o.Evaluator == nil {
		o.Evaluator = kernels{}
	}
	o.After = func(pass string, sub *graph.Graph) error { return graph.Verify(g) }
	report, err := graph.Simplify(context.Background(), g, &o)
	Expect(err).NotTo(HaveOccurred())
	after := names(g)
	for _, f := range report.Folded {
		after = append(after, f.Name)
	}
	slices.Sort(after)
	Expect(after).To(Equal(before))
	return report
}

// inOtherTypes simplifies copies of a graph with other element types, as far as they are proper graphs: whatever a rewrite
// makes of them is there for these types.
func inOtherTypes(g *graph.Graph, o graph.SimplifyOptions) {
	GinkgoHelper()
	text := g.String()
	if len(text) > 1<<16 {
		return
	}
	for _, swap := range [][]string{
		{"u8[", "u16["}, {"u8[", "i16["}, {"u8[", "i8["}, {"u8[", "u4["}, {"u8[", "i4["}, {"i8[", "i16["}, {"i8[", "i4["}, {"i8[", "u16["},
		{"f32[", "f64["}, {"f32[", "f16["}, {"f32[", "bf16["}, {"f32[", "i8["}, {"f32[", "u16["}, {"f32[", "i32["}, {"f32[", "u64["}, {"f32[", "bool["},
		{"f32[", "c64["}, {"f32[", "str["},
	} {
		other := regexp.MustCompile(`\b`+regexp.QuoteMeta(swap[0])).ReplaceAllLiteralString(text, swap[1])
		if other == text {
			continue
		}
		h, err := graph.Parse(other)
		if err != nil || graph.InferGraph(h) != nil || graph.Verify(h) != nil {
			continue
		}
		o := graph.SimplifyOptions{Evaluator: kernels{}, Rank: o.Rank, NewOps: o.NewOps, After: func(string, *graph.Graph) error { return graph.Verify(h) }}
		_, err = graph.Simplify(context.Background(), h, &o)
		Expect(err).NotTo(HaveOccurred(), "%s as %s: %s\nis now %s", swap[0], swap[1], other, h)
	}
}

// folded returns the report's list as text.
func folded(r *graph.SimplifyReport) string {
	var parts []string
	for _, f := range r.Folded {
		parts = append(parts, f.Name+":"+f.Kind.String())
	}
	return strings.Join(parts, " ")
}

// execute runs a graph without regions with the reference kernels.
func execute(g *graph.Graph, feed map[string]*tensor.Tensor) []*tensor.Tensor {
	GinkgoHelper()
	values := map[*graph.Value]tensor.Value{}
	bindings := graph.Bindings{}
	for _, v := range g.Inputs {
		t := feed[v.Name]
		Expect(t).NotTo(BeNil(), v.Name)
		values[v] = t
		for i, d := range v.Type.Shape {
			if s, ok := d.Symbol(); ok {
				bindings[s] = int64(t.Shape[i])
			}
		}
	}
	for v := range g.Constants() {
		if v.Const != nil {
			values[v] = v.Const
			continue
		}
		dims, err := graph.Shape(v.Dims).Eval(bindings, nil)
		Expect(err).NotTo(HaveOccurred())
		t, err := tensor.New(v.Type.DType, make([]int, 0)...)
		if len(v.Type.Shape) == 1 {
			t, err = tensor.New(v.Type.DType, len(dims))
		}
		Expect(err).NotTo(HaveOccurred())
		ints := make([]int64, len(dims))
		for i, d := range dims {
			ints[i] = int64(d)
		}
		Expect(tensor.EncodeInts(t, ints)).To(Succeed())
		values[v] = t
	}
	order, err := g.Topo()
	Expect(err).NotTo(HaveOccurred())
	for _, n := range order {
		inputs := make([]tensor.Value, len(n.Inputs))
		for i, v := range n.Inputs {
			if v != nil {
				inputs[i] = values[v]
			}
		}
		results, err := reference.Evaluate(context.Background(), n, inputs)
		Expect(err).NotTo(HaveOccurred(), n.String())
		for i, v := range n.Outputs {
			if v != nil {
				values[v] = results[i]
			}
		}
	}
	var out []*tensor.Tensor
	for _, v := range g.Outputs {
		out = append(out, values[v].(*tensor.Tensor))
	}
	return out
}

// sameResults simplifies a copy of g, without some passes, and compares what both compute of random operands.
func sameResults(g *graph.Graph, tolerance float64, skip ...string) {
	GinkgoHelper()
	rng := rand.New(rand.NewPCG(3, 4))
	feed := map[string]*tensor.Tensor{}
	for _, v := range g.Inputs {
		dims := make([]int, len(v.Type.Shape))
		for i, d := range v.Type.Shape {
			n, ok := d.Const()
			if dims[i] = int(n); !ok {
				dims[i] = 3
			}
		}
		t, err := tensor.New(v.Type.DType, dims...)
		Expect(err).NotTo(HaveOccurred())
		data := make([]float64, t.Len())
		for i := range data {
			data[i] = rng.NormFloat64() * 3
		}
		Expect(tensor.Encode(t, data)).To(Succeed())
		feed[v.Name] = t
	}
	h, err := g.Clone()
	Expect(err).NotTo(HaveOccurred())
	simplify(h, graph.SimplifyOptions{Skip: skip})
	Expect(graph.InferGraph(g)).To(Succeed())
	want, got := execute(g, feed), execute(h, feed)
	Expect(got).To(HaveLen(len(want)))
	for i := range want {
		Expect(got[i].DType).To(Equal(want[i].DType))
		Expect(got[i].Shape).To(Equal(want[i].Shape))
		for k := range want[i].Len() {
			a, b := want[i].Float64At(k), got[i].Float64At(k)
			if a == b || math.IsNaN(a) && math.IsNaN(b) {
				continue
			}
			Expect(math.Abs(a-b)).To(BeNumerically("<=", tolerance*(1+math.Abs(a))), "output %d, element %d: %v, was %v", i, k, b, a)
		}
	}
}

// statements wraps lines in a graph of that operator set.
func statements(opset int, body string) string {
	return fmt.Sprintf("graph \"g\" {\n  opset %d\n%s}\n", opset, strings.TrimPrefix(body, "\n"))
}

// simplifiesTo simplifies a graph and compares its text, and what became of the nodes that are gone.
func simplifiesTo(opset int, body, want, gone string) {
	GinkgoHelper()
	g := parse(statements(opset, body))
	report := simplify(g, graph.SimplifyOptions{})
	Expect(g.String()).To(Equal(statements(opset, want)))
	Expect(folded(report)).To(Equal(gone))
}
