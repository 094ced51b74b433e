package carve_test

import (
	"fmt"
	"runtime"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/graph/tensor"
)

// growingLoop is the text of a model of a Loop that runs %m times and carries values from first on, which begin as %x. The body's results follow.
func growingLoop(results, first, carried, body string) string {
	return "graph {\n  opset 17\n  input %m: i64[]\n  input %x: f32[N]\n  const %go = bool[]{true}\n  %start = SequenceConstruct(%x)\n  " + results + " = Loop(%m, %go, " + first + ` | %x) "loop" {
    body: graph {
      input %i: i64[]
      input %c: bool[]
` + carried + `
      capture %x: f32[N]
      const %one = i64[1]{1}
      %f = Cast(%i; to=1)
      %f1 = Reshape(%f, %one)
      %l = Identity(%c)
` + body + "\n    }\n  }\n  output " + results + "\n}"
}

var _ = Describe("loops whose values grow", func() {
	DescribeTable("give what the reference gives, in results that later runs leave alone",
		func(ctx SpecContext, text string) {
			m := textModel(text)
			for _, o := range []*carve.Options{{Verify: true, Poison: true, Threads: 1}, {Threads: 1}, {MaxArenaBytes: 1 << 20}} {
				p := compile(ctx, m, o)
				s, err := p.NewSession()
				Expect(err).NotTo(HaveOccurred())
				DeferCleanup(s.Close)
				var results, wanted []map[string]tensor.Value
				for _, trips := range []int64{5, 0, 1, 40, 7, 40} {
					feeds := map[string]tensor.Value{"m": tensor.Scalar(trips), "x": wave(3)}
					got, err := s.Run(ctx, feeds)
					Expect(err).NotTo(HaveOccurred())
					results, wanted = append(results, got), append(wanted, referenceOutputs(ctx, m, feeds))
				}
				for i, want := range wanted {
					var all []*tensor.Tensor
					for name := range want {
						if t, ok := want[name].(*tensor.Tensor); ok {
							Expect(results[i][name].(*tensor.Tensor).Shape).To(Equal(t.Shape))
							all = append(all, results[i][name].(*tensor.Tensor))
						}
						if items, ok := want[name].(*tensor.Sequence); ok {
							for k, item := range items.Items {
								near(results[i][name].(*tensor.Sequence).Items[k], item)
							}
							continue
						}
						near(results[i][name], want[name])
					}
					for k, t := range all { // one is not another's
						Expect(slices.ContainsFunc(all[:k], func(o *tensor.Tensor) bool { return t.Len() > 0 && o.Len() > 0 && &o.Data[0] == &t.Data[0] })).To(BeFalse())
					}
				}
			}
		},
		Entry("a list, and what is made of all of it in each iteration", growingLoop("%y, %sums, %twice", "%x", "      input %v: f32[?a]",
			`      %next = Concat(%v, %f1; axis=0) "longer"
      %soft = Softmax(%next; axis=0) "soft"
      %p = Mul(%soft, %next) "weighted"
      %sum = ReduceSum(%p; keepdims=0) "sum"
      %double = Add(%x, %x) "double"
      output %l, %next, %sum, %double`)),
		Entry("values that take turns, and one that stays", growingLoop("%a, %b, %d, %n", "%x, %x, %x", "      input %u: f32[?a]\n      input %v: f32[?b]\n      input %w: f32[?c]",
			`      %next = Concat(%v, %f1; axis=0) "longer"
      %sum = ReduceSum(%u; keepdims=1) "sum"
      output %l, %next, %u, %w, %sum`)),
		Entry("two results of one value", growingLoop("%a, %b, %d", "%x, %x, %x", "      input %u: f32[?a]\n      input %v: f32[?b]\n      input %w: f32[?c]",
			`      %next = Concat(%v, %f1; axis=0) "longer"
      output %l, %v, %next, %v`)),
		Entry("branches that give different lengths", growingLoop("%y, %n", "%x", "      input %v: f32[?a]",
			`      const %three = i64[]{3}
      const %zero = i64[]{0}
      %r = Mod(%i, %three)
      %third = Equal(%r, %zero)
      %next = If(%third | %v, %f1) "which" {
        then_branch: graph {
          capture %v: f32[?a]
          capture %f1: f32[1]
          const %first = i64[1]{0}
          const %end = i64[1]{-1}
          %shorter = Slice(%v, %first, %end) "shorter"
          output %shorter
        }
        else_branch: graph {
          capture %v: f32[?a]
          capture %f1: f32[1]
          %longer = Concat(%v, %f1, %f1; axis=0) "longer"
          output %longer
        }
      }
      %sum = ReduceSum(%next; keepdims=1) "sum"
      output %l, %next, %sum`)),
		Entry("a sequence of what grows", growingLoop("%s, %y", "%start, %x", "      input %q: seq(f32[?])\n      input %v: f32[?a]",
			`      %next = Concat(%v, %f1; axis=0) "longer"
      %more = Add(%next, %f1) "more"
      %q2 = SequenceInsert(%q, %more) "insert"
      output %l, %q2, %next`)),
	)

	It("make nothing anew for lengths that they have gone through", func(ctx SpecContext) {
		p := compile(ctx, textModel(growingLoop("%y, %sums", "%x", "      input %v: f32[?a]",
			`      %next = Concat(%v, %f1; axis=0) "longer"
      %soft = Softmax(%next; axis=0) "soft"
      %sum = ReduceSum(%soft; keepdims=0) "sum"
      output %l, %next, %sum`)), &carve.Options{Threads: 1})
		const trips = 200
		in := []*tensor.Tensor{tensor.Scalar(int64(trips)), wave(3)}
		out := []*tensor.Tensor{tensor.From(make([]float32, trips+3)), tensor.From(make([]float32, trips))}
		Expect(allocationsOf(ctx, p, in, out)).To(BeNumerically("<", trips/4))
	})

	It("leave no more memory behind than twice what they had in use", func(ctx SpecContext) {
		p := compile(ctx, textModel(growingLoop("%y", "%x", "      input %v: f32[?a]", `      %next = Concat(%v, %x; axis=0) "longer"
      output %l, %next`)), &carve.Options{Threads: 1})
		inUse := func() uint64 {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			return m.HeapAlloc
		}
		const n, trips = 16 << 10, 100
		before := inUse()
		_, err := p.Run(ctx, map[string]tensor.Value{"m": tensor.Scalar(int64(trips)), "x": wave(n)})
		Expect(err).NotTo(HaveOccurred())
		Expect(inUse()).To(BeNumerically("<", before+4*4*n*trips))
		runtime.KeepAlive(p)
	})

	It("are refused where slices have unlike shapes, wherever these are stacked", func(ctx SpecContext) {
		for _, axis := range []int{0, 1, 2, -1} {
			m := textModel(fmt.Sprintf(`graph {
  opset 17
  input %%x: i64[N]
  %%y = Scan(%%x | ; num_scan_inputs=1, scan_output_axes=[%d]) "scan" {
    body: graph {
      input %%v: i64[]
      const %%zero = i64[1]{0}
      const %%three = i64[1]{3}
      const %%c = f32[1,1]{2.5}
      %%rows = Unsqueeze(%%v, %%zero)
      %%shape = Concat(%%rows, %%three; axis=0)
      %%slice = Expand(%%c, %%shape)
      output %%slice
    }
  }
  output %%y
}`, axis))
			p := compile(ctx, m, &carve.Options{Threads: 1})
			for _, rows := range [][]int64{{1, 2, 1}, {2, 1, 2}, {1, 2}, {2, 1}, {0, 1}} {
				_, err := p.Run(ctx, map[string]tensor.Value{"x": tensor.From(rows)})
				Expect(err).To(MatchError(ContainSubstring(fmt.Sprintf("iteration 1 gives f32[%d,3], iteration 0 f32[%d,3]", rows[1], rows[0]))), "axis %d", axis)
			}
			for _, rows := range [][]int64{{1, 1}, {2, 2, 2}, {0, 0}} {
				feeds := map[string]tensor.Value{"x": tensor.From(rows)}
				got, err := p.Run(ctx, feeds)
				Expect(err).NotTo(HaveOccurred())
				near(got["y"], referenceOutputs(ctx, m, feeds)["y"])
			}
		}
	})
})
