package plugin_test

import (
	"errors"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/plugin"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/onnx"
	"github.com/carve-dev/carve/graph/tensor"
)

var _ = Describe("a pass of a plugin", func() {
	It("rewrites the model, and is dumped like others", func(ctx SpecContext) {
		path := build(GinkgoTB(), "../../examples/plugin/pass.c")
		m := model("graph \"g\" {\n  opset 20\n  input %x: f32[N,3]\n  %a = Gelu(%x) \"gelu\"\n  %y = Gelu(%a; approximate=\"none\") \"exact\"\n  output %y\n}\n")
		var after string
		_, r := runModel(ctx, m, &carve.Options{Plugins: []string{path}, Verify: true, Dump: func(pass string, g *graph.Graph) {
			if pass == "fast-gelu" {
				after = g.String()
			}
		}}, tensor.From([]float32{1, -2, 3, -4, 5, -6}, 2, 3))
		Expect(after).To(ContainSubstring(`Gelu(%x; approximate="tanh")`))
		Expect(after).To(ContainSubstring(`Gelu(%a; approximate="none")`))
		Expect(r.Groups).To(HaveLen(1))
		Expect(r.Groups[0].Nodes).To(Equal([]string{"gelu", "exact"}))
	})

	// scale adds a constant of 2 KiB, which passes get by reference.
	scale := func() *carve.Model {
		numbers := strings.TrimSuffix(strings.Repeat("2, ", 512), ", ")
		return model("graph \"g\" {\n  opset 17\n  input %operand: f32[N,512]\n  const %c = f32[512]{" + numbers + "}\n" +
			"  %result = Add(%operand, %c) \"add\"\n  output %result\n}\n")
	}
	own := func(pass, before string) string {
		return build(GinkgoTB(), "testdata/own.c", "-DPASS="+pass, `-DBEFORE="`+before+`"`)
	}

	DescribeTable("that is sound runs", func(ctx SpecContext, pass, before string, sum int) {
		m := scale()
		p, err := carve.Compile(ctx, m, &carve.Options{Plugins: []string{own(pass, before)}, Verify: true})
		Expect(err).NotTo(HaveOccurred())
		defer func() { Expect(p.Close()).To(Succeed()) }()
		out, err := p.Run(ctx, map[string]tensor.Value{"operand": tensor.From(make([]float32, 512), 1, 512)})
		Expect(err).NotTo(HaveOccurred())
		y, ok := out["result"].(*tensor.Tensor)
		Expect(ok).To(BeTrue())
		total := 0
		for _, v := range tensor.Elements[float32](y) {
			total += int(v)
		}
		Expect(total).To(Equal(sum))
	},
		Entry("and leaves the model as it is", "NOTHING", "simplify", 1024),
		Entry("and gives the same model back", "SAME", "simplify", 1024),
		Entry("behind simplification", "SAME", "prepare-properties", 1024),
		Entry("and brings a weight", "OWN_WEIGHT", "simplify", 512),
	)

	It("shares the weights that it leaves alone", func(ctx SpecContext) {
		m := scale()
		var constants []*tensor.Tensor
		for v := range m.Graph().Constants() {
			constants = append(constants, v.Const)
		}
		var found []*tensor.Tensor
		_, err := carve.Compile(ctx, m, &carve.Options{Plugins: []string{own("SAME", "simplify")}, Dump: func(pass string, g *graph.Graph) {
			if pass == "rewrite" {
				for v := range g.Constants() {
					found = append(found, v.Const)
				}
			}
		}})
		Expect(err).NotTo(HaveOccurred())
		Expect(found).To(HaveLen(1))
		Expect(found[0]).To(BeIdenticalTo(constants[0]))
	})

	DescribeTable("that is not is a typed error", func(ctx SpecContext, pass, before string, target error, text string) {
		_, err := carve.Compile(ctx, scale(), &carve.Options{Plugins: []string{own(pass, before)}})
		var failed *carve.PassError
		Expect(errors.As(err, &failed)).To(BeTrue(), "%v", err)
		Expect(failed.Pass).To(Equal("rewrite"))
		Expect(err).To(MatchError(target))
		Expect(err).To(MatchError(ContainSubstring(text)))
	},
		Entry("bytes that are no model", "GARBAGE", "simplify", onnx.ErrTruncated, "own.c.so"),
		Entry("no bytes of some number", "NULL_DATA", "simplify", plugin.ErrPlugin, "own.c.so"),
		Entry("bytes without end", "ENDLESS", "simplify", plugin.ErrPlugin, "18446744073709551615 bytes"),
		Entry("another output", "OUTPUT_NAME", "simplify", plugin.ErrPlugin, "tluser"),
		Entry("another input", "INPUT_NAME", "simplify", plugin.ErrPlugin, "dnarepo"),
		Entry("a weight that there is not", "NO_WEIGHT", "simplify", onnx.ErrExternalData, "weight 9 of 2"),
		Entry("a weight of another size than it says", "ODD_WEIGHT", "simplify", plugin.ErrPlugin, "12 bytes"),
		Entry("a place that there is not", "SAME", "no-such-pass", carve.ErrPass, "no-such-pass"),
		Entry("a place in the partitioned graph", "SAME", "lower-conversions", onnx.ErrUnsupported, `partitioned graph`),
		Entry("a place behind the model's passes", "SAME", "finish-properties", onnx.ErrUnsupported, `comes before "prepare-properties" at the latest`),
	)

	It("that fails is an error with its words", func(ctx SpecContext) {
		_, err := carve.Compile(ctx, scale(), &carve.Options{Plugins: []string{own("PASS_FAILS", "simplify")}})
		var failed *plugin.Error
		Expect(errors.As(err, &failed)).To(BeTrue(), "%v", err)
		Expect(failed.Text).To(Equal("no passage"))
	})

	It("of two plugins is an error that names both", func(ctx SpecContext) {
		first, second := own("SAME", "simplify"), build(GinkgoTB(), "testdata/own.c", "-DPASS=SAME", `-DBEFORE="simplify"`, "-DELSE")
		_, err := carve.Compile(ctx, scale(), &carve.Options{Plugins: []string{first, second}})
		Expect(err).To(MatchError(backend.ErrOption))
		Expect(err).To(MatchError(And(ContainSubstring(`pass "rewrite"`), ContainSubstring(first), ContainSubstring(second))))
	})
})
