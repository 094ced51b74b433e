package graph_test

import (
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
)

var _ = Describe("Reorder", func() {
	nodes := func(g *graph.Graph) []*graph.Node { return slices.Collect(g.Nodes()) }

	It("puts nodes into another topological order", func() {
		g := parse("graph { input %x: f32[]\n %a = Neg(%x) \"a\"\n %b = Abs(%x) \"b\"\n %c = Add(%a, %b) \"c\"\n output %c\n}")
		l := nodes(g)
		Expect(g.Reorder([]*graph.Node{l[1], l[0], l[2]})).To(Succeed())
		Expect(nodes(g)).To(Equal([]*graph.Node{l[1], l[0], l[2]}))
		Expect(graph.Verify(g)).To(Succeed())
		g.SetOutputs()
		g.Remove(l[2])
		Expect(nodes(g)).To(Equal([]*graph.Node{l[1], l[0]}))
	})

	It("leaves the graph as it is where the list is no order of its nodes", func() {
		g := parse(verified)
		l := nodes(g) // a, if (captures %a), r
		other := nodes(parse(verified))
		for _, bad := range [][]*graph.Node{nil, l[:2], {l[0], l[1], l[1]}, {l[1], l[0], l[2]}, {l[0], l[2], l[1]}, {l[0], l[1], nil}, other} {
			Expect(g.Reorder(bad)).To(MatchError(graph.ErrOrder))
			Expect(nodes(g)).To(Equal(l))
		}
		Expect(graph.Verify(g)).To(Succeed())
	})
})
