package carve_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/memplan"
	"github.com/carve-dev/carve/partition"
)

// branches is a model whose order of nodes keeps a wide value alive while another branch swells.
func branches() string {
	return strings.Join([]string{
		`graph "branches" {`, `  opset 17`, `  input %x: f32[N,16]`,
		`  ` + constant("narrow", 16, 96), `  ` + constant("wide", 16, 160), `  ` + constant("back", 96, 16), `  ` + constant("home", 160, 16),
		`  %s = Exp(%x) "start"`,
		`  %b = MatMul(%s, %narrow) "b"`, `  %a = MatMul(%s, %wide) "a"`,
		`  %a2 = MatMul(%a, %home) "a2"`, `  %b2 = MatMul(%b, %back) "b2"`,
		`  %m = Mul(%a2, %b2) "m"`, `  %y = MatMul(%m, %narrow) "y"`,
		`  output %y`, `}`}, "\n")
}

// buffersOf turns a plan into what memplan verifies.
func buffersOf(m *carve.MemoryPlan) (bufs []memplan.Buffer, offsets []int64) {
	for _, b := range m.Buffers {
		bufs = append(bufs, memplan.Buffer{ID: b.Name, Size: b.Bytes, Lower: b.First, Upper: b.End})
		offsets = append(offsets, b.Offset)
	}
	return bufs, offsets
}

var _ = Describe("the order of execution", func() {
	It("lowers the peak, and changes neither groups nor outputs", func(ctx SpecContext) {
		m := textModel(branches())
		in := map[string]tensor.Value{"x": wave(32, 16)}
		shapes := map[string][]int{"x": {32, 16}}
		kept, chosen := compile(ctx, m, &carve.Options{KeepOrder: true, Verify: true}), compile(ctx, m, &carve.Options{Verify: true})
		before, err := kept.Report(ctx, shapes)
		Expect(err).NotTo(HaveOccurred())
		after, err := chosen.Report(ctx, shapes)
		Expect(err).NotTo(HaveOccurred())
		Expect(before.Peak.After).To(Equal(before.Peak.Before))
		Expect(after.Peak.Before).To(Equal(before.Peak.Before))
		Expect(after.Peak.After).To(BeNumerically("<=", after.Peak.Before-32*(96-16)*4))
		Expect(after.Devices[0].Arena).To(BeNumerically("<", before.Devices[0].Arena))
		Expect(after.Devices[0].LowerBound).To(Equal(after.Devices[0].Arena))
		Expect(after.Groups).To(HaveLen(len(before.Groups)))
		Expect(after.Conversions).To(BeComparableTo(before.Conversions))
		a, err := kept.Run(ctx, in)
		Expect(err).NotTo(HaveOccurred())
		b, err := chosen.Run(ctx, in)
		Expect(err).NotTo(HaveOccurred())
		Expect(bits(b["y"])).To(Equal(bits(a["y"])))
	})

	It("is the same at every compilation", func(ctx SpecContext) {
		m := textModel(branches())
		var texts []string
		for range 2 {
			var text string
			compile(ctx, m, &carve.Options{Dump: func(pass string, g *graph.Graph) {
				if pass == "order-nodes" {
					text = g.String()
				}
			}})
			texts = append(texts, text)
		}
		Expect(texts[0]).NotTo(BeEmpty())
		Expect(texts[1]).To(Equal(texts[0]))
	})
})

