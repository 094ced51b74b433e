package carve_test

import (
	"context"
	"regexp"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/graph/tensor"
)

// convolving is a loop of m iterations around a convolution, whose weights it captures.
func convolving() string {
	return `graph {
  opset 17
  input %x: f32[1,16,12,12]
  input %m: i64[]
  const %c = bool[]{true}
  ` + constant("w", 16, 16, 3, 3) + `
  ` + constant("b", 16) + `
  %y = Loop(%m, %c, %x | %w, %b) "loop" {
    body: graph {
      input %i: i64[]
      input %k: bool[]
      input %v: f32[1,16,12,12]
      capture %w: f32[16,16,3,3]
      capture %b: f32[16]
      %a = Conv(%v, %w, %b; pads=[1, 1, 1, 1]) "conv"
      %next = Tanh(%a) "tanh"
      %l = Identity(%k)
      output %l, %next
    }
  }
  output %y
}`
}

// recurrent is a recurrent layer as a Scan, whose state is what it gives for each step.
func recurrent() string {
	return `graph {
  opset 17
  input %x: f32[T,2,8]
  input %h: f32[2,8]
  ` + constant("w", 8, 8) + `
  ` + constant("r", 8, 8) + `
  %last, %all = Scan(%h, %x | %w, %r; num_scan_inputs=1) "scan" {
    body: graph {
      input %s: f32[2,8]
      input %e: f32[2,8]
      capture %w: f32[8,8]
      capture %r: f32[8,8]
      %a = MatMul(%e, %w) "input"
      %b = MatMul(%s, %r) "state"
      %sum = Add(%a, %b) "sum"
      %next = Tanh(%sum) "tanh"
      output %next, %next
    }
  }
  output %last, %all
}`
}

// nested is a loop in a loop, around a convolution.
func nested() string {
	return `graph {
  opset 17
  input %x: f32[1,16,6,6]
  input %m: i64[]
  const %c = bool[]{true}
  ` + constant("w", 16, 16, 3, 3) + `
  %y = Loop(%m, %c, %x | %w) "outer" {
    body: graph {
      input %i: i64[]
      input %k: bool[]
      input %v: f32[1,16,6,6]
      capture %w: f32[16,16,3,3]
      const %two = i64[]{2}
      const %go = bool[]{true}
      %z = Loop(%two, %go, %v | %w) "inner" {
        body: graph {
          input %i2: i64[]
          input %k2: bool[]
          input %u: f32[1,16,6,6]
          capture %w: f32[16,16,3,3]
          %a = Conv(%u, %w; pads=[1, 1, 1, 1]) "conv"
          %next = Tanh(%a) "tanh"
          output %k2, %next
        }
      }
      %s = Sigmoid(%z) "sigmoid"
      output %k, %s
    }
  }
  output %y
}`
}

// branching is a loop around an If, which convolves with other weights after the first iterations.
func branching() string {
	return `graph {
  opset 17
  input %x: f32[1,16,8,8]
  input %m: i64[]
  const %c = bool[]{true}
  const %half = i64[]{3}
  ` + constant("w", 16, 16, 3, 3) + `
  ` + constant("u", 16, 16, 3, 3) + `
  %y = Loop(%m, %c, %x | %w, %u, %half) "loop" {
    body: graph {
      input %i: i64[]
      input %k: bool[]
      input %v: f32[1,16,8,8]
      capture %w: f32[16,16,3,3]
      capture %u: f32[16,16,3,3]
      capture %half: i64[]
      %early = Less(%i, %half) "early"
      %next = If(%early | %v, %w, %u) "if" {
        then_branch: graph {
          capture %v: f32[1,16,8,8]
          capture %w: f32[16,16,3,3]
          capture %u: f32[16,16,3,3]
          %a = Conv(%v, %w; pads=[1, 1, 1, 1]) "conv1"
          %t = Tanh(%a) "tanh1"
          output %t
        }
        else_branch: graph {
          capture %v: f32[1,16,8,8]
          capture %w: f32[16,16,3,3]
          capture %u: f32[16,16,3,3]
          %a = Conv(%v, %u; pads=[1, 1, 1, 1]) "conv2"
          %t = Sigmoid(%a) "sigmoid2"
          output %t
        }
      }
      %l = Identity(%k)
      output %l, %next
    }
  }
  output %y
}`
}

