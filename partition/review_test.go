package partition_test

import (
	"context"
	"errors"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/partition"
	"github.com/carve-dev/carve/property"
)

// options makes options of backends and of properties of the first of them.
func options(ps []property.SubgraphProperty, backends ...backend.Backend) *partition.Options {
	return &partition.Options{Backends: backends, Properties: map[string][]property.SubgraphProperty{backends[0].Info().Name: ps}}
}

var _ = Describe("Finished groups", func() {
	chain := text("f", "a = Neg(x)", "b = Neg(a)", "c = Abs(b)", "d = Neg(c)", "e = Neg(d)", "f = Neg(e)")
	a := func(takes ...string) backend.Backend { return instance("a", graph.RowMajor, takes...) }
	last := func(takes ...string) backend.Backend { return instance("last", graph.RowMajor, takes...) }

	It("that are too small go to backends further down, which fuse them anew", func(ctx SpecContext) {
		o := options(nil, a("Neg"), last())
		o.MinNodes = 3
		o.Properties["last"] = []property.SubgraphProperty{fused{property.NewPattern("pair", property.Sequence("Neg", "Abs"), nil), graph.HostFormat}}
		res := carved(ctx, parse(chain), o)
		Expect(groups(res)).To(Equal([]string{"last: a (b c)", "a: d e f"}))
		Expect(reasons(res, "a", "a")).To(Equal([]string{"too-small: its group has 2 nodes, of at least 3"}))
	})

	It("count what fused nodes stand for", func(ctx SpecContext) {
		o := options([]property.SubgraphProperty{fused{property.Nodes("negs", property.Ops("Neg")), graph.HostFormat}}, a("Neg"), last())
		o.MinNodes = 3
		Expect(groups(carved(ctx, parse(chain), o))).To(Equal([]string{"last: a b c", "a: (d e f)"}))
		o.MinNodes = 4
		Expect(groups(carved(ctx, parse(chain), o))).To(Equal([]string{"last: a b c d e f"}))
	})

	It("that are too small stay where nobody else takes them", func(ctx SpecContext) {
		o := options(nil, a("Neg"), last("Abs"))
		o.MinNodes = 3
		Expect(groups(carved(ctx, parse(chain), o))).To(Equal([]string{"a: a b", "last: c", "a: d e f"}))
	})

	It("have to be worth their boundary", func(ctx SpecContext) {
		worth := property.MinBenefit("worth", property.Benefit{PerNode: func(*graph.Node) float64 { return 100 }, PerValue: 120}, 50)
		res := carved(ctx, parse(chain), options([]property.SubgraphProperty{worth}, a("Neg"), last()))
		Expect(groups(res)).To(Equal([]string{"last: a b c", "a: d e f"}))
		Expect(reasons(res, "b", "a")).To(Equal([]string{"too-small (worth): a group of 2 nodes is worth -40 ns, of at least 50"}))
	})

	It("are trimmed, and formed anew of what is left", func(ctx SpecContext) {
		p := reviewing{property.WithKind(property.Bounding, property.Nodes("none", property.Ops())), func(sub *graph.Graph) ([]int, *property.Reason) {
			var keep []int
			i := 0
			for n := range sub.Nodes() {
				if n.Name != "e" {
					keep = append(keep, i)
				}
				i++
			}
			return keep, property.Because(property.ShapeReason, "not this one")
		}}
		res := carved(ctx, parse(chain), options([]property.SubgraphProperty{p}, a("Neg"), last()))
		Expect(groups(res)).To(Equal([]string{"a: a b", "last: c", "a: d", "last: e", "a: f"}))
		Expect(reasons(res, "e", "a")).To(Equal([]string{"shape (none): not this one"}))
	})

	It("that are vetoed and nobody else's are an error with the reason", func(ctx SpecContext) {
		p := reviewing{property.WithKind(property.Bounding, property.Nodes("never", property.Ops())), func(*graph.Graph) ([]int, *property.Reason) { return nil, nil }}
		o := options([]property.SubgraphProperty{p}, a())
		o.Registry = registry(o.Backends)
		_, err := partition.Partition(ctx, parse(chain), o)
		Expect(err).To(MatchError(partition.ErrUnplaced))
		Expect(err).To(MatchError(ContainSubstring("veto (never): the property kept 0 of 6 nodes")))
	})
})

