package partition_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/partition"
	"github.com/carve-dev/carve/partition/partitiontest"
	"github.com/carve-dev/carve/property"
)

// cheapest collects everything before it takes anything: sets where they cost less than their nodes do by themselves, then
// for each node the cheapest candidate.
type cheapest struct{ offered *[]string }

func (c cheapest) Choose(ctx context.Context, t *partition.Candidates) error {
	for i := range t.Backends() {
		if err := t.Collect(ctx, i, func(*partition.Candidate) bool { return false }); err != nil {
			return err
		}
	}
	single := map[*graph.Node]*partition.Candidate{}
	for x := range t.All() {
		*c.offered = append(*c.offered, fmt.Sprintf("%s %v", t.Backend(x.Backend), x.Nodes()))
		if b := single[x.Node]; x.Claim == nil && (b == nil || x.Cost.Nanoseconds < b.Cost.Nanoseconds) {
			single[x.Node] = x
		}
	}
	for x := range t.All() {
		if x.Claim == nil {
			continue
		}
		parts := 0.0
		for _, n := range x.Nodes() {
			parts += single[n].Cost.Nanoseconds
		}
		if x.Cost.Nanoseconds < parts {
			if _, err := t.Take(x); err != nil {
				return err
			}
		}
	}
	for x := range t.All() {
		if x.Claim == nil && single[x.Node] == x {
			if _, err := t.Take(x); err != nil {
				return err
			}
		}
	}
	return nil
}

// priced is a backend with a price for every operator.
type priced struct {
	backend.Backend
	price map[string]float64
}

func (p priced) Supports(n *graph.Node) backend.Support {
	s := p.Backend.Supports(n)
	if n.IsCarve(graph.OpFused) {
		s = backend.Support{Signatures: []graph.Signature{graph.UniformSignature("fused", n, graph.HostFormat)}}
	}
	s.Cost.Nanoseconds = p.price[n.Op.Name]
	return s
}

var _ = Describe("A chooser", func() {
	pair := property.NewPattern("pair", property.Sequence("Neg", "Abs"), nil)
	run := func(ctx context.Context, fused float64, c partition.Chooser) *partitiontest.Outcome {
		GinkgoHelper()
		out, err := partitiontest.Run(ctx, &partitiontest.Case{
			Graph:      partitiontest.Lines("c", "a = Neg(x)", "b = Abs(a)", "c = Exp(b)"),
			Properties: []property.SubgraphProperty{pair},
			Options: partition.Options{Chooser: c, Backends: []backend.Backend{
				priced{instance("first", graph.RowMajor), map[string]float64{"Neg": 10, "Abs": 10, "Exp": 30, "Fused": fused}},
				priced{instance("second", graph.RowMajor), map[string]float64{"Neg": 20, "Abs": 5, "Exp": 20}},
			}},
		})
		Expect(err).NotTo(HaveOccurred())
		return out
	}

	It("by priority takes what comes first", func(ctx SpecContext) {
		Expect(run(ctx, 99, nil).Groups).To(Equal([]string{"first: (a b) c"}))
		Expect(run(ctx, 99, partition.Priority{}).Groups).To(Equal([]string{"first: (a b) c"}))
	})

	It("may know all candidates, sets with their parts, before it takes one", func(ctx SpecContext) {
		var offered []string
		Expect(run(ctx, 14, cheapest{&offered}).Groups).To(Equal([]string{"first: (a b)", "second: c"}))
		Expect(offered).To(HaveLen(7))
		Expect(offered[0]).To(Equal(`first [Neg "a" Abs "b"]`))
		Expect(run(ctx, 16, cheapest{&offered}).Groups).To(Equal([]string{"first: a", "second: b c"}), "the parts cost 15")
	})

	It("may not leave nodes to nobody", func(ctx SpecContext) {
		_, err := partitiontest.Run(ctx, &partitiontest.Case{Graph: partitiontest.Lines("a", "a = Neg(x)"), Options: partition.Options{Chooser: idle{}}})
		Expect(err).To(MatchError(partition.ErrUnplaced))
	})
})

// idle takes nothing.
type idle struct{}

func (idle) Choose(context.Context, *partition.Candidates) error { return nil }
