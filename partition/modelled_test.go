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
	"github.com/carve-dev/carve/partition"
	"github.com/carve-dev/carve/partition/partitiontest"
	"github.com/carve-dev/carve/property"
)

// listed is a backend with a price for every node by name, which counts only where it is there.
type listed struct {
	backend.Backend
	price map[string]float64
}

func (l listed) Supports(n *graph.Node) backend.Support {
	ns, ok := l.price[n.Name]
	if !ok && !n.IsCarve(graph.OpFused) {
		return backend.No(property.Unsupported, "it has no price")
	}
	s := l.Backend.Supports(n)
	s.Cost.Nanoseconds = ns
	return s
}

// asTold is a Chooser that takes what it is told, by node name.
type asTold map[string]int

func (a asTold) Choose(ctx context.Context, t *partition.Candidates) error {
	for i := range t.Backends() {
		err := t.Collect(ctx, i, func(c *partition.Candidate) bool { return c.Claim == nil && a[c.Node.Name] == i })
		if err != nil {
			return err
		}
	}
	return nil
}

// market is a random graph with backends that each have a format of their own, and a price for most nodes.
type market struct {
	g        *graph.Graph
	backends []backend.Backend
}

func randomMarket(rng *rand.Rand, nodes int) *market {
	m := &market{g: randomGraph(rng, nodes)}
	for i, l := range []graph.Layout{opaque("a"), opaque("b"), graph.RowMajor} {
		b := listed{instance(fmt.Sprintf("b%d", i), l), map[string]float64{}}
		for n := range m.g.Nodes() {
			if i == 2 || rng.IntN(6) > 0 {
				b.price[n.Name] = float64(1 + rng.IntN(4000))
			}
		}
		m.backends = append(m.backends, b)
	}
	return m
}

// cost partitions a copy, and returns what the result costs by prices and converters: nothing of how it was chosen.
func (m *market) cost(ctx context.Context, order []int, c partition.Chooser) (float64, *partition.Result) {
	GinkgoHelper()
	g, err := m.g.Clone()
	Expect(err).NotTo(HaveOccurred())
	o := &partition.Options{Chooser: c}
	price := map[string]map[string]float64{}
	for _, i := range order {
		o.Backends = append(o.Backends, m.backends[i])
		price[m.backends[i].Info().Name] = m.backends[i].(listed).price
	}
	o.Registry = registry(m.backends)
	res, err := partition.Partition(ctx, g, o)
	if c, told := c.(asTold); told && err != nil {
		return -1, nil // a node that is not supported there: no choice at all
	} else if err != nil {
		Fail(fmt.Sprintf("%v %v", c, err))
	}
	sum := 0.0
	for _, gr := range res.Groups {
		for n := range gr.Body.Nodes() {
			sum += price[gr.Backend][n.Name]
		}
	}
	_, err = convert.Eliminate(g)
	Expect(err).NotTo(HaveOccurred())
	hops, err := convert.Lower(g, o.Registry)
	Expect(err).NotTo(HaveOccurred())
	for n, c := range hops {
		sum += c.Cost.Of(int64(bytesOf(n.Inputs[0].Type)))
	}
	return sum, res
}

func bytesOf(t graph.Type) int {
	n := 4
	for _, d := range t.Shape {
		v, _ := d.Const()
		n *= int(v)
	}
	return n
}

// everywhere returns the least cost of all assignments.
func (m *market) everywhere(ctx context.Context) (least float64, count int) {
	GinkgoHelper()
	var names []string
	for n := range m.g.Nodes() {
		if !partition.HostScheduled(n) {
			names = append(names, n.Name)
		}
	}
	digits := make([]int, len(names))
	least = -1
	for {
		told := asTold{}
		for i, name := range names {
			told[name] = digits[i]
		}
		if c, _ := m.cost(ctx, []int{0, 1, 2}, told); c >= 0 && (least < 0 || c < least) {
			least = c
		}
		count++
		i := 0
		for ; i < len(digits); i++ {
			if digits[i]++; digits[i] < len(m.backends) {
				break
			}
			digits[i] = 0
		}
		if i == len(digits) {
			return least, count
		}
	}
}

var orders = [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}

