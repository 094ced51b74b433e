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

func nodes(g *graph.Graph, names ...string) []*graph.Node {
	GinkgoHelper()
	var out []*graph.Node
	for _, name := range names {
		out = append(out, node(g, name))
	}
	return out
}

func fused(name string) graph.NodeSpec {
	return graph.NodeSpec{Op: graph.Op{Domain: graph.CarveDomain, Name: graph.OpFused}, Name: name}
}

const extractable = `graph "main" {
  input %x: f32[N]
  input %c: bool[]
  const %one = f32[]{1}
  const %two = f32[]{2} @host:aB16b
  dims %n = i64 [N]
  %a: f32[N] = Add(%x, %one) "a"
  %b: f32[N] = Mul(%a, %two) "b" from("b1", "b2")
  %e: f32[N] = Mul(%a, %x) "e"
  %r: f32[N] = Reshape(%b, %n) "r"
  %f: f32[N] = If(%c | %r) "f" {
    then_branch: graph {
      capture %r: f32[N]
      output %r
    }
    else_branch: graph {
      capture %r: f32[N]
      output %r
    }
  }
  %s: f32[N] = Sub(%f, %one) "s"
  output %s, %b, %e
}
`

var _ = Describe("Extract and Inline", func() {
	DescribeTable("move nodes into a body and back",
		func(names string, want string) {
			g := parse(extractable)
			Expect(graph.Verify(g)).To(Succeed())
			n, err := g.Extract(nodes(g, strings.Fields(names)...), fused("u"))
			Expect(err).NotTo(HaveOccurred())
			Expect(graph.Verify(g)).To(Succeed())
			var lines []string
			for _, line := range strings.Split(g.String(), "\n") {
				if strings.HasPrefix(line, "  const") || strings.HasPrefix(line, "  dims") || strings.Contains(line, "Fused") || strings.HasPrefix(line, "      ") || strings.HasPrefix(line, "  output") {
					lines = append(lines, line)
				}
			}
			Expect(strings.Join(lines, "\n")).To(Equal(strings.TrimPrefix(want, "\n")))
			inner, err := g.Inline(n)
			Expect(err).NotTo(HaveOccurred())
			Expect(inner).To(HaveLen(len(strings.Fields(names))))
			Expect(graph.Verify(g)).To(Succeed())
			Expect(g.NumNodes()).To(Equal(6))
			Expect(lineSet(g.String())).To(Equal(lineSet(extractable)))
		},
		Entry("a single node with a constant that others read", "a", `
  const %one = f32[]{1}
  const %two = f32[]{2} @host:aB16b
  dims %n = i64 [N]
  %a: f32[N] = carve::Fused(%x) "u" from("a") {
      input %x: f32[N]
      const %one = f32[]{1}
      %a: f32[N] = Add(%x, %one) "a"
      output %a
      capture %r: f32[N]
      output %r
      capture %r: f32[N]
      output %r
  output %s, %b, %e`),
		Entry("a chain: constants go along, dims values too, provenance in order, a graph output stays one", "a b r", `
  const %one = f32[]{1}
  %a: f32[N], %b: f32[N], %r: f32[N] = carve::Fused(%x) "u" from("a", "b1", "b2", "r") {
      input %x: f32[N]
      const %one = f32[]{1}
      const %two = f32[]{2} @host:aB16b
      dims %n = i64 [N]
      %a: f32[N] = Add(%x, %one) "a"
      %b: f32[N] = Mul(%a, %two) "b" from("b1", "b2")
      %r: f32[N] = Reshape(%b, %n) "r"
      output %a, %b, %r
      capture %r: f32[N]
      output %r
      capture %r: f32[N]
      output %r
  output %s, %b, %e`),
		Entry("a node with regions: captures are operands", "s f", `
  const %one = f32[]{1}
  const %two = f32[]{2} @host:aB16b
  dims %n = i64 [N]
  %s: f32[N] = carve::Fused(%c, %r) "u" from("f", "s") {
      input %c: bool[]
      input %r: f32[N]
      const %one = f32[]{1}
      %f: f32[N] = If(%c | %r) "f" {
        then_branch: graph {
          capture %r: f32[N]
          output %r
        }
        else_branch: graph {
          capture %r: f32[N]
          output %r
        }
      }
      %s: f32[N] = Sub(%f, %one) "s"
      output %s
  output %s, %b, %e`),
		Entry("everything", "a b e r f s", `
  %b: f32[N], %e: f32[N], %s: f32[N] = carve::Fused(%x, %c) "u" from("a", "b1", "b2", "e", "r", "f", "s") {
      input %x: f32[N]
      input %c: bool[]
      const %one = f32[]{1}
      const %two = f32[]{2} @host:aB16b
      dims %n = i64 [N]
      %a: f32[N] = Add(%x, %one) "a"
      %b: f32[N] = Mul(%a, %two) "b" from("b1", "b2")
      %e: f32[N] = Mul(%a, %x) "e"
      %r: f32[N] = Reshape(%b, %n) "r"
      %f: f32[N] = If(%c | %r) "f" {
        then_branch: graph {
          capture %r: f32[N]
          output %r
        }
        else_branch: graph {
          capture %r: f32[N]
          output %r
        }
      }
      %s: f32[N] = Sub(%f, %one) "s"
      output %b, %e, %s
  output %s, %b, %e`),
	)
	DescribeTable("refuses",
		func(choose func(*graph.Graph) []*graph.Node, want error) {
			g := parse(extractable)
			_, err := g.Extract(choose(g), fused("u"))
			Expect(err).To(MatchError(want))
			Expect(g.String()).To(Equal(extractable))
		},
		Entry("nothing", func(*graph.Graph) []*graph.Node { return nil }, graph.ErrNodeSet),
		Entry("a node twice", func(g *graph.Graph) []*graph.Node { return nodes(g, "a", "a") }, graph.ErrNodeSet),
		Entry("a node of another graph", func(*graph.Graph) []*graph.Node { return nodes(parse(extractable), "a") }, graph.ErrNodeSet),
		Entry("nil", func(*graph.Graph) []*graph.Node { return []*graph.Node{nil} }, graph.ErrNodeSet),
		Entry("a gap of one", func(g *graph.Graph) []*graph.Node { return nodes(g, "a", "r") }, graph.ErrNotConvex),
		Entry("a gap through a capture", func(g *graph.Graph) []*graph.Node { return nodes(g, "s", "r") }, graph.ErrNotConvex),
		Entry("a long gap", func(g *graph.Graph) []*graph.Node { return nodes(g, "a", "s") }, graph.ErrNotConvex),
	)
	It("fuses with constants as inputs, and puts back", func() {
		text := strings.Replace(extractable, " @host:aB16b", "", 1)
		g := parse(text)
		n, err := g.Fuse(nodes(g, "a", "b"), fused("u"))
		Expect(err).NotTo(HaveOccurred())
		Expect(graph.Verify(g)).To(Succeed())
		Expect(g.String()).To(ContainSubstring("%a: f32[N], %b: f32[N] = carve::Fused(%x, %one, %two)"))
		_, err = g.Inline(n)
		Expect(err).NotTo(HaveOccurred())
		Expect(graph.Verify(g)).To(Succeed())
		Expect(lineSet(g.String())).To(Equal(lineSet(text)))
	})
	It("refuses to inline what has no body", func() {
		g := parse(extractable)
		_, err := g.Inline(node(g, "a"))
		Expect(err).To(MatchError(graph.ErrNoBody))
		_, err = g.Inline(node(g, "f"))
		Expect(err).To(MatchError(graph.ErrNoBody))
		_, err = g.Inline(node(parse(extractable), "a"))
		Expect(err).To(MatchError(graph.ErrNodeSet))
		g = parse("graph { %y = carve::Fused(_) { body: graph { input %x\n %y = Neg(%x)\n output %y } }\n output %y }")
		_, err = g.Inline(node(g, ""))
		Expect(err).To(MatchError(graph.ErrNoBody))
	})
	It("inlines bodies that pass inputs, captures and constants on", func() {
		g := parse(`graph {
  input %x: f32[]
  input %k: f32[]
  %y: f32[], %z: f32[], %w: f32[], %u: f32[], %v: f32[] = carve::Fused(%x | %k) {
    body: graph {
      input %p: f32[]
      capture %q: f32[]
      const %c = f32[]{1}
      %n: f32[] = Neg(%p) "neg"
      output %p, %q, %c, %n, %n
    }
  }
  output %v, %y, %z, %w, %u
}`)
		Expect(graph.Verify(g)).To(Succeed())
		_, err := g.Inline(node(g, ""))
		Expect(err).NotTo(HaveOccurred())
		Expect(graph.Verify(g)).To(Succeed())
		Expect(g.String()).To(Equal(`graph {
  input %x: f32[]
  input %k: f32[]
  const %c = f32[]{1}
  %n: f32[] = Neg(%x) "neg"
  output %n, %x, %k, %c, %n
}
`))
	})
	It("contracts the sets of random graphs one after another, and puts all back", func() {
		rng := rand.New(rand.NewPCG(1, 2))
		for round := range 60 {
			g := randomDAG(rng, 60, 12)
			Expect(graph.Verify(g)).To(Succeed())
			want := lineSet(g.String())
			var made []*graph.Node
			for range 40 {
				set := randomSet(rng, g)
				convex := isConvex(set)
				n, err := g.Extract(set, fused(fmt.Sprint("u", len(made))))
				if !convex {
					Expect(err).To(MatchError(graph.ErrNotConvex), "round %d", round)
					continue
				}
				Expect(err).NotTo(HaveOccurred(), "round %d", round)
				Expect(graph.Verify(g)).To(Succeed())
				if rng.IntN(3) == 0 {
					_, err := g.Inline(n)
					Expect(err).NotTo(HaveOccurred())
				} else {
					made = append(made, n)
				}
			}
			for again := true; again; {
				again = false
				for n := range g.Nodes() {
					if n.IsCarve(graph.OpFused) {
						_, err := g.Inline(n)
						Expect(err).NotTo(HaveOccurred())
						again = true
					}
				}
			}
			Expect(graph.Verify(g)).To(Succeed())
			Expect(lineSet(g.String())).To(Equal(want))
		}
	})
	It("takes a numbering that later edits contradict for what it is", func() {
		g := parse(`graph {
  input %x: f32[]
  %a: f32[] = Neg(%x) "a"
  %b: f32[] = Neg(%x) "b"
  %c: f32[] = Neg(%b) "c"
  output %a, %c
}`)
		_, err := g.Extract(nodes(g, "a"), fused("u"))
		Expect(err).NotTo(HaveOccurred())
		node(g, "u").SetOperand(0, node(g, "c").Outputs[0])
		late := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "Zero"}, Name: "zero", Outputs: []string{"z"}})
		node(g, "b").SetOperand(0, late.Outputs[0])
		_, err = g.Extract(nodes(g, "b", "u"), fused("v"))
		Expect(err).To(MatchError(graph.ErrNotConvex))
		_, err = g.Extract(nodes(g, "u", "b", "zero", "c"), fused("v"))
		Expect(err).NotTo(HaveOccurred())
		Expect(graph.Verify(g)).To(Succeed())
	})
})

