package forest_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/forest"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/trees"
)

// numbers are splits, features and members: few, so that they are equal at times, with those at the ends of the line.
var numbers = []float64{-1, math.Copysign(0, -1), 0, 1, 2.5, math.Inf(1), math.Inf(-1), math.NaN(), math.SmallestNonzeroFloat32, -math.SmallestNonzeroFloat32}

// random makes a forest of every kind of comparison; nodes come behind their children, so that there is no cycle.
func random(r *rand.Rand, targets, features int) *forest.Forest {
	f := &forest.Forest{Targets: targets, Features: features}
	boosted, complete := r.IntN(2) == 0, r.IntN(3) == 0 // or all leaves vote for all targets
	for range 1 + r.IntN([]int{3, 8, 70}[r.IntN(3)]) {
		first, own := len(f.Nodes), -1 // the target of all votes of a tree
		if boosted {
			own = r.IntN(targets)
		}
		for range 1 + r.IntN(9) {
			n := forest.Node{Mode: forest.Leaf}
			for range r.IntN([]int{3, 3, 40}[r.IntN(3)]) {
				n.Votes = append(n.Votes, forest.Vote{Target: r.IntN(targets), Weight: float64(r.IntN(9)) - 4})
			}
			if own >= 0 && r.IntN(99) > 0 {
				n.Votes = []forest.Vote{{Target: own, Weight: float64(float32(r.NormFloat64()))}}
			}
			if complete {
				n.Votes = nil
				for _, t := range r.Perm(targets) {
					n.Votes = append(n.Votes, forest.Vote{Target: t, Weight: float64(float32(r.NormFloat64()))})
				}
			}
			f.Nodes = append(f.Nodes, n)
		}
		for range r.IntN(20) {
			pick := func() int { return first + r.IntN(len(f.Nodes)-first) }
			n := forest.Node{Mode: forest.Mode(r.IntN(7)), Missing: r.IntN(2) == 0, Feature: r.IntN(features), Yes: pick(), No: pick(),
				Split: numbers[r.IntN(len(numbers))]}
			for n.Mode == forest.Member && r.IntN(3) > 0 {
				n.Members = append(n.Members, numbers[r.IntN(len(numbers)-3)])
			}
			f.Nodes = append(f.Nodes, n)
		}
		f.Roots = append(f.Roots, len(f.Nodes)-1)
	}
	return f
}

// leaf walks a tree as the operator is defined.
func leaf(f *forest.Forest, i int, row []float64) *forest.Node {
	for {
		n := &f.Nodes[i]
		if n.Mode == forest.Leaf {
			return n
		}
		x := row[n.Feature]
		take := map[forest.Mode]bool{forest.LEQ: x <= n.Split, forest.LT: x < n.Split, forest.GTE: x >= n.Split, forest.GT: x > n.Split,
			forest.EQ: x == n.Split, forest.NEQ: x != n.Split, forest.Member: slices.Contains(n.Members, x)}[n.Mode]
		i = n.No
		if take || x != x && n.Missing {
			i = n.Yes
		}
	}
}

// check compares a compiled forest with walks by definition.
func check[T float32 | float64](r *rand.Rand, f *forest.Forest, a forest.Aggregate, k trees.Kernels) {
	GinkgoHelper()
	t, err := forest.Compile[T](f, k)
	Expect(err).NotTo(HaveOccurred())
	n, pitch := 1+r.IntN([]int{3, 11, 80}[r.IntN(3)]), f.Features+r.IntN(2)
	rows := make([]T, n*pitch)
	for i := range rows {
		rows[i] = T(numbers[r.IntN(len(numbers))])
	}
	base := []float64{0.25}
	got := make([]float64, n*f.Targets)
	t.Begin(got, a)
	half := r.IntN(t.Len() + 1)
	t.Add(got, rows, n, pitch, a, 0, half)
	t.Add(got, rows, n, pitch, a, half, t.Len())
	t.End(got, a, base)
	for k := range n {
		row := make([]float64, f.Features)
		for i := range row {
			row[i] = float64(rows[k*pitch+i])
		}
		sums, voted := make([]float64, f.Targets), make([]bool, f.Targets)
		for _, root := range f.Roots {
			for _, v := range leaf(f, root, row).Votes {
				switch {
				case !voted[v.Target] || a == forest.Sum || a == forest.Average:
					sums[v.Target] += v.Weight
				case a == forest.Min:
					sums[v.Target] = math.Min(sums[v.Target], v.Weight)
				default:
					sums[v.Target] = math.Max(sums[v.Target], v.Weight)
				}
				voted[v.Target] = true
			}
		}
		for i := range sums {
			if a == forest.Average {
				sums[i] /= float64(len(f.Roots))
			}
			Expect(got[k*f.Targets+i]).To(Equal(sums[i]+base[0]), "row %d %v, target %d", k, row, i)
		}
	}
}

