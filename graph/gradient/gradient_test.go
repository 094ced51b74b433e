package gradient_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/gradient"
	"github.com/carve-dev/carve/graph/tensor"
)

// expand returns the graph of a text after Expand.
func expand(text string) (*graph.Graph, error) {
	GinkgoHelper()
	g, err := graph.Parse(fmt.Sprintf(head, 24) + text + "}")
	Expect(err).NotTo(HaveOccurred())
	Expect(graph.InferGraph(g)).To(Succeed())
	if err := gradient.Expand(g); err != nil {
		return nil, err
	}
	Expect(graph.Verify(g)).To(Succeed())
	return g, nil
}

// run returns the outputs of a text on a backend.
func run(ctx context.Context, name, text string, feeds map[string]tensor.Value) map[string]tensor.Value {
	GinkgoHelper()
	g, err := graph.Parse(fmt.Sprintf(head, 24) + text + "}")
	Expect(err).NotTo(HaveOccurred())
	p, err := carve.Compile(ctx, carve.FromGraph(g), &carve.Options{Backends: []backend.Config{{Name: name}}, Verify: true})
	Expect(err).NotTo(HaveOccurred())
	defer p.Close()
	out, err := p.Run(ctx, feeds)
	Expect(err).NotTo(HaveOccurred())
	return out
}

func numbers(v tensor.Value) []float32 { return tensor.Elements[float32](v.(*tensor.Tensor)) }

const gradientOp = "ai.onnx.preview.training::Gradient"