var _ = Describe("Plan", func() {
	It("tells where everything lies", func(ctx SpecContext) {
		p := compile(ctx, textModel(branches()), nil)
		plans, err := p.Plan(ctx, map[string][]int{"x": {4, 16}})
		Expect(err).NotTo(HaveOccurred())
		Expect(plans).To(HaveLen(1))
		m := &plans[0]
		bufs, offsets := buffersOf(m)
		Expect(memplan.Verify(bufs, offsets, m.Arena)).To(Succeed())
		Expect(m.Arena).To(Equal(m.LowerBound))
		Expect(m.Naive).To(BeNumerically(">", m.Arena))
		var sizes []int64
		for _, b := range m.Buffers {
			Expect(b.Name).NotTo(BeEmpty())
			Expect(b.End).To(BeNumerically("<=", m.Steps))
			sizes = append(sizes, b.Bytes)
		}
		Expect(sizes).To(ContainElements(int64(4*96*4), int64(4*160*4)))
		var svg bytes.Buffer
		Expect(m.WriteSVG(&svg)).To(Succeed())
		rects := 0
		for d := xml.NewDecoder(&svg); ; {
			t, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			Expect(err).NotTo(HaveOccurred())
			if e, ok := t.(xml.StartElement); ok && e.Name.Local == "rect" {
				rects++
			}
		}
		Expect(rects).To(BeNumerically(">=", len(m.Buffers)))
	})

	It("leaves out only what depends on data", func(ctx SpecContext) {
		m := textModel(`graph {
  opset 17
  input %x: f32[N,8]
  %e = Exp(%x) "e"
  %t = Transpose(%e; perm=[1, 0]) "t"
  %s = Softmax(%t) "s"
  %i = NonZero(%s) "find"
  %f = Cast(%i; to=1) "cast"
  %d = ReduceSum(%f; keepdims=0) "sum"
  %y = Add(%t, %d) "y"
  output %y
}`)
		p := compile(ctx, m, &carve.Options{Verify: true, Poison: true})
		out, err := p.Run(ctx, map[string]tensor.Value{"x": wave(6, 8)})
		Expect(err).NotTo(HaveOccurred())
		Expect(out["y"].(*tensor.Tensor).Shape).To(Equal([]int{8, 6}))
		plans, err := p.Plan(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		var total int64
		for _, b := range plans[0].Buffers {
			total += b.Bytes
			Expect(b.Name).NotTo(HavePrefix("i"))
		}
		// e, t and s have a shape that is known, i, f and d have not.
		Expect(total).To(BeNumerically(">=", 2*6*8*4))
		want := referenceOutputs(ctx, m, map[string]tensor.Value{"x": wave(6, 8)})
		got, w := floats(out["y"]), floats(want["y"])
		for i := range w {
			Expect(got[i]).To(BeNumerically("~", w[i], 1e-4))
		}
	})
})

var _ = Describe("views and concatenations", func() {
	// plan returns the plan of the host for a model of one group, and checks its outputs and that the order of execution
	// counted what was planned.
	plan := func(ctx SpecContext, text string, x tensor.Value) carve.MemoryPlan {
		GinkgoHelper()
		m := textModel(text)
		p := compile(ctx, m, &carve.Options{Verify: true, Poison: true})
		in := map[string]tensor.Value{"x": x}
		got, err := p.Run(ctx, in)
		Expect(err).NotTo(HaveOccurred())
		for name, want := range referenceOutputs(ctx, m, in) {
			w := floats(want)
			for i, g := range floats(got[name]) {
				Expect(g).To(BeNumerically("~", w[i], 1e-4), name)
			}
		}
		plans, err := p.Plan(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		r, err := p.Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		if len(plans) == 0 { // all lies in the caller's memory
			Expect(r.Peak.After).To(BeZero())
			return carve.MemoryPlan{}
		}
		Expect(r.Peak.After).To(Equal(r.Devices[0].LowerBound))
		Expect(plans[0].Arena).To(Equal(plans[0].LowerBound))
		return plans[0]
	}

	DescribeTable("take neither steps nor memory", func(ctx SpecContext, shape []int, steps int, buffers []string, lines ...string) {
		text := "graph {\n  opset 17\n  const %i0 = i64[1]{0}\n  const %i1 = i64[1]{1}\n  const %i2 = i64[1]{2}\n  const %i5 = i64[1]{5}\n" +
			"  const %s = i64[2]{2, -1}\n"
		m := plan(ctx, text+strings.Join(lines, "\n")+"\n}", wave(shape...))
		var names []string
		for _, b := range m.Buffers {
			names = append(names, b.Name)
		}
		Expect(names).To(Equal(buffers))
		if len(buffers) > 0 {
			Expect(m.Steps).To(Equal(int64(steps)))
		}
	},
		Entry("Slice along the first dim", []int{6, 50}, 2, []string{"e #1"},
			`input %x: f32[6,50]`, `%e = Exp(%x) "e"`, `%p = Slice(%e, %i2, %i5, %i0) "p"`, `%y = Transpose(%p; perm=[1, 0]) "y"`, `output %y`),
		Entry("Slice behind dims of one", []int{1, 6, 50}, 2, []string{"e #1"},
			`input %x: f32[1,6,50]`, `%e = Exp(%x) "e"`, `%p = Slice(%e, %i2, %i5, %i1) "p"`, `%y = Transpose(%p; perm=[0, 2, 1]) "y"`, `output %y`),
		Entry("Split", []int{1, 6, 50}, 3, []string{"e #1", "b #1"},
			`input %x: f32[1,6,50]`, `%e = Exp(%x) "e"`, `%a, %c = Split(%e; axis=1) "p"`, `%b = Transpose(%a; perm=[0, 2, 1]) "b"`,
			`%y = MatMul(%b, %c) "y"`, `output %y`),
		Entry("Transpose that moves ones", []int{1, 6, 50}, 2, []string{"e #1"},
			`input %x: f32[1,6,50]`, `%e = Exp(%x) "e"`, `%t = Transpose(%e; perm=[1, 0, 2]) "t"`, `%y = Transpose(%t; perm=[2, 0, 1]) "y"`,
			`output %y`),
		Entry("Concat", []int{3, 50}, 3, []string{"a #1"},
			`input %x: f32[3,50]`, `%a = Exp(%x) "a"`, `%b = Neg(%x) "b"`, `%c = Concat(%a, %b; axis=0) "c"`, `%y = Transpose(%c; perm=[1, 0]) "y"`,
			`output %y`),
		Entry("Concat of several images", []int{2, 3, 4, 4}, 4, []string{"y", "a #1"},
			`input %x: f32[2,3,4,4]`, constant("w", 16, 3, 1, 1), constant("v", 32, 3, 1, 1), constant("u", 16, 48, 1, 1),
			`%a = Conv(%x, %w) "a"`, `%b = Conv(%x, %v) "b"`, `%c = Concat(%a, %b; axis=1) "c"`, `%y = Conv(%c, %u) "y"`, `output %y`),
		Entry("Concat of several images that grows", []int{2, 3, 4, 4}, 5, []string{"y", "a #1"},
			`input %x: f32[2,3,4,4]`, constant("w", 16, 3, 1, 1), constant("v", 16, 16, 1, 1), constant("u", 16, 32, 1, 1), constant("t", 16, 48, 1, 1),
			`%a = Conv(%x, %w) "a"`, `%b = Conv(%a, %v) "b"`, `%c = Concat(%a, %b; axis=1) "c"`, `%d = Conv(%c, %u) "d"`,
			`%e = Concat(%a, %b, %d; axis=1) "e"`, `%y = Conv(%e, %t) "y"`, `output %y`),
		Entry("Concat that is an output", []int{3, 50}, 2, nil,
			`input %x: f32[3,50]`, `%a = Exp(%x) "a"`, `%b = Neg(%x) "b"`, `%y = Concat(%a, %b; axis=0) "y"`, `output %y`),
		Entry("Concat of another shape", []int{3, 50}, 2, nil,
			`input %x: f32[3,50]`, `%a = Exp(%x) "a"`, `%r = Reshape(%a, %s) "r"`, `%b = Neg(%x) "b"`, `%q = Reshape(%b, %s) "q"`,
			`%y = Concat(%r, %q; axis=0) "y"`, `output %y`),
	)
})

var _ = Describe("Bounds", func() {
	image := func(n int) map[string]tensor.Value { return map[string]tensor.Value{"x": wave(n, 3, 12, 12)} }
	shape := func(n int) map[string][]int { return map[string][]int{"x": {n, 3, 12, 12}} }
	bounds := map[string]int{"N": 6, "H": 12, "W": 12}

	It("plan once for all smaller shapes, in one arena", func(ctx SpecContext) {
		m := textModel(smallNet())
		bounded := compile(ctx, m, &carve.Options{Bounds: bounds, Verify: true, MaxSessions: 1})
		free := compile(ctx, m, &carve.Options{MaxSessions: 1})
		var held []int64
		for _, n := range []int{2, 6, 1, 5} {
			got, err := bounded.Run(ctx, image(n))
			Expect(err).NotTo(HaveOccurred())
			want, err := free.Run(ctx, image(n))
			Expect(err).NotTo(HaveOccurred())
			Expect(bits(got["y"])).To(Equal(bits(want["y"])), "%d images", n)
			held = append(held, bounded.Memory().Arenas)
		}
		Expect(held).To(HaveEach(held[0]))
		small, err := bounded.Plan(ctx, shape(2))
		Expect(err).NotTo(HaveOccurred())
		large, err := bounded.Plan(ctx, shape(6))
		Expect(err).NotTo(HaveOccurred())
		Expect(small).To(BeComparableTo(large))
		own, err := free.Plan(ctx, shape(2))
		Expect(err).NotTo(HaveOccurred())
		Expect(own[0].Arena).To(BeNumerically("<", large[0].Arena))
	})

	It("are limits", func(ctx SpecContext) {
		p := compile(ctx, textModel(smallNet()), &carve.Options{Bounds: map[string]int{"N": 2}})
		_, err := p.Run(ctx, image(2))
		Expect(err).NotTo(HaveOccurred())
		_, err = p.Run(ctx, image(3))
		Expect(err).To(MatchError(carve.ErrInput))
		Expect(err).To(MatchError(ContainSubstring("dim N is larger than its bound")))
	})

	DescribeTable("are checked", func(ctx SpecContext, o carve.Options, want error) {
		_, err := carve.Compile(ctx, textModel(smallNet()), &o)
		Expect(err).To(MatchError(want))
	},
		Entry("an unknown dim", carve.Options{Bounds: map[string]int{"Q": 2}}, carve.ErrInput),
		Entry("a negative bound", carve.Options{Bounds: map[string]int{"N": -2}}, graph.ErrDimValue),
		Entry("a dim above its bound", carve.Options{Bounds: map[string]int{"N": 2}, Dims: map[string]int{"N": 3}}, carve.ErrInput),
	)
})

var _ = Describe("memory plans of the zoo", Label("zoo"), func() {
	It("meet the lower bound in both orders, and the order costs neither groups nor conversions", func(ctx SpecContext) {
		for _, name := range append(largeZoo(), smallZoo...) {
			z := openZoo(ctx, name)
			shapes := z.shapes()
			var groups, conversions []int
			for _, keep := range []bool{true, false} {
				p := compile(ctx, z.Model, &carve.Options{KeepOrder: keep, Verify: true})
				r, err := p.Report(ctx, shapes)
				Expect(err).NotTo(HaveOccurred(), name)
				Expect(r.Devices[0].Arena).To(Equal(r.Devices[0].LowerBound), name)
				Expect(r.Peak.After).To(BeNumerically("<=", r.Peak.Before), name)
				groups, conversions = append(groups, len(r.Groups)), append(conversions, len(r.Conversions))
				plans, err := p.Plan(ctx, shapes)
				Expect(err).NotTo(HaveOccurred(), name)
				bufs, offsets := buffersOf(&plans[0])
				Expect(memplan.Verify(bufs, offsets, plans[0].Arena)).To(Succeed(), name)
				greedy, err := memplan.Greedy(bufs)
				Expect(err).NotTo(HaveOccurred(), name)
				Expect(greedy.Height).To(BeNumerically("<=", plans[0].LowerBound+plans[0].LowerBound/100), name)
				Expect(p.Close()).To(Succeed())
			}
			Expect(groups[1]).To(BeNumerically("<=", groups[0]), name)
			Expect(conversions[1]).To(BeNumerically("<=", conversions[0]), name)
		}
	})
})

var _ = Describe("in-place at the edges of groups", func() {
	It("gives an element-wise result its operand's memory, and leaves the caller's alone", func(ctx SpecContext) {
		m := textModel(`graph {
  opset 17
  input %x: f32[N,50]
  %n = Neg(%x) "n"
  %e = Exp(%n) "e"
  %a = Abs(%e) "a"
  %s = Sigmoid(%a) "s"
  %y = Sqrt(%s) "y"
  output %y
}`)
		pins := []partition.Pin{{Node: "n", Backend: "reference"}, {Node: "a", Backend: "reference"}, {Node: "y", Backend: "reference"}}
		p := compile(ctx, m, &carve.Options{Pins: pins, Verify: true, Poison: true})
		in := map[string]tensor.Value{"x": wave(3, 50)}
		was := bits(in["x"])
		got, err := p.Run(ctx, in)
		Expect(err).NotTo(HaveOccurred())
		Expect(bits(in["x"])).To(Equal(was))
		want := referenceOutputs(ctx, m, in)
		for i, w := range floats(want["y"]) {
			Expect(floats(got["y"])[i]).To(BeNumerically("~", w, 1e-5))
		}
		plans, err := p.Plan(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		var names []string
		for _, b := range plans[0].Buffers {
			names = append(names, b.Name)
		}
		// e lies in n and s in a.
		Expect(names).To(Equal([]string{"n", "a"}))
	})
})
