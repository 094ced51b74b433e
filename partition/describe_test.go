package partition_test

import (
	"errors"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/partition"
	"github.com/carve-dev/carve/property"
)

// byName connects the operands and results of a node in the order of their names, as an engine's bindings may want them.
func byName(n *graph.Node) error {
	order := func(vs []*graph.Value) []int {
		list := make([]int, len(vs))
		for i := range list {
			list[i] = i
		}
		slices.SortFunc(list, func(a, b int) int { return strings.Compare(vs[a].Name, vs[b].Name) })
		return list
	}
	if err := n.OrderInputs(order(n.Inputs)); err != nil {
		return err
	}
	return n.OrderOutputs(order(n.Outputs))
}

// names returns the names of values.
func names(vs []*graph.Value) (list []string) {
	for _, v := range vs {
		list = append(list, v.Name)
	}
	return list
}

var _ = Describe("A node that stands for a set", func() {
	const net = `graph "net" {
  opset 17
  input %z: f32[2,3]
  input %b: f32[2,3]
  %t = Sub(%z, %b) "t"
  %q = Neg(%t) "q"
  %a = Abs(%q) "a"
  output %q
  output %a
}
`
	a := func() backend.Backend { return instance("a", graph.RowMajor) }
	last := func() backend.Backend { return instance("last", graph.RowMajor) }
	plain := func(n *graph.Node) []graph.Signature {
		return []graph.Signature{graph.UniformSignature("plain", n, graph.HostFormat)}
	}
	// engine names what it makes and connects it by name, whether that is claims or groups.
	engine := func(kind property.Kind) *property.Rule {
		r := property.RuleOf(property.Nodes("engine", property.Ops("Sub", "Neg", "Abs")))
		r.Kind, r.Signatures, r.Connect = kind, plain, byName
		r.Attributes = []graph.Attr{graph.StringAttr("precision", "half")}
		r.Review = func(sub *graph.Graph) property.Verdict {
			return property.Accept(sub, graph.IntAttr("size", int64(sub.NumNodes())))
		}
		r.Create = func(sub *graph.Graph) (*graph.NodeSpec, error) {
			return &graph.NodeSpec{Op: graph.Op{Domain: "com.acme", Name: "Engine"}, Name: "of " + sub.Outputs[0].Name}, nil
		}
		return r
	}
	DescribeTable("gets operator, name, attributes and connections from its property", func(ctx SpecContext, kind property.Kind, known string) {
		res := carved(ctx, parse(net), options([]property.SubgraphProperty{engine(kind)}, a(), last()))
		Expect(groups(res)).To(HaveLen(1))
		n := res.Groups[0].Node
		if kind == property.Atomic {
			Expect(n.Op.Name).To(Equal(graph.OpSubgraph))
			for m := range res.Groups[0].Body.Nodes() {
				n = m
			}
		}
		Expect(n.Op).To(Equal(graph.Op{Domain: "com.acme", Name: "Engine"}))
		Expect(n.Name).To(Equal("of q"))
		Expect([]string{n.Str("precision", ""), n.Str(known, "")}).To(Equal([]string{"half", map[string]string{"pattern": "engine", "backend": "a"}[known]}))
		Expect(n.Int("size", 0)).To(BeEquivalentTo(3))
		body := n.Regions[0].Graph
		for _, vs := range [][]*graph.Value{n.Inputs, body.Inputs} {
			Expect(names(vs)).To(Equal([]string{"b", "z"}))
		}
		for _, vs := range [][]*graph.Value{n.Outputs, body.Outputs} {
			Expect(names(vs)).To(Equal([]string{"a", "q"}))
		}
		text := res.Groups[0].Node.Graph().String()
		Expect(text).To(ContainSubstring("com.acme::Engine("))
		again, err := graph.Parse(text)
		Expect(err).NotTo(HaveOccurred())
		Expect(graph.Verify(again)).To(Succeed())
		Expect(again.String()).To(Equal(text))
		plain := map[property.Kind]string{property.Atomic: graph.OpFused, property.Bounding: graph.OpSubgraph}[kind]
		for m := range again.Nodes() {
			if kind == property.Atomic {
				for fused := range m.Regions[0].Graph.Nodes() {
					m = fused
				}
			}
			Expect(m.Op).To(Equal(n.Op))
			Expect(m.IsCarve(plain)).To(BeTrue())
		}
	},
		Entry("of a claim", property.Atomic, "pattern"),
		Entry("of a finished group", property.Bounding, "backend"),
	)

	DescribeTable("has no operator that is ONNX's", func(ctx SpecContext, kind property.Kind, op graph.Op) {
		r := engine(kind)
		r.Create = func(*graph.Graph) (*graph.NodeSpec, error) { return &graph.NodeSpec{Op: op}, nil }
		o := options([]property.SubgraphProperty{r}, a(), last())
		o.Registry = registry(o.Backends)
		_, err := partition.Partition(ctx, parse(net), o)
		Expect(err).To(MatchError(partition.ErrPlan))
		Expect(err).To(MatchError(graph.ErrOperator))
		Expect(err).To(MatchError(ContainSubstring("property engine")))
	},
		Entry("a claim", property.Atomic, graph.Op{Name: "Relu"}),
		Entry("a group", property.Bounding, graph.Op{Domain: "ai.onnx.ml", Name: "Normalizer"}),
		Entry("a group, without a name", property.Bounding, graph.Op{Domain: "com.acme"}),
		Entry("a claim, another of carve's", property.Atomic, graph.Op{Domain: graph.CarveDomain, Name: graph.OpConvert}),
	)

	It("may be turned down by each hook", func(ctx SpecContext) {
		for _, kind := range []property.Kind{property.Atomic, property.Bounding} {
			for _, spoil := range []func(r *property.Rule){
				func(r *property.Rule) {
					r.Create = func(*graph.Graph) (*graph.NodeSpec, error) { return nil, errors.New("no engine") }
				},
				func(r *property.Rule) { r.Connect = func(*graph.Node) error { return errors.New("no engine") } },
			} {
				r := engine(kind)
				spoil(r)
				res := carved(ctx, parse(net), options([]property.SubgraphProperty{r}, instance("a", graph.RowMajor, "Neg"), last()))
				Expect(reasons(res, "q", "a")).To(ContainElement("veto (engine): no engine"))
			}
		}
	})

	DescribeTable("has to fit its region after it was connected", func(ctx SpecContext, kind property.Kind, connect func(n *graph.Node) error) {
		r := engine(kind)
		r.Connect = connect
		o := options([]property.SubgraphProperty{r}, a(), last())
		o.Registry = registry(o.Backends)
		_, err := partition.Partition(ctx, parse(net), o)
		Expect(err).To(MatchError(partition.ErrPlan))
		Expect(err).To(MatchError(ContainSubstring("property engine")))
	},
		Entry("operands of a claim", property.Atomic, func(n *graph.Node) error { n.SetInputs(n.Inputs[0]); return nil }),
		Entry("operands of a group", property.Bounding, func(n *graph.Node) error { n.SetInputs(n.Inputs[0]); return nil }),
		Entry("results of a group", property.Bounding, func(n *graph.Node) error {
			n.Regions[0].Graph.SetOutputs(n.Regions[0].Graph.Outputs[0])
			return nil
		}),
	)

	It("may get operands more", func(ctx SpecContext) {
		r := engine(property.Bounding)
		r.Connect = func(n *graph.Node) error {
			v := n.Graph().Inputs[0]
			n.Regions[0].Graph.AddInput("more", v.Type)
			n.SetInputs(append(slices.Clone(n.Inputs), v)...)
			return nil
		}
		g := parse(net)
		o := options([]property.SubgraphProperty{r}, a(), last())
		o.Registry = registry(o.Backends)
		res, err := partition.Partition(ctx, g, o)
		Expect(err).NotTo(HaveOccurred())
		Expect(graph.Verify(g)).To(Succeed())
		Expect(res.Groups[0].Node.Inputs).To(HaveLen(3))
	})

	It("has an order for permutations alone", func() {
		g := parse(net)
		var sub *graph.Node
		for n := range g.Nodes() {
			sub = n
			break
		}
		Expect(sub.OrderInputs([]int{1, 0})).To(MatchError(graph.ErrNoBody))
		n, err := g.Extract([]*graph.Node{sub}, graph.NodeSpec{Op: graph.Op{Domain: graph.CarveDomain, Name: graph.OpSubgraph}})
		Expect(err).NotTo(HaveOccurred())
		for _, order := range [][]int{{0}, {0, 0}, {0, 2}, {-1, 0}, {0, 1, 2}} {
			Expect(n.OrderInputs(order)).To(MatchError(graph.ErrNodeSet))
		}
		Expect(n.OrderInputs([]int{1, 0})).To(Succeed())
		Expect(graph.Verify(g)).To(Succeed())
	})

	It("is not made by properties that are switched off", func(ctx SpecContext) {
		o := options([]property.SubgraphProperty{engine(property.Bounding)}, a(), last())
		o.Disabled = map[string][]string{"a": {"engine"}, "last": {"none"}}
		Expect(carved(ctx, parse(net), o).Groups[0].Node.Op.Name).To(Equal(graph.OpSubgraph))
	})
})
