package dag_test

import (
	"context"
	"errors"

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
		Entry("a node alone", chain6, func(_ []string, p *dag.Problem) {
			p.Alone = []bool{false, false, true, false, false, false}
		}, "{a,b} {c} {d,e,f}"),
		Entry("bounds", chain6, func(_ []string, p *dag.Problem) {
			p.Bound = []int32{-1, 4, 4, 4, -1, -1}
		}, "{a} {b,c,d} {e,f}"),
		Entry("bounds with disconnected groups", "a=A; b=A(a); c=A; d=A(c); e=A(b,d)", func(_ []string, p *dag.Problem) {
			p.Bound = []int32{0, 1, 0, 1, 1}
			p.Policy = []dag.Policy{{Disconnected: true}}
		}, "{a,c} {b,d,e}"),
	)

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
		const n = 150_000
		p := problem(dagtest.Random(n, n, 1), dagtest.Colors(n, 1, 0.5, 1))
		r, err := dag.Group(ctx, p)
		Expect(err).NotTo(HaveOccurred())
		Expect(dag.Verify(p, r)).To(Succeed())
		Expect(r.Exhausted).To(BeTrue())
		again, err := dag.Group(ctx, p)
		Expect(err).NotTo(HaveOccurred())
		Expect(cmp.Diff(r, again)).To(BeEmpty())
	})

	DescribeTable("ends soon after its context", func(ctx SpecContext, n, backends, least int) {
		p := problem(dagtest.Random(n, 20, 1), dagtest.Colors(n, backends, 0.5, 1))
		a := &dagtest.Asked{Context: ctx, Left: 1 << 30}
		_, err := dag.Group(a, p)
		Expect(err).NotTo(HaveOccurred())
		asked := 1<<30 - a.Left
		AddReportEntry("questions", asked)
		Expect(asked).To(BeNumerically(">=", least), "questions")
		for k := range 3 {
			a := &dagtest.Asked{Context: ctx, Left: asked * k / 3}
			_, err := dag.Group(a, p)
			Expect(err).To(MatchError(context.Canceled))
			Expect(a.Left).To(BeNumerically(">=", -2))
		}
	},
		Entry("small", 100, 1, 3),
		Entry("large", 300_000, 2, 50),
	)

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
			Entry("too many cuts", func(p *dag.Problem) { p.Cut = make([]bool, 3) }, dag.ErrSize, "cuts"),
			Entry("colour below the host", func(p *dag.Problem) { p.Color[1] = -2 }, dag.ErrRange, "colours: node 1"),
			Entry("colour too high", func(p *dag.Problem) { p.Color[1] = 1 << 16 }, dag.ErrRange, "colours: node 1"),
			Entry("bound too low", func(p *dag.Problem) { p.Bound = []int32{-7, 0, 0} }, dag.ErrRange, "bounds: node 0"),
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
			_, err = dag.Group(ctx, &dag.Problem{Graph: g, Color: make([]int32, 6)})
			Expect(err).To(MatchError(dag.ErrCycle))
			var e *dag.Error
			Expect(errors.As(err, &e)).To(BeTrue())
			Expect(e.Cycle).To(ConsistOf(int32(1), int32(2), int32(3)))
			Expect(e.Error()).To(MatchRegexp(`^dag: group: cycle: \d → \d → \d$`))
			_, err = dag.LowerBound(&dag.Problem{Graph: g, Color: make([]int32, 6)}, 0)
			Expect(err).To(MatchError(dag.ErrCycle))
		})
	})
})
