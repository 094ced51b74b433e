package partition_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/partition"
	"github.com/carve-dev/carve/partition/partitiontest"
	"github.com/carve-dev/carve/property"
)

// measured is Times by backend and operator, of a set by its pattern, and one for all conversions.
type measured struct {
	nodes map[string]float64
	hop   float64
	ways  map[string]float64 // by signature
	asked map[string]int
}

// ways is a backend with three signatures for everything that differ in their names.
type ways struct{ priced }

func (w ways) Supports(n *graph.Node) backend.Support {
	s := w.priced.Supports(n)
	one := s.Signatures[0]
	s.Signatures = nil
	for i := range 3 {
		one.Name, one.Extra = fmt.Sprint("way ", i), float64(100*i)
		s.Signatures = append(s.Signatures, one)
	}
	return s
}

func (m *measured) Node(n *graph.Node, backend string, sig *graph.Signature, modelled float64) float64 {
	GinkgoHelper()
	Expect(sig.Vars).To(BeEmpty())
	Expect(modelled).To(BeNumerically(">", 0))
	name := backend + " " + n.Op.Name
	if n.IsCarve(graph.OpFused) {
		name = backend + " " + n.Str("pattern", "")
	}
	m.asked[name]++
	if m.ways != nil {
		return m.ways[sig.Name]
	}
	return m.nodes[name]
}

func (m *measured) Conversion(*graph.Value, *convert.Converter) float64 { return m.hop }

var _ = Describe("Measured times", func() {
	run := func(ctx context.Context, m *measured, text ...string) []string {
		GinkgoHelper()
		m.asked = map[string]int{}
		out, err := partitiontest.Run(ctx, &partitiontest.Case{
			Graph:      partitiontest.Lines("d", text...),
			Properties: []property.SubgraphProperty{property.NewPattern("pair", property.Sequence("Sin", "Cos"), nil)},
			Options: partition.Options{Chooser: &partition.Modelled{Times: m}, Backends: []backend.Backend{
				priced{instance("first", opaque("first")), map[string]float64{"Neg": 1e3, "Abs": 5e3, "Sin": 5e3, "Cos": 5e3, "Fused": 7e3}},
				priced{instance("second", graph.RowMajor), map[string]float64{"Neg": 9e3, "Abs": 1e3, "Sin": 4e3, "Cos": 4e3}},
			}},
		})
		Expect(err).NotTo(HaveOccurred())
		return out.Groups
	}

	It("count in place of modelled ones, where they are known", func(ctx SpecContext) {
		m := &measured{}
		Expect(run(ctx, m, "a = Neg(x)", "d = Abs(a)")).To(Equal([]string{"first: a", "second: d"}))
		Expect(m.asked).To(HaveLen(4))
		m.nodes = map[string]float64{"first Abs": 500}
		Expect(run(ctx, m, "a = Neg(x)", "d = Abs(a)")).To(Equal([]string{"first: a d"}))
		m.nodes = map[string]float64{"first Neg": 20e3}
		Expect(run(ctx, m, "a = Neg(x)", "d = Abs(a)")).To(Equal([]string{"second: a d"}))
	})

	It("count for sets", func(ctx SpecContext) {
		m := &measured{}
		Expect(run(ctx, m, "b = Abs(x)", "a = Sin(b)", "d = Cos(a)")).To(Equal([]string{"second: b", "first: (a d)"}))
		Expect(m.asked).To(HaveKey("first pair"))
		m.nodes = map[string]float64{"first pair": 9e3}
		Expect(run(ctx, m, "b = Abs(x)", "a = Sin(b)", "d = Cos(a)")).To(Equal([]string{"second: b a d"}))
	})

	It("choose among signatures that differ in their names, of which the first is taken without", func(ctx SpecContext) {
		run := func(m *measured) string {
			GinkgoHelper()
			m.asked = map[string]int{}
			out, err := partitiontest.Run(ctx, &partitiontest.Case{Graph: partitiontest.Lines("a", "a = Neg(x)"),
				Options: partition.Options{Chooser: &partition.Modelled{Times: m}, Backends: []backend.Backend{
					ways{priced{instance("first", graph.RowMajor), map[string]float64{"Neg": 1e3}}},
				}}})
			Expect(err).NotTo(HaveOccurred())
			Expect(m.asked).To(HaveKeyWithValue("first Neg", 3))
			for n := range out.Graph.Nodes() {
				for inner := range n.Regions[0].Graph.Nodes() {
					if inner.Is("Neg") {
						return inner.SigName
					}
				}
			}
			return ""
		}
		Expect(run(&measured{})).To(Equal("way 0"))
		Expect(run(&measured{ways: map[string]float64{"way 1": 900, "way 2": 800}})).To(Equal("way 2"))
		Expect(run(&measured{ways: map[string]float64{"way 0": 700, "way 1": 900}})).To(Equal("way 0"))
		Expect(run(&measured{ways: map[string]float64{"way 1": 5000}})).To(Equal("way 1"), "what is measured counts, and nothing else is")
	})

	It("count for conversions", func(ctx SpecContext) {
		m := &measured{hop: 20e3}
		Expect(run(ctx, m, "a = Neg(x)", "d = Abs(a)")).To(Equal([]string{"second: a d"}))
	})
})

var _ = Describe("Priority", func() {
	run := func(ctx context.Context, order ...int) ([]string, error) {
		all := map[string]float64{"Neg": 1, "Abs": 1}
		out, err := partitiontest.Run(ctx, &partitiontest.Case{
			Graph: partitiontest.Lines("d", "a = Neg(x)", "d = Abs(a)"),
			Options: partition.Options{Chooser: partition.Priority{Order: order}, Backends: []backend.Backend{
				listed{instance("first", graph.RowMajor), map[string]float64{"a": 1}}, priced{instance("second", graph.RowMajor), all},
			}},
		})
		if err != nil {
			return nil, err
		}
		return out.Groups, nil
	}

	It("asks backends in the order that it is told, and no others", func(ctx SpecContext) {
		Expect(run(ctx)).To(Equal([]string{"first: a", "second: d"}))
		Expect(run(ctx, 1, 0)).To(Equal([]string{"second: a d"}))
		Expect(run(ctx, 1)).To(Equal([]string{"second: a d"}))
		_, err := run(ctx, 0)
		Expect(err).To(MatchError(partition.ErrUnplaced))
	})
})
