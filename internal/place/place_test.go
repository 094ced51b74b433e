package place_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/place"
)

func parse(text string) *graph.Graph {
	GinkgoHelper()
	g, err := graph.Parse("graph {\n  opset 17\n" + text + "\n}")
	Expect(err).NotTo(HaveOccurred())
	Expect(graph.InferGraph(g)).To(Succeed())
	return g
}

// wanted is a plan of a backend for which Exp and Relu neither write strided rows nor read them.
func wanted(g *graph.Graph) (*place.Plan, error) { return wantedAt(g, 2) }

// wantedAt is wanted for a value of n.
func wantedAt(g *graph.Graph, n int64) (*place.Plan, error) {
	order, err := g.Topo()
	if err != nil {
		return nil, err
	}
	p, err := place.New(g, order, graph.Bindings{"n": n})
	if err != nil {
		return nil, err
	}
	p.WantOutputs()
	p.WantConcats(1, func(n *graph.Node) bool { return place.IsView(n) },
		func(n *graph.Node, _ *graph.Value, m place.Memory) bool { return !n.Is("Exp", "Relu") && m.Row >= 8 })
	return p, nil
}

// settle says that views are some, and that unary operators run in place.
func settle(p *place.Plan) func(n *graph.Node) {
	return func(n *graph.Node) {
		switch y := n.Outputs[0]; {
		case place.IsView(n):
			p.View(y, n.Inputs[0])
		case len(n.Inputs) == 1:
			p.Offer(y, n.Inputs[0])
			p.InPlace(y, n.Inputs[0])
		}
	}
}

// planned is a plan of a backend for which every operator takes one step, and views and concatenations of what was made in
// place none.
func planned(ctx context.Context, g *graph.Graph) (*place.Plan, error) {
	p, err := wanted(g)
	if err != nil {
		return nil, err
	}
	return p, p.Each(ctx, settle(p), func(n *graph.Node) error { return step(p, n) })
}

// step emits a node's step, where it has one.
func step(p *place.Plan, n *graph.Node) error {
	y := n.Outputs[0]
	switch {
	case place.IsView(n) && p.View(y, n.Inputs[0]):
		return nil
	case n.Is("Concat"):
		dst := p.Out(y)
		parts, ok := p.ConcatPlaces(n, dst)
		Expect(ok).To(BeTrue())
		for i, v := range n.Inputs {
			if p.In(v) != parts[i] {
				p.Step(0, []place.Memory{p.In(v)}, []place.Memory{dst})
			}
		}
		return nil
	}
	var reads []place.Memory
	for _, v := range n.Inputs {
		reads = append(reads, p.In(v))
	}
	p.Step(1, reads, []place.Memory{p.Out(y)})
	return nil
}

// where tells where values lie, as "name kind+offset", and their rows as ":row/pitch".
func where(p *place.Plan, names ...string) string {
	kinds := map[place.Kind]string{place.Input: "input", place.Output: "output", place.Const: "const", place.Buffer: "buffer", place.Data: "data"}
	var out []string
	tell := func(v *graph.Value) {
		if slices.Contains(names, v.Name) {
			m := p.In(v)
			s := fmt.Sprintf("%s %s%d+%d", v.Name, kinds[p.Slots[m.Slot].Kind], p.Slots[m.Slot].Index, m.Off)
			if m.Pitch != 0 {
				s += fmt.Sprintf(":%d/%d", m.Row, m.Pitch)
			}
			out = append(out, s)
		}
	}
	for _, v := range p.Sub.Inputs {
		tell(v)
	}
	for _, n := range p.Order {
		tell(n.Outputs[0])
	}
	return strings.Join(out, ", ")
}