var _ = Describe("a Gradient node", func() {
	It("becomes ordinary nodes of its provenance, whose results have its names, types and shapes", func() {
		g, err := expand("  input %a: f32[N,3]\n  input %b: f16[3]\n  %c = Cast(%b; to=1)\n  %d = Mul(%a, %c) \"mul\"\n  %da, %db = " + gradientOp +
			"(%a, %b; xs=[\"a\", \"b\"], y=\"d\") \"grad\"\n  output %da\n  output %db\n")
		Expect(err).NotTo(HaveOccurred())
		Expect([]string{g.Outputs[0].Name, g.Outputs[0].Type.String(), g.Outputs[1].Name, g.Outputs[1].Type.String()}).To(Equal([]string{"da", "f32[N,3]", "db", "f16[3]"}))
		for n := range g.Nodes() {
			Expect(n.Op.Name).NotTo(Equal("Gradient"))
			if n.Name != "mul" && n.Name != "c" && n.Op.Name == "Mul" {
				Expect(n.Provenance()).To(Equal([]string{"grad"}))
			}
		}
	})
	It("gives what it is asked for: outputs may be omitted, and zs are constants", func() {
		g, err := expand("  input %a: f32[3]\n  input %b: f32[3]\n  input %c: i64[3]\n  %e = Where(%m, %a, %b)\n  const %m = bool[3]{true,false,true}\n  %d = Mul(%e, %b) \n  _, %db = " +
			gradientOp + "(%a, %b; xs=[\"a\", \"b\"], y=\"d\")\n  output %db\n")
		Expect(err).NotTo(HaveOccurred())
		Expect(g.Outputs[0].Type.String()).To(Equal("f32[3]"))
	})
	It("is evaluated at its inputs, where these are other values than its attributes name", func(ctx SpecContext) {
		text := "  input %x: f32[2]\n  input %w: f32[2]\n  input %p: f32[M]\n  input %q: f32[M]\n  %s = Mul(%x, %x)\n  %y = Mul(%s, %w)\n" +
			"  %dx = " + gradientOp + "(%p, %q; xs=[\"x\"], zs=[\"w\"], y=\"y\") \"elsewhere\"\n  %ds = " + gradientOp + "(%x, %w; xs=[\"s\"], zs=[\"w\"], y=\"y\")\n" +
			"  output %y\n  output %dx\n  output %ds\n"
		out := run(ctx, "cpu", text, map[string]tensor.Value{"x": tensor.From([]float32{1, 2}), "w": tensor.From([]float32{3, 4}),
			"p": tensor.From([]float32{5, 6, 7}), "q": tensor.From([]float32{1, 2, 3})})
		Expect(numbers(out["y"])).To(Equal([]float32{3, 16}))
		Expect(numbers(out["dx"])).To(Equal([]float32{10, 24, 42})) // 2·p·q
		Expect(numbers(out["ds"])).To(Equal([]float32{3, 4}))       // by an intermediate value
	})
	It("has zero for what y does not depend on, ones for y itself, and nothing behind jumps", func(ctx SpecContext) {
		text := "  input %x: f32[2]\n  input %z: f32[3]\n  %f = Floor(%x)\n  %i = Cast(%x; to=7)\n  %j = Cast(%i; to=1)\n  %y = Sum(%f, %j, %x)\n  %dx, %dz = " + gradientOp +
			"(%x, %z; xs=[\"x\", \"z\"], y=\"y\")\n  %dy = " + gradientOp + "(%y; xs=[\"y\"], y=\"y\")\n  output %dx\n  output %dz\n  output %dy\n"
		out := run(ctx, "cpu", text, map[string]tensor.Value{"x": tensor.From([]float32{1, 2}), "z": tensor.From([]float32{1, 2, 3})})
		Expect(numbers(out["dx"])).To(Equal([]float32{1, 1}))
		Expect(numbers(out["dz"])).To(Equal([]float32{0, 0, 0}))
		Expect(numbers(out["dy"])).To(Equal([]float32{1, 1}))
	})
	It("shares what a maximum gives among equal elements", func(ctx SpecContext) {
		text := "  input %x: f32[4]\n  %a = ReduceMax(%x)\n  %b = Max(%x, %x)\n  %c = Sum(%a, %b)\n  %da = " + gradientOp + "(%x; xs=[\"x\"], y=\"a\")\n  %db = " +
			gradientOp + "(%x; xs=[\"x\"], y=\"b\")\n  output %da\n  output %db\n"
		out := run(ctx, "cpu", text, map[string]tensor.Value{"x": tensor.From([]float32{1, 3, 3, 0})})
		Expect(numbers(out["da"])).To(Equal([]float32{0, 0.5, 0.5, 0}))
		Expect(numbers(out["db"])).To(Equal([]float32{1, 1, 1, 1}))
	})
	It("has orders, on values that other Gradient nodes make in any order in the file", func(ctx SpecContext) {
		text := "  input %x: f32[1]\n  %x2 = Mul(%x, %x)\n  %y = Mul(%x2, %x2)\n  %d3 = " + gradientOp + "(%x; xs=[\"x\"], y=\"d2\") \"third\"\n  %d2 = " +
			gradientOp + "(%x; xs=[\"x\"], y=\"d1\") \"second\"\n  %d1 = " + gradientOp + "(%x; xs=[\"x\"], y=\"y\") \"first\"\n  output %d3\n  output %d2\n"
		out := run(ctx, "cpu", text, map[string]tensor.Value{"x": tensor.From([]float32{3})})
		Expect(numbers(out["d2"])).To(Equal([]float32{12 * 9}))
		Expect(numbers(out["d3"])).To(Equal([]float32{24 * 3}))
	})
	It("stands in a branch", func(ctx SpecContext) {
		text := "  input %c: bool[]\n  input %x: f32[2]\n  %r = If(%c | %x) {\n    then_branch: graph {\n      capture %x: f32[2]\n      %y = Mul(%x, %x)\n      %d = " + gradientOp +
			"(%x; xs=[\"x\"], y=\"y\")\n      output %d\n    }\n    else_branch: graph {\n      capture %x: f32[2]\n      output %x\n    }\n  }\n  output %r\n"
		out := run(ctx, "cpu", text, map[string]tensor.Value{"c": tensor.Scalar(true), "x": tensor.From([]float32{1, 3})})
		Expect(numbers(out["r"])).To(Equal([]float32{2, 6}))
	})
	It("differentiates in float32 what has no other type", func(ctx SpecContext) {
		text := "  input %x: f32[4]\n  %y = Celu(%x; alpha=0.5)\n  %d = " + gradientOp + "(%x; xs=[\"x\"], y=\"y\")\n" +
			"  input %m: f32[2,4]\n  const %s = f32[4]{1.0,1.0,1.0,1.0}\n  _, %mean = LayerNormalization(%m, %s)\n  %dm = " + gradientOp + "(%m; xs=[\"m\"], y=\"mean\")\n  output %d\n  output %dm\n"
		out := run(ctx, "reference", text, map[string]tensor.Value{"x": tensor.From([]float32{-1, -0.25, 0.25, 1}), "m": tensor.From([]float32{1, 2, 3, 5, 0, 0, 1, 9}, 2, 4)})
		for i, want := range []float64{math.Exp(-2), math.Exp(-0.5), 1, 1} {
			Expect(numbers(out["d"])[i]).To(BeNumerically("~", want, 1e-6))
		}
		for _, v := range numbers(out["dm"]) {
			Expect(v).To(BeNumerically("~", 0.25, 1e-6))
		}
	})
	It("is the same on every backend", func(ctx SpecContext) {
		text := "  input %x: f32[N,1,8,8]\n  input %w: f32[4,1,3,3]\n  input %v: f32[36,3]\n  input %t: i64[N]\n  %c = Conv(%x, %w) \n  %p = MaxPool(%c; kernel_shape=[2,2], strides=[2,2])\n  %r = Relu(%p)\n" +
			"  %f = Flatten(%r)\n  %l = MatMul(%f, %v)\n  %loss = SoftmaxCrossEntropyLoss(%l, %t)\n  %dw, %dv = " + gradientOp +
			"(%w, %v, %x, %t; xs=[\"w\", \"v\"], zs=[\"x\", \"t\"], y=\"loss\")\n  output %dw\n  output %dv\n"
		feeds := map[string]tensor.Value{"x": wave(5*64, 5, 1, 8, 8), "w": wave(36, 4, 1, 3, 3), "v": wave(108, 36, 3), "t": tensor.From([]int64{0, 2, 1, 1, 0})}
		want, got := run(ctx, "reference", text, feeds), run(ctx, "cpu", text, feeds)
		for name := range want {
			for i, v := range numbers(want[name]) {
				Expect(numbers(got[name])[i]).To(BeNumerically("~", v, 1e-5), name)
			}
		}
	})
})

