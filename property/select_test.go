package property_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/property"
)

// scripted is a property made of functions; nil ones accept. It writes down what it is asked.
type scripted struct {
	sel, in, out func(n *graph.Node) bool
	filter       func(set []*graph.Node) []*graph.Node
	calls        []string
	passes       int
}

func (s *scripted) Name() string { return "scripted" }
func (s *scripted) NewSelector(*graph.Graph) property.Selector {
	s.passes++
	return &script{s}
}

// chooseless is a property that chooses nothing.
type chooseless struct{}

func (chooseless) Name() string                               { return "chooseless" }
func (chooseless) NewSelector(*graph.Graph) property.Selector { return nil }

type script struct{ *scripted }

func (s *script) ask(what string, n *graph.Node, f func(*graph.Node) bool) bool {
	ok := f == nil || f(n)
	s.calls = append(s.calls, fmt.Sprintf("%s %s %v", what, n.Name, ok))
	return ok
}

func (s *script) Select(n *graph.Node) bool          { return s.ask("select", n, s.sel) }
func (s *script) SelectInput(_, n *graph.Node) bool  { return s.ask("input", n, s.in) }
func (s *script) SelectOutput(_, n *graph.Node) bool { return s.ask("output", n, s.out) }
func (s *script) Reset()                             { s.calls = append(s.calls, "reset") }
func (s *script) Filter(set []*graph.Node) []*graph.Node {
	s.calls = append(s.calls, "filter "+names(set))
	if s.filter == nil {
		return set
	}
	return s.filter(set)
}

func is(ops ...string) func(*graph.Node) bool {
	return func(n *graph.Node) bool { return slices.Contains(ops, n.Op.Name) }
}

