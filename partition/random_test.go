package partition_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/partition"
	"github.com/carve-dev/carve/property"
)

// randomGraph returns a graph of up to limit nodes on float32 values [1, 16, 4, 4] and halves of these, with operators of
// one to three operands, constants, two results, values that are read often or not at all, and nodes of the host scheduler's.
func randomGraph(rng *rand.Rand, limit int) *graph.Graph {
	g := graph.New("random")
	g.Opsets[""] = 17
	whole := graph.TensorType(tensor.Float32, graph.ShapeOf(1, 16, 4, 4))
	half := graph.TensorType(tensor.Float32, graph.ShapeOf(1, 8, 4, 4))
	var values, outputs []*graph.Value
	for i := range 1 + rng.IntN(3) {
		values = append(values, g.AddInput(fmt.Sprintf("x%d", i), whole))
	}
	weights := tensor.From(make([]float32, 256), 1, 16, 4, 4)
	constant := g.AddConst("w", weights)
	near := 1 + rng.IntN(20)
	pick := func() *graph.Value {
		if rng.IntN(12) == 0 {
			return constant
		}
		return values[max(0, len(values)-1-rng.IntN(near))]
	}
	node := func(op string, types []graph.Type, inputs ...*graph.Value) []*graph.Value {
		spec := graph.NodeSpec{Op: graph.Op{Name: op}, Name: fmt.Sprintf("n%d", g.NodeIDs()), Inputs: inputs}
		for i := range types {
			spec.Outputs = append(spec.Outputs, fmt.Sprintf("v%d.%d", g.NodeIDs(), i))
		}
		if op == "Split" || op == "Concat" {
			spec.Attrs = []graph.Attr{graph.IntAttr("axis", 1)}
		}
		out := g.AddNode(spec).Outputs
		for i, v := range out {
			v.Type = types[i]
		}
		return out
	}
	one := []graph.Type{whole}
	for n := 1 + rng.IntN(limit); g.NumNodes() < n; {
		switch k := rng.IntN(20); {
		case k < 9:
			values = append(values, node([]string{"Relu", "Neg", "Abs", "Tanh", "Sigmoid"}[rng.IntN(5)], one, pick())...)
		case k < 16:
			values = append(values, node([]string{"Add", "Mul", "Sub"}[rng.IntN(3)], one, pick(), pick())...)
		case k < 18:
			values = append(values, node("Sum", one, pick(), pick(), pick())...)
			if rng.IntN(2) == 0 { // an operand whose content is known, and is packed where a backend wants that
				shape := g.AddConst("shape", tensor.From([]int64{1, 16, 4, 4}, 4))
				values = append(values, node("Reshape", one, pick(), shape)...)
			}
		case k == 18:
			h := node("Split", []graph.Type{half, half}, pick())
			second := h[rng.IntN(2)]
			values = append(values, node("Concat", one, second, h[0])...)
		default:
			s := node("SequenceConstruct", []graph.Type{graph.SequenceOf(whole)}, pick())
			index := g.AddConst("index", tensor.Scalar(int64(0)))
			values = append(values, node("SequenceAt", one, s[0], index)...)
		}
	}
	for _, v := range values {
		if v.Producer != nil && (v.NumUses() == 0 && rng.IntN(8) > 0 || rng.IntN(20) == 0) {
			outputs = append(outputs, v)
		}
	}
	if len(outputs) == 0 || rng.IntN(10) == 0 {
		outputs = append(outputs, values[len(values)-1], values[len(values)-1])
	}
	g.SetOutputs(outputs...)
	return g
}

// moody is a backend that offers each node several signatures: fixed ones, mixed ones, and one with a variable.
type moody struct {
	backend.Backend
	formats []graph.Format
	seed    uint64
}

