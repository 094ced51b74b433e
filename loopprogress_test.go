package carve_test

import (
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/graph/tensor"
)

var _ = Describe("a loop that takes long", func() {
	text := `graph {
  opset 17
  input %x: f32[N]
  input %m: i64[]
  const %c = bool[]{true}
  %y = Loop(%m, %c, %x |) "outer" {
    body: graph {
      input %i: i64[]
      input %k: bool[]
      input %v: f32[N]
      const %few = i64[]{3}
      const %t = bool[]{true}
      %next = Loop(%few, %t, %v |) "inner" {
        body: graph {
          input %i: i64[]
          input %k: bool[]
          input %v: f32[N]
          %w = Sin(%v)
          %l = Identity(%k)
          output %l, %w
        }
      }
      %l = Identity(%k)
      output %l, %next
    }
  }
  output %y
}`

	It("tells how far the outer one of loops in each other is", func(ctx SpecContext) {
		var reports []carve.Progress
		var busy atomic.Bool
		o := &carve.Options{MaxSessions: 2, Threads: 1, Observer: func(x carve.Progress) {
			Expect(busy.CompareAndSwap(false, true)).To(BeTrue(), "one goroutine at a time")
			defer busy.Store(false)
			if x.Pass == carve.RunPass {
				reports = append(reports, x)
			}
		}}
		p := compile(ctx, textModel(text), o)
		run := func(n int64) {
			_, err := p.Run(ctx, map[string]tensor.Value{"x": wave(1 << 14), "m": tensor.Scalar(n)})
			Expect(err).NotTo(HaveOccurred())
		}
		for n := int64(100); len(reports) < 2 && n < 1<<20; n *= 2 {
			reports = nil
			run(n)
			for i, x := range reports {
				Expect(x.Node).To(Equal("outer"))
				Expect(x.Total).To(BeEquivalentTo(n))
				Expect(x.Done).To(And(BeNumerically(">", 0), BeNumerically("<=", n)))
				Expect(x.Elapsed).To(BeNumerically(">=", time.Duration(i+1)*100*time.Millisecond), "a loop that takes less tells nothing")
				if i > 0 {
					Expect(x.Done).To(BeNumerically(">", reports[i-1].Done))
				}
			}
		}
		Expect(len(reports)).To(BeNumerically(">=", 2))
	})
})
