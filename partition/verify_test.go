package partition_test

import (
	"context"
	"errors"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/partition"
	"github.com/carve-dev/carve/property"
)

var _ = Describe("Verify", func() {
	var g *graph.Graph
	var res *partition.Result
	BeforeEach(func(ctx SpecContext) {
		g = parse(text("d", "a = Neg(x)", "b = Abs(a)", "c = Neg(b)", "d = Add(c, a)"))
		res = carved(ctx, g, &partition.Options{Backends: []backend.Backend{
			instance("n", opaque("n"), "Neg"), instance("host-ref", graph.RowMajor)}})
		Expect(partition.Verify(g)).To(Succeed())
	})

	DescribeTable("finds what is wrong with a plan",
		func(spoil func(), want string) {
			spoil()
			err := partition.Verify(g)
			Expect(err).To(MatchError(partition.ErrPlan))
			Expect(err).To(MatchError(ContainSubstring(want)))
		},
		Entry("groups that depend on each other", func() {
			first, last := res.Groups[0].Node, res.Groups[len(res.Groups)-1].Node
			first.SetOperand(0, last.Outputs[0])
		}, "cycle"),
		Entry("a node outside of groups", func() {
			g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "Neg"}, Name: "stray", Inputs: []*graph.Value{g.Inputs[0]}, Outputs: []string{"s"}})
		}, `Neg "stray" is in no group`),
		Entry("an operand in the wrong format", func() {
			for n := range res.Groups[0].Body.Nodes() {
				n.Ports = &graph.Signature{Inputs: []graph.Port{graph.Fixed(graph.On(graph.NHWC))}, Outputs: n.Ports.Outputs}
			}
		}, `in host:acdb, which is host:n@1:own`),
		Entry("a result in another format than its signature says", func() {
			for n := range res.Groups[0].Body.Nodes() {
				n.Ports = &graph.Signature{Inputs: n.Ports.Inputs, Outputs: []graph.Port{graph.Fixed(graph.On(graph.NHWC))}}
			}
		}, "gives a in host:acdb"),
		Entry("a border where formats differ", func() { res.Groups[0].Body.Inputs[0].Format = graph.On(graph.NHWC) }, "reads"),
		Entry("a border where results' formats differ", func() {
			v := res.Groups[0].Node.Outputs[0]
			v.Format = graph.On(graph.NHWC)
		}, "gives a as"),
		Entry("a conversion between equal formats", func() {
			convert.NewConvert(g, g.Inputs[1], graph.On(graph.NHWC)).Outputs[0].Format = graph.HostFormat
		}, "converts between equal formats"),
		Entry("a conversion twice", func() {
			convert.NewConvert(g, g.Inputs[1], graph.On(graph.NHWC))
			convert.NewConvert(g, g.Inputs[1], graph.On(graph.NHWC))
		}, "is converted to host:acdb twice"),
	)
})