// reviewing is a property with a review of its own.
type reviewing struct {
	property.SubgraphProperty
	review func(*graph.Graph) ([]int, *property.Reason)
}

func (r reviewing) Unwrap() property.SubgraphProperty                 { return r.SubgraphProperty }
func (r reviewing) Review(sub *graph.Graph) ([]int, *property.Reason) { return r.review(sub) }

var _ = Describe("Claims", func() {
	chain := text("f", "a = Neg(x)", "b = Neg(a)", "c = Abs(b)", "d = Neg(c)", "e = Relu(d)", "f = Neg(e)")
	a := func() backend.Backend { return instance("a", opaque("a")) }
	last := func() backend.Backend { return instance("last", graph.RowMajor) }

	It("of atomic properties are trimmed by their review", func(ctx SpecContext) {
		p := reviewing{fused{property.Nodes("all", property.Ops("Neg", "Abs", "Relu")), graph.HostFormat}, func(sub *graph.Graph) ([]int, *property.Reason) {
			if sub.NumNodes() < 6 {
				return nil, nil // what is left is offered again
			}
			return []int{0, 1, 3, 4, 99}, nil
		}}
		res := carved(ctx, parse(chain), options([]property.SubgraphProperty{p}, a(), last()))
		Expect(groups(res)).To(Equal([]string{"a: (a b) c (d e) f"}))
		Expect(reasons(res, "c", "a")).To(Equal([]string{"veto (all): the property kept 4 of 6 nodes", "veto (all): the property kept 0 of 1 nodes"}))
	})

	It("limit what a backend takes where properties admit", func(ctx SpecContext) {
		negs := property.WithKind(property.Admitting, property.Limit(property.Nodes("negs", property.Ops("Neg")), property.Bounds{Min: 2}))
		res := carved(ctx, parse(chain), options([]property.SubgraphProperty{negs}, a(), last()))
		Expect(groups(res)).To(Equal([]string{"a: a b", "last: c d e f"}))
		Expect(reasons(res, "c", "a")).To(Equal([]string{"unsupported (negs): Abs is not among Neg"}))
		Expect(reasons(res, "d", "a")).To(Equal([]string{"too-small (negs): a set of 1 nodes, of at least 2"}))

		By("twice, for both have to")
		notFirst := property.WithKind(property.Admitting, property.Nodes("not-first", property.Not(property.Named("a"))))
		res = carved(ctx, parse(chain), options([]property.SubgraphProperty{notFirst, negs}, a(), last()))
		Expect(groups(res)).To(Equal([]string{"last: a b c d e f"}))
	})

	It("are kept from what a backend may not take", func(ctx SpecContext) {
		static := property.WithKind(property.Admitting, property.Nodes("static-shape", property.StaticShapes))
		pair := fused{property.NewPattern("pair", property.Sequence("Neg", "Abs"), nil), graph.HostFormat}
		g := parse(`graph "dynamic" {
  opset 17
  input %x: f32[N,2]
  %a = Neg(%x)
  %b = Abs(%a)
  output %b
}
`)
		res := carved(ctx, g, options([]property.SubgraphProperty{static, pair}, a(), last()))
		Expect(groups(res)).To(Equal([]string{"last: a b"}))
		Expect(reasons(res, "a", "a")).To(Equal([]string{"dynamic-shape (static-shape): x is f32[N,2]"}))
	})

	It("are borders where they are bounding", func(ctx SpecContext) {
		p := property.WithKind(property.Bounding, property.Nodes("head", property.Named("a", "b", "c")))
		res := carved(ctx, parse(chain), options([]property.SubgraphProperty{p}, a(), last()))
		Expect(groups(res)).To(Equal([]string{"a: a b c", "a: d e f"}))
	})

	It("of a backend itself are fused, or bound, and divided where they are not convex", func(ctx SpecContext) {
		pick := func(g *graph.Graph, names ...string) (set []*graph.Node) {
			for _, name := range names {
				for n := range g.Nodes() {
					if n.Name == name {
						set = append(set, n)
					}
				}
			}
			return set
		}
		b := &claiming{Backend: a(), claims: func(g *graph.Graph) []property.Claim {
			return []property.Claim{
				{Name: "own", Nodes: pick(g, "f", "e", "a", "b", "b"), Kind: property.Atomic},
				{Name: "late", Nodes: pick(g, "b", "c"), Kind: property.Atomic}, // b is taken
				{Name: "border", Nodes: append(pick(g, "d"), nil), Kind: property.Bounding},
				{Name: "nothing"},
			}
		}}
		res := carved(ctx, parse(chain), options(nil, b, last()))
		Expect(groups(res)).To(Equal([]string{"a: (a b) (c)", "a: d", "a: (e f)"}))
	})

	It("that fail to be made are errors with their names", func(ctx SpecContext) {
		b := &claiming{Backend: a(), err: errors.New("no driver")}
		o := options(nil, b)
		o.Registry = registry(o.Backends)
		_, err := partition.Partition(ctx, parse(chain), o)
		Expect(err).To(MatchError("backend a: no driver"))
	})

	It("may add nodes before selection, and replace nodes instead of fusing them", func(ctx SpecContext) {
		p := &adjusting{SubgraphProperty: property.NewPattern("double-neg", property.Sequence("Neg", "Neg"), nil)}
		g := parse(chain)
		o := options([]property.SubgraphProperty{p}, a(), last())
		o.Registry = registry(o.Backends)
		res, err := partition.Partition(ctx, g, o)
		Expect(err).NotTo(HaveOccurred())
		Expect(graph.Verify(g)).To(Succeed())
		Expect(groups(res)).To(Equal([]string{"a: added twice c d e f"}))
		Expect(p.groups).To(Equal(1))
	})
})

