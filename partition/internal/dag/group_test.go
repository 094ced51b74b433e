package dag_test

import (
	"context"
	"errors"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/partition/internal/dag"
	"github.com/carve-dev/carve/partition/internal/dagtest"
)

// grouped runs Group on a text and shows the result, after both verifiers have had a look at it.
func grouped(ctx context.Context, text, colors string, edit func(names []string, p *dag.Problem)) string {
	g, names, p := parse(text, colors)
	edit(names, p)
	r, err := dag.Group(ctx, p)
	Expect(err).NotTo(HaveOccurred())
	Expect(dag.Verify(p, r)).To(Succeed())
	Expect(oracle(g, p, r)).To(BeEmpty())
	return show(names, r)
}

const chain6 = "a=A; b=A(a); c=A(b); d=A(c); e=A(d); f=A(e)"

var _ = Describe("Group", func() {
	DescribeTable("obeys", func(ctx SpecContext, text string, edit func(names []string, p *dag.Problem), want string) {
		Expect(grouped(ctx, text, "AB", edit)).To(Equal(want))
	},
		Entry("nothing but the colours", chain6, func([]string, *dag.Problem) {}, "{a,b,c,d,e,f}"),
		Entry("a cut edge", chain6, func(_ []string, p *dag.Problem) {
			p.Cut = []bool{false, false, true, false, false}
		}, "{a,b,c} {d,e,f}"),
		Entry("a cut edge beside another way", "a=A; b=A(a); c=A(b,a)", func(_ []string, p *dag.Problem) {
			p.Cut = []bool{false, false, true}
		}, "{a,b} {c}"),
		Entry("a cut edge among parallel ones", "a=A; b=A(a,a)", func(_ []string, p *dag.Problem) {
			p.Cut = []bool{false, true}
		}, "{a} {b}"),
		Entry("a unit across a cut edge", chain6, func(names []string, p *dag.Problem) {
			p.Cut = []bool{true, true, true, true, true}
			unit(p, names, 3, "c", "d")
		}, "{a} {b} {c,d} {e} {f}"),
		Entry("a node alone", chain6, func(_ []string, p *dag.Problem) {
			p.Alone = []bool{false, false, true, false, false, false}
		}, "{a,b} {c} {d,e,f}"),
		Entry("a unit alone", chain6, func(names []string, p *dag.Problem) {
			p.Alone = []bool{false, false, true, false, false, false}
			unit(p, names, 0, "c", "d")
		}, "{a,b} {c,d} {e,f}"),
		Entry("bounds", chain6, func(_ []string, p *dag.Problem) {
			p.Bound = []int32{-1, 4, 4, 4, -1, -1}
		}, "{a} {b,c,d} {e,f}"),
		Entry("bounds with disconnected groups", "a=A; b=A(a); c=A; d=A(c); e=A(b,d)", func(_ []string, p *dag.Problem) {
			p.Bound = []int32{0, 1, 0, 1, 1}
			p.Policy = []dag.Policy{{Disconnected: true}}
		}, "{a,c} {b,d,e}"),
		Entry("a unit across bounds, which is split", chain6, func(names []string, p *dag.Problem) {
			p.Bound = []int32{0, 0, 0, 1, 1, 1}
			unit(p, names, 5, "b", "c", "d")
		}, "{a,b,c} {d,e,f}"),
		Entry("a unit of two colours, which is split", "a=A; b=A(a); c=B(b); d=B(c)", func(names []string, p *dag.Problem) {
			unit(p, names, 1, "b", "c")
		}, "{a,b} {c,d}"),
		Entry("a disconnected unit", "a=A; b=B(a); c=A", func(names []string, p *dag.Problem) {
			unit(p, names, 0, "a", "c")
		}, "{a,c} {b}"),
		Entry("MaxSize", chain6, func(_ []string, p *dag.Problem) {
			p.Policy = []dag.Policy{{MaxSize: 4}}
		}, "{a,b,c,d} {e,f}"),
		Entry("MaxSize with sizes", chain6, func(_ []string, p *dag.Problem) {
			p.Policy = []dag.Policy{{MaxSize: 10}}
			p.Size = []int32{9, 1, 1, 10, 0, 11}
		}, "{a,b} {c} {d,e} {f}"),
		Entry("MaxSize where consumers compete", "a=A; b=A(a); c=A(a)", func(_ []string, p *dag.Problem) {
			p.Policy = []dag.Policy{{MaxSize: 2}}
		}, "{a,b} {c}"),
		Entry("MaxSize with disconnected groups", "a=A; b=A; c=A; d=A; e=A", func(_ []string, p *dag.Problem) {
			p.Policy = []dag.Policy{{MaxSize: 2, Disconnected: true}}
		}, "{a,b} {c,d} {e}"),
		Entry("a unit above MaxSize", chain6, func(names []string, p *dag.Problem) {
			p.Policy = []dag.Policy{{MaxSize: 2}}
			unit(p, names, 0, "b", "c", "d")
		}, "{a} {b,c,d} {e,f}"),
		Entry("edges that bring nothing", chain6, func(_ []string, p *dag.Problem) {
			p.Benefit = []float32{1, 1, 0, 1, -3}
		}, "{a,b,c} {d,e} {f}"),
		Entry("parallel edges that bring something together", "a=A; b=A(a,a)", func(_ []string, p *dag.Problem) {
			p.Benefit = []float32{-1, 2}
		}, "{a,b}"),
		Entry("the greatest benefit first", "a=A; b=B(a); c=A(a); d=A(b,c)", func(_ []string, p *dag.Problem) {
			p.Benefit = []float32{1, 5, 1, 7}
		}, "{a} {b} {c,d}"),
		Entry("the greatest benefit first, the other way", "a=A; b=B(a); c=A(a); d=A(b,c)", func(_ []string, p *dag.Problem) {
			p.Benefit = []float32{1, 7, 1, 5}
		}, "{a,c} {b} {d}"),
		Entry("the order of colours", fiveNodes, func(_ []string, p *dag.Problem) {
			for v, c := range p.Color {
				if c < 0 {
					p.Color[v] = 0
				}
			}
			p.Color = []int32{0, 1, 1, 0, 1}
			p.Order = []int32{1}
		}, "{p1} {q1,q0,q2} {p2}"),
	)

	It("asks Accept and gives refused groups to the host", func(ctx SpecContext) {
		g, names, p := parse("a=A; b=B(a); c=A(b); d=A(c); e=B(d); f=A(e)", "A")
		var asked [][]int32
		p.Accept = func(color int32, nodes []int32) bool {
			Expect(color).To(BeZero())
			asked = append(asked, append([]int32(nil), nodes...))
			return len(nodes) > 1
		}
		r, err := dag.Group(ctx, p)
		Expect(err).NotTo(HaveOccurred())
		Expect(dag.Verify(p, r)).To(Succeed())
		Expect(oracle(g, p, r)).To(BeEmpty())
		Expect(show(names, r)).To(Equal("{c,d}"))
		Expect(r.Rejected).To(Equal([]int32{0, 5}))
		Expect(asked).To(Equal([][]int32{{0}, {2, 3}, {5}}))
		Expect(p.Color).To(Equal([]int32{0, -1, 0, 0, -1, 0}), "the problem is not written")
	})

	It("merges on when refused groups stop being in the way", func(ctx SpecContext) {
		// The bound keeps {b,c} together and out of a's and d's group, which would lie around it.
		_, names, p := parse("a=A; b=A(a); c=A(b); d=A(c,a); e=B(d)", "A")
		p.Bound = []int32{0, 1, 1, 0, 0}
		unit(p, names, 0, "b", "c")
		var asked []int
		p.Accept = func(_ int32, nodes []int32) bool {
			asked = append(asked, len(nodes))
			return nodes[0] != 1
		}
		r, err := dag.Group(ctx, p)
		Expect(err).NotTo(HaveOccurred())
		Expect(dag.Verify(p, r)).To(Succeed())
		Expect(show(names, r)).To(Equal("{a} {d}"), "b and c are still between them")
		Expect(asked).To(Equal([]int{1, 2, 1}))

		// Two crossing chains, one contracted, keep the other apart until the first goes.
		_, names, p = parse("a1=A; b1=A; a2=B(b1); b2=B(a1); a3=A(a1,a2); b3=A(b1,b2)", "A")
		var groups [][]int32
		p.Accept = func(_ int32, nodes []int32) bool {
			groups = append(groups, append([]int32(nil), nodes...))
			return nodes[0] != 1
		}
		r, err = dag.Group(ctx, p)
		Expect(err).NotTo(HaveOccurred())
		Expect(dag.Verify(p, r)).To(Succeed())
		Expect(groups).To(Equal([][]int32{{0}, {1, 5}, {4}, {0, 4}}))
		Expect(show(names, r)).To(Equal("{a1,a3}"))
		Expect(r.Rejected).To(Equal([]int32{1, 5}))
	})

	It("handles graphs without nodes, edges or colours", func(ctx SpecContext) {
		for _, color := range [][]int32{{}, {0}, {-1, -1}, {0, 0, 1}} {
			p := problem(&dagtest.Graph{Nodes: len(color)}, color)
			r, err := dag.Group(ctx, p)
			Expect(err).NotTo(HaveOccurred())
			Expect(dag.Verify(p, r)).To(Succeed())
			Expect(r.Len()).To(Equal(len(color)))
		}
	})

	It("takes a million nodes in a row", func(ctx SpecContext) {
		const n = 1_000_000
		for _, backends := range []int{0, 1, 3} {
			p := problem(dagtest.Chain(n), make([]int32, n))
			want := 1
			if backends != 1 {
				p.Color = dagtest.Colors(n, backends, 0.5, 1)
				want = 1
				for v := 1; v < n; v++ {
					if p.Color[v] < 0 || p.Color[v] != p.Color[v-1] {
						want++
					}
				}
			}
			r, err := dag.Group(ctx, p)
			Expect(err).NotTo(HaveOccurred())
			Expect(dag.Verify(p, r)).To(Succeed())
			Expect(r.Len()).To(Equal(want))
			Expect(r.Exhausted).To(BeFalse())
		}
	})

	It("stays sound when the search budget runs out", func(ctx SpecContext) {
		const n = 60_000
		p := problem(dagtest.Random(n, n, 1), dagtest.Colors(n, 1, 0.5, 1))
		p.Benefit = make([]float32, p.Graph.Edges())
		for e := range p.Benefit {
			p.Benefit[e] = float32(1 + e*7919%1009)
		}
		start := time.Now()
		r, err := dag.Group(ctx, p)
		Expect(err).NotTo(HaveOccurred())
		Expect(time.Since(start)).To(BeNumerically("<", 60*time.Second))
		Expect(dag.Verify(p, r)).To(Succeed())
		Expect(r.Exhausted).To(BeTrue())
		again, err := dag.Group(ctx, p)
		Expect(err).NotTo(HaveOccurred())
		Expect(cmp.Diff(r, again)).To(BeEmpty())
	})

	It("splits claims that need each other, however many", func(ctx SpecContext) {
		// Claim i holds the ends of a path through one node of claim i+1, all in a ring.
		const n = 3000
		g := &dagtest.Graph{Nodes: 2 * n}
		for v := range n {
			g.From = append(g.From, int32(v))
			g.To = append(g.To, int32(n+(v+1)%n))
		}
		p := problem(g, make([]int32, 2*n))
		p.Unit = make([]int32, 2*n)
		for v := range p.Unit {
			p.Unit[v] = int32(v % n)
		}
		r, err := dag.Group(ctx, p)
		Expect(err).NotTo(HaveOccurred())
		Expect(dag.Verify(p, r)).To(Succeed())
		Expect(r.Split).To(Equal([]int32{n - 1}), "one claim less and the ring is open")
	})

	DescribeTable("ends soon after its context", func(n, backends int) {
		ctx, cancel := context.WithCancel(context.Background())
		p := problem(dagtest.Random(n, 20, 1), dagtest.Colors(n, backends, 0.5, 1))
		cancel()
		_, err := dag.Group(ctx, p)
		Expect(err).To(MatchError(context.Canceled))
		ctx, cancel = context.WithTimeout(context.Background(), 20*time.Millisecond)
		defer cancel()
		start := time.Now()
		_, err = dag.Group(ctx, p)
		if time.Since(start) > 20*time.Millisecond && err == nil {
			Fail("the context had ended")
		}
		Expect(time.Since(start)).To(BeNumerically("<", 20*time.Second))
	},
		Entry("small", 100, 1),
		Entry("large", 300_000, 2),
	)

	It("ends when Accept cancels", func() {
		ctx, cancel := context.WithCancel(context.Background())
		p := problem(dagtest.Random(100, 20, 1), dagtest.Colors(100, 1, 0.5, 1))
		calls := 0
		p.Accept = func(int32, []int32) bool { calls++; cancel(); return true }
		_, err := dag.Group(ctx, p)
		Expect(err).To(MatchError(context.Canceled))
		Expect(calls).To(Equal(1))
	})

	Describe("errors", func() {
		DescribeTable("for bad problems", func(ctx SpecContext, edit func(p *dag.Problem), cause error, message string) {
			_, _, p := parse("a=A; b=A(a); c=B(b)", "A")
			edit(p)
			for _, do := range []func() error{
				func() error { _, err := dag.Group(ctx, p); return err },
				func() error { return dag.Verify(p, &dag.Grouping{Of: make([]int32, 3), Color: []int32{0}}) },
				func() error { _, err := dag.LowerBound(p, 0); return err },
			} {
				err := do()
				Expect(err).To(MatchError(cause))
				Expect(err).To(MatchError(ContainSubstring(message)))
			}
		},
			Entry("no graph", func(p *dag.Problem) { p.Graph = nil }, dag.ErrSize, "graph"),
			Entry("colours missing", func(p *dag.Problem) { p.Color = nil }, dag.ErrSize, "colours"),
			Entry("too few units", func(p *dag.Problem) { p.Unit = make([]int32, 2) }, dag.ErrSize, "units"),
			Entry("too many cuts", func(p *dag.Problem) { p.Cut = make([]bool, 3) }, dag.ErrSize, "cuts"),
			Entry("colour below the host", func(p *dag.Problem) { p.Color[1] = -2 }, dag.ErrRange, "colours: node 1"),
			Entry("colour too high", func(p *dag.Problem) { p.Color[1] = 1 << 16 }, dag.ErrRange, "colours: node 1"),
			Entry("unit too high", func(p *dag.Problem) { p.Unit = []int32{0, 0, 3} }, dag.ErrRange, "units: node 2"),
			Entry("bound too low", func(p *dag.Problem) { p.Bound = []int32{-7, 0, 0} }, dag.ErrRange, "bounds: node 0"),
			Entry("negative size", func(p *dag.Problem) { p.Size = []int32{1, -1, 0} }, dag.ErrRange, "sizes: node 1"),
		)

		DescribeTable("for bad graphs", func(n int, from, to []int32, cause error) {
			_, err := dag.New(n, from, to)
			Expect(err).To(MatchError(cause))
		},
			Entry("negative size", -1, nil, nil, dag.ErrSize),
			Entry("unequal lists", 3, []int32{0}, []int32{1, 2}, dag.ErrSize),
			Entry("tail outside", 3, []int32{3}, []int32{1}, dag.ErrRange),
			Entry("head outside", 3, []int32{0}, []int32{-1}, dag.ErrRange),
			Entry("edge to itself", 3, []int32{1}, []int32{1}, dag.ErrCycle),
		)

		It("names a cycle of the graph", func(ctx SpecContext) {
			g, err := dag.New(6, []int32{0, 1, 2, 3, 3, 4}, []int32{1, 2, 3, 1, 4, 5})
			Expect(err).NotTo(HaveOccurred())
			for _, unit := range [][]int32{nil, {-1, -1, -1, -1, 0, 0}} {
				p := &dag.Problem{Graph: g, Color: make([]int32, 6), Unit: unit}
				_, err = dag.Group(ctx, p)
				Expect(err).To(MatchError(dag.ErrCycle))
				var e *dag.Error
				Expect(errors.As(err, &e)).To(BeTrue())
				Expect(e.Cycle).To(ConsistOf(int32(1), int32(2), int32(3)))
				Expect(e.Error()).To(MatchRegexp(`^dag: group: cycle: \d → \d → \d$`))
			}
			_, err = dag.LowerBound(&dag.Problem{Graph: g, Color: make([]int32, 6)}, 0)
			Expect(err).To(MatchError(dag.ErrCycle))
		})
	})
})
