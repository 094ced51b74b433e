package dag_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/partition/internal/dag"
	"github.com/carve-dev/carve/partition/internal/dagtest"
)

// try groups a random problem and returns what is wrong with the result.
func try(ctx context.Context, seed uint64, nodes int) string {
	g, p := randomProblem(seed, nodes)
	r, err := dag.Group(ctx, p)
	if err != nil {
		return err.Error()
	}
	if err := dag.Verify(p, r); err != nil {
		return err.Error()
	}
	if fault := oracle(g, p, r); fault != "" {
		return fault
	}
	again, err := dag.Group(ctx, p)
	if err != nil || !cmp.Equal(r, again) {
		return "a second run gives another result"
	}
	return ""
}

func tryMany(ctx context.Context, from, to uint64, nodes int) {
	for seed := from; seed < to; seed++ {
		if fault := try(ctx, seed, nodes); fault != "" {
			Fail(fmt.Sprintf("seed %d, up to %d nodes: %s", seed, nodes, fault))
		}
	}
}

var _ = Describe("Group on random problems", func() {
	It("gives sound groupings", func(ctx SpecContext) {
		tryMany(ctx, 0, 1200, 20)
		tryMany(ctx, 0, 600, 60)
		tryMany(ctx, 0, 200, 300)
	})

	It("gives 100,000 sound groupings", Label("slow"), func(ctx SpecContext) {
		if GinkgoLabelFilter() == "" {
			Skip("runs with -ginkgo.label-filter=slow")
		}
		tryMany(ctx, 1_000_000, 1_060_000, 20)
		tryMany(ctx, 1_000_000, 1_030_000, 60)
		tryMany(ctx, 1_000_000, 1_010_000, 300)
	})

	It("gives the fewest groups of one colour that need not be connected", func(ctx SpecContext) {
		for seed := range uint64(400) {
			n := 10 + int(seed)
			p := problem(dagtest.Random(n, 20, seed), dagtest.Colors(n, 1, 0.8, seed))
			p.Policy = []dag.Policy{{Disconnected: true}}
			r, err := dag.Group(ctx, p)
			Expect(err).NotTo(HaveOccurred())
			bound, err := dag.LowerBound(p, 0)
			Expect(err).NotTo(HaveOccurred())
			Expect(r.Colored()).To(Equal(bound))
		}
	})

	It("is close to the fewest groups there are", func(ctx SpecContext) {
		best, have, worst := 0, 0, 0
		for seed := range uint64(300) {
			g := dagtest.Random(9, 4, seed)
			p := problem(g, dagtest.Colors(9, 1, 0.7, seed))
			r, err := dag.Group(ctx, p)
			Expect(err).NotTo(HaveOccurred())
			least := fewest(g, p, true)
			best += least
			have += r.Colored()
			worst = max(worst, r.Colored()-least)
			p.Policy = []dag.Policy{{Disconnected: true}}
			r, err = dag.Group(ctx, p)
			Expect(err).NotTo(HaveOccurred())
			Expect(r.Colored()).To(Equal(fewest(g, p, false)))
		}
		Expect(have).To(BeNumerically("<=", best+best/50), "2 % above the optimum in sum")
		Expect(worst).To(BeNumerically("<=", 1))
	})

	It("does not depend on the numbers of the nodes but for ties", func(ctx SpecContext) {
		sum, shuffledSum := 0, 0
		for seed := range uint64(100) {
			n := 200
			g := dagtest.Random(n, 20, seed)
			p := problem(g, dagtest.Colors(n, 2, 0.6, seed))
			s, number := dagtest.Shuffle(g, seed)
			q := problem(s, make([]int32, n))
			for v, x := range number {
				q.Color[x] = p.Color[v]
			}
			for _, disconnected := range []bool{false, true} {
				p.Policy = []dag.Policy{{Disconnected: disconnected}, {Disconnected: disconnected}}
				q.Policy = p.Policy
				a, err := dag.Group(ctx, p)
				Expect(err).NotTo(HaveOccurred())
				b, err := dag.Group(ctx, q)
				Expect(err).NotTo(HaveOccurred())
				if disconnected {
					Expect(isomorphic(a, b, number)).To(BeTrue(), "seed %d", seed)
					continue
				}
				sum += a.Colored()
				shuffledSum += b.Colored()
				Expect(b.Colored()).To(BeNumerically("~", a.Colored(), max(3, a.Colored()/12)), "seed %d", seed)
			}
		}
		Expect(shuffledSum).To(BeNumerically("~", sum, sum/100))
	})
})

// isomorphic reports whether b is a with node v renamed number[v].
func isomorphic(a, b *dag.Grouping, number []int32) bool {
	if a.Len() != b.Len() {
		return false
	}
	image := make([]int32, a.Len())
	for i := range image {
		image[i] = -1
	}
	for v, x := range a.Of {
		y := b.Of[number[v]]
		if image[x] < 0 {
			image[x] = y
		}
		if image[x] != y || a.Color[x] != b.Color[y] {
			return false
		}
	}
	return true
}

// fewest tries all divisions of the nodes of colour 0 into groups and returns the fewest groups of a sound one.
func fewest(g *dagtest.Graph, p *dag.Problem, mustConnect bool) int {
	var nodes []int
	for v, c := range p.Color {
		if c == 0 {
			nodes = append(nodes, v)
		}
	}
	best := len(nodes)
	r := &dag.Grouping{Of: make([]int32, g.Nodes), Color: make([]int32, g.Nodes)}
	var place func(i, groups int)
	place = func(i, groups int) {
		if groups >= best {
			return
		}
		if i == len(nodes) {
			next := int32(groups)
			for v, c := range p.Color {
				if c != 0 {
					r.Of[v] = next
					next++
				}
			}
			r.Color = r.Color[:next]
			if cyclic(g, r) {
				return
			}
			members := make([][]int32, groups)
			for _, v := range nodes {
				members[r.Of[v]] = append(members[r.Of[v]], int32(v))
			}
			for _, m := range members {
				if mustConnect && !connected(g, r, m) {
					return
				}
			}
			best = groups
			return
		}
		for x := range groups + 1 {
			r.Of[nodes[i]] = int32(x)
			place(i+1, max(groups, x+1))
		}
	}
	place(0, 0)
	return best
}

func FuzzGroup(f *testing.F) {
	f.Add(uint64(1), uint16(20))
	f.Add(uint64(1<<40), uint16(60))
	f.Fuzz(func(t *testing.T, seed uint64, nodes uint16) {
		if fault := try(t.Context(), seed, 2+int(nodes%200)); fault != "" {
			t.Fatal(fault)
		}
	})
}

// BenchmarkVerify is the share of Verify in BenchmarkGroup.
func BenchmarkVerify(b *testing.B) {
	p := problem(dagtest.Random(1_000_000, 20, 1), dagtest.Colors(1_000_000, 2, 0.5, 1))
	r, err := dag.Group(b.Context(), p)
	if err != nil {
		b.Fatal(err)
	}
	number := rand.New(rand.NewPCG(1, 1)).Perm(r.Len())
	shuffled := &dag.Grouping{Of: make([]int32, len(r.Of)), Color: make([]int32, r.Len())}
	for v, x := range r.Of {
		shuffled.Of[v] = int32(number[x])
		shuffled.Color[number[x]] = r.Color[x]
	}
	for name, r := range map[string]*dag.Grouping{"ordered": r, "unordered": shuffled} {
		b.Run("groups="+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := dag.Verify(p, r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