var _ = Describe("SetOperator", func() {
	It("has a node go by another operator, and be what it is", func() {
		g := parse(extractable)
		n, err := g.Extract(nodes(g, "a", "b"), fused("u"))
		Expect(err).NotTo(HaveOccurred())
		plain := n.Op
		before := g.String()
		acme := graph.Op{Domain: "com.acme", Name: "Snake"}
		Expect(n.SetOperator(acme)).To(Succeed())
		Expect(n.Op).To(Equal(acme))
		Expect(n.IsCarve(graph.OpFused)).To(BeTrue())
		Expect(n.IsCarve(graph.OpSubgraph)).To(BeFalse())
		Expect(graph.Verify(g)).To(Succeed())
		Expect(graph.InferGraph(g)).To(Succeed())
		h, err := g.Clone()
		Expect(err).NotTo(HaveOccurred())
		Expect(h.NodesByID()[n.ID].IsCarve(graph.OpFused)).To(BeTrue())
		again, err := graph.Parse(g.String())
		Expect(err).NotTo(HaveOccurred())
		Expect(again.String()).To(Equal(g.String()))
		Expect(n.SetOperator(plain)).To(Succeed())
		Expect(g.String()).To(Equal(before))
	})

	It("is for nodes that stand for others, and for operators of their makers", func() {
		g := parse(extractable)
		Expect(node(g, "e").SetOperator(graph.Op{Domain: "com.acme", Name: "Snake"})).To(MatchError(graph.ErrNoBody))
		n, err := g.Extract(nodes(g, "a", "b"), fused("u"))
		Expect(err).NotTo(HaveOccurred())
		for _, op := range []graph.Op{{Name: "Relu"}, {Domain: "ai.onnx", Name: "Relu"}, {Domain: "com.acme"}, {Domain: graph.CarveDomain, Name: graph.OpSubgraph}} {
			Expect(n.SetOperator(op)).To(MatchError(graph.ErrOperator))
		}
	})
})