var _ = Describe("The choice by cost", func() {
	// A conversion takes little more than a microsecond. Sets run in the host's format, at this price.
	fused := 7e3
	run := func(ctx context.Context, launches []float64, pins []partition.Pin, text ...string) *partitiontest.Outcome {
		GinkgoHelper()
		out, err := partitiontest.Run(ctx, &partitiontest.Case{
			Graph:      partitiontest.Lines("d", text...),
			Properties: []property.SubgraphProperty{property.NewPattern("pair", property.Sequence("Sin", "Cos"), nil)},
			Options: partition.Options{Chooser: &partition.Modelled{Launches: launches}, Pins: pins, Backends: []backend.Backend{
				priced{instance("first", opaque("first")), map[string]float64{"Neg": 1e3, "Abs": 5e3, "Exp": 7e3, "Sin": 5e3, "Cos": 5e3, "Fused": fused, "Add": 1e3}},
				priced{instance("second", graph.RowMajor), map[string]float64{"Neg": 9e3, "Abs": 1e3, "Exp": 8e3, "Sin": 4e3, "Cos": 4e3, "Add": 9e3}},
			}},
		})
		Expect(err).NotTo(HaveOccurred())
		return out
	}

	It("counts conversions", func(ctx SpecContext) {
		Expect(run(ctx, nil, nil, "a = Neg(x)", "d = Abs(a)").Groups).To(Equal([]string{"first: a", "second: d"}))
		Expect(run(ctx, nil, nil, "a = Exp(x)", "d = Abs(a)").Groups).To(Equal([]string{"second: a d"}), "two of them take more than they save")
		Expect(run(ctx, nil, nil, "a = Exp(x)", "b = Neg(a)", "d = Exp(b)").Groups).To(Equal([]string{"first: a b d"}))
	})

	It("weighs sets against their parts", func(ctx SpecContext) {
		text := []string{"b = Abs(x)", "a = Sin(b)", "d = Cos(a)"}
		DeferCleanup(func() { fused = 7e3 })
		Expect(run(ctx, nil, nil, text...).Groups).To(Equal([]string{"second: b", "first: (a d)"}))
		fused = 9e3
		Expect(run(ctx, nil, nil, text...).Groups).To(Equal([]string{"second: b a d"}))
	})

	It("counts launches", func(ctx SpecContext) {
		Expect(run(ctx, []float64{5e3, 50}, nil, "a = Neg(x)", "d = Abs(a)").Groups).To(Equal([]string{"first: a", "second: d"}))
		Expect(run(ctx, []float64{6e3, 50}, nil, "a = Neg(x)", "d = Abs(a)").Groups).To(Equal([]string{"second: a d"}))
	})

	It("gives groups away that do not earn their launch once it is known that they are groups", func(ctx SpecContext) {
		text := []string{"a = Neg(x)", "s = Abs(a)", "d = Add(a, s)"}
		pins := []partition.Pin{{Node: "a", Backend: "first"}, {Node: "s", Backend: "second"}}
		Expect(run(ctx, []float64{4e3, 0}, pins, text...).Groups).To(Equal([]string{"first: a", "second: s", "first: d"}))
		Expect(run(ctx, []float64{8e3, 0}, pins, text...).Groups).To(Equal([]string{"first: a", "second: s d"}))
	})

	It("lets groups have unconnected parts where the launches that this saves are worth it", func(ctx SpecContext) {
		text := []string{"a = Neg(x)", "d = Neg(y)"}
		of := func(launch float64) []string {
			GinkgoHelper()
			out, err := partitiontest.Run(ctx, &partitiontest.Case{Graph: partitiontest.Lines("a, d", text...), Options: partition.Options{
				Chooser:  &partition.Modelled{Launches: []float64{launch}},
				Backends: []backend.Backend{priced{instance("only", graph.RowMajor), map[string]float64{"Neg": 5e3}}},
			}})
			Expect(err).NotTo(HaveOccurred())
			return out.Groups
		}
		Expect(of(1e3)).To(Equal([]string{"only: a d"}))
		Expect(of(50)).To(Equal([]string{"only: a", "only: d"}))
	})

	It("is no dearer than plans that prefer one backend, launches counted by groups", func(ctx SpecContext) {
		launches := []float64{500, 3000, 200}
		compared := 0
		for seed := range uint64(20) {
			m := randomMarket(rand.New(rand.NewPCG(seed, 23)), 25)
			got, res := m.cost(ctx, orders[0], &partition.Modelled{Launches: launches})
			for _, gr := range res.Groups {
				got += launches[int(gr.Backend[1]-'0')]
			}
			p := res.Placement()
			Expect(p.Corrected).To(BeNumerically("~", got, 1), "seed %d", seed)
			for _, r := range p.Rivals {
				compared++
				Expect(p.Corrected).To(BeNumerically("<=", r.Nanoseconds), "seed %d", seed)
			}
			for i := range launches { // turns, one backend first
				turns, plan := m.cost(ctx, []int{i, (i + 1) % 3, (i + 2) % 3}, partition.Priority{})
				for _, gr := range plan.Groups {
					turns += launches[int(gr.Backend[1]-'0')]
				}
				Expect(p.Corrected).To(BeNumerically("<=", turns+1), "seed %d, %d first", seed, i)
			}
		}
		Expect(compared).To(BeNumerically(">", 10))
	})

	It("holds pins", func(ctx SpecContext) {
		out := run(ctx, nil, []partition.Pin{{Node: "b", Backend: "second"}}, "a = Exp(x)", "b = Neg(a)", "d = Exp(b)")
		Expect(out.Groups).To(Equal([]string{"second: a b d"}))
	})

	It("prefers earlier backends where costs are the same", func(ctx SpecContext) {
		even := map[string]float64{"Neg": 1e3, "Abs": 2e3}
		for _, names := range [][]string{{"one", "two"}, {"two", "one"}} {
			out, err := partitiontest.Run(ctx, &partitiontest.Case{
				Graph: partitiontest.Lines("d", "a = Neg(x)", "d = Abs(a)"),
				Options: partition.Options{Chooser: &partition.Modelled{}, Backends: []backend.Backend{
					priced{instance(names[0], graph.RowMajor), even}, priced{instance(names[1], graph.RowMajor), even},
				}},
			})
			Expect(err).NotTo(HaveOccurred())
			Expect(out.Groups).To(Equal([]string{names[0] + ": a d"}))
			Expect(out.Reasons).To(ContainElement("a not on " + names[1] + ": cost: it would cost as much as on " + names[0]))
		}
	})

	It("costs the least of all assignments, in every order of backends", func(ctx SpecContext) {
		counted := 0
		for seed := uint64(0); counted < 20; seed++ {
			rng := rand.New(rand.NewPCG(seed, 21))
			m := randomMarket(rng, 6)
			least, _ := m.everywhere(ctx)
			counted++
			for _, order := range orders {
				got, res := m.cost(ctx, order, &partition.Modelled{})
				Expect(got).To(BeNumerically("~", least, 0.1), "seed %d, order %v: %v\n%s", seed, order, groups(res), m.g)
				Expect(res.Placement().Nanoseconds).To(BeNumerically("~", got, 0.1), "seed %d", seed)
				Expect(res.Placement().Bound).To(Equal(res.Placement().Nanoseconds))
			}
		}
	})

	It("costs the same in every order of backends where graphs are larger", func(ctx SpecContext) {
		for seed := range uint64(10) {
			m := randomMarket(rand.New(rand.NewPCG(seed, 22)), 120)
			first, _ := m.cost(ctx, orders[0], &partition.Modelled{})
			for _, order := range orders[1:] {
				got, res := m.cost(ctx, order, &partition.Modelled{})
				Expect(got).To(BeNumerically("~", first, 0.1), "seed %d, order %v", seed, order)
				Expect(res.Placement().Gap()).To(BeNumerically("<", 0.01))
			}
		}
	})

	It("costs the same in any order of backends: many graphs, with launches", Label("slow"), func(ctx SpecContext) {
		if !strings.Contains(GinkgoLabelFilter(), "slow") {
			Skip("takes long: -ginkgo.label-filter=slow")
		}
		searched := 0
		for seed := range uint64(400) {
			rng := rand.New(rand.NewPCG(seed, 25))
			m := randomMarket(rng, []int{8, 40, 200}[seed%3])
			launches := []float64{float64(rng.IntN(3000)), float64(rng.IntN(3000)), float64(rng.IntN(300))}
			placed := func(order []int) *partition.Placement {
				c := &partition.Modelled{}
				for _, i := range order {
					c.Launches = append(c.Launches, launches[i])
				}
				_, res := m.cost(ctx, order, c)
				return res.Placement()
			}
			first := placed(orders[0])
			if first.Gap() > 0 {
				searched++
			}
			for _, i := range rng.Perm(len(orders) - 1)[:3] {
				p := placed(orders[i+1])
				Expect(p.Nanoseconds).To(BeNumerically("~", first.Nanoseconds, 0.1), "seed %d, order %v", seed, orders[i+1])
				Expect(p.Bound).To(BeNumerically("~", first.Bound, 0.1), "seed %d, order %v", seed, orders[i+1])
				Expect(p.Corrected).To(BeNumerically("~", first.Corrected, 0.1), "seed %d, order %v", seed, orders[i+1])
			}
		}
		AddReportEntry("searched", searched)
	})

	It("says for each node and backend what it lost by", func(ctx SpecContext) {
		m := randomMarket(rand.New(rand.NewPCG(3, 23)), 30)
		_, res := m.cost(ctx, orders[0], &partition.Modelled{})
		on := map[string]string{}
		for _, gr := range res.Groups {
			for n := range gr.Body.Nodes() {
				on[n.Name] = gr.Backend
			}
		}
		told := map[[2]string]int{}
		for _, r := range res.Explain() {
			told[[2]string{r.Node, r.Backend}]++
			Expect(r.Reason.Code).NotTo(Equal(property.Priority))
		}
		for name, b := range on {
			for _, other := range m.backends {
				if other.Info().Name != b {
					Expect(told).To(HaveKey([2]string{name, other.Info().Name}))
				}
			}
			Expect(told).NotTo(HaveKey([2]string{name, b}))
		}
	})

	It("ends with its context", func(ctx SpecContext) {
		m := randomMarket(rand.New(rand.NewPCG(3, 24)), 300)
		over, cancel := context.WithCancel(ctx)
		cancel()
		_, err := partition.Partition(over, m.g, &partition.Options{Chooser: &partition.Modelled{}, Backends: m.backends, Registry: registry(m.backends)})
		Expect(err).To(MatchError(context.Canceled))
	})
})