func wave(n int, shape ...int) *tensor.Tensor {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(math.Sin(float64(i*i)*0.7 + 0.3))
	}
	return tensor.From(v, shape...)
}

var _ = DescribeTable("a Gradient node that means nothing is refused", func(text string, cause error, words ...string) {
	_, err := expand("  input %x: f32[2]\n  input %k: i64[2]\n  %y = Mul(%x, %x) \"mul\"\n" + text + "  output %d\n")
	Expect(err).To(MatchError(cause))
	var own *gradient.Error
	Expect(errors.As(err, &own)).To(BeTrue())
	Expect(own.Gradient).To(ContainSubstring(`Gradient "g"`))
	for _, w := range words {
		Expect(err.Error()).To(ContainSubstring(w))
	}
},
	Entry("an x that is no value", "  %d = "+gradientOp+"(%x; xs=[\"nothing\"], y=\"y\") \"g\"\n", gradient.ErrAttribute, `xs names "nothing"`),
	Entry("a z that is no value", "  %d = "+gradientOp+"(%x, %k; xs=[\"x\"], zs=[\"\"], y=\"y\") \"g\"\n", gradient.ErrAttribute, `zs names ""`),
	Entry("a y that is no value", "  %d = "+gradientOp+"(%x; xs=[\"x\"], y=\"nothing\") \"g\"\n", gradient.ErrAttribute, `y names "nothing"`),
	Entry("a name that two values have", "  %v = Exp(%x)\n  %v'2 = Log(%x)\n  %d = "+gradientOp+"(%x; xs=[\"x\"], y=\"v\") \"g\"\n", gradient.ErrAttribute, "2 values"),
	Entry("no xs", "  %d = "+gradientOp+"(%x; xs=strings[], y=\"y\") \"g\"\n", gradient.ErrAttribute),
	Entry("fewer inputs than names", "  %d = "+gradientOp+"(%x; xs=[\"x\"], zs=[\"k\"], y=\"y\") \"g\"\n", gradient.ErrAttribute, "1 inputs"),
	Entry("more outputs than xs", "  %d, %e = "+gradientOp+"(%x, %k; xs=[\"x\"], zs=[\"k\"], y=\"y\") \"g\"\n", gradient.ErrAttribute, "2 outputs"),
	Entry("a name twice", "  %d = "+gradientOp+"(%x, %x; xs=[\"x\"], zs=[\"x\"], y=\"y\") \"g\"\n", gradient.ErrAttribute, "twice"),
	Entry("an input of another type", "  %d = "+gradientOp+"(%k; xs=[\"x\"], y=\"y\") \"g\"\n", gradient.ErrAttribute, "i64[2]"),
	Entry("a derivative by integers", "  %d = "+gradientOp+"(%k; xs=[\"k\"], y=\"y\") \"g\"\n", gradient.ErrAttribute, "i64[2]"),
	Entry("the derivative of integers", "  %d = "+gradientOp+"(%x; xs=[\"x\"], y=\"k\") \"g\"\n", gradient.ErrAttribute, "i64[2]"),
	Entry("its own result", "  %z = Mul(%d, %x)\n  %d = "+gradientOp+"(%x; xs=[\"x\"], y=\"z\") \"g\"\n", gradient.ErrAttribute, "own result"),
	Entry("an operator without a derivative", "  %z = Det(%m) \"det\"\n  %m = Expand(%x, %k)\n  %d = "+gradientOp+"(%x; xs=[\"x\"], y=\"z\") \"g\"\n", gradient.ErrNoRule, `Det "det"`),
	Entry("sequences", "  %q = SequenceConstruct(%x) \"seq\"\n  const %i = i64[]{0}\n  %z = SequenceAt(%q, %i) \"at\"\n  %d = "+gradientOp+"(%x; xs=[\"x\"], y=\"z\") \"g\"\n",
		gradient.ErrNoRule, `SequenceAt "at"`),
	Entry("a rank that is not known", "  input %u: f32[*]\n  %z = MatMul(%u, %x) \"product\"\n  %d = "+gradientOp+"(%x; xs=[\"x\"], y=\"z\") \"g\"\n", gradient.ErrShape, `MatMul "product"`),
)

