package main

import (
	"bytes"
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
)

var _ = Describe("custom-pass", func() {
	It("prints the graph before and after, and a difference of nothing", func(ctx SpecContext) {
		var out bytes.Buffer
		Expect(run(ctx, &out)).To(Succeed())
		before, after, found := strings.Cut(out.String(), "after squares:\n")
		Expect(found).To(BeTrue())
		Expect(before).To(ContainSubstring(`Pow(%x, %two) "square"`))
		Expect(after).To(And(ContainSubstring(`Mul(%x, %x) "square"`), ContainSubstring(`Pow(%x, %three) "cube"`)))
		Expect(after).To(MatchRegexp(`largest difference of 32 values: (0|\de-0[789])\n`))
		Expect(after).To(ContainSubstring("refused: pass careless: "))
	})

	DescribeTable("leaves alone", func(ctx SpecContext, body string) {
		g, err := graph.Parse(body)
		Expect(err).NotTo(HaveOccurred())
		Expect(graph.InferGraph(g)).To(Succeed())
		before := g.String()
		Expect(squares.Run(context.Background(), g)).To(Succeed())
		Expect(g.String()).To(Equal(before))
	},
		Entry("other exponents", "graph {\n  opset 17\n  input %x: f32[4]\n  const %e = f32[]{2.5}\n  %y = Pow(%x, %e)\n  output %y\n}"),
		Entry("exponents that are not known", "graph {\n  opset 17\n  input %x: f32[4]\n  input %e: f32[]\n  %y = Pow(%x, %e)\n  output %y\n}"),
		Entry("exponents that would change the shape", "graph {\n  opset 17\n  input %x: f32[4]\n  const %e = f32[1,1]{2}\n  %y = Pow(%x, %e)\n  output %y\n}"),
		Entry("other types", "graph {\n  opset 17\n  input %x: f64[4]\n  const %e = f64[]{2}\n  %y = Pow(%x, %e)\n  output %y\n}"),
	)
})
