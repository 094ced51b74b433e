package cpu_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/cpu"
	"github.com/carve-dev/carve/graph"
)

var _ = Describe("plans of growing lengths", func() {
	DescribeTable("are made of a larger one", func(ctx SpecContext, mask string, bind func(rows int64) graph.Bindings) {
		g, err := graph.Parse(`graph {
  opset 17
  input %past: f32[p,4]
  input %new: f32[1,4]
  input %mask: f32[` + mask + `,1]
  %a = Tanh(%new)
  %b = Exp(%a)
  %c = Neg(%b)
  %rows = Concat(%past, %new; axis=0)
  %y = Add(%rows, %mask)
  output %y, %c
}`)
		Expect(err).NotTo(HaveOccurred())
		Expect(graph.InferGraph(g)).To(Succeed())
		b, err := cpu.Open(backend.Config{Name: "cpu"})
		Expect(err).NotTo(HaveOccurred())
		e, err := b.Compile(ctx, g, backend.CompileOptions{Threads: 1})
		Expect(err).NotTo(HaveOccurred())
		var last backend.Requirements
		for rows := range int64(60) {
			in, err := e.Specialize(ctx, bind(9+rows))
			Expect(err).NotTo(HaveOccurred())
			last = in.Requirements()
		}
		Expect(last.Outputs[0].Bytes).To(BeEquivalentTo(4 * 4 * (9 + 59 + 1)))
		kept, failed := cpu.BasesOf(e)
		Expect(failed).To(BeZero())
		Expect(kept).To(Equal(3)) // that of the first length, and those of 64 and 128
	},
		Entry("where one symbol grows", "p+1", func(rows int64) graph.Bindings { return graph.Bindings{"p": rows} }),
		Entry("where two grow that have to fit together", "t", func(rows int64) graph.Bindings { return graph.Bindings{"p": rows, "t": rows + 1} }))
})