var _ = Describe("Clone", func() {
	It("copies everything, with the ids of the original, and shares nothing that changes", func() {
		g := parse(verified)
		g.Remove(g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "Gone"}}))
		text := g.String()
		h, err := g.Clone()
		Expect(err).NotTo(HaveOccurred())
		Expect(graph.Verify(h)).To(Succeed())
		Expect(h.String()).To(Equal(text))
		for id, n := range g.NodesByID() {
			if n == nil {
				Expect(h.NodesByID()[id]).To(BeNil())
				continue
			}
			Expect(h.NodesByID()[id].Name).To(Equal(n.Name))
			Expect(h.NodesByID()[id]).NotTo(BeIdenticalTo(n))
		}
		for id, v := range g.ValuesByID() {
			if v != nil {
				Expect(h.ValuesByID()[id].Name).To(Equal(v.Name))
			}
		}
		h.SetOutputs(h.Inputs[0])
		node(h, "r").SetInputs(h.Inputs[0], node(h, "r").Inputs[1])
		node(h, "if").Regions[0].Graph.SetOutput(0, node(h, "if").Regions[0].Graph.Captures[0])
		Expect(graph.Verify(h)).To(Succeed())
		Expect(graph.Verify(g)).To(Succeed())
		Expect(g.String()).To(Equal(text))
		node(g, "a").Inputs[0] = h.Inputs[0]
		_, err = g.Clone()
		Expect(err).To(MatchError(ContainSubstring("no value of the graph")))
	})
})

