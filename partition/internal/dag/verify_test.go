package dag_test

import (
	"errors"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/partition/internal/dag"
)

var _ = Describe("Verify", func() {
	const text = "a=A; b=A(a); c=B(b); d=A(b); e=A(c,d); f=A(e); g=H(f)" // nodes 0 to 6
	grouping := func(of ...int32) *dag.Grouping {
		r := &dag.Grouping{Of: of}
		_, _, p := parse(text, "AB")
		for v, x := range of {
			for int(x) >= len(r.Color) {
				r.Color = append(r.Color, 0)
			}
			if x >= 0 {
				r.Color[x] = p.Color[v]
			}
		}
		return r
	}

	DescribeTable("accepts", func(r *dag.Grouping, edit func(names []string, p *dag.Problem)) {
		_, names, p := parse(text, "AB")
		edit(names, p)
		Expect(dag.Verify(p, r)).To(Succeed())
	},
		Entry("a grouping numbered topologically", grouping(0, 0, 1, 0, 2, 2, 3), func([]string, *dag.Problem) {}),
		Entry("a grouping numbered otherwise", grouping(3, 3, 0, 3, 1, 1, 2), func([]string, *dag.Problem) {}),
		Entry("single nodes", grouping(0, 1, 2, 3, 4, 5, 6), func([]string, *dag.Problem) {}),
		Entry("a disconnected group where that is allowed", grouping(0, 1, 2, 3, 1, 3, 4), func(_ []string, p *dag.Problem) {
			p.Graph, _ = dag.New(7, nil, nil)
			p.Policy = []dag.Policy{{Disconnected: true}}
		}),
	)

	DescribeTable("refuses", func(r *dag.Grouping, edit func(names []string, p *dag.Problem), cause error, message string) {
		_, names, p := parse(text, "AB")
		edit(names, p)
		err := dag.Verify(p, r)
		Expect(err).To(MatchError(cause))
		Expect(err.Error()).To(ContainSubstring(message))
	},
		Entry("no grouping", nil, func([]string, *dag.Problem) {}, dag.ErrSize, "groups"),
		Entry("too few nodes", grouping(0, 0), func([]string, *dag.Problem) {}, dag.ErrSize, "groups"),
		Entry("a node without a group", grouping(0, 0, 1, 0, -1, 2, 3), func([]string, *dag.Problem) {}, dag.ErrRange, "node 4"),
		Entry("an empty group", grouping(0, 0, 1, 0, 3, 3, 4), func([]string, *dag.Problem) {}, dag.ErrEmpty, "group 2"),
		Entry("two colours in a group", grouping(0, 0, 1, 1, 2, 2, 3), func([]string, *dag.Problem) {}, dag.ErrColor, "group 1"),
		Entry("two host nodes in a group", grouping(0, 0, 1, 0, 2, 2, 2), func(_ []string, p *dag.Problem) {
			p.Color[4], p.Color[5] = -1, -1
		}, dag.ErrColor, "group 2"),
		Entry("a colour below the host", &dag.Grouping{
			Of: []int32{0, 0, 1, 0, 2, 2, 3}, Color: []int32{0, 1, -2, -1},
		}, func([]string, *dag.Problem) {}, dag.ErrRange, "group 2"),
		Entry("a crossed bound", grouping(0, 0, 1, 0, 2, 2, 3), func(_ []string, p *dag.Problem) {
			p.Bound = []int32{1, 1, -1, -1, -1, -1, -1}
		}, dag.ErrBound, "group 0"),
		Entry("a cut edge inside", grouping(0, 0, 1, 0, 2, 2, 3), func(_ []string, p *dag.Problem) {
			p.Cut = []bool{false, false, false, false, false, true, false}
		}, dag.ErrCut, "group 2"),
		Entry("company for a node alone", grouping(0, 0, 1, 0, 2, 2, 3), func(_ []string, p *dag.Problem) {
			p.Alone = []bool{false, false, false, true, false, false, false}
		}, dag.ErrAlone, "node 3"),
		Entry("a disconnected group", grouping(0, 1, 2, 3, 3, 0, 4), func(_ []string, p *dag.Problem) {
			p.Graph, _ = dag.New(7, []int32{3}, []int32{4})
		}, dag.ErrConnected, "group 0"),
		Entry("a cycle through another backend", grouping(0, 0, 1, 0, 0, 0, 2), func([]string, *dag.Problem) {},
			dag.ErrCycle, "cycle: "),
	)

	It("names the groups of a cycle", func() {
		_, _, p := parse(fiveNodes, "PQ")
		err := dag.Verify(p, &dag.Grouping{Of: []int32{0, 1, 1, 0, 1}, Color: []int32{0, 1}})
		var e *dag.Error
		Expect(errors.As(err, &e)).To(BeTrue())
		Expect(e.Cycle).To(ConsistOf(int32(0), int32(1)))
		Expect(e.Error()).To(MatchRegexp("^dag: verify: cycle: \\d → \\d$"))
	})

	It("finds a cycle inside a group", func() {
		g, err := dag.New(3, []int32{0, 1, 2}, []int32{1, 2, 1})
		Expect(err).NotTo(HaveOccurred())
		p := &dag.Problem{Graph: g, Color: make([]int32, 3)}
		Expect(dag.Verify(p, &dag.Grouping{Of: make([]int32, 3), Color: []int32{0}})).To(MatchError(dag.ErrCycle))
	})
})
