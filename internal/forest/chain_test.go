package forest_test

import (
	"math"
	"math/rand/v2"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/forest"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/trees"
)

// chains makes a tree of sets of categories as converters write them: chains of comparisons for equality with one feature that lead to the
// same node each, one chain in front of the next, and at times a way into the middle of one.
func chains(r *rand.Rand, features int) *forest.Forest {
	f := &forest.Forest{Targets: 1, Features: features}
	for w := range 3 {
		f.Nodes = append(f.Nodes, forest.Node{Mode: forest.Leaf, Votes: []forest.Vote{{Weight: float64(w + 1)}}})
	}
	for range 1 + r.IntN(4) {
		heads, n := len(f.Nodes), 1+r.IntN(12)
		hit, rest, feature := r.IntN(heads), r.IntN(heads), r.IntN(features)
		for range n {
			m := forest.Node{Mode: []forest.Mode{forest.EQ, forest.EQ, forest.EQ, forest.NEQ, forest.Member}[r.IntN(5)], Feature: feature,
				Missing: r.IntN(4) == 0, Split: numbers[r.IntN(len(numbers))], Yes: hit, No: rest}
			if r.IntN(3) > 0 {
				m.Split = float64(r.IntN(9))
			}
			for m.Mode == forest.Member && r.IntN(3) > 0 {
				m.Members = append(m.Members, float64(r.IntN(9)))
			}
			if m.Mode == forest.NEQ {
				m.Yes, m.No = m.No, m.Yes
			}
			f.Nodes = append(f.Nodes, m)
			if rest = len(f.Nodes) - 1; r.IntN(6) == 0 {
				hit = r.IntN(heads)
			}
		}
	}
	f.Roots = append(f.Roots, len(f.Nodes)-1)
	if r.IntN(3) == 0 {
		f.Roots = append(f.Roots, r.IntN(len(f.Nodes)))
	}
	return f
}

var _ = Describe("a chain of comparisons for equality", func() {
	It("votes as its nodes do", func() {
		for seed := range uint64(2000) {
			r := rand.New(rand.NewPCG(seed, 8))
			f := chains(r, 1+r.IntN(3))
			for _, target := range isa.Targets() {
				check[float32](r, f, forest.Sum, trees.For(target))
			}
			check[float64](r, f, forest.Sum, trees.For(isa.Host()))
		}
	})

	DescribeTable("is a search by halves", func(nodes func(n int) []forest.Node) {
		const n = 300
		f := &forest.Forest{Targets: 1, Features: 1, Roots: []int{2}, Nodes: slices.Concat(
			[]forest.Node{{Mode: forest.Leaf, Votes: []forest.Vote{{Weight: 1}}}, {Mode: forest.Leaf, Votes: []forest.Vote{{Weight: 2}}}}, nodes(n))}
		t, err := forest.Compile[float32](f, trees.Kernels{})
		Expect(err).NotTo(HaveOccurred())
		for _, x := range []float64{-1, 0, 1, n - 1, n, math.NaN()} {
			Expect(t.Visits([]float32{float32(x)})).To(BeNumerically("<=", 11), "%v", x)
		}
	},
		Entry("of x = a", func(n int) (list []forest.Node) {
			for i := range n {
				list = append(list, forest.Node{Mode: forest.EQ, Split: float64(n - i), Yes: 1, No: 3 + i})
			}
			list[n-1].No = 0
			return list
		}),
		Entry("of x ≠ a", func(n int) (list []forest.Node) {
			for i := range n {
				list = append(list, forest.Node{Mode: forest.NEQ, Split: float64(i), Yes: 3 + i, No: 1})
			}
			list[n-1].Yes = 0
			return list
		}),
		Entry("of the members of a set", func(n int) []forest.Node {
			m := forest.Node{Mode: forest.Member, Yes: 1, No: 0}
			for i := range n {
				m.Members = append(m.Members, float64(i))
			}
			return []forest.Node{m}
		}),
	)
})
