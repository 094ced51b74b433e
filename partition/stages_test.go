package partition_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/golden"
	"github.com/carve-dev/carve/partition"
	"github.com/carve-dev/carve/partition/partitiontest"
	"github.com/carve-dev/carve/property"
)

// wide is a backend of either format, which refuses groups with nodes of a name.
type wide struct {
	picky
	refuses string
}

func (w wide) Negotiate(_ context.Context, sub *graph.Graph) (map[*graph.Value]graph.Format, error) {
	for n := range sub.Nodes() {
		if n.Name == w.refuses {
			return nil, fmt.Errorf("%w: not with %s", backend.ErrRefused, w.refuses)
		}
	}
	return nil, nil
}

var _ = Describe("The stages", func() {
	// A net with a node for each thing that may happen to one.
	net := func() *partitiontest.Case {
		return &partitiontest.Case{
			Graph: partitiontest.Lines("i, d", "a = Abs(x)", "b = Neg(a)", "c = Relu(b)", "d = Exp(c)", "e = Tanh(c)", "f = Sigmoid(e)", "g = Neg(f)",
				"h = Relu(g)", "i = Abs(h)"),
			Properties: []property.SubgraphProperty{fused{property.NewPattern("neg-relu", property.Sequence("Neg", "Relu"), nil), graph.On(graph.NCHW16c)}},
			Options: partition.Options{
				Backends: []backend.Backend{wide{picky{instance("wide", graph.RowMajor, "Abs", "Neg", "Relu", "Exp", "Sigmoid")}, "i"}, instance("rest", graph.RowMajor)},
				Pins:     []partition.Pin{{Node: "d", Backend: "wide", Exclude: true}},
				MinNodes: 2,
			},
		}
	}

	for i, stage := range partition.Stages() {
		It("leave behind "+stage.Name+" what the file says", func(ctx SpecContext) {
			c := net()
			c.After = stage.Name
			out, err := partitiontest.Run(ctx, c)
			Expect(err).NotTo(HaveOccurred())
			path := filepath.Join("testdata", "stages", fmt.Sprintf("%02d-%s.txt", i, stage.Name))
			Expect(golden.Compare(path, out.Graph.String()+out.State)).To(Succeed())
		})
	}

	It("begin anew where a node is banned, until none is", func(ctx SpecContext) {
		out, err := partitiontest.Run(ctx, net())
		Expect(err).NotTo(HaveOccurred())
		Expect(out.Groups).To(Equal([]string{"wide: a (b c)", "rest: d", "rest: e f g h i"}))
		Expect(out.Bans).To(Equal([]string{
			"f not on wide, by negotiate-formats: veto: the backend refuses the group: not with i",
			"g not on wide, by negotiate-formats: veto: the backend refuses the group: not with i",
			"h not on wide, by negotiate-formats: veto: the backend refuses the group: not with i",
			"i not on wide, by negotiate-formats: veto: the backend refuses the group: not with i",
		}))
		Expect(out.Reasons).To(ContainElements("d not on wide: pinned: the user excluded it from wide",
			"e not on wide: unsupported: not accepted by this instance", "a not on rest: priority: wide comes before it in the list, and has the node"))
	})

	It("give up a property that turns down one node at a time, without end", func(ctx SpecContext) {
		var lines []string
		for i := range partition.MaxRounds + 1 {
			lines = append(lines, fmt.Sprintf("n%d = Neg(x)", i))
		}
		turned := 0
		p := reviewing{property.WithKind(property.Bounding, property.Nodes("one", property.Ops())), func(sub *graph.Graph) ([]int, *property.Reason) {
			if keep := property.KeepAll(sub); turned > 0 {
				return keep, nil
			}
			turned++
			return nil, nil
		}}
		again := resetting{p, &turned}
		_, err := partitiontest.Run(ctx, &partitiontest.Case{Graph: partitiontest.Lines("n0", lines...), Properties: []property.SubgraphProperty{again}})
		Expect(err).To(MatchError(partition.ErrRounds))
	})

	It("are verified for random graphs", func(ctx SpecContext) {
		for seed := range uint64(200) {
			rng := rand.New(rand.NewPCG(seed, 77))
			g := randomGraph(rng, 60)
			o := randomOptions(rng)
			o.Isolated = seed%5 == 0
			o.Bans = partition.NewBans(nil)
			Expect(rounds(ctx, g, o, func(s *partition.State, stage string) {
				Expect(s.Verify()).To(Succeed(), "seed %d after %s", seed, stage)
			})).To(Succeed(), "seed %d", seed)
		}
	})

	DescribeTable("verify what is true after each",
		func(ctx SpecContext, after string, spoil func(g *graph.Graph, n *graph.Node), want string) {
			g := parse(text("d", "a = Neg(x)", "b = Abs(a)", "c = Neg(b)", "d = Add(c, a)"))
			o := &partition.Options{Backends: []backend.Backend{instance("n", opaque("n"), "Neg"), instance("rest", graph.RowMajor)}}
			o.Registry, o.Bans = registry(o.Backends), partition.NewBans(nil)
			var err error
			Expect(rounds(ctx, g, o, func(s *partition.State, stage string) {
				if stage != after || err != nil {
					return
				}
				Expect(s.Verify()).To(Succeed())
				twin, e := s.Graph().Clone()
				Expect(e).NotTo(HaveOccurred())
				for n := range s.Graph().Nodes() {
					if n.Name == "c" || n.IsCarve(graph.OpSubgraph) && slices.Equal(n.Provenance(), []string{"c"}) {
						spoil(s.Graph(), n)
					}
				}
				err = s.Verify()
				s.Graph().TakeOver(twin)
			})).To(Or(Succeed(), HaveOccurred())) // what was spoilt is not carried on
			Expect(err).To(MatchError(partition.ErrPlan))
			Expect(err).To(MatchError(ContainSubstring(want)))
		},
		Entry("who has a node", "assign", func(_ *graph.Graph, n *graph.Node) { n.Backend = "rest" }, `Neg "c" on "rest" is not what was chosen`),
		Entry("who has a group", "group", func(_ *graph.Graph, n *graph.Node) { n.Backend = "rest" }, `is not what was chosen`),
		Entry("that groups do not depend on themselves", "group", func(g *graph.Graph, n *graph.Node) {
			for m := range g.Nodes() {
				if m.Name == "a" {
					m.SetOperand(0, n.Outputs[0])
				}
			}
		}, "depend on themselves"),
		Entry("signatures", "choose-formats", func(_ *graph.Graph, n *graph.Node) { n.Ports = nil }, "has no signature that fits"),
		Entry("signatures that were offered", "choose-formats", func(_ *graph.Graph, n *graph.Node) {
			n.Ports = &graph.Signature{Inputs: []graph.Port{graph.Fixed(graph.On(graph.NHWC))}, Outputs: n.Ports.Outputs}
		}, "is not among those that n offers"),
		Entry("formats", "negotiate-formats", func(_ *graph.Graph, n *graph.Node) { n.Outputs[0].Format = graph.On(graph.NHWC) }, "which is host:acdb"),
		Entry("conversions", "insert-conversions", func(g *graph.Graph, n *graph.Node) { n.SetOperand(0, g.Inputs[0]) }, "wants x in host:n@1:own"),
		Entry("the groups of the result", "extract-groups", func(_ *graph.Graph, n *graph.Node) { n.Backend = "rest" }, "of the result"),
	)

	It("are run in their order", func() {
		g := parse(text("a", "a = Neg(x)"))
		s := partition.NewState(g, &partition.Options{Backends: []backend.Backend{instance("n", graph.RowMajor)}}, 0)
		Expect(func() { _ = s.Group(context.Background()) }).To(PanicWith(ContainSubstring("stage group after 0 stages")))
	})
})

// resetting is a property that is told when the graph is looked at anew.
type resetting struct {
	reviewing
	turned *int
}

func (r resetting) PrePartition(*graph.Graph) error {
	*r.turned = 0
	return nil
}

// rounds runs the stages over copies of a graph until none bans a node, and calls fn after each.
func rounds(ctx context.Context, g *graph.Graph, o *partition.Options, fn func(s *partition.State, stage string)) error {
	for range partition.MaxRounds {
		h, err := g.Clone()
		if err != nil {
			return err
		}
		s := partition.NewState(h, o, 0)
		before := o.Bans.Len()
		for _, stage := range partition.Stages() {
			if err := stage.Run(s, ctx); err != nil {
				return err
			}
			fn(s, stage.Name)
			if o.Bans.Len() > before {
				break
			}
		}
		if o.Bans.Len() == before {
			return nil
		}
	}
	return partition.ErrRounds
}