var _ = Describe("Sets", func() {
	It("asks a selector as MXNet does: one for the pass, reset between attempts, operands before consumers", func() {
		g := net("e", "a = Neg(x)", "b = Abs(x)", "c = Add(a, b)", "d = Relu(c)", "e = Neg(c)")
		p := &scripted{sel: is("Add"), in: is("Neg", "Abs"), out: is("Neg")}
		Expect(sets(g, p)).To(Equal([]string{"a b c e"}))
		Expect(p.passes).To(Equal(1))
		Expect(p.calls).To(Equal([]string{
			"select a false", "reset", "select b false", "reset",
			"select c true", "input a true", "input b true", "output d false", "output e true", "filter a b c e",
			"reset", "select d false",
		}))
	})

	It("finds nothing of a property without a selector, alone or within others", func() {
		g := net("a", "a = Neg(x)")
		for _, p := range []property.SubgraphProperty{chooseless{}, property.Where(chooseless{}, property.Ops("Neg")), property.And("both", &scripted{sel: is("Neg")}, chooseless{})} {
			Expect(sets(g, p)).To(BeEmpty(), p.Name())
		}
	})

	It("takes the latest offending node away and grows again", func() {
		g := net("d", "a = Neg(x)", "b = Abs(a)", "c = Neg(a)", "d = Add(b, c)")
		var r run
		p := &scripted{sel: is("Neg"), in: is("Neg"), out: is("Neg", "Add")}
		Expect(r.over(g, p)).To(Succeed())
		Expect(r.sets).To(Equal([]string{"a c"}))
		Expect(r.declined).To(Equal([]string{"d: cycle (scripted): with it the set of scripted would depend on itself"}))
		Expect(p.calls).To(Equal([]string{
			"select a true", "output b false", "output c true", "output d true", "input b false", "reset",
			"select a true", "output b false", "output c true", "filter a c", "reset",
			"select b false", "reset", "select d false",
		}))
	})

	It("offers the pieces of a set that Filter tears apart, and what it dropped to other seeds", func() {
		g := net("e", "a = Neg(x)", "b = Abs(a)", "c = Neg(b)", "d = Neg(c)", "e = Abs(d)")
		p := &scripted{filter: func(set []*graph.Node) []*graph.Node {
			if len(set) == 1 {
				return set
			}
			return slices.DeleteFunc(slices.Clone(set), is("Abs"))
		}}
		Expect(sets(g, p)).To(Equal([]string{"a", "c d", "b", "e"}))
	})

	It("turns down pieces that are not convex", func() {
		g := net("d", "a = Neg(x)", "b = Abs(a)", "c = Relu(a)", "d = Add(b, c)")
		var r run
		p := &scripted{filter: func(set []*graph.Node) []*graph.Node {
			return slices.DeleteFunc(slices.Clone(set), is("Abs"))
		}}
		Expect(r.over(g, p)).To(Succeed())
		Expect(r.sets).To(BeEmpty())
		Expect(r.declined).To(ContainElement("d: cycle (scripted): the piece that scripted keeps is not convex"))
	})

	It("ignores what Filter makes up", func() {
		g, h := net("b", "a = Neg(x)", "b = Abs(a)"), net("a", "a = Neg(x)")
		p := &scripted{sel: is("Neg"), out: is("Neg"), filter: func(set []*graph.Node) []*graph.Node {
			foreign := slices.Collect(h.Nodes())
			return slices.Concat(set, set, []*graph.Node{nil}, foreign, slices.Collect(g.Nodes()))
		}}
		Expect(sets(g, p)).To(Equal([]string{"a"}))
	})

	It("leaves nodes of sets that were turned down to other seeds", func() {
		g := net("c", "a = Neg(x)", "b = Abs(a)", "c = Neg(b)")
		r := run{refuse: func(set []*graph.Node) bool { return set[len(set)-1].Name == "b" }}
		Expect(r.over(g, property.Limit(property.Nodes("pairs", property.Ops("Neg", "Abs")), property.Bounds{Max: 2}))).To(Succeed())
		Expect(r.sets).To(Equal([]string{"a b", "a b", "b c"}))
	})

	It("is convex in the graph as contractions leave it, and as undone ones do", func() {
		for _, undo := range []bool{false, true} {
			// p1 → q1 → q2 ← q0 → p2 ← p1
			g := net("p2, q2", "p1 = Neg(x)", "q1 = Abs(p1)", "q0 = Abs(x)", "p2 = Add(p1, q0)", "q2 = Add(q1, q0)")
			r := run{contract: true, refuse: func(set []*graph.Node) bool { return undo }}
			p := func(n *graph.Node) bool { return strings.HasPrefix(n.Name, "p") }
			Expect(r.over(g, &scripted{sel: p, in: p, out: p})).To(Succeed())
			Expect(r.sets[0]).To(Equal("p1 p2"))
			r.sets, r.refuse = nil, nil
			q := func(n *graph.Node) bool { return strings.HasPrefix(n.Name, "q") }
			Expect(r.over(g, &scripted{sel: q, in: q, out: q})).To(Succeed())
			if undo {
				Expect(r.sets).To(Equal([]string{"q1 q0 q2"}))
			} else {
				Expect(r.sets).To(HaveLen(2)) // q0, and q1 with q2: what was contracted stands between
			}
		}
	})

	It("reports what a selector says about nodes that it turns down, and what Judge says about sets", func() {
		g := net("d", "a = Neg(x)", "b = Abs(a)", "c = Neg(b)", "d = Neg(c)")
		var r run
		Expect(r.over(g, property.Limit(property.Nodes("negs", property.Ops("Neg")), property.Bounds{Min: 2}))).To(Succeed())
		Expect(r.sets).To(Equal([]string{"c d"}))
		Expect(r.declined).To(Equal([]string{
			"a: too-small (negs): a set of 1 nodes, of at least 2", "b: unsupported (negs): Abs is not among Neg"}))
	})

	It("stops when the context ends", func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		g := net("a", "a = Neg(x)")
		err := property.Sets(ctx, g, property.Nodes("all", property.Ops("Neg")), func(*graph.Node) bool { return true }, func([]*graph.Node) bool { return true }, nil)
		Expect(err).To(MatchError(context.Canceled))
	})

	It("refuses a graph with a cycle", func() {
		g := net("b", "a = Neg(x)", "b = Abs(a)")
		nodes := slices.Collect(g.Nodes())
		nodes[0].SetOperand(0, nodes[1].Outputs[0])
		err := property.Sets(context.Background(), g, property.Nodes("all", property.Ops("Neg")), func(*graph.Node) bool { return true }, func([]*graph.Node) bool { return true }, nil)
		Expect(err).To(MatchError(graph.ErrCycle))
	})

	It("finds the same sets in whatever order nodes were added", func() {
		for seed := range uint64(40) {
			rng := rand.New(rand.NewPCG(seed, 3))
			n := 2 + rng.IntN(40)
			type row struct{ op, a, b string }
			rows := make([]row, n)
			ref := func(i int) string {
				if i == 0 || rng.IntN(8) == 0 {
					return "x"
				}
				return fmt.Sprint("v", max(0, i-1-rng.IntN(5)))
			}
			for i := range rows {
				rows[i] = row{[]string{"Add", "Mul", "Sub"}[rng.IntN(3)], ref(i), ref(i)}
			}
			found := func(order []int) []string {
				g := graph.New("shuffled")
				t := graph.TensorType(tensor.Float32, graph.ShapeOf(2))
				x := g.AddInput("x", t)
				nodes := map[string]*graph.Node{}
				for _, i := range order {
					node := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: rows[i].op}, Name: fmt.Sprint("v", i), Inputs: []*graph.Value{x, x}, Outputs: []string{fmt.Sprint("v", i)}})
					node.Outputs[0].Type = t
					nodes[node.Name] = node
				}
				for _, i := range order {
					for k, from := range []string{rows[i].a, rows[i].b} {
						if from != "x" {
							nodes[fmt.Sprint("v", i)].SetOperand(k, nodes[from].Outputs[0])
						}
					}
				}
				var outputs []*graph.Value
				for i := range rows {
					if v := nodes[fmt.Sprint("v", i)].Outputs[0]; v.NumUses() == 0 {
						outputs = append(outputs, v)
					}
				}
				g.SetOutputs(outputs...)
				var all []string
				p := property.Nodes("adds", property.Ops("Add"))
				for _, set := range sets(g, p) {
					members := strings.Fields(set)
					slices.Sort(members)
					all = append(all, strings.Join(members, " "))
				}
				slices.Sort(all)
				return all
			}
			order := make([]int, n)
			for i := range order {
				order[i] = i
			}
			straight := found(order)
			if len(straight) == 0 {
				continue
			}
			again := found(order)
			Expect(again).To(Equal(straight))
			covered := func(sets []string) string {
				members := strings.Fields(strings.Join(sets, " "))
				slices.Sort(members)
				return strings.Join(members, " ")
			}
			for range 3 {
				rng.Shuffle(n, func(i, j int) { order[i], order[j] = order[j], order[i] })
				// Where a set is not convex, which of its nodes is the latest depends on the order; what is covered does not.
				Expect(covered(found(order))).To(Equal(covered(straight)), "seed %d", seed)
			}
		}
	})

	Describe("with up to a million nodes", func() {
		const n = 1_000_000
		chain := func(n int, ops ...string) *graph.Graph {
			g := graph.New("chain")
			v := g.AddInput("x", graph.TensorType(tensor.Float32, graph.ShapeOf(8)))
			for i := range n {
				node := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: ops[i%len(ops)]}, Inputs: []*graph.Value{v}, Outputs: []string{""}})
				node.Outputs[0].Type = v.Type
				v = node.Outputs[0]
			}
			g.SetOutputs(v)
			return g
		}
		pass := func(g *graph.Graph, p property.SubgraphProperty, take bool) (count, largest int) {
			taken := make([]bool, g.NodeIDs())
			began := time.Now()
			Expect(property.Sets(context.Background(), g, p, func(n *graph.Node) bool { return !taken[n.ID] }, func(set []*graph.Node) bool {
				count++
				largest = max(largest, len(set))
				for _, n := range set {
					taken[n.ID] = take
				}
				return take
			}, nil)).To(Succeed())
			AddReportEntry("seconds", time.Since(began).Seconds())
			return count, largest
		}
		It("takes a chain as one set", func() {
			count, largest := pass(chain(n, "Neg"), property.Nodes("all", property.Ops("Neg")), true)
			Expect([]int{count, largest}).To(Equal([]int{1, n}))
		})
		It("takes a chain in small sets", func() {
			count, largest := pass(chain(n/5, "Neg"), property.Limit(property.Nodes("all", property.Ops("Neg")), property.Bounds{Max: 10}), true)
			Expect([]int{count, largest}).To(Equal([]int{n / 50, 10}))
		})
		It("finds patterns", func() {
			count, largest := pass(chain(n/5, "Conv", "BatchNormalization", "Relu", "Neg"),
				property.NewPattern("tail", property.Sequence("Conv", "BatchNormalization?", "Add?", "Relu?"), nil), true)
			Expect([]int{count, largest}).To(Equal([]int{n / 20, 3}))
		})
		It("does not try for ever where a set is turned down whole", func() {
			count, largest := pass(chain(n, "Neg"), property.Nodes("all", property.Ops("Neg")), false)
			Expect([]int{count, largest}).To(Equal([]int{2, n}))
		})
		It("does not try for ever where Filter drops everything", func() {
			p := &silent{property.Nodes("all", property.Ops("Neg"))}
			count, _ := pass(chain(n/5, "Neg"), p, true)
			Expect(count).To(BeZero())
		})
		It("divides a set that offends everywhere", func() {
			g := graph.New("ladder")
			v := g.AddInput("x", graph.TensorType(tensor.Float32, graph.ShapeOf(8)))
			add := func(op string, inputs ...*graph.Value) *graph.Value {
				node := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: op}, Inputs: inputs, Outputs: []string{""}})
				node.Outputs[0].Type = v.Type
				return node.Outputs[0]
			}
			for range n / 10 { // Add(v, Abs(v)): every Add but the first is one too many
				v = add("Add", v, add("Abs", v))
			}
			g.SetOutputs(v)
			count, largest := pass(g, property.Nodes("adds", property.Ops("Add")), true)
			Expect([]int{count, largest}).To(Equal([]int{n / 10, 1}))
		})
	})
})

// silent is a property whose Filter keeps nothing.
type silent struct{ property.SubgraphProperty }

func (s *silent) NewSelector(g *graph.Graph) property.Selector {
	return silentSelector{s.SubgraphProperty.NewSelector(g)}
}

type silentSelector struct{ property.Selector }

func (silentSelector) Filter([]*graph.Node) []*graph.Node { return nil }
