package property_test

import (
	"github.com/google/go-cmp/cmp/cmpopts"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/property"
)

var _ = Describe("Patterns", func() {
	tail := property.Sequence("Conv", "BatchNormalization?", "Add?", "Relu|Clip?")
	conv := "c = Conv(x, w)"

	DescribeTable("find chains, the largest first, and leave what is read elsewhere",
		func(heads string, lines []string, want ...string) {
			found := sets(net(heads, lines...), property.NewPattern("tail", tail, nil))
			Expect(found).To(HaveLen(len(want)))
			for i := range want {
				Expect(found[i]).To(Equal(want[i]))
			}
		},
		Entry("the whole chain", "r", []string{conv, "b = BatchNormalization(c, w, w, w, w)", "s = Add(b, y)", "r = Relu(s)"}, "c b s r"),
		Entry("the addition the other way round", "r", []string{conv, "s = Add(y, c)", "r = Clip(s)"}, "c s r"),
		Entry("the activation alone", "r", []string{conv, "r = Relu(c)"}, "c r"),
		Entry("one node", "c", []string{conv}, "c"),
		Entry("nothing without a convolution", "r", []string{"b = BatchNormalization(x, w, w, w, w)", "r = Relu(b)"}),
		Entry("nothing that stands between", "r", []string{conv, "e = Exp(c)", "r = Relu(e)"}, "c"),
		Entry("up to a second reader", "r, p", []string{conv, "b = BatchNormalization(c, w, w, w, w)", "r = Relu(b)", "p = Exp(b)"}, "c b"),
		Entry("up to an output", "c, r", []string{conv, "r = Relu(c)"}, "c"),
		Entry("two convolutions that are added: the first takes the addition", "r",
			[]string{conv, "d = Conv(y, w)", "s = Add(c, d)", "r = Relu(s)"}, "c s r", "d"),
		Entry("a convolution added to itself", "s", []string{conv, "s = Add(c, c)"}, "c s"),
		Entry("no addition of three operands", "s", []string{conv, "s = Sum(c, x, y)"}, "c"),
	)

	It("match trees, constants, and one value in two places", func() {
		x := &property.Pattern{Name: "x"}
		scale := &property.Pattern{Name: "scale", Constant: true}
		sigmoid := &property.Pattern{Name: "sigmoid", Ops: []string{"Sigmoid"}, Inputs: []*property.Pattern{x}}
		silu := &property.Pattern{Name: "silu", Ops: []string{"Mul"}, Commutative: true, Inputs: []*property.Pattern{
			{Name: "scaled", Ops: []string{"Mul"}, Commutative: true, Optional: true, Inputs: []*property.Pattern{x, scale}}, sigmoid}}
		g := net("m, o", "e = Exp(x)", "s = Sigmoid(e)", "t = Mul(w, e)", "m = Mul(s, t)", "o = Mul(s, y)")
		m := silu.FindIn(g)
		Expect(m).To(BeNil(), "s is read twice")
		g = net("m", "e = Exp(x)", "s = Sigmoid(e)", "t = Mul(w, e)", "m = Mul(s, t)")
		m = silu.FindIn(g)
		Expect(names(m.Nodes)).To(Equal("t s m"))
		Expect(m.Root().Name).To(Equal("m"))
		Expect(m.Value(x).Name).To(Equal("e"))
		Expect(m.Value(scale).IsConst()).To(BeTrue())
		Expect(m.Node(sigmoid).Name).To(Equal("s"))
		Expect(m.Named("scaled").Name).To(Equal("t"))
		Expect(m.Named("other")).To(BeNil())

		By("with the optional node absent")
		g = net("m", "e = Exp(x)", "s = Sigmoid(e)", "m = Mul(e, s)")
		m = silu.FindIn(g)
		Expect(names(m.Nodes)).To(Equal("s m"))
		Expect(m.Value(scale)).To(BeNil())
		plain := &property.Pattern{Ops: []string{"Mul"}, Commutative: true, Inputs: []*property.Pattern{x, sigmoid}}
		Expect(names(plain.FindIn(g).Nodes)).To(Equal("s m"))
		Expect(plain.FindIn(net("m", "e = Exp(x)", "f = Exp(x)", "s = Sigmoid(e)", "m = Mul(f, s)"))).To(BeNil(), "another value")
	})

	It("match one node in two places", func() {
		n := &property.Pattern{Ops: []string{"Exp"}}
		square := &property.Pattern{Ops: []string{"Mul"}, Inputs: []*property.Pattern{n, n}}
		Expect(names(square.FindIn(net("m", "e = Exp(x)", "m = Mul(e, e)")).Nodes)).To(Equal("e m"))
		Expect(square.FindIn(net("m", "e = Exp(x)", "f = Exp(x)", "m = Mul(e, f)"))).To(BeNil())
	})

	It("let shared results be read elsewhere", func() {
		p := &property.Pattern{Ops: []string{"Relu"}, Inputs: []*property.Pattern{{Ops: []string{"Exp"}, Shared: true}}}
		Expect(sets(net("r, e", "e = Exp(x)", "r = Relu(e)"), property.NewPattern("p", p, nil))).To(Equal([]string{"e r"}))
	})

	It("confine nodes", func() {
		p := &property.Pattern{Ops: []string{"Relu"}, Where: property.Named("keep*"), Inputs: []*property.Pattern{nil}}
		Expect(sets(net("keep, drop", "keep = Relu(x)", "drop = Relu(x)"), property.NewPattern("p", p, nil))).To(Equal([]string{"keep"}))
	})

	It("are checked: what the check turns down is reported, and a smaller match tried", func() {
		check := func(m *property.Match) *property.Reason {
			if m.Named("Add") != nil && m.Named("Relu") == nil {
				return property.Because(property.Veto, "an addition without an activation")
			}
			return nil
		}
		p := property.NewPattern("tail", property.Sequence("Conv", "Add?", "Relu?"), check)
		Expect(sets(net("s", conv, "s = Add(c, y)"), p)).To(Equal([]string{"c"}))
		all := property.NewPattern("tail", property.Sequence("Conv", "Add", "Relu?"), check)
		var r run
		Expect(r.over(net("s", conv, "s = Add(c, y)"), all)).To(Succeed())
		Expect(r.sets).To(BeEmpty())
		Expect(r.declined).To(Equal([]string{
			"c: veto (tail): an addition without an activation", "s: veto (tail): an addition without an activation"}))
	})

	It("take what is left where a part belongs to another claim", func() {
		g := net("r", conv, "s = Add(c, y)", "r = Relu(s)")
		var r run
		r.taken = map[*graph.Node]bool{}
		p := property.NewPattern("tail", tail, nil)
		sel := p.NewSelector(g)
		var c, s *graph.Node
		for n := range g.Nodes() {
			switch n.Name {
			case "c":
				c = n
			case "s":
				s = n
			}
		}
		Expect(sel.Select(c)).To(BeTrue())
		Expect(sel.SelectOutput(c, s)).To(BeTrue())
		Expect(names(sel.Filter([]*graph.Node{c, s}))).To(Equal("c s"))
		Expect(sel.Select(c)).To(BeTrue())
		Expect(sel.Filter([]*graph.Node{s})).To(BeEmpty())
	})

	It("end where they are circles", func() {
		p := &property.Pattern{Ops: []string{"Exp"}, Optional: true}
		q := &property.Pattern{Ops: []string{"Neg"}, Optional: true, Inputs: []*property.Pattern{p}}
		p.Inputs = []*property.Pattern{q}
		g := net("d", "a = Exp(x)", "b = Neg(a)", "c = Exp(b)", "d = Neg(c)")
		Expect(sets(g, property.NewPattern("circle", p, nil))).NotTo(ContainElement(""))
		self := &property.Pattern{Ops: []string{"Exp"}}
		self.Inputs = []*property.Pattern{self}
		Expect(self.FindIn(g)).To(BeNil())
	})

	It("are nil without operators", func() { Expect(property.Sequence()).To(BeNil()) })
})

