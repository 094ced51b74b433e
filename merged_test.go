package carve_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/graph/tensor"
)

// merged is a decoder with and without past keys in one model, as Optimum merges two: keys are computed, or read where there are some.
const merged = `graph {
  opset 18
  input %x: f32[batch,length,8]
  input %mask: f32[batch,length,1]
  input %past: f32[batch,length,8]
  input %cached: bool[1]
  %y, %keys = If(%cached | %x, %mask, %past) {
    then_branch: graph {
      capture %x: f32[batch,length,8]
      capture %mask: f32[batch,length,1]
      capture %past: f32[batch,length,8]
      %y = Mul(%past, %mask)
      %keys = Identity(%past)
      output %y
      output %keys
    }
    else_branch: graph {
      capture %x: f32[batch,length,8]
      capture %mask: f32[batch,length,1]
      capture %past: f32[batch,length,8]
      %keys = Tanh(%x)
      %y = Mul(%keys, %mask)
      output %y
      output %keys
    }
  }
  output %y
  output %keys
}`

var _ = Describe("inputs of one branch alone", func() {
	DescribeTable("have their own sizes where the other one is taken", func(ctx SpecContext, o *carve.Options) {
		m := carve.FromGraph(graphOf(merged))
		DeferCleanup(m.Close)
		plain := mustCompile(ctx, m, &carve.Options{Backends: onReference})
		DeferCleanup(plain.Close)
		p := mustCompile(ctx, m, o)
		DeferCleanup(p.Close)
		run := func(cached bool, x, mask, past []int) (map[string]tensor.Value, error) {
			feeds := map[string]tensor.Value{"x": wave(x...), "mask": wave(mask...), "past": wave(past...), "cached": tensor.From([]bool{cached}, 1)}
			got, err := p.Run(ctx, feeds)
			if err == nil {
				Expect(apart(got, must(plain.Run(ctx, feeds)))).To(BeEmpty())
			}
			return got, err
		}
		for _, past := range [][]int{{1, 0, 8}, {2, 5, 8}, {2, 7, 8}, {0, 5, 8}} {
			got, err := run(false, []int{2, 5, 8}, []int{2, 5, 1}, past)
			Expect(err).NotTo(HaveOccurred())
			Expect(got["keys"].(*tensor.Tensor).Shape).To(Equal([]int{2, 5, 8}))
		}
		_, err := run(true, []int{1, 0, 8}, []int{2, 5, 1}, []int{2, 5, 8})
		Expect(err).NotTo(HaveOccurred())
		_, err = run(true, []int{2, 5, 8}, []int{2, 5, 1}, []int{2, 0, 8})
		Expect(err).To(MatchError(carve.ErrInput))
		Expect(err).To(MatchError(ContainSubstring(`bad input "past": wrong shape, for the branch that is taken (expected [batch,length,8] = [2 5 8], found [2 0 8])`)))
		_, err = run(false, []int{2, 4, 8}, []int{2, 5, 1}, []int{2, 5, 8})
		Expect(err).To(MatchError(ContainSubstring(`bad input "x": wrong shape, for the branch that is taken`)))
		_, err = run(false, []int{2, 5, 8}, []int{2, 5, 1}, []int{2, 5, 7})
		Expect(err).To(MatchError(carve.ErrInput))
	},
		Entry("on cpu", &carve.Options{Verify: true}),
		Entry("with poison", &carve.Options{Poison: true}),
		Entry("with bounds", &carve.Options{Bounds: map[string]int{"batch": 4, "length": 8}}),
		Entry("on the reference kernels", &carve.Options{Backends: onReference}),
		Entry("where every operator is a group of its own", &carve.Options{Isolated: true}),
	)
})
