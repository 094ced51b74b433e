package cli_test

import (
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/zootest"
)

// What takes seconds here took minutes while something was looked up by a walk over all inputs, symbols or outputs.
var _ = Describe("models of very many inputs, outputs and symbols", func() {
	It("are run in time that grows with their number, not with its square", func(ctx SpecContext) {
		const n = 20000
		g := newGraph()
		var in, out []*graph.Value
		for i := range n {
			x := g.AddInput(fmt.Sprint("x", i), f32(fmt.Sprint("d", i)))
			in = append(in, x)
			out = append(out, add(g, "Neg", fmt.Sprint("n", i), fmt.Sprint("y", i), []*graph.Value{x}))
		}
		g.SetOutputs(append(out, add(g, "Concat", "join", "all", in, graph.IntAttr("axis", 0)))...)
		before := zootest.ProcessorTime()
		r := succeeds(ctx, "run", save(ctx, g))
		Expect(r.stdout).To(MatchRegexp(`(?m)^all +float32\[20000\]`))
		Expect(zootest.ProcessorTime() - before).To(BeNumerically("<", 40*time.Second))
	})
})