// claiming is a backend that claims by means of its own. It takes fused nodes.
type claiming struct {
	backend.Backend
	claims func(g *graph.Graph) []property.Claim
	err    error
}

func (c *claiming) Claims(_ context.Context, g *graph.Graph) ([]property.Claim, error) {
	if c.err != nil {
		return nil, c.err
	}
	return c.claims(g), nil
}

func (c *claiming) Supports(n *graph.Node) backend.Support {
	if n.IsCarve(graph.OpFused) {
		return backend.Support{Signatures: []graph.Signature{graph.UniformSignature("own", n, graph.On(opaque("a")))}}
	}
	return c.Backend.Supports(n)
}

// adjusting puts a Relu in front of the graph before selection, replaces two negations by one Identity, and counts groups
// at the end.
type adjusting struct {
	property.SubgraphProperty
	groups int
}

func (p *adjusting) PrePartition(g *graph.Graph) error {
	x := g.Inputs[0]
	n := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "Relu"}, Name: "added", Inputs: []*graph.Value{g.Inputs[1]}, Outputs: []string{"added"}})
	n.Outputs[0].Type = x.Type
	g.ReplaceUses(x, n.Outputs[0])
	return nil
}

func (p *adjusting) Adjust(nodes []*graph.Node) error {
	g := nodes[0].Graph()
	n := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "Identity"}, Name: "twice", Inputs: nodes[0].Inputs, Outputs: []string{"twice"}})
	out := nodes[1].Outputs[0]
	n.Outputs[0].Type = out.Type
	g.ReplaceUses(out, n.Outputs[0])
	g.Remove(nodes[1])
	g.Remove(nodes[0])
	return nil
}

func (p *adjusting) PostPartition(g *graph.Graph) error {
	for n := range g.Nodes() {
		if n.IsCarve(graph.OpSubgraph) {
			p.groups++
		}
	}
	return nil
}
