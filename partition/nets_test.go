package partition_test

import (
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/partition"
)

// The nets of MXNet's test_subgraph_op.py, with the sets of operators that it partitions them by and the groups that come
// out: MXNet's own, or better ones where its method leaves nodes behind.
var _ = Describe("MXNet's test nets", func() {
	const one = `
  opset 17
  input %data1: f32[1,3,8,8]
  input %data2: f32[2,3,3,3]
  input %w2: f32[4,3,3,3]
  %conv1 = Conv(%data1, %data2)
  %conv2 = Conv(%data2, %w2; pads=[1, 1, 1, 1])
  output %conv1, %conv2
}
`
	trig := func(more ...string) string {
		return text("sum", append([]string{"exp = Exp(x)", "cos = Cos(exp)", "sin = Sin(exp)", "sum = Add(cos, sin)"}, more...)...)
	}
	norms := func() string {
		t := trig("bn0 = BatchNormalization(sum, g, b, m, v)", "bn1 = BatchNormalization(bn0, g, b, m, v)")
		consts := ""
		for _, c := range []string{"g", "b", "m", "v"} {
			consts += "  const %" + c + " = f32[16]{" + strings.TrimSuffix(strings.Repeat("1, ", 16), ", ") + "}\n"
		}
		t = strings.Replace(t, "  %exp", consts+"  %exp", 1)
		return strings.Replace(t, "output %sum", "output %bn1", 1)
	}
	const six = `
  opset 17
  input %data1: f32[3,3,10,10]
  input %data2: f32[1,3,H,W]
  input %bias: f32[1]
  %sin = Sin(%data2)
  %conv = Conv(%data1, %sin, %bias)
  output %conv
}
`
	seven := text("sum", "s = Sin(x)", "c1 = Cos(s)", "c2 = Cos(c1)", "c3 = Cos(c2)", "c4 = Cos(c3)", "c5 = Cos(c4)", "c6 = Cos(c5)", "sum = Add(s, c6)")
	eight := text("out", "sin1 = Sin(x)", "sin2 = Sin(x)", "p = Add(sin1, sin2)", "cos1 = Cos(p)", "cos2 = Cos(p)", "out = Sub(cos1, cos2)")

	DescribeTable("are carved as there, or better",
		func(ctx SpecContext, net, ops string, want ...string) {
			if !strings.HasPrefix(net, "graph") {
				net = `graph "net" {` + net
			}
			for _, layout := range []graph.Layout{graph.RowMajor, opaque("a")} {
				g := parse(net)
				takes := strings.Fields(ops)
				backends := []backend.Backend{instance("host-ref", graph.RowMajor)}
				if len(takes) > 0 {
					backends = slices.Insert(backends, 0, backend.Backend(instance("a", layout, takes...)))
				}
				res := carved(ctx, g, &partition.Options{Backends: backends})
				var own []string
				for _, s := range groups(res) {
					if nodes, ok := strings.CutPrefix(s, "a: "); ok {
						own = append(own, nodes)
					}
				}
				Expect(strings.Join(own, " | ")).To(Equal(strings.Join(want, " | ")))
			}
		},
		Entry("1: a value that is a weight and an input", one, "Conv", "conv1", "conv2"),
		Entry("2: without the cosine", trig(), "Exp Sin Add", "exp sin", "sum"),
		Entry("2: without the sine", trig(), "Exp Cos Add", "exp cos", "sum"),
		Entry("3: without the cosine", norms(), "Exp Sin Add BatchNormalization", "exp sin", "sum bn0 bn1"),
		Entry("3: exponential and norms", norms(), "Exp BatchNormalization", "exp", "bn0 bn1"),
		Entry("3: norms alone", norms(), "BatchNormalization", "bn0 bn1"),
		Entry("4: a head three times", text("e, e, e", "e = Exp(x)"), "Exp", "e"),
		Entry("5: an operand twice", text("s", "s = Add(x, x)"), "Add", "s"),
		Entry("6: shapes partly unknown, nothing", six, ""),
		Entry("6: shapes partly unknown, the sine", six, "Sin", "sin"),
		Entry("6: shapes partly unknown, the convolution", six, "Conv", "conv"),
		// The size of the kernel is open, so the result's is not inferred: the convolution is planned apart from the sine.
		Entry("6: shapes partly unknown, both", six, "Sin Conv", "sin", "conv"),
		Entry("7: a long way around", seven, "Sin Add", "s", "sum"),
		Entry("7: all", seven, "Sin Add Cos", "s c1 c2 c3 c4 c5 c6 sum"),
		Entry("8: twins", eight, "Sin Add", "sin1 sin2 p"),
	)

	It("4: have as many outputs as heads", func(ctx SpecContext) {
		g := parse(text("e, e, e", "e = Exp(x)"))
		res := carved(ctx, g, &partition.Options{Backends: []backend.Backend{instance("a", opaque("a"))}})
		Expect(res.Groups[0].Body.Outputs).To(HaveLen(1))
		Expect(g.Outputs).To(HaveLen(3))
	})
})