var _ = DescribeTable("places", func(ctx SpecContext, text string, names, want string) {
	p, err := planned(ctx, parse(text))
	Expect(err).NotTo(HaveOccurred())
	Expect(where(p, strings.Fields(names)...)).To(Equal(want))
},
	Entry("a result overwrites what nobody reads any more, and outputs are made where they are wanted", `
  input %x: f32[4]
  %a = Neg(%x)
  %b = Exp(%a)
  %y = Tanh(%b)
  output %y`, "x a b y", "x input0+0, a buffer0+0, b buffer0+0, y output0+0"),
	Entry("not what another reads later", `
  input %x: f32[4]
  %a = Neg(%x)
  %b = Exp(%a)
  %c = Add(%a, %b)
  %y = Tanh(%c)
  output %y`, "a b", "a buffer0+0, b buffer1+0"),
	Entry("a view lies where its operand does, and an output behind views is made in place", `
  input %x: f32[4]
  %a = Neg(%x)
  %b = Identity(%a)
  %c = Exp(%b)
  %y = Identity(%c)
  output %y`, "a b c y", "a buffer0+0, b buffer0+0, c output0+0, y output0+0"),
	Entry("operands of a concatenation are made in its result", `
  input %x: f32[2,n]
  %a = Neg(%x)
  %b = Exp(%x)
  %c = Concat(%a, %b; axis=0)
  %y = Tanh(%c)
  output %y`, "a b c", "a buffer0+0, b buffer0+16, c buffer0+0"),
	Entry("concatenations that grow share a buffer", `
  input %x: f32[2,n]
  %a = Neg(%x)
  %b = Exp(%x)
  %c = Concat(%a, %b; axis=0)
  %d = Tanh(%c)
  %e = Concat(%a, %b, %d; axis=0)
  %y = Tanh(%e)
  output %y`, "a b c d e", "a buffer0+0, b buffer0+16, c buffer0+0, d buffer0+32, e buffer0+0"),
	Entry("inputs of the group are copied into a concatenation", `
  input %x: f32[2,n]
  %b = Exp(%x)
  %c = Concat(%x, %b; axis=0)
  %y = Tanh(%c)
  output %y`, "x b c", "x input0+0, b buffer0+16, c buffer0+0"),
	Entry("operands along another axis are made in strided rows", `
  input %x: f32[3,2]
  input %z: f32[3,4]
  %a = Neg(%x)
  %b = Neg(%z)
  %c = Concat(%a, %b; axis=-1)
  %y = Tanh(%c)
  output %y`, "a b c", "a buffer0+0:8/24, b buffer0+8:16/24, c buffer0+0"),
	Entry("also where an output is wanted, and through views", `
  input %x: f32[3,2]
  const %s = i64[2]{3, 4}
  input %z: f32[12]
  %a = Neg(%x)
  %b = Neg(%z)
  %r = Reshape(%b, %s)
  %y = Concat(%a, %r; axis=1)
  output %y`, "a b r y", "a output0+0:8/24, b output0+8:16/24, r output0+8:16/24, y output0+0"),
	Entry("not rows that are too short", `
  input %x: f32[3,1]
  input %z: f32[3,4]
  %a = Neg(%x)
  %b = Neg(%z)
  %c = Concat(%a, %b; axis=-1)
  %y = Tanh(%c)
  output %y`, "a b c", "a buffer1+0, b buffer0+4:16/20, c buffer0+0"),
	Entry("not what a kernel writes that cannot, or another reads that cannot, be it through a view", `
  input %x: f32[2,4]
  %a = Exp(%x)
  %b = Neg(%x)
  %d = Neg(%x)
  const %s = i64[1]{8}
  %r = Reshape(%d, %s)
  %c = Concat(%a, %b, %d; axis=1)
  %e = Exp(%b)
  %f = Exp(%r)
  %y = Tanh(%c)
  output %y
  output %e
  output %f`, "a b d", "a buffer1+0, b buffer2+0, d buffer3+0"),
	Entry("what others read that can, or that lies together", `
  input %x: f32[2,4]
  %a = Neg(%x)
  const %s = i64[1]{8}
  %r = Reshape(%a, %s)
  %c = Concat(%a, %x; axis=1)
  %e = Tanh(%r)
  %y = Tanh(%c)
  output %y
  output %e`, "a r c", "a buffer0+0:16/32, r buffer0+0:16/32, c buffer0+0"),
	Entry("one in the other, along the same axis or one before", `
  input %x: f32[2,4]
  %a = Neg(%x)
  %b = Neg(%x)
  %c = Concat(%a, %b; axis=0)
  %d = Neg(%c)
  %e = Concat(%d, %c; axis=1)
  %f = Neg(%e)
  %g = Concat(%e, %f; axis=1)
  %y = Tanh(%g)
  output %y`, "a b c d e f g",
		"a buffer0+16:16/64, b buffer0+144:16/64, c buffer0+16:16/64, d buffer0+0:16/64, e buffer0+0:32/64, f buffer0+32:32/64, g buffer0+0"),
	Entry("not along an axis behind, whose rows would be divided", `
  input %x: f32[2,3,2]
  %a = Neg(%x)
  %b = Neg(%x)
  %c = Concat(%a, %b; axis=2)
  %d = Neg(%c)
  %e = Concat(%c, %d; axis=1)
  %y = Tanh(%e)
  output %y`, "a b c d", "a buffer1+0, b buffer2+0, c buffer0+0:48/96, d buffer0+48:48/96"),
	Entry("concatenations that grow along another axis", `
  input %x: f32[2,4]
  %a = Neg(%x)
  %b = Neg(%x)
  %c = Concat(%a, %b; axis=1)
  %d = Neg(%c)
  %e = Concat(%a, %b, %d; axis=1)
  %y = Tanh(%e)
  output %y`, "a b c d e", "a buffer0+0:16/64, b buffer0+16:16/64, c buffer0+0:32/64, d buffer0+32:32/64, e buffer0+0"),
	Entry("but for one with a reader that cannot", `
  input %x: f32[2,4]
  %a = Neg(%x)
  %b = Neg(%x)
  %c = Concat(%a, %b; axis=1)
  %d = Exp(%c)
  %e = Concat(%a, %b, %d; axis=1)
  %y = Tanh(%e)
  output %y`, "a b c d e", "a buffer0+0:16/64, b buffer0+16:16/64, c buffer1+0, d buffer1+0, e buffer0+0"),
	Entry("an operand that comes again is copied there", `
  input %x: f32[2,4]
  %a = Neg(%x)
  %c = Concat(%a, %a; axis=1)
  %y = Tanh(%c)
  output %y`, "a c", "a buffer0+0:16/32, c buffer0+0"),
)

