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

var withSnake = &carve.Options{Properties: map[string][]property.SubgraphProperty{"cpu": {snake{}}}}

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

	DescribeTable("leaves alone", func(ctx SpecContext, body string) {
		g, err := graph.Parse(body)
		Expect(err).NotTo(HaveOccurred())
		Expect(graph.InferGraph(g)).To(Succeed())
		sins := 0
		for n := range g.Nodes() {
			_, ok := matchSnake(n)
			Expect(ok).To(BeFalse(), "%v", n)
			if n.Is("Sin") {
				sins++
			}
		}
		Expect(sins).To(Equal(1))
	},
		Entry("a sine whose square has another reader", textOf("q, o")),
		Entry("a sine that is an output", textOf("s, o")),
		Entry("a scaled value that is an output", textOf("m, o")),
	)

	It("matches its own text", func() {
		g, err := graph.Parse(textOf("o"))
		Expect(err).NotTo(HaveOccurred())
		Expect(graph.InferGraph(g)).To(Succeed())
		matches := 0
		for n := range g.Nodes() {
			if u, ok := matchSnake(n); ok {
				matches++
				Expect(u.nodes).To(HaveLen(5))
			}
		}
		Expect(matches).To(Equal(1))
	})
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
