package schedule_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/memplan/schedule"
)

// root returns the value in whose memory x lies.
func root(g *schedule.Graph, x int) int {
	for g.Within != nil && g.Within[x] != x {
		x = g.Within[x]
	}
	return x
}

// peakOf computes the peak from its definition, without any state: what is alive while each node runs.
func peakOf(g *schedule.Graph, order []int) int64 {
	pos := make([]int, len(order))
	for at, i := range order {
		pos[i] = at
	}
	var peak int64
	for at, i := range order {
		node := &g.Nodes[i]
		sum := node.Work
		for r := range g.Bytes {
			if root(g, r) != r {
				continue
			}
			made, last := len(order), -1
			for k := range g.Nodes {
				for _, x := range g.Nodes[k].Outputs {
					if root(g, x) == r {
						made, last = min(made, pos[k]), max(last, pos[k])
					}
				}
				for _, x := range g.Nodes[k].Inputs {
					if root(g, x) == r {
						last = max(last, pos[k])
					}
				}
			}
			for x := range g.Bytes {
				if g.Keep != nil && g.Keep[x] && root(g, x) == r {
					last = len(order)
				}
				if given(g, x) && root(g, x) == r {
					made = -1
				}
			}
			if made <= at && at <= last {
				sum += g.Bytes[r]
			}
		}
		peak = max(peak, sum-saved(g, pos, i))
	}
	return peak
}

// given reports whether no node makes x.
func given(g *schedule.Graph, x int) bool {
	return !slices.ContainsFunc(g.Nodes, func(n schedule.Node) bool { return slices.Contains(n.Outputs, x) })
}

// saved returns the bytes that node i needs not, since its first output overwrites an input.
func saved(g *schedule.Graph, pos []int, i int) int64 {
	node := &g.Nodes[i]
	if len(node.Outputs) == 0 {
		return 0
	}
	out := node.Outputs[0]
	if root(g, out) != out {
		return 0
	}
	for x := range g.Bytes {
		if given(g, x) && root(g, x) == out {
			return 0
		}
	}
	for k := range g.Nodes { // a part of it was there before
		for j, x := range g.Nodes[k].Outputs {
			if root(g, x) == out && (pos[k] < pos[i]) && (k != i || j > 0) {
				return 0
			}
		}
	}
	for _, in := range node.Overwrite {
		r := root(g, in)
		reads, made := 0, false
		for k := range g.Nodes {
			for _, x := range g.Nodes[k].Inputs {
				if root(g, x) == r && pos[k] >= pos[i] {
					reads++
				}
			}
			for _, x := range g.Nodes[k].Outputs {
				made = made || root(g, x) == r && pos[k] < pos[i]
			}
		}
		for x := range g.Bytes {
			if g.Keep != nil && g.Keep[x] && root(g, x) == r {
				reads++
			}
			made = made || root(g, x) == r && given(g, x)
		}
		if made && reads == 1 && g.Bytes[r] >= g.Bytes[out] {
			return g.Bytes[out]
		}
	}
	return 0
}

// least returns the lowest peak over all topological orders.
func least(g *schedule.Graph) int64 {
	maker := map[int]int{}
	for i := range g.Nodes {
		for _, x := range g.Nodes[i].Outputs {
			maker[x] = i
		}
	}
	best := int64(-1)
	done := make([]bool, len(g.Nodes))
	var order []int
	var walk func()
	walk = func() {
		if len(order) == len(g.Nodes) {
			if p := peakOf(g, order); best < 0 || p < best {
				best = p
			}
			return
		}
	next:
		for i := range g.Nodes {
			if done[i] {
				continue
			}
			for _, x := range g.Nodes[i].Inputs {
				if m, ok := maker[x]; ok && !done[m] {
					continue next
				}
			}
			done[i] = true
			order = append(order, i)
			walk()
			order = order[:len(order)-1]
			done[i] = false
		}
	}
	walk()
	return best
}

