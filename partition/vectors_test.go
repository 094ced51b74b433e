package partition_test

import (
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/partition"
	"github.com/carve-dev/carve/property"
)

// text makes a graph of short lines "n = Op(inputs)" with float32 values [1,16,4,4]; heads are the outputs.
func text(heads string, lines ...string) string {
	var b strings.Builder
	b.WriteString("graph \"vector\" {\n  opset 17\n  input %x: f32[1,16,4,4]\n  input %y: f32[1,16,4,4]\n")
	for _, l := range lines {
		name, rest, _ := strings.Cut(l, " = ")
		op, args, _ := strings.Cut(strings.TrimSuffix(rest, ")"), "(")
		b.WriteString("  %" + name + " = " + op + "(%" + strings.ReplaceAll(args, ", ", ", %") + ")\n")
	}
	b.WriteString("  output %" + strings.ReplaceAll(heads, ", ", ", %") + "\n}\n")
	return b.String()
}

// Graphs on which systems before made groups that depend on each other, lost results, or gave other answers from run to
// run. A is Max, B is Sum, S is Mean, M is Neg, which take any number of inputs.
var _ = Describe("Regression vectors", func() {
	host := func() backend.Backend { return instance("host-ref", graph.RowMajor) }
	only := func(name string, takes ...string) backend.Backend { return instance(name, opaque(name), takes...) }

	It("interleaved nodes of two backends", func(ctx SpecContext) {
		g := parse(text("p2, q2", "p1 = Neg(x)", "q1 = Abs(p1)", "q0 = Abs(x)", "p2 = Min(p1, q0)", "q2 = Mean(q1, q0)"))
		res := carved(ctx, g, &partition.Options{Backends: []backend.Backend{only("p", "Neg", "Min"), only("q", "Abs", "Mean")}})
		Expect(groups(res)).To(ConsistOf("q: q0", "p: p1 p2", "q: q1 q2"))
	})

	for _, disconnected := range []bool{false, true} {
		It("sets of one property that go around each other", func(ctx SpecContext) {
			g := parse(text("n3, n5", "n1 = Max(x)", "n2 = Sum(x, n1)", "n0 = Max(x)", "n3 = Max(n2, n0)", "n4 = Sum(n0, n0)", "n5 = Max(n1, n4)"))
			res := carved(ctx, g, &partition.Options{Backends: []backend.Backend{only("a", "Max"), host()}, Disconnected: disconnected})
			most := 0
			for _, s := range groups(res) {
				if strings.HasPrefix(s, "a: ") {
					most++
				}
			}
			Expect(most).To(BeNumerically("<=", 3), "%v", groups(res))
		})
	}

	It("two sets that stand around each other in one hop", func(ctx SpecContext) {
		lines := []string{"a0 = Max(x)", "s1 = Mean(x)", "a1 = Max(a0, s1)", "s2 = Mean(a1, s1)"}
		g := parse(text("s2", lines...))
		res := carved(ctx, g, &partition.Options{Backends: []backend.Backend{only("a", "Max"), only("s", "Mean"), host()}})
		Expect(groups(res)).To(ConsistOf("s: s1", "a: a0 a1", "s: s2"))

		By("the same with one property for each, on one backend")
		g = parse(text("s2", lines...))
		a, s := property.Nodes("a", property.Ops("Max")), property.Nodes("s", property.Ops("Mean"))
		res = carved(ctx, g, &partition.Options{Backends: []backend.Backend{only("p"), host()}, Properties: map[string][]property.SubgraphProperty{
			"p": {property.WithKind(property.Bounding, a), property.WithKind(property.Bounding, s)}}})
		Expect(groups(res)).To(ConsistOf("p: s1", "p: a0 a1", "p: s2"))

		By("the same as atomic claims")
		g = parse(text("s2", lines...))
		res = carved(ctx, g, &partition.Options{Backends: []backend.Backend{only("p"), host()}, Properties: map[string][]property.SubgraphProperty{
			"p": {fused{a, graph.HostFormat}, fused{s, graph.HostFormat}}}})
		Expect(groups(res)).To(Equal([]string{"p: (s1) (a0 a1) (s2)"}))
	})

	It("a Filter that drops the middle", func(ctx SpecContext) {
		for _, kind := range []property.Kind{property.Atomic, property.Bounding, property.Admitting} {
			g := parse(text("c", "a = Max(x)", "b = Neg(a)", "c = Max(b)"))
			res := carved(ctx, g, &partition.Options{
				Backends: []backend.Backend{only("p"), host()},
				Properties: map[string][]property.SubgraphProperty{"p": {fused{
					property.WithKind(kind, dropping{property.Nodes("all", property.Ops("Max", "Neg")), "Neg"}), graph.HostFormat}}},
			})
			switch kind {
			case property.Atomic:
				Expect(groups(res)).To(Equal([]string{"p: (a) b (c)"}))
			case property.Bounding:
				Expect(groups(res)).To(Equal([]string{"p: a", "p: b", "p: c"}))
			case property.Admitting:
				Expect(groups(res)).To(Equal([]string{"p: a", "host-ref: b", "p: c"}))
			}
		}
	})

	It("a cycle behind chained diamonds", func(ctx SpecContext) {
		g := parse(text("a2", "a = Max(x)", "b = Sum(a)", "c = Sum(y)", "l1 = Neg(c)", "r1 = Neg(c)", "m1 = Sum(l1, r1)",
			"l2 = Neg(m1)", "r2 = Neg(m1)", "m2 = Sum(l2, r2)", "j = Sum(b, m2)", "a2 = Max(a, j)"))
		res := carved(ctx, g, &partition.Options{Backends: []backend.Backend{only("a", "Max"), host()}})
		Expect(groups(res)).To(ContainElements("a: a", "a: a2"))
	})

	It("the same sets whatever the order of use lists, with a selector that counts", func(ctx SpecContext) {
		lines := []string{"a = Neg(x)", "b = Abs(a)", "c = Relu(a)", "d = Tanh(a)", "e = Sum(b, c, d)"}
		var first string
		for turn := range 6 {
			g := parse(text("e", lines...))
			readers := g.ValuesByID()
			for _, v := range readers { // takes uses out and puts them back in another order
				if v == nil || v.NumUses() < 3 {
					continue
				}
				uses := append([]graph.Use(nil), v.Uses()...)
				for k := range uses {
					u := uses[(k+turn)%len(uses)]
					if turn%2 == 1 {
						u = uses[len(uses)-1-k]
					}
					u.Node.SetOperand(u.Slot, g.Inputs[1])
					u.Node.SetOperand(u.Slot, v)
				}
			}
			p := property.Limit(property.Nodes("pairs", property.Ops("Neg", "Abs", "Relu", "Tanh")), property.Bounds{Max: 2})
			carved(ctx, g, &partition.Options{Backends: []backend.Backend{only("p"), host()},
				Properties: map[string][]property.SubgraphProperty{"p": {fused{p, graph.HostFormat}}}})
			if turn == 0 {
				first = g.String()
				Expect(first).To(ContainSubstring(`"a", "b"`))
			}
			Expect(g.String()).To(Equal(first))
		}
	})

	It("an output that is read twice and wanted twice", func(ctx SpecContext) {
		g := parse(text("bp, bq, bp", "r = Max(x)", "p = Max(r)", "q = Max(r)", "bp = Sum(p, p)", "bq = Sum(q)"))
		res := carved(ctx, g, &partition.Options{Backends: []backend.Backend{only("a", "Max"), host()}})
		Expect(groups(res)[0]).To(Equal("a: r p q"))
		Expect(res.Groups[0].Body.Outputs).To(HaveLen(2))
	})

	It("names that two nodes share", func(ctx SpecContext) {
		g := parse(text("d", "a = Neg(x)", "b = Neg(y)", "c = Abs(a)", "e = Abs(b)", "d = Sub(c, e)"))
		for n := range g.Nodes() {
			if n.Is("Neg") {
				n.Outputs[0].Name = "data10"
			}
		}
		res := carved(ctx, g, &partition.Options{Backends: []backend.Backend{only("n", "Neg"), host()}})
		Expect(groups(res)).To(ConsistOf("n: a", "n: b", "host-ref: c e d"))
	})

	It("inputs in the model's order, whatever the groups do to the order of nodes", func(ctx SpecContext) {
		g := parse(`graph "inputs" {
  opset 17
  input %c: f32[4]
  input %e: f32[4]
  input %f: f32[4]
  input %k: f32[4]
  input %h: f32[4]
  %d = Mul(%e, %f)
  %b = Mul(%c, %d)
  %g = Mul(%h, %d)
  %j = Add(%k, %g)
  %a = Add(%b, %j)
  output %a
}
`)
		res := carved(ctx, g, &partition.Options{Backends: []backend.Backend{instance("mul", graph.RowMajor, "Mul"), host()}})
		Expect(groups(res)).To(Equal([]string{"mul: d b g", "host-ref: j a"}))
		var names []string
		for _, v := range g.Inputs {
			names = append(names, v.Name)
		}
		Expect(names).To(Equal([]string{"c", "e", "f", "k", "h"}))
	})

	It("a head inside of a fused chain", func(ctx SpecContext) {
		g := parse(text("a, b", "a = Neg(x)", "b = Abs(a)"))
		p := fused{property.Nodes("chain", property.Ops("Neg", "Abs")), graph.On(opaque("p"))}
		res := carved(ctx, g, &partition.Options{Backends: []backend.Backend{only("p"), host()},
			Properties: map[string][]property.SubgraphProperty{"p": {p}}})
		Expect(groups(res)).To(Equal([]string{"p: (a b)"}))
		Expect(res.Groups[0].Body.Outputs).To(HaveLen(2))

		By("a pattern leaves such a chain alone")
		g = parse(text("a, b", "a = Neg(x)", "b = Abs(a)"))
		res = carved(ctx, g, &partition.Options{Backends: []backend.Backend{only("p"), host()}, Properties: map[string][]property.SubgraphProperty{
			"p": {fused{property.NewPattern("chain", property.Sequence("Neg", "Abs"), nil), graph.HostFormat}}}})
		Expect(groups(res)).To(Equal([]string{"p: a b"}))
	})

	It("a second property that sees what the first one left", func(ctx SpecContext) {
		g := parse(text("f", "a = Neg(x)", "b = Abs(a)", "c = Relu(b)", "d = Neg(c)", "e = Abs(d)", "f = Tanh(e)"))
		res := carved(ctx, g, &partition.Options{Backends: []backend.Backend{only("p"), host()}, Properties: map[string][]property.SubgraphProperty{"p": {
			fused{property.NewPattern("first", property.Sequence("Abs", "Relu"), nil), graph.HostFormat},
			fused{property.NewPattern("second", property.Sequence("Neg", "Abs", "Tanh?"), nil), graph.HostFormat},
		}}})
		Expect(groups(res)).To(Equal([]string{"p: a (b c) (d e f)"}))
	})

	It("nodes of a set that was turned down, from other seeds", func(ctx SpecContext) {
		g := parse(text("d", "a = Neg(x)", "b = Abs(a)", "c = Neg(b)", "d = Abs(c)"))
		res := carved(ctx, g, &partition.Options{Backends: []backend.Backend{only("p"), host()}, Properties: map[string][]property.SubgraphProperty{"p": {
			fused{vetoing{property.NewPattern("pairs", property.Sequence("Neg", "Abs", "Neg?"), nil), 3}, graph.HostFormat},
		}}})
		Expect(groups(res)).To(Equal([]string{"p: a b (c d)"}))
		Expect(reasons(res, "a", "p")).To(Equal([]string{"veto (pairs): at most 2 nodes"}))
	})

	It("equal groups and text for equal graphs", func(ctx SpecContext) {
		run := func() string {
			g := parse(text("n3, n5", "n1 = Max(x)", "n2 = Sum(x, n1)", "n0 = Max(x)", "n3 = Max(n2, n0)", "n4 = Sum(n0, n0)", "n5 = Max(n1, n4)"))
			carved(ctx, g, &partition.Options{Backends: []backend.Backend{only("a", "Max"), only("b", "Sum")}})
			return g.String()
		}
		first := run()
		for range 5 {
			Expect(run()).To(Equal(first))
		}
	})
})

