package choose_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/partition/internal/choose"
	"github.com/carve-dev/carve/partition/internal/dagtest"
)

// tally counts what came of random problems: solved by reductions and tables alone, with cuts, and by searches, of which some
// found the optimum; the largest gap to that, and the sum of gaps.
type tally struct {
	reduced, cut, searched, found int
	worst, sum                    float64
}

func (t *tally) String() string {
	return fmt.Sprintf("%d reduced, %d cut, %d searched, of which %d are at the optimum, worst %.2f%%, mean %.4f%%",
		t.reduced, t.cut, t.searched, t.found, 100*t.worst, 100*t.sum/float64(max(t.searched, 1)))
}

// againstAll compares solutions of random problems with the best of all choices.
func againstAll(ctx context.Context, from, to uint64, s shape, o choose.Settings) (t tally) {
	GinkgoHelper()
	for seed := from; seed < to; seed++ {
		rng := rand.New(rand.NewPCG(seed, 11))
		p := random(rng, s)
		best, _ := brute(p)
		got, err := choose.Solve(ctx, p, &o)
		Expect(err).NotTo(HaveOccurred())
		say := func() string { return fmt.Sprintf("seed %d, best %d, got %+v\n%s", seed, best, got, text(p)) }
		if best >= choose.Hard {
			Expect(got.Cost).To(BeNumerically(">=", choose.Hard), say)
			continue
		}
		Expect(got.Cost).To(Equal(price(p, got.Choice)), say)
		Expect(got.Cost).To(Equal(p.Cost(got.Choice)), say)
		Expect(got.Bound).To(BeNumerically("<=", best), say)
		Expect(got.Cost).To(BeNumerically(">=", best), say)
		if got.Searches == 0 {
			if got.Cuts > 0 {
				t.cut++
			} else {
				t.reduced++
			}
			Expect(got.Cost).To(Equal(best), say)
			Expect(got.Bound).To(Equal(best), say)
			continue
		}
		t.searched++
		if got.Cost == best {
			t.found++
		}
		gap := float64(got.Cost-best) / float64(max(best, 1))
		t.worst, t.sum = max(t.worst, gap), t.sum+gap
	}
	return t
}

var _ = Describe("Solve", func() {
	type method struct {
		name  string
		o     choose.Settings
		shape func(*shape)
	}
	methods := []method{
		{"as it is", choose.Settings{}, func(*shape) {}},
		{"without large tables", choose.Settings{Table: -1}, func(s *shape) {}},
		{"with two alternatives", choose.Settings{Table: -1}, func(s *shape) { s.alts, s.states, s.claims, s.vars = 2, 2, 0, 16 }},
		{"with a state for each of two alternatives", choose.Settings{Table: -1}, func(s *shape) {
			s.alts, s.states, s.claims, s.vars, s.near, s.operands, s.aligned = 2, 2, 0, 16, 12, 5, true
		}},
		{"without claims", choose.Settings{Table: -1, NoCut: true}, func(s *shape) { s.claims = 0 }},
	}
	run := func(ctx context.Context, from, to uint64) {
		GinkgoHelper()
		for _, m := range methods {
			s := small
			m.shape(&s)
			t := againstAll(ctx, from, to, s, m.o)
			AddReportEntry(m.name, t.String())
		}
	}

	It("finds the best of all choices of small problems", func(ctx SpecContext) { run(ctx, 0, 200) })

	It("does so in great number", Label("slow"), func(ctx SpecContext) {
		if !strings.Contains(GinkgoLabelFilter(), "slow") {
			Skip("takes long: -ginkgo.label-filter=slow")
		}
		run(ctx, 200, 10_200)
	})
})

var _ = Describe("A large problem", func() {
	It("is solved to a small gap", func(ctx SpecContext) {
		for seed := range uint64(2) {
			p := placed(dagtest.Random(2000, 20, seed), seed)
			s, err := choose.Solve(ctx, p, nil)
			Expect(err).NotTo(HaveOccurred())
			Expect(s.Searches).To(Equal(1), "the graph is no series of reductions")
			Expect(s.Cost).To(Equal(price(p, s.Choice)))
			Expect(gap(s)).To(BeNumerically("<=", 0.01))
			again, err := choose.Solve(ctx, p, nil)
			Expect(err).NotTo(HaveOccurred())
			Expect(again).To(Equal(s))
		}
	})

	It("of two alternatives each is solved exactly by a cut", func(ctx SpecContext) {
		p := placed(dagtest.Random(3000, 20, 7), 7)
		for v := range p.Vars {
			p.Vars[v].Alts = p.Vars[v].Alts[:2]
			p.Values[v].Made = p.Values[v].Made[:2]
			for k := range p.Values[v].Uses {
				p.Values[v].Uses[k].Wants = p.Values[v].Uses[k].Wants[:2]
			}
		}
		s, err := choose.Solve(ctx, p, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(s.Cuts).To(Equal(1))
		Expect(s.Searches).To(BeZero())
		Expect(s.Cost).To(Equal(price(p, s.Choice)))
		Expect(s.Bound).To(Equal(s.Cost))
		other, err := choose.Solve(ctx, p, &choose.Settings{NoCut: true})
		Expect(err).NotTo(HaveOccurred())
		Expect(other.Bound).To(BeNumerically("<=", s.Cost), "the other bound agrees")
		Expect(other.Bound).To(BeNumerically(">=", s.Cost*999/1000))
		Expect(other.Cost).To(BeNumerically(">=", s.Cost))
	})

	It("returns the best that it found when its budget is used up", func(ctx SpecContext) {
		p := placed(dagtest.Random(5000, 20, 1), 1)
		s, err := choose.Solve(ctx, p, &choose.Settings{Budget: 1})
		Expect(err).NotTo(HaveOccurred())
		Expect(s.Cost).To(Equal(price(p, s.Choice)))
		Expect(s.Cost).To(BeNumerically("<", choose.Hard))
		Expect(s.Bound).To(BeNumerically(">", 0))
	})

	It("makes no sense where its parts do not fit together", func(ctx SpecContext) {
		for _, spoil := range []func(p *choose.Problem){
			func(p *choose.Problem) { p.Vars[1].Alts = nil },
			func(p *choose.Problem) { p.Vars[1].Joins = 100 },
			func(p *choose.Problem) { p.Vars[1].Alts[0].Color = 9 },
			func(p *choose.Problem) { p.Values[1].Maker = 100 },
			func(p *choose.Problem) { p.Values[1].Made = nil },
			func(p *choose.Problem) { p.Values[0].Uses[0].Var = 0 },
			func(p *choose.Problem) { p.Values[0].Uses[0].Wants = nil },
		} {
			p := placed(dagtest.Chain(4), 1)
			spoil(p)
			_, err := choose.Solve(ctx, p, nil)
			Expect(err).To(MatchError(choose.ErrProblem))
		}
	})
})

// gap returns by how much of the bound a choice may be away from the optimum.
func gap(s *choose.Solution) float64 {
	return float64(s.Cost-s.Bound) / float64(max(s.Bound, 1))
}