var _ = Describe("Combinators", func() {
	chain := func() *graph.Graph {
		return net("f", "a = Neg(x)", "b = Neg(a)", "c = Abs(b)", "d = Neg(c)", "e = Exp(d)", "f = Neg(e)")
	}
	negs := property.Nodes("negs", property.Ops("Neg"))
	all := property.Nodes("all", property.Ops("Neg", "Abs", "Exp"))

	DescribeTable("make properties of properties",
		func(p property.SubgraphProperty, want ...string) {
			Expect(sets(chain(), p)).To(BeComparableTo(want, cmpopts.EquateEmpty()))
		},
		Entry("Nodes", negs, "a b", "d", "f"),
		Entry("Where", property.Where(all, property.Not(property.Named("c"))), "a b", "d e f"),
		Entry("Limit from above", property.Limit(all, property.Bounds{Max: 4}), "a b c d", "e f"),
		Entry("Limit from below", property.Limit(negs, property.Bounds{Min: 2}), "a b"),
		Entry("Limit on both sides", property.Limit(all, property.Bounds{Min: 3, Max: 4}), "a b c d"),
		Entry("And", property.And("both", all, property.Nodes("not-neg", property.Not(property.Ops("Neg")))), "c", "e"),
		Entry("And of limits", property.And("both", property.Limit(all, property.Bounds{Max: 3}), property.Limit(all, property.Bounds{Min: 3})), "a b c", "d e f"),
		Entry("Any", property.Nodes("any", property.Any(property.Ops("Exp"), property.Named("d"))), "d e"),
		Entry("All", property.Nodes("all", property.All(property.Ops("Neg"), property.Named("d", "e"))), "d"),
		Entry("nothing", property.Nodes("none", property.Any())),
		Entry("MinBenefit selects nothing", property.MinBenefit("worth", property.Benefit{}, 1)),
	)

	It("keep what the property is", func() {
		p := &featured{all}
		for _, q := range []property.SubgraphProperty{p, property.Where(p, property.StaticShapes), property.Limit(p, property.Bounds{}),
			property.And("and", p, negs), property.WithKind(property.Atomic, p)} {
			s, ok := property.As[property.Signer](q)
			Expect(ok).To(BeTrue())
			Expect(s).To(BeIdenticalTo(p))
			_, ok = property.As[property.Adjuster](q)
			Expect(ok).To(BeFalse())
		}
		Expect(property.KindOf(p)).To(Equal(property.Bounding))
		Expect(property.KindOf(property.Limit(p, property.Bounds{Max: 1}))).To(Equal(property.Bounding))
		Expect(property.KindOf(property.WithKind(property.Admitting, p))).To(Equal(property.Admitting))
		Expect(property.KindOf(property.WithKind(property.Admitting, p)).String()).To(Equal("admitting"))
		Expect(property.KindOf(negs)).To(Equal(property.Atomic))
		Expect(property.Limit(p, property.Bounds{}).Name()).To(Equal("all"))
		Expect(func() { property.And("nothing") }).To(Panic())
	})

	It("weigh groups by their boundary", func() {
		g := net("b", "a = Neg(x)", "b = Add(a, w)")
		rev := property.MinBenefit("worth", property.Benefit{PerValue: 10, PerByte: 1}, 2000-2*(10+1024))
		keep, why := rev.(property.Reviewer).Review(g) // y is an input, too
		Expect(keep).To(BeEmpty())
		Expect(why.String()).To(Equal("too-small: a group of 2 nodes is worth -1102 ns, of at least -68"))
		rev = property.MinBenefit("worth", property.Benefit{PerNode: func(*graph.Node) float64 { return 2000 }, PerValue: 10, PerByte: 1}, 0)
		keep, why = rev.(property.Reviewer).Review(g)
		Expect(keep).To(Equal([]int{0, 1}))
		Expect(why).NotTo(HaveOccurred())
	})
})

// featured is a property with optional interfaces.
type featured struct{ property.SubgraphProperty }

func (*featured) Kind() property.Kind                      { return property.Bounding }
func (*featured) Signatures(*graph.Node) []graph.Signature { return nil }