// dropping is a property whose Filter drops an operator.
type dropping struct {
	property.SubgraphProperty
	op string
}

func (d dropping) Unwrap() property.SubgraphProperty { return d.SubgraphProperty }
func (d dropping) NewSelector(g *graph.Graph) property.Selector {
	return droppingSelector{d.SubgraphProperty.NewSelector(g), d.op}
}

type droppingSelector struct {
	property.Selector
	op string
}

func (s droppingSelector) Filter(set []*graph.Node) []*graph.Node {
	var out []*graph.Node
	for _, n := range set {
		if n.Op.Name != s.op {
			out = append(out, n)
		}
	}
	return out
}

// vetoing is a property that turns sets of some size down.
type vetoing struct {
	property.SubgraphProperty
	size int
}

func (v vetoing) Review(sub *graph.Graph) ([]int, *property.Reason) {
	if sub.NumNodes() == v.size {
		return nil, property.Because(property.Veto, "at most %d nodes", v.size-1)
	}
	return property.KeepAll(sub), nil
}

var _ = DescribeTable("Atomic claims that need each other are divided, whatever runs the nodes around them",
	func(ctx SpecContext, heads string, lines []string, claims [][]string, want ...string) {
		b := &claiming{Backend: instance("a", opaque("a"), "Max", "Neg"), claims: func(g *graph.Graph) (out []property.Claim) {
			for i, names := range claims {
				c := property.Claim{Name: fmt.Sprint("claim", i)}
				for n := range g.Nodes() {
					if slices.Contains(names, n.Name) {
						c.Nodes = append(c.Nodes, n)
					}
				}
				out = append(out, c)
			}
			return out
		}}
		res := carved(ctx, parse(text(heads, lines...)), &partition.Options{Backends: []backend.Backend{b, instance("host-ref", graph.RowMajor)}})
		Expect(groups(res)).To(ContainElements(want))
	},
	Entry("two claims around each other", "n3, n5", []string{"n1 = Max(x)", "n2 = Sum(x, n1)", "n0 = Max(x)", "n3 = Max(n2, n0)", "n4 = Sum(n0, n0)", "n5 = Max(n1, n4)"},
		[][]string{{"n1", "n5"}, {"n0", "n3"}}),
	Entry("a long way round behind diamonds", "a2", []string{"a = Max(x)", "b = Sum(a)", "c = Sum(y)", "l = Sum(c)", "r = Sum(c)", "m = Sum(l, r)", "j = Sum(b, m)", "a2 = Max(a, j)"},
		[][]string{{"a", "a2"}}, "a: (a)", "a: (a2)"),
	Entry("the middle is another's", "c", []string{"a = Max(x)", "b = Sum(a)", "c = Max(b)"}, [][]string{{"a", "c"}}, "a: (a)", "a: (c)"),
	Entry("the middle is claimed as well, but not taken", "c", []string{"a = Max(x)", "b = Sum(a)", "c = Max(b)"}, [][]string{{"a", "b", "c"}}),
	Entry("two claims of one backend", "u, v", []string{"a = Max(x)", "b = Sum(a)", "u = Max(b)", "c = Max(b)", "v = Max(a, c)"},
		[][]string{{"a", "u"}, {"c", "v"}}),
)
