package property_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/property"
)

// pair finds a Relu and the Add in front of it.
func pair(seed *graph.Node) []*graph.Node {
	if seed.Op.Name != "Relu" || seed.Inputs[0].Producer == nil || seed.Inputs[0].Producer.Op.Name != "Add" {
		return nil
	}
	return []*graph.Node{seed.Inputs[0].Producer, seed}
}

var _ = Describe("Found", func() {
	It("takes the sets that the function finds, from the seed that it knows", func() {
		g := net("d", "a = Neg(x)", "b = Add(a, x)", "c = Relu(b)", "d = Relu(c)")
		Expect(sets(g, property.Found("pair", 2, pair))).To(Equal([]string{"b c"}))
	})

	DescribeTable("leaves what is torn apart", func(ctx SpecContext, least int, want []string) {
		g := net("c", "a = Neg(x)", "b = Add(a, x)", "c = Relu(b)")
		three := func(seed *graph.Node) []*graph.Node {
			if p := pair(seed); p != nil {
				return append(p, p[0].Inputs[0].Producer)
			}
			return nil
		}
		var got []string
		err := property.Sets(ctx, g, property.Found("three", least, three), func(n *graph.Node) bool { return n.Name != "a" },
			func(set []*graph.Node) bool {
				got = append(got, names(set))
				return true
			}, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(got).To(Equal(want))
	},
		Entry("but for what is enough", 2, []string{"b c"}),
		Entry("where all are needed", 3, []string(nil)),
		Entry("never to single nodes", 0, []string{"b c"}),
	)
})