var _ = Describe("Partition", func() {
	chain := text("c", "a = Neg(x)", "b = Abs(a)", "c = Neg(b)")
	try := func(ctx context.Context, o *partition.Options) error {
		GinkgoHelper()
		o.Registry = registry(o.Backends)
		_, err := partition.Partition(ctx, parse(chain), o)
		return err
	}
	only := func(takes ...string) backend.Backend { return instance("only", graph.RowMajor, takes...) }

	It("names the first node that nobody takes, and everybody's reason", func(ctx SpecContext) {
		err := try(ctx, &partition.Options{Backends: []backend.Backend{only("Neg"), instance("other", opaque("o"), "Exp")}})
		Expect(err).To(MatchError(partition.ErrUnplaced))
		var u *partition.UnplacedError
		Expect(errors.As(err, &u)).To(BeTrue())
		Expect(u.Node).To(Equal("b"))
		Expect(u.Op).To(Equal("Abs"))
		Expect(u.Reasons).To(HaveLen(2))
		Expect(err).To(MatchError(`node "b" (Abs): no backend runs the node; other: unsupported: not accepted by this instance; ` +
			`only: unsupported: not accepted by this instance`))
	})

	It("counts the other nodes that nobody takes", func(ctx SpecContext) {
		err := try(ctx, &partition.Options{Backends: []backend.Backend{only("Abs")}})
		Expect(err).To(MatchError(HaveSuffix("; nor does one run another node")))
		err = try(ctx, &partition.Options{Backends: []backend.Backend{only("Sin")}})
		Expect(err).To(MatchError(HaveSuffix("; nor does one run 2 other nodes")))
	})

	It("follows pins, the first that matches", func(ctx SpecContext) {
		backends := []backend.Backend{only(), instance("other", opaque("o"))}
		res := carved(ctx, parse(chain), &partition.Options{Backends: backends, Pins: []partition.Pin{
			{Node: "c", Backend: "only"}, {Op: "Neg", Backend: "only", Exclude: true}}})
		Expect(groups(res)).To(Equal([]string{"other: a", "only: b c"}))
		Expect(reasons(res, "a", "only")).To(Equal([]string{"pinned: the user excluded it from only"}))
		res = carved(ctx, parse(chain), &partition.Options{Backends: backends, Pins: []partition.Pin{{Node: "[ab]"}, {Node: "?", Backend: "other"}}})
		Expect(groups(res)).To(Equal([]string{"other: a b c"}))
		Expect(reasons(res, "a", "only")).To(Equal([]string{"pinned: the user pinned it to other"}))
	})

	It("keeps fused nodes off what pins keep a part of", func(ctx SpecContext) {
		p := fused{property.NewPattern("pair", property.Sequence("Neg", "Abs"), nil), graph.HostFormat}
		o := options([]property.SubgraphProperty{p}, only(), instance("other", opaque("o")))
		o.Pins = []partition.Pin{{Node: "b", Backend: "other"}}
		Expect(groups(carved(ctx, parse(chain), o))).To(Equal([]string{"only: a", "other: b", "only: c"}))
	})

	It("gives nodes whose group did not compile to the next backend", func(ctx SpecContext) {
		bans := partition.NewBans(nil)
		no := partition.Ban{Node: "b", Backend: "only", Pass: "compile-groups", Reason: property.Because(property.CompileFailed, "no such kernel")}
		Expect(bans.Add(no)).To(BeTrue())
		Expect(bans.Add(no)).To(BeFalse(), "it is known")
		res := carved(ctx, parse(chain), &partition.Options{Backends: []backend.Backend{only(), instance("other", graph.RowMajor)}, Bans: bans})
		Expect(groups(res)).To(Equal([]string{"only: a", "other: b", "only: c"}))
		Expect(reasons(res, "b", "only")).To(Equal([]string{"compile-failed: no such kernel"}))
		Expect(bans.Len()).To(Equal(1))
	})

	It("refuses signatures that do not fit", func(ctx SpecContext) {
		for _, bad := range []func(n *graph.Node) []graph.Signature{
			func(*graph.Node) []graph.Signature { return nil },
			func(*graph.Node) []graph.Signature { return []graph.Signature{{Name: "short"}} },
			func(n *graph.Node) []graph.Signature {
				s := graph.UniformSignature("var", n, graph.HostFormat)
				s.Inputs[0] = graph.Variable(0)
				return []graph.Signature{s}
			},
		} {
			Expect(try(ctx, &partition.Options{Backends: []backend.Backend{&signing{only(), bad}}})).To(MatchError(partition.ErrSignature))
		}
	})

	It("stops when the context ends", func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		Expect(try(ctx, &partition.Options{Backends: []backend.Backend{only()}})).To(MatchError(context.Canceled))
	})

	It("leaves an empty graph alone", func(ctx SpecContext) {
		res := carved(ctx, parse("graph {\n  input %x: f32[2]\n  output %x\n}\n"), &partition.Options{Backends: []backend.Backend{instance("n", graph.NHWC)}})
		Expect(res.Groups).To(BeEmpty())
	})
})

// signing is a backend with signatures of the test's.
type signing struct {
	backend.Backend
	signatures func(*graph.Node) []graph.Signature
}

func (s *signing) Supports(n *graph.Node) backend.Support {
	return backend.Support{Signatures: s.signatures(n)}
}
