package property_test

import (
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/property"
)

func TestProperty(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "property")
}

// net makes a graph of lines "n = Op(inputs)" on float32 values [1,16,4,4]. Nodes are named after their results.
func net(heads string, lines ...string) *graph.Graph {
	GinkgoHelper()
	var b strings.Builder
	b.WriteString("graph \"net\" {\n  opset 17\n  input %x: f32[1,16,4,4]\n  input %y: f32[1,16,4,4]\n  const %w = f32[1]{1}\n")
	for _, l := range lines {
		name, rest, _ := strings.Cut(l, " = ")
		op, args, _ := strings.Cut(strings.TrimSuffix(rest, ")"), "(")
		b.WriteString("  %" + name + ": f32[1,16,4,4] = " + op + "(%" + strings.ReplaceAll(args, ", ", ", %") + ") \"" + name + "\"\n")
	}
	b.WriteString("  output %" + strings.ReplaceAll(heads, ", ", ", %") + "\n}\n")
	g, err := graph.Parse(b.String())
	Expect(err).NotTo(HaveOccurred())
	return g
}

// run is a pass of a property whose sets are taken, or turned down by refuse.
type run struct {
	taken    map[*graph.Node]bool
	sets     []string
	declined []string
	refuse   func(set []*graph.Node) bool
	// contract fuses what is taken.
	contract bool
}

func names(set []*graph.Node) string {
	var out []string
	for _, n := range set {
		out = append(out, n.Name)
	}
	return strings.Join(out, " ")
}

func (r *run) over(g *graph.Graph, p property.SubgraphProperty) error {
	r.taken = map[*graph.Node]bool{}
	return property.Sets(GinkgoT().Context(), g, p, func(n *graph.Node) bool { return !r.taken[n] && !n.IsCarve(graph.OpFused) },
		func(set []*graph.Node) bool {
			r.sets = append(r.sets, names(set))
			refused := r.refuse != nil && r.refuse(set)
			if r.contract {
				n, err := g.Fuse(set, graph.NodeSpec{Op: graph.Op{Domain: graph.CarveDomain, Name: graph.OpFused}})
				Expect(err).NotTo(HaveOccurred())
				if refused {
					_, err := g.Inline(n)
					Expect(err).NotTo(HaveOccurred())
				}
			}
			for _, n := range set {
				r.taken[n] = !refused
			}
			return !refused
		},
		func(n *graph.Node, why *property.Reason) { r.declined = append(r.declined, n.Name+": "+why.String()) })
}

// sets returns the sets of a property, each as names of nodes.
func sets(g *graph.Graph, p property.SubgraphProperty) []string {
	GinkgoHelper()
	var r run
	Expect(r.over(g, p)).To(Succeed())
	return r.sets
}
