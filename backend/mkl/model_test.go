package mkl_test

import (
	"context"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// parse returns the graph of a text without its braces, of opset 17. Lines like "const %w = f32[2,3]{~}" get data.
func parse(text string) *graph.Graph {
	GinkgoHelper()
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		at := strings.Index(line, "{~}")
		if at < 0 {
			continue
		}
		t, err := graph.ParseType(line[strings.Index(line, "=")+2 : at])
		Expect(err).NotTo(HaveOccurred())
		n := 1
		for _, d := range t.Shape {
			k, _ := d.Const()
			n *= int(k)
		}
		data := make([]string, n)
		for k := range data {
			data[k] = []string{"0.25", "-0.5", "0.125", "0.75", "-0.125"}[(k*7+i)%5]
		}
		lines[i] = line[:at+1] + strings.Join(data, ", ") + "}"
	}
	g, err := graph.Parse("graph {\n  opset 17" + strings.Join(lines, "\n") + "\n}")
	Expect(err).NotTo(HaveOccurred())
	Expect(graph.InferGraph(g)).To(Succeed())
	for n := range g.Nodes() {
		n.Name = n.Outputs[0].Name
	}
	return g
}

// feeds returns data for the inputs of a graph.
func feeds(g *graph.Graph) map[string]tensor.Value {
	GinkgoHelper()
	out := map[string]tensor.Value{}
	for k, v := range g.Inputs {
		dims, err := v.Type.Shape.Eval(nil, nil)
		Expect(err).NotTo(HaveOccurred())
		t, err := tensor.New(tensor.Float32, dims...)
		Expect(err).NotTo(HaveOccurred())
		for i := range tensor.Of[float32](t) {
			tensor.Of[float32](t)[i] = float32((i*37+k*11)%101)/50 - 1
		}
		out[v.Name] = t
	}
	return out
}

// program compiles a graph for mkl, and closes it at the spec's end.
func program(ctx context.Context, g *graph.Graph, o carve.Options) *carve.Program {
	GinkgoHelper()
	if o.Backends == nil {
		o.Backends = []backend.Config{{Name: "mkl"}}
	}
	if o.Placement == carve.Automatic {
		o.Placement = carve.Priority // whatever mkl takes is looked at
	}
	m := carve.FromGraph(g)
	p, err := carve.Compile(ctx, m, &o)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() {
		p.Close()
		m.Close()
	})
	return p
}

// expectAgreement compares a program's results with the reference backend's.
func expectAgreement(ctx context.Context, p *carve.Program, g *graph.Graph) {
	GinkgoHelper()
	in := feeds(g)
	ref := program(ctx, g, carve.Options{Backends: []backend.Config{{Name: "reference"}}})
	want, err := ref.Run(ctx, in)
	Expect(err).NotTo(HaveOccurred())
	got, err := p.Run(ctx, in)
	Expect(err).NotTo(HaveOccurred())
	for name, w := range want {
		a, b := tensor.Of[float32](got[name].(*tensor.Tensor)), tensor.Of[float32](w.(*tensor.Tensor))
		Expect(a).To(HaveLen(len(b)))
		for i := range b {
			Expect(a[i]).To(BeNumerically("~", b[i], 1e-4*max(1, b[i], -b[i])), "%s[%d]", name, i)
		}
	}
}

// opsOf returns what the groups of mkl run, in order, without conversions.
func opsOf(ctx context.Context, p *carve.Program) []string {
	GinkgoHelper()
	r, err := p.Report(ctx, nil)
	Expect(err).NotTo(HaveOccurred())
	var out []string
	for _, g := range r.Groups {
		if g.Backend == "mkl" {
			out = append(out, slices.DeleteFunc(g.Ops, func(op string) bool { return op == "carve.Convert" })...)
		}
	}
	return out
}

var _ = Describe("a model whose shapes depend on data", func() {
	It("keeps to mkl where they do not, and gives cpu the rest, in layouts that both have", func(ctx SpecContext) {
		open("")
		g := parse(`
  input %x: f32[4,16,8,8]
  const %w = f32[16,16,3,3]{~}
  const %zero = f32[]{0}
  const %first = i64[]{0}
  const %corner = i64[3]{0, 0, 0}
  %a = Conv(%x, %w; pads=[1,1,1,1])
  %s = ReduceMean(%a; axes=[1,2,3], keepdims=0)
  %p = Greater(%s, %zero)
  %i = NonZero(%p)
  %j = Gather(%i, %first; axis=0)
  %k = Gather(%a, %j; axis=0)
  %b = Conv(%k, %w; pads=[1,1,1,1])
  %r = Relu(%b)
  output %r`)
		p := program(ctx, g, carve.Options{Verify: true})
		expectAgreement(ctx, p, g)
		Expect(opsOf(ctx, p)).To(ContainElement("Conv"))
		r, err := p.Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		where, reasons, _ := r.Why("b")
		Expect(where).To(Equal("cpu"))
		Expect(reasons).To(ContainElement(SatisfyAll(HaveField("Backend", "mkl"), HaveField("Reason", ContainSubstring("depends on data")))))
	})
})
