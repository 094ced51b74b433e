package carve_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/property"
)

var _ = It("Check knows the steps to which a fused node rounds floats: halves fall to either side", func(ctx SpecContext) {
	weights := make([]string, 8*16*9)
	for i := range weights {
		weights[i] = fmt.Sprint(float32(i*37%201-100) * 0.01)
	}
	p := compile(ctx, textModel(`graph {
  opset 13
  input %x: f32[1,16,12,12]
  const %w = f32[8,16,3,3]{`+strings.Join(weights, ", ")+`}
  const %s = f32[]{0.02}
  const %z = u8[]{3}
  %c = Conv(%x, %w)
  %q = QuantizeLinear(%c, %s, %z)
  %y = DequantizeLinear(%q, %s, %z)
  output %y
}`), nil)
	x := make([]float32, 16*12*12)
	for i := range x {
		x[i] = float32(i*53%251-125) * 0.02
	}
	d, err := p.Check(ctx, map[string]tensor.Value{"x": tensor.From(x, 1, 16, 12, 12)})
	Expect(err).NotTo(HaveOccurred())
	Expect(d).To(BeNil())
})

// nudged fuses Neg and Abs, with a kernel of its own that is off by a factor in the third element.
func nudged(by float32) *carve.Options {
	r := &property.Rule{ID: "nudged", Selector: func(*graph.Graph) property.Selector { return &negAbsSelector{} },
		Signatures: func(n *graph.Node) []graph.Signature {
			return []graph.Signature{graph.UniformSignature("plain", n, graph.HostFormat)}
		}}
	r.Kernel = func(*graph.Node, graph.Bindings) (property.Kernel, error) {
		return property.Kernel{Run: func(_ context.Context, a *property.KernelArgs) error {
			y := floatBytes(a.Outputs[0])
			for i, x := range floatBytes(a.Inputs[0]) {
				y[i] = max(x, -x)
			}
			y[2] *= by
			return nil
		}}, nil
	}
	return with(r)
}

var _ = Describe("Check where rounding decides a result", func() {
	const wide = `
  const %t = f32[4,2]{0, 1, 20, 30, 400, 500, 6000, 7000}
  %y = Gather(%t, %i) "gather"
  output %y
}`
	const tie = "rounding decides a result, as of a tie"
	x := map[string]tensor.Value{"x": tensor.From([]float32{1, 0, 1, 0.5}, 4)}

	check := func(ctx SpecContext, body string, o *carve.Options) (*carve.Difference, string) {
		GinkgoHelper()
		var said strings.Builder
		o.Logger = slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelWarn}))
		p := compile(ctx, textModel("graph {\n  opset 18\n  opset \"ai.onnx.ml\" 3\n  input %x: f32[4]\n  %n = Neg(%x) \"neg\"\n  %a = Abs(%n) \"abs\"\n"+body), o)
		r, err := p.Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Groups).To(HaveLen(1))
		d, err := p.Check(ctx, x)
		Expect(err).NotTo(HaveOccurred())
		return d, said.String()
	}

	DescribeTable("names the node, and takes what follows from it for right", func(ctx SpecContext, body, what, node string, by float32) {
		d, said := check(ctx, body, nudged(by))
		Expect(d).To(BeNil())
		Expect(said).To(And(HavePrefix("time="), ContainSubstring(what), ContainSubstring(node)))
		Expect(strings.Count(said, "\n")).To(Equal(1), "%s", said)
	},
		Entry("ArgMax", `  %i = ArgMax(%a; axis=0, keepdims=0) "chosen"`+wide, tie, "chosen", float32(1.00001)),
		Entry("ArgMin", "  %b = Neg(%a) \"again\"\n"+`  %i = ArgMin(%b; axis=0, keepdims=0) "chosen"`+wide, tie, "chosen", float32(1.00001)),
		Entry("TopK", "  const %k = i64[1]{1}\n"+`  %v, %i = TopK(%a, %k; axis=0) "chosen"`+wide, tie, "chosen", float32(1.00001)),
		Entry("strings", `  const %k = i64[1]{2}
  %v = Gather(%a, %k)
  %l = ai.onnx.ml::LabelEncoder(%v; keys_floats=[1.0, 0.5], values_strings=["one", "half"]) "text"`+"\n  output %l\n}", tie, "text", float32(1.00001)),
		Entry("Floor", `  %y = Floor(%a) "down"`+"\n  output %y\n}", "differences of rounding grow", "down", float32(0.99999)),
	)

	It("names the node that is wrong by itself behind it", func(ctx SpecContext) {
		d, said := check(ctx, `  %i = ArgMax(%a; axis=0, keepdims=0) "chosen"`+wide, nudged(1.1))
		Expect(said).To(BeEmpty())
		Expect(d).NotTo(BeNil())
		Expect(d.Nodes).To(Equal([]string{"neg", "abs"}))
	})
	It("names the group whose results are not those of its nodes, though each is right by itself", func(ctx SpecContext) {
		o := nudged(1)
		r := o.Properties["cpu"][0].(*property.Rule)
		right, calls := r.Kernel, 0
		r.Kernel = func(n *graph.Node, b graph.Bindings) (property.Kernel, error) {
			k, err := right(n, b)
			return property.Kernel{Run: func(ctx context.Context, a *property.KernelArgs) error {
				err := k.Run(ctx, a)
				if calls++; calls == 1 {
					floatBytes(a.Outputs[0])[2] *= 1.1
				}
				return err
			}}, err
		}
		d, said := check(ctx, `  %i = ArgMax(%a; axis=0, keepdims=0) "chosen"`+wide, o)
		Expect(said).To(BeEmpty())
		Expect(d).NotTo(BeNil())
		Expect(d.Op).To(Equal("group"))
	})
})

