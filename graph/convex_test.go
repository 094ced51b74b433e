package graph_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
)

// named returns nodes by their labels.
func named(g *graph.Graph, labels string) []*graph.Node {
	GinkgoHelper()
	var out []*graph.Node
	for _, l := range strings.Fields(labels) {
		var found *graph.Node
		for n := range g.Nodes() {
			if n.Name == l {
				found = n
			}
		}
		Expect(found).NotTo(BeNil(), l)
		out = append(out, found)
	}
	return out
}

func labels(parts [][]*graph.Node) string {
	var out []string
	for _, p := range parts {
		var names []string
		for _, n := range p {
			names = append(names, n.Name)
		}
		out = append(out, strings.Join(names, " "))
	}
	return strings.Join(out, " | ")
}

// ladder is a = A(x); b = B(a); c = A(b, a); d = B(c); e = A(d), f = A(x).
const ladder = `graph "ladder" {
  input %x: f32[2]
  %a: f32[2] = Neg(%x) "a"
  %b: f32[2] = Exp(%a) "b"
  %c: f32[2] = Add(%b, %a) "c"
  %d: f32[2] = Exp(%c) "d"
  %e: f32[2] = Neg(%d) "e"
  %f: f32[2] = Neg(%x) "f"
  output %e, %f
}
`

var _ = Describe("Convexity", func() {
	DescribeTable("finds the last node that a path comes back to, and parts without such paths",
		func(set, offender, parts string) {
			g := parse(ladder)
			bad, err := g.Offender(named(g, set), 0)
			Expect(err).NotTo(HaveOccurred())
			if offender == "" {
				Expect(bad).To(BeNil())
			} else {
				Expect(bad).NotTo(BeNil())
				Expect(bad.Name).To(Equal(offender))
			}
			ps, err := g.ConvexParts(named(g, set))
			Expect(err).NotTo(HaveOccurred())
			Expect(labels(ps)).To(Equal(parts))
		},
		Entry("one node", "c", "", "c"),
		Entry("a connected convex set", "c a b", "", "a b c"),
		Entry("around one node", "a c", "c", "a | c"),
		Entry("around two", "a c e", "e", "a | c | e"),
		Entry("around a later one", "b c e", "e", "b c | e"),
		Entry("two parts side by side", "f a", "", "a | f"),
		Entry("a node twice", "a b a", "", "a b"),
	)

	It("counts a set as not convex where the search is not allowed to end", func() {
		g := parse(ladder)
		bad, err := g.Offender(named(g, "a e"), 1)
		Expect(err).NotTo(HaveOccurred())
		Expect(bad.Name).To(Equal("e"))
	})

	It("refuses sets that are none", func() {
		g, h := parse(ladder), parse(ladder)
		for _, set := range [][]*graph.Node{nil, {nil}, named(h, "a")} {
			_, err := g.Offender(set, 0)
			Expect(err).To(MatchError(graph.ErrNodeSet))
			_, err = g.ConvexParts(set)
			Expect(err).To(MatchError(graph.ErrNodeSet))
		}
	})

	It("gives parts that can be contracted one after another, of random sets in random graphs", func() {
		rng := rand.New(rand.NewPCG(7, 7))
		for round := range 300 {
			var text strings.Builder
			text.WriteString("graph \"random\" {\n  input %x: f32[2]\n")
			n := 2 + rng.IntN(30)
			ref := func(i int) string {
				if k := i - 1 - rng.IntN(6); k >= 0 {
					return fmt.Sprintf("%%v%d", k)
				}
				return "%x"
			}
			for i := range n {
				fmt.Fprintf(&text, "  %%v%d: f32[2] = Add(%s, %s) \"v%d\"\n", i, ref(i), ref(i), i)
			}
			fmt.Fprintf(&text, "  output %%v%d\n}\n", n-1)
			g := parse(text.String())
			var set []*graph.Node
			var names []string
			for m := range g.Nodes() {
				if rng.IntN(2) == 0 {
					set, names = append(set, m), append(names, m.Name)
				}
			}
			if len(set) == 0 {
				continue
			}
			bad, err := g.Offender(set, 0)
			Expect(err).NotTo(HaveOccurred())
			parts, err := g.ConvexParts(set)
			Expect(err).NotTo(HaveOccurred())
			total := 0
			for _, p := range parts {
				total += len(p)
				_, err := g.Extract(p, graph.NodeSpec{Op: graph.Op{Domain: graph.CarveDomain, Name: graph.OpSubgraph}})
				Expect(err).NotTo(HaveOccurred(), "round %d: %s\n%s", round, labels(parts), text.String())
			}
			Expect(total).To(Equal(len(set)))
			Expect(graph.Verify(g)).To(Succeed())
			h := parse(text.String())
			var twin []*graph.Node
			for m := range h.Nodes() {
				if slices.Contains(names, m.Name) {
					twin = append(twin, m)
				}
			}
			_, err = h.Extract(twin, graph.NodeSpec{Op: graph.Op{Domain: graph.CarveDomain, Name: graph.OpSubgraph}})
			Expect(err == nil).To(Equal(bad == nil), text.String())
		}
	})
})
