package graph_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

var _ = Describe("Simplify", func() {
	It("computes the same after folding, removal and merging", func() {
		sameResults(parse(statements(13, `
  input %x: f32[N,3,4]
  const %one = f32[]{1}
  const %w = f32[4]{1, -2, 3, -4}
  const %s = i64[2]{-1, 12}
  %a = Mul(%x, %w) "a"
  %b = Mul(%x, %w) "b"
  %c = Add(%a, %b) "c"
  %d = Transpose(%c; perm=[2, 0, 1]) "d"
  %e = Transpose(%d; perm=[1, 0, 2]) "e"
  %f = Mul(%e, %one) "f"
  %g = Reshape(%f, %s) "g"
  %n = Shape(%g) "n"
  %h = Expand(%one, %n) "h"
  %y = Sub(%g, %h) "y"
  output %y, %c
`)), 0)
	})
	It("replaces each of many outputs", func() {
		g := graph.New("g")
		x := g.AddInput("x", graph.TensorType(tensor.Float32, graph.ShapeOf(2)))
		var outputs []*graph.Value
		for i := range 200 {
			n := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: []string{"Neg", "Abs"}[i%2]}, Name: fmt.Sprint("n", i), Inputs: []*graph.Value{x}, Outputs: []string{fmt.Sprint("v", i)}})
			m := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "Identity"}, Name: fmt.Sprint("m", i), Inputs: n.Outputs, Outputs: []string{fmt.Sprint("w", i)}})
			outputs = append(outputs, m.Outputs[0])
		}
		g.SetOutputs(outputs...)
		simplify(g, graph.SimplifyOptions{})
		Expect(operators(g)).To(Equal("Neg Abs"))
		for i, v := range g.Outputs {
			Expect(v.Producer.Op.Name).To(Equal([]string{"Neg", "Abs"}[i%2]))
		}
	})
	It("leaves out passes that are skipped, and names all", func() {
		text := statements(13, "  input %x: f32[2]\n  %a = Identity(%x) \"a\"\n  %y = Neg(%a) \"y\"\n  output %y\n")
		g := parse(text)
		simplify(g, graph.SimplifyOptions{Skip: graph.SimplifyPasses()})
		Expect(g.NumNodes()).To(Equal(2))
		report := simplify(parse(text), graph.SimplifyOptions{})
		for i, name := range graph.SimplifyPasses() {
			Expect(report.Passes[i].Name).To(Equal(name))
			changed := report.Passes[i].Changes > 0
			Expect(changed).To(Equal(name == "remove-no-ops"), name)
		}
	})
	It("needs no options, and no evaluator for Constant nodes", func() {
		g := parse(statements(13, "  %a = Constant(; value_int=3) \"a\"\n  output %a\n"))
		report, err := graph.Simplify(context.Background(), g, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(folded(report)).To(Equal("a:constant"))
	})
	It("stops with its context, and with an error of After", func() {
		g := parse(statements(13, "  input %x: f32[2]\n  %a = Identity(%x) \"a\"\n  output %a\n"))
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_, err := graph.Simplify(ctx, g, nil)
		Expect(err).To(MatchError(context.Canceled))
		_, err = graph.Simplify(context.Background(), g, &graph.SimplifyOptions{After: func(string, *graph.Graph) error { return errStop }})
		Expect(err).To(MatchError(errStop))
	})
	It("reports types that no longer fit", func() {
		g := parse(statements(13, `
  const %s = f32[1]{0.75}
  input %x: f32[3]
  %t = Exp(%s) "t"
  %u = Cast(%t; to=7) "u"
  %v = ConstantOfShape(%u) "v"
  %y = Add(%x, %v) "y"
  output %y
`))
		Expect(graph.InferGraph(g)).To(Succeed())
		_, err := graph.Simplify(context.Background(), g, &graph.SimplifyOptions{Evaluator: kernels{}})
		Expect(err).To(MatchError(graph.ErrShapeMismatch))
		Expect(graph.Verify(g)).To(Succeed())
	})
	It("does not depend on the order of the node list", func() {
		text := statements(13, `
  input %x: f32[2]
  %a = Neg(%x) "a"
  %b = Identity(%a) "b"
  %c = Abs(%b) "c"
  %d = Mul(%c, %a) "d"
  output %d
`)
		lines := strings.Split(text, "\n")
		slices.Reverse(lines[3:7])
		for _, t := range []string{text, strings.Join(lines, "\n")} {
			g := parse(t)
			simplify(g, graph.SimplifyOptions{})
			Expect(g.Sort()).To(Succeed())
			Expect(g.String()).To(Equal(statements(13, "  input %x: f32[2]\n  %a: f32[2] = Neg(%x) \"a\"\n  %c: f32[2] = Abs(%a) \"c\"\n  %d: f32[2] = Mul(%c, %a) \"d\"\n  output %d\n")))
		}
	})
})

var errStop = errors.New("stop")