var _ = Describe("a compiled forest", func() {
	It("votes as the trees are defined", func() {
		for seed := range uint64(3000) {
			r := rand.New(rand.NewPCG(seed, 7))
			f := random(r, 1+r.IntN([]int{1, 3, 3, 20}[r.IntN(4)]), 1+r.IntN([]int{4, 4, 40}[r.IntN(3)]))
			a := forest.Aggregate(r.IntN(4))
			for _, target := range isa.Targets() {
				check[float32](r, f, a, trees.For(target))
			}
			check[float64](r, f, a, trees.For(isa.Host()))
		}
	})

	It("of features far apart is compiled too", func() {
		for bits := range 31 {
			f := &forest.Forest{Targets: 1, Features: 1 << bits, Roots: []int{0}, Nodes: []forest.Node{{Feature: 1<<bits - 1, Yes: 1, No: 2},
				{Mode: forest.Leaf, Votes: []forest.Vote{{Weight: 1}}}, {Mode: forest.Leaf, Votes: []forest.Vote{{Weight: 2}}}}}
			t, err := forest.Compile[float32](f, trees.For(isa.Host()))
			Expect(err).NotTo(HaveOccurred())
			Expect(t.Features()).To(Equal(f.Features))
			if bits < 12 {
				row, score := make([]float32, f.Features), []float64{0}
				row[f.Features-1] = 1
				t.Add(score, row, 1, f.Features, forest.Sum, 0, 1)
				Expect(score).To(Equal([]float64{2}))
			}
		}
	})

	It("walks without memory", func() {
		r := rand.New(rand.NewPCG(1, 7))
		t, err := forest.Compile[float32](random(r, 2, 3), trees.For(isa.Host()))
		Expect(err).NotTo(HaveOccurred())
		rows, scores := make([]float32, 5*3), make([]float64, 5*2)
		Expect(testing.AllocsPerRun(10, func() {
			t.Begin(scores, forest.Sum)
			t.Add(scores, rows, 5, 3, forest.Sum, 0, t.Len())
			t.End(scores, forest.Sum, nil)
		})).To(BeZero())
	})

	It("has finite weights", func() {
		_, err := forest.Compile[float32](&forest.Forest{Targets: 1, Roots: []int{0},
			Nodes: []forest.Node{{Mode: forest.Leaf, Votes: []forest.Vote{{Weight: math.Inf(1)}}}}}, trees.Kernels{})
		Expect(err).To(BeAssignableToTypeOf(&forest.Error{}))
	})
})

var _ = Describe("attributes of trees", func() {
	// one returns a regressor of one tree x0 ≤ 1 ? 2 : 3, whose attributes can be replaced.
	one := func(swap ...graph.Attr) *graph.Node {
		attrs := graph.Attrs{graph.IntsAttr("nodes_treeids", 0, 0, 0), graph.IntsAttr("nodes_nodeids", 0, 1, 2), graph.IntsAttr("nodes_featureids", 0, 0, 0),
			graph.FloatsAttr("nodes_values", 1, 0, 0), {Name: "nodes_modes", Kind: graph.AttrStrings, Strs: []string{"BRANCH_LEQ", "LEAF", "LEAF"}},
			graph.IntsAttr("nodes_truenodeids", 1, 0, 0), graph.IntsAttr("nodes_falsenodeids", 2, 0, 0),
			graph.IntsAttr("target_treeids", 0, 0), graph.IntsAttr("target_nodeids", 1, 2), graph.IntsAttr("target_ids", 0, 0), graph.FloatsAttr("target_weights", 2, 3)}
		for _, a := range swap {
			i := slices.IndexFunc(attrs, func(b graph.Attr) bool { return a.Name == b.Name })
			attrs[i] = a
		}
		return &graph.Node{Op: graph.Op{Domain: "ai.onnx.ml", Name: "TreeEnsembleRegressor"}, Attrs: attrs}
	}

	It("are read", func() {
		f, err := forest.Read(one(), 1)
		Expect(err).NotTo(HaveOccurred())
		Expect(f.Nodes).To(HaveLen(3))
		Expect(f.Features).To(Equal(1))
		t, err := forest.Compile[float32](f, trees.For(isa.Host()))
		Expect(err).NotTo(HaveOccurred())
		scores := make([]float64, 2)
		t.Begin(scores, forest.Sum)
		t.Add(scores, []float32{1, 2}, 2, 1, forest.Sum, 0, 1)
		Expect(scores).To(Equal([]float64{2, 3}))
	})

	It("that vote for the one target several times at a leaf count the first time", func() {
		twice := []graph.Attr{graph.IntsAttr("target_treeids", 0, 0, 0, 0), graph.IntsAttr("target_nodeids", 1, 2, 2, 1), graph.IntsAttr("target_ids", 0, 0, 0, 0),
			graph.FloatsAttr("target_weights", 2, 3, 3, 7)}
		f, err := forest.Read(one(twice...), 1)
		Expect(err).NotTo(HaveOccurred())
		Expect(f.Nodes[1].Votes).To(Equal([]forest.Vote{{Target: 0, Weight: 2}}))
		Expect(f.Nodes[2].Votes).To(Equal([]forest.Vote{{Target: 0, Weight: 3}}))
	})

	DescribeTable("that are wrong are named", func(attr string, swap graph.Attr) {
		_, err := forest.Read(one(swap), 1)
		Expect(err).To(HaveField("Attr", attr))
	},
		Entry("a cycle", "nodes_truenodeids", graph.IntsAttr("nodes_truenodeids", 0, 0, 0)),
		Entry("a node that is not there", "nodes_falsenodeids", graph.IntsAttr("nodes_falsenodeids", 7, 0, 0)),
		Entry("lists of other lengths", "nodes_values", graph.FloatsAttr("nodes_values", 1)),
		Entry("a negative feature", "nodes_featureids", graph.IntsAttr("nodes_featureids", -1, 0, 0)),
		Entry("a target that is not there", "target_ids", graph.IntsAttr("target_ids", 0, 1)),
		Entry("a vote of no node", "target_nodeids", graph.IntsAttr("target_nodeids", 1, 9)),
		Entry("an unknown mode", "nodes_modes", graph.Attr{Name: "nodes_modes", Kind: graph.AttrStrings, Strs: []string{"BRANCH", "LEAF", "LEAF"}}),
	)
})
