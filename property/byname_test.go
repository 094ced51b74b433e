package property_test

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/partition/partitiontest"
	"github.com/carve-dev/carve/property"
)

// chosen qualifies nodes of the operator Sum.
func chosen(n *graph.Node) *property.Reason {
	if n.Op.Name == "Sum" {
		return nil
	}
	return property.Because(property.NotSelected, "not chosen")
}

var _ = DescribeTable("MXNet's grouping", func(ctx SpecContext, heads string, lines []string, theirs string, asMXNet, together []string) {
	text := partitiontest.Lines(heads, lines...)
	g, err := graph.Parse(text)
	Expect(err).NotTo(HaveOccurred())
	var sets []string
	for _, set := range property.MXNetSets(g, chosen) {
		var names []string
		for _, n := range set {
			names = append(names, n.Outputs[0].Name)
		}
		sets = append(sets, strings.Join(names, " "))
	}
	Expect(strings.Join(sets, ", ")).To(Equal(theirs))
	for mode, want := range map[property.Grouping][]string{property.AsMXNet: asMXNet, property.Together: together} {
		out, err := partitiontest.Run(ctx, &partitiontest.Case{Graph: text, Properties: property.ByName("default", mode, "Sum")})
		Expect(err).NotTo(HaveOccurred())
		var groups []string
		for _, x := range out.Groups {
			if nodes, ok := strings.CutPrefix(x, "own: "); ok {
				groups = append(groups, nodes)
			}
		}
		Expect(groups).To(ConsistOf(want), fmt.Sprint(mode))
	}
},
	Entry("a chain", "c", []string{"a = Sum(x)", "b = Sum(a)", "c = Max(b)"}, "a b", []string{"a b"}, []string{"a b"}),
	Entry("a hole in a diamond", "d", []string{"a = Sum(x)", "b = Max(a)", "c = Sum(a)", "d = Sum(b, c)"},
		"a c, d", []string{"a c", "d"}, []string{"a c", "d"}),
	Entry("sets that need each other, which MXNet does not see", "n3, n5",
		[]string{"n1 = Sum(x)", "n2 = Max(x, n1)", "n0 = Sum(x)", "n3 = Sum(n2, n0)", "n4 = Max(n0, n0)", "n5 = Sum(n1, n4)"},
		"n1 n5, n0 n3", []string{"n1", "n0 n3", "n5"}, []string{"n1", "n0 n3", "n5"}),
)
