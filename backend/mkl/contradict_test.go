package mkl_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph/tensor"
)

var _ = Describe("operands that contradict each other, which only a run knows", func() {
	for _, lib := range libraries() {
		DescribeTable(strings.TrimSpace("are errors that name the node "+lib), func(ctx SpecContext, call string, numbers ...int64) {
			open(lib)
			g := parse("\n  input %x: f32[2,3]\n  input %s: i64[K]\n  %e = Exp(%x)\n" + call + "\n  %z = Tanh(%y)\n  output %z")
			for n := range g.Nodes() {
				if n.Outputs[0].Name == "y" {
					n.Name = "bad"
				}
			}
			p, err := carve.Compile(ctx, carve.FromGraph(g), &carve.Options{Placement: carve.Priority, Backends: []backend.Config{mklWith(lib)}})
			if err == nil {
				DeferCleanup(p.Close)
				_, err = p.Run(ctx, map[string]tensor.Value{"x": tensor.From(make([]float32, 6), 2, 3), "s": tensor.From(numbers, len(numbers))})
			}
			Expect(err).To(MatchError(SatisfyAll(ContainSubstring(`"bad"`), Not(ContainSubstring("panic")), Not(ContainSubstring("internal error")))))
		},
			Entry("two -1", "  %y = Reshape(%e, %s)", int64(-1), int64(-1)),
			Entry("too many elements", "  %y = Reshape(%e, %s)", int64(7), int64(7)),
			Entry("the first of two Reshapes", "  const %t = i64[1]{-1}\n  %y = Reshape(%e, %s)\n  %r = Reshape(%y, %t)", int64(7), int64(7)),
			Entry("another rank", "  %r = Reshape(%e, %s)\n  %y = Transpose(%r; perm=[1,0,2])", int64(3), int64(2)),
			Entry("parts that are no whole", "  %y, %w = Split(%e, %s; axis=1)", int64(2), int64(2)),
			Entry("updates of another shape", "  const %i = i64[1,1]{1}\n  %r = Reshape(%e, %s)\n  %y = ScatterND(%e, %i, %r)", int64(3), int64(2)),
		)
	}
})