var _ = Describe("requirements", func() {
	It("say which steps touch what", func(ctx SpecContext) {
		p, err := planned(ctx, parse(`
  input %x: f32[4]
  input %z: f32[4]
  %a = Neg(%x)
  %b = Exp(%a)
  %c = Add(%b, %z)
  %y = Tanh(%c)
  output %b
  output %y`))
		Expect(err).NotTo(HaveOccurred())
		p.Temp(100) // used by nobody
		r := p.Finish()
		Expect(r.Steps).To(Equal(4))
		Expect(r.Inputs).To(Equal([]backend.PortUse{{Bytes: 16, Last: 0}, {Bytes: 16, Last: 2}}))
		Expect(r.Outputs).To(Equal([]backend.PortUse{{Bytes: 16, First: 1, Last: 2}, {Bytes: 16, First: 3, Last: 3}}))
		Expect(r.Buffers).To(Equal([]backend.Buffer{{Bytes: 16, First: 0, Last: 1}, {Bytes: 16, First: 2, Last: 3}, {}}))
		Expect(r.Labels[2].Op).To(Equal("Add"))
	})

	It("divides the FLOPs of a node among its steps, by their work", func(ctx SpecContext) {
		p, err := wanted(parse(`
  input %x: f32[2,3]
  const %w = f32[3,4]{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}
  %a = Neg(%x)
  %y = MatMul(%a, %w)
  output %y`))
		Expect(err).NotTo(HaveOccurred())
		Expect(p.Each(ctx, func(*graph.Node) {}, func(n *graph.Node) error {
			for _, work := range []int{0, 1, 3} {
				p.Step(work, nil, nil)
			}
			return nil
		})).To(Succeed())
		var got []float64
		for _, l := range p.Finish().Labels {
			got = append(got, l.FLOPs)
		}
		Expect(got).To(Equal([]float64{0, 0, 0, 0, 12, 36}))
	})

	DescribeTable("offer an output the place of an input", func(ctx SpecContext, text string, want []backend.InPlace) {
		p, err := planned(ctx, parse(text))
		Expect(err).NotTo(HaveOccurred())
		Expect(p.Finish().InPlace).To(Equal(want))
	},
		Entry("that nobody reads any more", `
  input %x: f32[4]
  %y = Neg(%x)
  output %y`, []backend.InPlace{{Output: 0, Input: 0}}),
		Entry("not where another reads it later", `
  input %x: f32[4]
  %y = Neg(%x)
  %z = Exp(%x)
  output %y
  output %z`, []backend.InPlace{{Output: 1, Input: 0}}),
	)
})