var _ = Describe("untrusted graphs", func() {
	It("are refused where derivatives grow without end", func() {
		var text strings.Builder
		fmt.Fprintf(&text, "  input %%x: f32[]\n  %%d0 = Tanh(%%x)\n")
		for i := range 31 {
			fmt.Fprintf(&text, "  %%d%d = %s(%%x; xs=[\"x\"], y=\"d%d\")\n", i+1, gradientOp, i)
		}
		_, err := expand(text.String() + "  output %d31\n")
		Expect(err).To(MatchError(gradient.ErrTooLarge))
	})
	It("may be a chain of any length", func() {
		var text strings.Builder
		fmt.Fprintf(&text, "  input %%x: f32[]\n  %%y0 = Tanh(%%x)\n")
		for i := range 20000 {
			fmt.Fprintf(&text, "  %%y%d = Tanh(%%y%d)\n", i+1, i)
		}
		_, err := expand(text.String() + "  %d = " + gradientOp + "(%x; xs=[\"x\"], y=\"y20000\")\n  output %d\n")
		Expect(err).NotTo(HaveOccurred())
	})
})

var _ = It("the documentation lists the operators", func() {
	b, err := os.ReadFile("doc.go")
	Expect(err).NotTo(HaveOccurred())
	listed := func(title string) []string {
		_, rest, ok := strings.Cut(string(b), "//	"+title+"\n")
		Expect(ok).To(BeTrue())
		text, _, _ := strings.Cut(strings.TrimPrefix(rest, "//\n"), "\n//\n")
		list := strings.FieldsFunc(strings.ReplaceAll(text, "//	", " "), func(r rune) bool { return r == ',' || r == ' ' || r == '\n' })
		return list
	}
	Expect(listed("rules")).To(Equal(slices.Sorted(maps.Keys(gradient.Rules))))
	Expect(listed("definitions")).To(Equal(slices.Sorted(maps.Keys(gradient.Definitions))))
})