// surrounded is a loop around a convolution, with operators that run in any format and other convolutions in front of it, behind it and
// in what it captures.
func surrounded() string {
	return `graph {
  opset 17
  input %x: f32[1,16,12,12]
  input %m: i64[]
  const %c = bool[]{true}
  ` + constant("w", 16, 16, 3, 3) + `
  %p = Conv(%x, %w; pads=[1, 1, 1, 1]) "before"
  %q = Sigmoid(%p) "between"
  %side = Tanh(%q) "side"
  %y = Loop(%m, %c, %q | %w, %side) "loop" {
    body: graph {
      input %i: i64[]
      input %k: bool[]
      input %v: f32[1,16,12,12]
      capture %w: f32[16,16,3,3]
      capture %side: f32[1,16,12,12]
      %a = Conv(%v, %w; pads=[1, 1, 1, 1]) "conv"
      %b = Add(%a, %side) "add"
      %next = Tanh(%b) "tanh"
      output %k, %next
    }
  }
  %r = Sigmoid(%y) "behind"
  %s = Add(%r, %side) "sum"
  %t = Conv(%s, %w; pads=[1, 1, 1, 1]) "last"
  output %t
}`
}

// given is the text of a model whose constants of these names are inputs.
func given(text string, names ...string) string {
	for _, name := range names {
		text = regexp.MustCompile(`const %`+name+` = (f32\[[0-9,]*\])\{[^}]*\}`).ReplaceAllString(text, "input %"+name+": $1")
	}
	return text
}

// small returns a tensor of varied values in [-1/4, 1/4].
func small(shape ...int) *tensor.Tensor {
	t := wave(shape...)
	for i := range tensor.Of[float32](t) {
		tensor.Of[float32](t)[i] /= 4
	}
	return t
}

// spansOf counts the spans of a run by their operator.
func spansOf(ctx context.Context, p *carve.Program, feeds map[string]tensor.Value) map[string]int {
	GinkgoHelper()
	_, profile, err := p.RunProfiled(ctx, feeds)
	Expect(err).NotTo(HaveOccurred())
	n := map[string]int{}
	for _, s := range profile.Spans {
		n[s.Op]++
	}
	return n
}

// allocationsOf returns what a run into given outputs allocates.
func allocationsOf(ctx context.Context, p *carve.Program, inputs, outputs []*tensor.Tensor) float64 {
	GinkgoHelper()
	s, err := p.NewSession()
	Expect(err).NotTo(HaveOccurred())
	defer s.Close()
	return testing.AllocsPerRun(3, func() {
		if err := s.RunInto(ctx, inputs, outputs); err != nil {
			panic(err)
		}
	})
}