func (m *moody) Supports(n *graph.Node) backend.Support {
	s := m.Backend.Supports(n)
	if s.Reason != nil {
		return s
	}
	rng := rand.New(rand.NewPCG(m.seed, uint64(len(n.Name))*31+uint64(n.Name[len(n.Name)-1])))
	s.Signatures = nil
	for k := range 1 + rng.IntN(3) {
		sig := graph.UniformSignature(fmt.Sprint(k), n, m.formats[rng.IntN(len(m.formats))])
		sig.Extra = float64(rng.IntN(2000))
		switch rng.IntN(3) {
		case 0:
			for i := range sig.Inputs {
				sig.Inputs[i] = graph.Fixed(m.formats[rng.IntN(len(m.formats))])
			}
		case 1:
			sig.Vars = [][]graph.Format{m.formats}
			for i := range sig.Inputs {
				sig.Inputs[i] = graph.Variable(0)
			}
			for i := range sig.Outputs {
				sig.Outputs[i] = graph.Variable(0)
			}
		}
		s.Signatures = append(s.Signatures, sig)
	}
	return s
}

// share returns the acceptance of a share of all nodes, by name.
func share(seed uint64, percent int) func(*graph.Node) bool {
	return func(n *graph.Node) bool {
		h := seed * 0x9e3779b97f4a7c15
		for _, c := range n.Name {
			h = (h ^ uint64(c)) * 0x100000001b3
		}
		return int(h>>33%100) < percent
	}
}

// randomProperty returns one of all kinds of ready-made properties, and of ones that behave badly.
func randomProperty(rng *rand.Rand, name string, format graph.Format) property.SubgraphProperty {
	all := []string{"Relu", "Neg", "Abs", "Tanh", "Sigmoid", "Add", "Mul", "Sub", "Sum", "Split", "Concat"}
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	ops := all[:1+rng.IntN(len(all))]
	var p property.SubgraphProperty
	switch rng.IntN(4) {
	case 0:
		p = property.NewPattern(name, property.Sequence(all[0], all[1]+"|"+all[2], all[3]+"?"), nil)
	case 1:
		p = dropping{property.Nodes(name, property.Ops(ops...)), ops[rng.IntN(len(ops))]}
	default:
		p = property.Nodes(name, property.Ops(ops...))
	}
	switch rng.IntN(4) {
	case 0:
		p = property.Limit(p, property.Bounds{Max: 1 + rng.IntN(8)})
	case 1:
		p = property.Limit(p, property.Bounds{Min: 1 + rng.IntN(4)})
	case 2:
		in := share(rng.Uint64(), 80)
		p = property.Where(p, func(n *graph.Node) *property.Reason {
			if in(n) {
				return nil
			}
			return property.Because(property.NotSelected, "chance")
		})
	}
	p = fused{p, format}
	switch rng.IntN(4) {
	case 0:
		return property.WithKind(property.Bounding, p)
	case 1:
		return property.WithKind(property.Admitting, p)
	}
	return p
}

// randomOptions returns two to four backends, each with a format of its own or several, and two to four properties.
func randomOptions(rng *rand.Rand) *partition.Options {
	o := &partition.Options{Properties: map[string][]property.SubgraphProperty{}, Disconnected: rng.IntN(3) == 0}
	layouts := []graph.Layout{graph.RowMajor, graph.NHWC, graph.NCHW16c, opaque("a"), opaque("b")}
	var more []convert.Converter
	for _, l := range layouts[3:] {
		more = append(more, hop(graph.HostFormat, graph.On(l)), hop(graph.On(l), graph.HostFormat))
	}
	count := 2 + rng.IntN(3)
	for i := range count {
		r := instance(fmt.Sprintf("b%d", i), layouts[rng.IntN(len(layouts))])
		r.Own = nil
		if i < count-1 {
			r.Accept = share(rng.Uint64(), 20+rng.IntN(70))
		}
		var b backend.Backend = r
		if rng.IntN(2) == 0 {
			m := &moody{Backend: r, seed: rng.Uint64()}
			for range 1 + rng.IntN(3) {
				m.formats = append(m.formats, graph.On(layouts[rng.IntN(len(layouts))]))
			}
			b = m
		}
		o.Backends = append(o.Backends, b)
	}
	for i := range 2 + rng.IntN(3) {
		name := o.Backends[rng.IntN(count-1)].Info().Name
		o.Properties[name] = append(o.Properties[name], randomProperty(rng, fmt.Sprintf("p%d", i), graph.On(layouts[rng.IntN(len(layouts))])))
	}
	if rng.IntN(4) == 0 {
		o.MinNodes = 1 + rng.IntN(5)
	}
	if rng.IntN(4) == 0 {
		name := o.Backends[0].Info().Name
		o.Properties[name] = append(o.Properties[name], property.MinBenefit("worth", property.Benefit{PerValue: 400}, 500))
	}
	r, err := convert.NewRegistry(more)
	Expect(err).NotTo(HaveOccurred())
	o.Registry = r
	return o
}