// sigmoidRound selects a Sigmoid and the Round behind it.
type sigmoidRound struct{ negAbsSelector }

func (s *sigmoidRound) Select(n *graph.Node) bool {
	s.abs = nil
	if n.Is("Sigmoid") && n.Outputs[0].HasOneUse() && n.Outputs[0].Uses()[0].Node.Is("Round") {
		s.abs = n.Outputs[0].Uses()[0].Node
	}
	return s.abs != nil
}

var _ = Describe("Check where rounding within a fused node, or a group, decides a result", func() {
	run := func(ctx SpecContext, text string, o *carve.Options) *carve.Difference {
		GinkgoHelper()
		p := compile(ctx, textModel("graph {\n  opset 18\n  input %x: f32[4]\n"+text+"\n  output %y\n}"), o)
		d, err := p.Check(ctx, map[string]tensor.Value{"x": tensor.From([]float32{1, 0, 1, 0.5}, 4)})
		Expect(err).NotTo(HaveOccurred())
		return d
	}

	DescribeTable("takes a half for either of its neighbours, and no other number", func(ctx SpecContext, second float32, right bool) {
		r := &property.Rule{ID: "rounding", Selector: func(*graph.Graph) property.Selector { return &sigmoidRound{} },
			Signatures: func(n *graph.Node) []graph.Signature {
				return []graph.Signature{graph.UniformSignature("plain", n, graph.HostFormat)}
			}}
		r.Kernel = func(*graph.Node, graph.Bindings) (property.Kernel, error) {
			return property.Kernel{Run: func(_ context.Context, a *property.KernelArgs) error {
				copy(floatBytes(a.Outputs[0]), []float32{1, second, 1, 1})
				return nil
			}}, nil
		}
		d := run(ctx, "  %s = Sigmoid(%x)\n  %y = Round(%s)", with(r))
		Expect(d == nil).To(Equal(right), "%v", d)
	},
		Entry("the even one", float32(0), true),
		Entry("the other one", float32(1), true),
		Entry("another", float32(3), false),
	)

	DescribeTable("takes what is left where terms cancel for what it may be", func(ctx SpecContext, by float32, right bool) {
		o := nudged(1)
		r := o.Properties["cpu"][0].(*property.Rule)
		kernel, calls := r.Kernel, 0
		r.Kernel = func(n *graph.Node, b graph.Bindings) (property.Kernel, error) {
			k, err := kernel(n, b)
			return property.Kernel{Run: func(ctx context.Context, a *property.KernelArgs) error {
				err := k.Run(ctx, a)
				if calls++; calls == 1 {
					floatBytes(a.Outputs[0])[2] *= by
				}
				return err
			}}, err
		}
		d := run(ctx, `  const %e = f32[]{2.7182817}
  const %z = f32[]{0}
  %n = Neg(%x) "neg"
  %a = Abs(%n) "abs"
  %p = Exp(%a)
  %m = Sub(%p, %e)
  %c = Clip(%m, %z)
  %y = Sqrt(%c)`, o)
		Expect(d == nil).To(Equal(right), "%v", d)
	},
		Entry("a unit in the last place", float32(1.0000001), true),
		Entry("a thousandth", float32(1.001), false),
	)
})

var _ = It("Check allows rows to be rounded to 8 bits where a model asks for it", func(ctx SpecContext) {
	const rows, columns, n = 4, 64, 32
	list := func(count int, of func(i int) string) string {
		var out []string
		for i := range count {
			out = append(out, of(i))
		}
		return "{" + strings.Join(out, ", ") + "}"
	}
	p := compile(ctx, textModel(fmt.Sprintf(`graph {
  opset 18
  opset "com.microsoft" 1
  input %%x: f32[%d,%d]
  const %%w = u8[%d,2,16]%s
  const %%s = f32[%d]%s
  %%y = com.microsoft::MatMulNBits(%%x, %%w, %%s; K=%d, N=%d, bits=4, block_size=32, accuracy_level=4)
  output %%y
}`, rows, columns, n, list(n*32, func(i int) string { return fmt.Sprint(i * 37 % 251) }),
		n*2, list(n*2, func(i int) string { return fmt.Sprint(float32(i*7%13+1) * 0.01) }), columns, n)), nil)
	x := make([]float32, rows*columns)
	for i := range x {
		x[i] = float32(i*53%251-125) * 0.02
	}
	d, err := p.Check(ctx, map[string]tensor.Value{"x": tensor.From(x, rows, columns)})
	Expect(err).NotTo(HaveOccurred())
	Expect(d).To(BeNil())
})