var _ = Describe("Each", func() {
	It("gives every result that is read its place before steps are emitted", func(ctx SpecContext) {
		p, err := wanted(parse("  input %x: f32[4]\n  %y = Neg(%x)\n  %z = Size(%y)\n  output %z"))
		Expect(err).NotTo(HaveOccurred())
		Expect(p.Each(ctx, settle(p), func(n *graph.Node) error {
			Expect(p.In(n.Outputs[0]).Slot).To(BeNumerically(">=", 0), n.String())
			return nil
		})).To(Succeed())
	})

	It("fails where planning does, and says where", func(ctx SpecContext) {
		g := parse("  input %x: f32[4]\n  %y = Neg(%x) \"odd\"\n  output %y")
		order, err := g.Topo()
		Expect(err).NotTo(HaveOccurred())
		p, err := place.New(g, order, nil)
		Expect(err).NotTo(HaveOccurred())
		cause := errors.New("cause")
		err = p.Each(ctx, func(*graph.Node) {}, func(*graph.Node) error { return cause })
		Expect(err).To(MatchError(cause))
		Expect(err).To(MatchError(ContainSubstring("odd")))
	})

	It("ends with its context", func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_, err := planned(ctx, parse("  input %x: f32[4]\n  %y = Neg(%x)\n  output %y"))
		Expect(err).To(MatchError(context.Canceled))
	})
})

var _ = Describe("New", func() {
	It("fails where a symbol has no value", func() {
		g := parse("  input %x: f32[m]\n  %y = Neg(%x)\n  output %y")
		order, err := g.Topo()
		Expect(err).NotTo(HaveOccurred())
		_, err = place.New(g, order, nil)
		Expect(err).To(HaveOccurred())
	})
})

var _ = Describe("a Storage", func() {
	It("points places at a run's memory", func(ctx SpecContext) {
		p, err := planned(ctx, parse("  input %x: f32[4]\n  %y = Neg(%x)\n  output %y"))
		Expect(err).NotTo(HaveOccurred())
		s := place.NewStorage(p.Slots)
		in, out := tensor.From([]float32{1, 2, 3, 4}, 4), tensor.From(make([]float32, 4), 4)
		Expect(s.BindTo(&backend.RunArgs{Inputs: []*tensor.Tensor{in}, Outputs: []*tensor.Tensor{out}})).To(Succeed())
		x := p.In(p.Sub.Inputs[0])
		Expect(s.F32(x)).To(Equal([]float32{1, 2, 3, 4}))
		Expect(s.F32(x.Part(4, 8))).To(Equal([]float32{2, 3}))
		Expect(place.Elements[int32](s.Bytes(x))).To(HaveLen(4))
		Expect(*(*float32)(s.At(x.Part(8, 4)))).To(Equal(float32(3)))
		Expect(s.Bytes(place.Nowhere)).To(BeNil())

		short := tensor.From(make([]float32, 3), 3)
		Expect(s.BindTo(&backend.RunArgs{Inputs: []*tensor.Tensor{in}, Outputs: []*tensor.Tensor{short}})).To(MatchError(place.ErrShort))
		Expect(s.BindTo(&backend.RunArgs{Inputs: []*tensor.Tensor{nil}, Outputs: []*tensor.Tensor{out}})).To(MatchError(place.ErrShort))
	})
})

var _ = DescribeTable("channels of a slice", func(args string, start int, ok bool) {
	g := parse("  input %x: f32[1,32,4,4]\n  const %a = i64[1]{" + args + "}\n  const %e = i64[1]{32}\n  const %i = i64[1]{1}\n" +
		"  %y = Slice(%x, %a, %e, %i)\n  output %y")
	got, found := place.ChannelSlice(g.Outputs[0].Producer)
	Expect(found).To(Equal(ok))
	Expect(got).To(Equal(start))
},
	Entry("from a number", "16", 16, true),
	Entry("counted from the end", "-4", 28, true),
)
