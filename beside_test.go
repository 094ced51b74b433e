package carve_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph/tensor"
)

var _ = Describe("memory that a run holds beside its arenas", func() {
	feeds := func(n int, m int64) map[string]tensor.Value {
		return map[string]tensor.Value{"x": wave(n), "m": tensor.Scalar(m)}
	}
	const limit = 8 << 20

	DescribeTable("stays within MaxArenaBytes, and what one run held is free for the next",
		func(ctx SpecContext, text string, few, many map[string]tensor.Value) {
			for _, name := range []string{"cpu", "reference"} {
				p := compile(ctx, textModel(text), &carve.Options{Backends: []backend.Config{{Name: name}}, MaxArenaBytes: limit, MaxSessions: 1})
				for range 3 {
					_, err := p.Run(ctx, few)
					Expect(err).NotTo(HaveOccurred(), name)
					_, err = p.Run(ctx, many)
					Expect(err).To(MatchError(carve.ErrMemoryLimit), name)
				}
				for range 20 { // what is not given back adds up
					_, err := p.Run(ctx, few)
					Expect(err).NotTo(HaveOccurred(), name)
				}
			}
		},
		Entry("the state of a loop, which doubles", doubling, feeds(1000, 8), feeds(1000, 1<<40)),
		Entry("a sequence, which grows", growing, feeds(10000, 20), feeds(10000, 1<<40)),
		Entry("what a loop collects", collecting, feeds(10000, 20), feeds(10000, 1<<40)),
		Entry("what a Scan collects", scanning, map[string]tensor.Value{"x": wave(8, 100)}, map[string]tensor.Value{"x": wave(800, 100)}),
		Entry("a result whose shape depends on data", repeating, feeds(1000, 100), feeds(1000, 1<<20)),
	)

	It("includes what reference kernels work in", func(ctx SpecContext) {
		text := "graph {\n  opset 17\n  input %x: u8[N]\n  %y = Max(%x, %x) \"max\"\n  output %y\n}"
		p := compile(ctx, textModel(text), &carve.Options{Backends: []backend.Config{{Name: "reference"}}, MaxArenaBytes: limit})
		_, err := p.Run(ctx, map[string]tensor.Value{"x": tensor.From(make([]uint8, 1000))})
		Expect(err).NotTo(HaveOccurred())
		_, err = p.Run(ctx, map[string]tensor.Value{"x": tensor.From(make([]uint8, 4*limit))})
		Expect(err).To(MatchError(carve.ErrMemoryLimit))
	})

	It("includes what the fallback of a group holds", func(ctx SpecContext) {
		b := newFaulty("beside", "Sin", "Exp", "Cos")
		b.specialize = func() error { return backend.ErrUnavailable }
		text := "graph {\n  opset 17\n  input %x: f32[N]\n  %a = Sin(%x)\n  %b = Exp(%a)\n  %y = Cos(%b)\n  output %y\n}"
		o := withFaulty(b)
		o.MaxArenaBytes = limit
		p := compile(ctx, textModel(text), o)
		_, err := p.Run(ctx, map[string]tensor.Value{"x": wave(1000)})
		Expect(err).NotTo(HaveOccurred())
		_, err = p.Run(ctx, map[string]tensor.Value{"x": wave(limit / 8)})
		Expect(err).To(MatchError(carve.ErrMemoryLimit))
	})
})

const doubling = `graph {
  opset 17
  input %x: f32[N]
  input %m: i64[]
  const %c = bool[]{true}
  %y = Loop(%m, %c, %x |) "grow" {
    body: graph {
      input %i: i64[]
      input %k: bool[]
      input %v: f32[?a]
      %next = Concat(%v, %v; axis=0) "double"
      %l = Identity(%k)
      output %l, %next
    }
  }
  %n = Shape(%y) "shape"
  output %n
}`

const growing = `graph {
  opset 17
  input %x: f32[N]
  input %m: i64[]
  const %c = bool[]{true}
  %start = SequenceConstruct(%x) "make"
  %y = Loop(%m, %c, %start | %x) "grow" {
    body: graph {
      input %i: i64[]
      input %k: bool[]
      input %v: seq(f32[?])
      capture %x: f32[N]
      %t = Sin(%x)
      %next = SequenceInsert(%v, %t) "insert"
      %l = Identity(%k)
      output %l, %next
    }
  }
  %n = SequenceLength(%y) "length"
  output %n
}`

const collecting = `graph {
  opset 17
  input %x: f32[N]
  input %m: i64[]
  const %c = bool[]{true}
  %y = Loop(%m, %c | %x) "collect" {
    body: graph {
      input %i: i64[]
      input %k: bool[]
      capture %x: f32[N]
      %t = Sin(%x)
      %l = Identity(%k)
      output %l, %t
    }
  }
  %n = Shape(%y) "shape"
  output %n
}`

const scanning = `graph {
  opset 17
  input %x: f32[N,M]
  %y = Scan(%x; num_scan_inputs=1) "scan" {
    body: graph {
      input %r: f32[M]
      const %times = i64[1]{40}
      %t = Tile(%r, %times)
      output %t
    }
  }
  output %y
}`

const repeating = `graph {
  opset 17
  input %x: f32[N]
  input %m: i64[]
  const %one = i64[1]{1}
  const %zero = i64[]{0}
  %r = Reshape(%m, %one)
  %t = Tile(%x, %r) "tile"
  %y = ReduceMax(%t; keepdims=0) "max"
  output %y
}`