// partitionRandom partitions random graphs twice each, and compares and checks the results.
func partitionRandom(ctx context.Context, from, to uint64, c partition.Chooser) {
	GinkgoHelper()
	inGroups, fusedNodes, converts, inside, packs := 0, 0, 0, 0, 0
	for seed := from; seed < to; seed++ {
		run := func() (*graph.Graph, *partition.Result, error) {
			rng := rand.New(rand.NewPCG(seed, 5))
			limit := []int{8, 40, 300}[rng.IntN(3)]
			g := randomGraph(rng, limit)
			if err := graph.Verify(g); err != nil {
				return g, nil, err
			}
			before, err := g.Clone()
			if err != nil {
				return g, nil, err
			}
			o := randomOptions(rng)
			o.Chooser = c
			res, err := partition.Partition(ctx, g, o)
			if err == nil {
				err = graph.Verify(g)
			}
			if err == nil {
				err = check(before, g, res)
			}
			return g, res, err
		}
		g, res, err := run()
		if err != nil {
			Fail(fmt.Sprintf("seed %d: %v\n%s", seed, err, g))
		}
		inGroups += len(res.Groups)
		packs += len(res.Packs)
		count := func(g *graph.Graph, converts, fused *int) {
			for n := range g.Nodes() {
				switch {
				case n.IsCarve(graph.OpConvert):
					*converts++
				case n.IsCarve(graph.OpFused):
					*fused++
				}
			}
		}
		count(g, &converts, &fusedNodes)
		for _, gr := range res.Groups {
			count(gr.Body, &inside, &fusedNodes)
		}
		if seed%8 == 0 {
			h, again, err := run()
			if err != nil || h.String() != g.String() || strings.Join(groups(res), "\n") != strings.Join(groups(again), "\n") {
				Fail(fmt.Sprintf("seed %d is partitioned in two ways", seed))
			}
		}
	}
	// The graphs were worth it.
	graphs := int(to - from)
	AddReportEntry("random graphs", fmt.Sprintf("%d graphs: %d groups, %d fused nodes, %d conversions between groups, %d inside, %d packs",
		graphs, inGroups, fusedNodes, converts, inside, packs))
	for _, n := range []int{inGroups, fusedNodes, converts, inside, packs} {
		Expect(n).To(BeNumerically(">", graphs/2))
	}
}

var _ = Describe("Random graphs", func() {
	It("are partitioned without cycles, losses, and missing or superfluous conversions", func(ctx SpecContext) {
		partitionRandom(ctx, 0, 2000, nil)
	})

	It("are so where cost decides", func(ctx SpecContext) {
		partitionRandom(ctx, 0, 120, &partition.Modelled{Launches: []float64{3000, 100, 500, 1000}})
	})

	It("are so in great number", Label("slow"), func(ctx SpecContext) {
		if !strings.Contains(GinkgoLabelFilter(), "slow") {
			Skip("takes long: -ginkgo.label-filter=slow")
		}
		partitionRandom(ctx, 2000, 100_000, nil)
		partitionRandom(ctx, 2000, 20_000, &partition.Modelled{Launches: []float64{3000, 100, 500, 1000}})
	})
})
