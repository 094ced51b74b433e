package main

import (
	"bytes"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/property"
)

var withSnake = &carve.Options{Properties: map[string][]property.SubgraphProperty{"cpu": {snake()}}}

var _ = Describe("custom-property", func() {
	It("prints groups and numbers before and after", func(ctx SpecContext) {
		var out bytes.Buffer
		Expect(run(ctx, &out)).To(Succeed())
		Expect(out.String()).To(And(
			ContainSubstring("with the property: 1 groups\n  0 on cpu: MatMul, snake, MatMul\n"),
			MatchRegexp(`largest difference of 64 values: (0|\de-0[6-9]|\de-\d\d)\n`),
		))
		numbers := regexp.MustCompile(`y = \[[^]]+\]`).FindAllString(out.String(), -1)
		Expect(numbers).To(HaveLen(2))
		Expect(numbers[0]).To(Equal(numbers[1]))
	})

	It("agrees with the reference backend", func(ctx SpecContext) {
		m := carve.FromGraph(network())
		DeferCleanup(m.Close)
		p, err := carve.Compile(ctx, m, withSnake)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(p.Close)
		x := make([]float32, 7*width)
		for i := range x {
			x[i] = float32(i%23)/11 - 1
		}
		d, err := p.Check(ctx, map[string]tensor.Value{"x": tensor.From(x, 7, width)})
		Expect(err).NotTo(HaveOccurred())
		Expect(d).To(BeNil())
	})

	DescribeTable("fuses", func(body string, sets int) {
		g, err := graph.Parse(body)
		Expect(err).NotTo(HaveOccurred())
		Expect(graph.InferGraph(g)).To(Succeed())
		found := 0
		for n := range g.Nodes() {
			if m := activation.Find(n); m != nil && check(m) == nil {
				found++
				Expect(m.Nodes).To(HaveLen(5))
			}
		}
		Expect(found).To(Equal(sets))
	},
		Entry("its own text", textOf("o"), 1),
		Entry("operands of products and sums in any order", strings.NewReplacer("(%x, %a)", "(%a, %x)", "(%x, %d)", "(%d, %x)").Replace(textOf("o")), 1),
		Entry("no sine whose square has another reader", textOf("q, o"), 0),
		Entry("no sine that is an output", textOf("s, o"), 0),
		Entry("no scaled value that is an output", textOf("m, o"), 0),
		Entry("nothing whose scale is a vector", strings.Replace(textOf("o"), "f32[]{2}", "f32[1]{2}", 1), 0),
		Entry("nothing in double precision", strings.NewReplacer("f32[N,8]", "f64[N,8]", "f32[]", "f64[]").Replace(textOf("o")), 0),
	)
})

// textOf returns the activation as text, with these outputs.
func textOf(outputs string) string {
	text := `graph {
  opset 17
  input %x: f32[N,8]
  const %a = f32[]{2}
  %m = Mul(%x, %a) "scale"
  %s = Sin(%m) "sin"
  %q = Mul(%s, %s) "square"
  %d = Div(%q, %a) "divide"
  %o = Add(%x, %d) "add"
`
	for _, name := range strings.Split(outputs, ", ") {
		text += "  output %" + name + "\n"
	}
	return text + "}"
}