// randomGraph returns a graph of n nodes with views, concatenations in place, overwriting, kept values and workspace.
func randomGraph(r *rand.Rand, n int) *schedule.Graph {
	g := &schedule.Graph{}
	value := func() int {
		g.Bytes = append(g.Bytes, int64(r.IntN(9))*4096)
		g.Keep = append(g.Keep, r.IntN(12) == 0)
		g.Within = append(g.Within, len(g.Within))
		return len(g.Bytes) - 1
	}
	value() // nobody makes these
	value()
	for i := range n {
		node := schedule.Node{}
		for range 1 + r.IntN(2) {
			x := r.IntN(len(g.Bytes))
			if i > 0 && r.IntN(2) == 0 {
				x = len(g.Bytes) - 1 - r.IntN(min(3, len(g.Bytes)))
			}
			node.Inputs = append(node.Inputs, x)
		}
		for range 1 + r.IntN(5)/4 {
			node.Outputs = append(node.Outputs, value())
		}
		in, out := node.Inputs[0], node.Outputs[0]
		switch r.IntN(6) {
		case 0:
			g.Within[out] = in // a view
		case 1: // what it reads are parts of it
			for _, x := range node.Inputs {
				if x > 0 && g.Within[x] == x && root(g, x) != root(g, out) {
					g.Within[x] = out
				}
			}
		case 2, 3:
			node.Overwrite = []int{in}
			if len(node.Inputs) > 1 && node.Inputs[1] != in {
				node.Overwrite = append(node.Overwrite, node.Inputs[1])
			}
		case 4:
			node.Work = int64(r.IntN(5)) * 4096
		}
		g.Nodes = append(g.Nodes, node)
	}
	return g
}