// lineSet returns the lines of a text, sorted.
func lineSet(text string) []string {
	lines := strings.Split(text, "\n")
	slices.Sort(lines)
	return lines
}

// randomDAG returns a graph of n nodes of one or two results, operands being taken from the last window values.
func randomDAG(rng *rand.Rand, n, window int) *graph.Graph {
	g := graph.New("random")
	vs := []*graph.Value{g.AddInput("x", graph.Type{}), g.AddInput("y", graph.Type{})}
	for i := range n {
		spec := graph.NodeSpec{Op: graph.Op{Domain: "test", Name: "Op"}, Name: fmt.Sprint("n", i), Outputs: []string{fmt.Sprint("v", i)}}
		if rng.IntN(4) == 0 {
			spec.Outputs = append(spec.Outputs, fmt.Sprint("w", i))
		}
		for range 1 + rng.IntN(2) {
			spec.Inputs = append(spec.Inputs, vs[max(0, len(vs)-1-rng.IntN(window))])
		}
		vs = append(vs, g.AddNode(spec).Outputs...)
	}
	g.SetOutputs(vs[len(vs)-1], vs[len(vs)/2])
	return g
}

// randomSet returns some nodes that stand near each other.
func randomSet(rng *rand.Rand, g *graph.Graph) []*graph.Node {
	all := slices.Collect(g.Nodes())
	at := rng.IntN(len(all))
	var set []*graph.Node
	for i := range 1 + rng.IntN(6) {
		if k := at + i + rng.IntN(2); k < len(all) && !slices.Contains(set, all[k]) {
			set = append(set, all[k])
		}
	}
	if len(set) == 0 {
		set = append(set, all[at])
	}
	return set
}

// isConvex looks at every path out of the set.
func isConvex(set []*graph.Node) bool {
	seen := map[*graph.Node]bool{}
	var outside func(n *graph.Node) bool
	outside = func(n *graph.Node) bool {
		for _, v := range n.Outputs {
			for _, m := range v.Consumers() {
				in := slices.Contains(set, m)
				if in && !slices.Contains(set, n) {
					return false
				}
				if !in && !seen[m] {
					seen[m] = true
					if !outside(m) {
						return false
					}
				}
			}
		}
		return true
	}
	for _, n := range set {
		if !outside(n) {
			return false
		}
	}
	return true
}