var _ = Describe("loops", func() {
	trips := func(n int64) *tensor.Tensor { return tensor.Scalar(n) }

	DescribeTable("are seen by the choice around them: one conversion in front of everything, and one behind it",
		func(ctx SpecContext, placement carve.Placement) {
			m := textModel(surrounded())
			p := compile(ctx, m, &carve.Options{Verify: true, Placement: placement, Threads: 1})
			feeds := map[string]tensor.Value{"x": wave(1, 16, 12, 12), "m": trips(9)}
			Expect(spansOf(ctx, p, feeds)["Convert"]).To(BeNumerically("<=", 2))
			r, err := p.Report(ctx, nil)
			Expect(err).NotTo(HaveOccurred())
			Expect(r.Run.Count).To(BeNumerically("<=", 2), "%v", r.Conversions)
			got, err := p.Run(ctx, feeds)
			Expect(err).NotTo(HaveOccurred())
			for name, want := range referenceOutputs(ctx, m, feeds) {
				near(got[name], want)
			}
		},
		Entry("by priority", carve.Priority), Entry("by cost", carve.Modelled),
	)

	DescribeTable("convert and copy nothing in an iteration, and allocate nothing",
		func(ctx SpecContext, text string, feeds func(n int) map[string]tensor.Value, outputs func(n int) []*tensor.Tensor) {
			m := textModel(text)
			p := compile(ctx, m, &carve.Options{Verify: true, Threads: 1})
			few, many := spansOf(ctx, p, feeds(7)), spansOf(ctx, p, feeds(1000))
			Expect(many["Convert"]).To(Equal(few["Convert"]))
			Expect(many["Convert"]).To(BeNumerically("<=", 3))
			Expect(many["Copy"]).To(Equal(few["Copy"]))
			Expect(many["Copy"]).To(BeNumerically("<=", 1))
			total := 0
			for _, n := range many {
				total += n
			}
			Expect(total).To(BeNumerically(">=", 1000), "the iterations are in the profile")
			list := func(n int) []*tensor.Tensor {
				var in []*tensor.Tensor
				for _, port := range p.Inputs() {
					in = append(in, feeds(n)[port.Name].(*tensor.Tensor))
				}
				return in
			}
			Expect(allocationsOf(ctx, p, list(1007), outputs(1007)) - allocationsOf(ctx, p, list(7), outputs(7))).To(BeNumerically("<", 5))
			r, err := p.Report(ctx, nil)
			Expect(err).NotTo(HaveOccurred())
			for _, c := range r.Conversions {
				Expect(c.Loop).To(BeEmpty(), "%v", c)
			}
			got, err := p.Run(ctx, feeds(5))
			Expect(err).NotTo(HaveOccurred())
			for name, want := range referenceOutputs(ctx, m, feeds(5)) {
				near(got[name], want)
			}
		},
		Entry("a Loop around a convolution", convolving(), func(n int) map[string]tensor.Value {
			return map[string]tensor.Value{"x": wave(1, 16, 12, 12), "m": trips(int64(n))}
		}, func(int) []*tensor.Tensor { return []*tensor.Tensor{wave(1, 16, 12, 12)} }),
		Entry("a Loop around a convolution whose weights are an input", given(convolving(), "w"), func(n int) map[string]tensor.Value {
			return map[string]tensor.Value{"x": wave(1, 16, 12, 12), "m": trips(int64(n)), "w": small(16, 16, 3, 3)}
		}, func(int) []*tensor.Tensor { return []*tensor.Tensor{wave(1, 16, 12, 12)} }),
		Entry("a recurrent layer as a Scan whose weights are inputs", given(recurrent(), "w", "r"), func(n int) map[string]tensor.Value {
			return map[string]tensor.Value{"x": wave(n, 2, 8), "h": wave(2, 8), "w": small(8, 8), "r": small(8, 8)}
		}, func(n int) []*tensor.Tensor { return []*tensor.Tensor{wave(2, 8), wave(n, 2, 8)} }),
		Entry("a recurrent layer as a Scan", recurrent(), func(n int) map[string]tensor.Value {
			return map[string]tensor.Value{"x": wave(n, 2, 8), "h": wave(2, 8)}
		}, func(n int) []*tensor.Tensor { return []*tensor.Tensor{wave(2, 8), wave(n, 2, 8)} }),
		Entry("a Loop in a Loop", nested(), func(n int) map[string]tensor.Value {
			return map[string]tensor.Value{"x": wave(1, 16, 6, 6), "m": trips(int64(n))}
		}, func(int) []*tensor.Tensor { return []*tensor.Tensor{wave(1, 16, 6, 6)} }),
		Entry("an If in a Loop", branching(), func(n int) map[string]tensor.Value {
			return map[string]tensor.Value{"x": wave(1, 16, 8, 8), "m": trips(int64(n))}
		}, func(int) []*tensor.Tensor { return []*tensor.Tensor{wave(1, 16, 8, 8)} }),
	)
})