func identity(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

var _ = Describe("Order", func() {
	It("agrees with brute force on small graphs", func(ctx SpecContext) {
		r := rand.New(rand.NewPCG(1, 2))
		better := 0
		for k := range 600 {
			g := randomGraph(r, 1+r.IntN(8))
			o, err := schedule.Order(ctx, g, nil)
			Expect(err).NotTo(HaveOccurred())
			Expect(o.Before).To(Equal(peakOf(g, identity(len(g.Nodes)))), "graph %d: %+v", k, g)
			Expect(o.After).To(Equal(peakOf(g, o.Order)), "graph %d: %+v", k, g)
			Expect(schedule.Peak(g, o.Order)).To(Equal(o.After))
			Expect(o.Optimal).To(BeTrue(), "graph %d", k)
			Expect(o.After).To(Equal(least(g)), "graph %d: %+v", k, g)
			Expect(o.Reordered).To(Equal(!slices.Equal(o.Order, identity(len(g.Nodes)))))
			if o.After < o.Before {
				better++
			} else {
				Expect(o.Reordered).To(BeFalse(), "graph %d: %+v", k, g)
			}
		}
		Expect(better).To(BeNumerically(">", 40))
	})

	It("is valid, never worse and the same again where the budget is short", func(ctx SpecContext) {
		r := rand.New(rand.NewPCG(3, 4))
		better := 0
		for k := range 60 {
			g := randomGraph(r, 20+r.IntN(100))
			for _, steps := range []int{1, 2000, 0} {
				o, err := schedule.Order(ctx, g, &schedule.OrderOptions{Steps: steps})
				Expect(err).NotTo(HaveOccurred())
				Expect(schedule.Peak(g, o.Order)).To(Equal(o.After), "graph %d", k)
				Expect(o.After).To(BeNumerically("<=", o.Before))
				again, err := schedule.Order(ctx, g, &schedule.OrderOptions{Steps: steps})
				Expect(err).NotTo(HaveOccurred())
				Expect(again).To(Equal(o))
				if o.After < o.Before {
					better++
				}
			}
		}
		Expect(better).To(BeNumerically(">", 60))
	})

	It("runs the branch with the larger excess first", func(ctx SpecContext) {
		// Two branches of x: one swells to 100 on its way to 1, the other is 10 all the way.
		g := &schedule.Graph{Bytes: []int64{1, 10, 100, 1, 1}, Nodes: []schedule.Node{
			{Outputs: []int{0}}, {Inputs: []int{0}, Outputs: []int{1}}, {Inputs: []int{0}, Outputs: []int{2}},
			{Inputs: []int{2}, Outputs: []int{3}}, {Inputs: []int{1, 3}, Outputs: []int{4}}}}
		o, err := schedule.Order(ctx, g, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(o.Order).To(Equal([]int{0, 2, 3, 1, 4}))
		Expect(o.Before).To(BeEquivalentTo(111))
		Expect(o.After).To(BeEquivalentTo(102))
	})

	It("improves a graph without segments of its own", func(ctx SpecContext) {
		// Many independent chains that swell and shrink, listed breadth first: nothing separates them.
		const chains = 400
		g := &schedule.Graph{}
		for i := range chains {
			g.Bytes = append(g.Bytes, 1<<20, 64)
			g.Keep = append(g.Keep, false, true)
			g.Nodes = append(g.Nodes, schedule.Node{Outputs: []int{2 * i}})
		}
		for i := range chains {
			for range 6 {
				g.Bytes, g.Keep = append(g.Bytes, 64), append(g.Keep, true)
			}
			g.Nodes = append(g.Nodes, schedule.Node{Inputs: []int{2 * i}, Outputs: []int{2*i + 1}})
			for k := range 6 {
				g.Nodes = append(g.Nodes, schedule.Node{Outputs: []int{len(g.Bytes) - 6 + k}})
			}
		}
		o, err := schedule.Order(ctx, g, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(o.Before).To(BeNumerically(">", chains<<20))
		Expect(o.After).To(BeNumerically("<", 3<<20))
	})

	DescribeTable("turns down what makes no sense", func(ctx SpecContext, g schedule.Graph) {
		_, err := schedule.Order(ctx, &g, nil)
		Expect(err).To(MatchError(schedule.ErrProblem))
		_, err = schedule.Peak(&g, identity(len(g.Nodes)))
		Expect(err).To(MatchError(schedule.ErrProblem))
	},
		Entry("a value that is read before it is made", schedule.Graph{Bytes: []int64{1}, Nodes: []schedule.Node{{Inputs: []int{0}}, {Outputs: []int{0}}}}),
		Entry("a value that is made twice", schedule.Graph{Bytes: []int64{1}, Nodes: []schedule.Node{{Outputs: []int{0}}, {Outputs: []int{0}}}}),
		Entry("a value that is not there", schedule.Graph{Bytes: []int64{1}, Nodes: []schedule.Node{{Inputs: []int{1}}}}),
		Entry("a negative value", schedule.Graph{Bytes: []int64{1}, Nodes: []schedule.Node{{Outputs: []int{-1}}}}),
		Entry("a negative size", schedule.Graph{Bytes: []int64{-1}}),
		Entry("negative work", schedule.Graph{Nodes: []schedule.Node{{Work: -1}}}),
		Entry("Keep of another length", schedule.Graph{Bytes: []int64{1}, Keep: []bool{}}),
		Entry("Within of another length", schedule.Graph{Bytes: []int64{1}, Within: []int{0, 1}}),
		Entry("values within each other", schedule.Graph{Bytes: []int64{1, 1}, Within: []int{1, 0}}),
		Entry("a value within none", schedule.Graph{Bytes: []int64{1}, Within: []int{-1}}),
		Entry("overwriting what is not read", schedule.Graph{Bytes: []int64{1, 1}, Nodes: []schedule.Node{{Outputs: []int{0}}, {Outputs: []int{1}, Overwrite: []int{0}}}}),
	)

	DescribeTable("Peak turns down what is no order", func(order []int) {
		g := &schedule.Graph{Bytes: []int64{1}, Nodes: []schedule.Node{{Outputs: []int{0}}, {Inputs: []int{0}}}}
		_, err := schedule.Peak(g, order)
		Expect(err).To(MatchError(schedule.ErrProblem))
	},
		Entry("too short", []int{0}), Entry("twice the same", []int{0, 0}), Entry("a reader first", []int{1, 0}), Entry("no node", []int{0, 2}))

	It("stops when the context ends", func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_, err := schedule.Order(ctx, randomGraph(rand.New(rand.NewPCG(3, 4)), 100), nil)
		Expect(err).To(MatchError(context.Canceled))
	})
})

func BenchmarkOrder(b *testing.B) {
	for _, n := range []int{100, 1000, 100000} {
		g := randomGraph(rand.New(rand.NewPCG(5, 6)), n)
		b.Run(fmt.Sprintf("nodes=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := schedule.Order(context.Background(), g, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
