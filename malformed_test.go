package carve_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/onnx"
	"github.com/carve-dev/carve/graph/tensor"
)

// malformed is a way to make a node that is most likely none of its operator.
type malformed struct {
	inputs  int // beyond those of the schema, or fewer
	hole    int // the operand that is left out; -1 for none
	outputs int // beyond those of the schema
	types   []graph.Type
	regions bool // empty ones for the attributes that are graphs
}

// malformedNodes returns the ways for a schema.
func malformedNodes(s *graph.Schema) []malformed {
	f32 := graph.TensorType(tensor.Float32, graph.ShapeOf(2, 3, 4, 4))
	kinds := [][]graph.Type{
		{f32}, {graph.TensorType(tensor.Int64, graph.Shape{})}, {graph.TensorType(tensor.Int64, graph.ShapeOf(3))},
		{graph.TensorType(tensor.String, graph.ShapeOf(2, 2))}, {graph.TensorType(tensor.Float32, nil)},
		{graph.TensorType(tensor.Bool, graph.ShapeOf(1))}, {{Kind: graph.KindSequence, Elem: &f32}}, {{Kind: graph.KindOptional, Elem: &f32}},
		{f32, graph.TensorType(tensor.Int64, graph.ShapeOf(2))}, {graph.TensorType(tensor.Float32, graph.ShapeOf(0, 3)), f32},
	}
	var out []malformed
	for _, types := range kinds {
		out = append(out, malformed{hole: -1, types: types}, malformed{hole: -1, types: types, regions: true})
	}
	for i := range s.Inputs {
		out = append(out, malformed{hole: i, types: kinds[0]}, malformed{hole: -1, inputs: -i - 1, types: kinds[0]})
	}
	for _, n := range []int{-len(s.Outputs), -1, 1, 3} {
		out = append(out, malformed{hole: -1, outputs: n, types: kinds[0]})
	}
	return append(out, malformed{hole: -1, inputs: 1, types: kinds[0]}, malformed{hole: -1, inputs: 5, types: kinds[8]})
}

// build makes a graph of one such node, or of an If with one in its arms.
func (m malformed) build(s *graph.Schema, since, opset int, inside bool) *graph.Graph {
	g := graph.New("malformed")
	g.Opsets = map[string]int{s.Domain: opset}
	if s.Domain != "" {
		g.Opsets[""] = 17
	}
	var given []*graph.Value
	for i := range max(0, len(s.Inputs)+m.inputs) {
		if i == m.hole {
			given = append(given, nil)
			continue
		}
		given = append(given, g.AddInput(fmt.Sprintf("x%d", i), m.types[i%len(m.types)]))
	}
	spec := graph.NodeSpec{Op: graph.Op{Domain: s.Domain, Name: s.Name, Since: since}, Name: "it\nself", Inputs: given}
	for i := range max(0, len(s.Outputs)+m.outputs) {
		spec.Outputs = append(spec.Outputs, fmt.Sprintf("y\n%d", i))
	}
	for _, a := range s.Attrs {
		if a.Kind == graph.AttrNone && m.regions {
			spec.Regions = append(spec.Regions, graph.Region{Name: a.Name, Graph: graph.New(a.Name)})
		}
	}
	if !inside {
		g.SetOutputs(g.AddNode(spec).Outputs...)
		return g
	}
	arm := func(name string) *graph.Graph {
		r := graph.New(name)
		twin := spec
		twin.Inputs = nil
		for _, v := range given {
			if v != nil {
				twin.Inputs = append(twin.Inputs, r.AddCapture(v.Name, v.Type))
			} else {
				twin.Inputs = append(twin.Inputs, nil)
			}
		}
		r.SetOutputs(r.AddNode(twin).Outputs...)
		return r
	}
	var captured []*graph.Value
	for _, v := range given {
		if v != nil {
			captured = append(captured, v)
		}
	}
	spec.Regions = nil
	n := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "If", Since: 16}, Inputs: []*graph.Value{g.AddInput("cond", graph.TensorType(tensor.Bool, graph.Shape{}))},
		Captures: captured, Outputs: spec.Outputs, Regions: []graph.Region{{Name: "then_branch", Graph: arm("then")}, {Name: "else_branch", Graph: arm("else")}}})
	g.SetOutputs(n.Outputs...)
	return g
}

// refused reports what is wrong with the way in which a graph is refused, or runs.
func refused(ctx context.Context, g *graph.Graph) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	m := carve.FromGraph(g)
	defer m.Close()
	p, err := carve.Compile(ctx, m, &carve.Options{Backends: onReference, Threads: 1})
	if err == nil {
		defer p.Close()
		feeds := map[string]tensor.Value{}
		for _, v := range g.Inputs {
			if shape, ok := v.Type.Shape.Static(); ok && v.Type.IsTensor() {
				if feeds[v.Name], err = tensor.New(v.Type.DType, shape...); err != nil {
					return err
				}
			}
		}
		if len(feeds) < len(g.Inputs) {
			return nil
		}
		_, err = p.Run(ctx, feeds)
	}
	if err == nil {
		return nil
	}
	var pass *carve.PassError
	text := err.Error()
	switch {
	case strings.Contains(text, "internal error"), strings.Contains(text, "runtime error"), strings.Contains(text, "panic"):
		return err
	case strings.Contains(text, "\n"):
		return fmt.Errorf("the message has a name in it that is not quoted: %q", text)
	case !errors.As(err, &pass) && !errors.Is(err, carve.ErrRun) && !errors.Is(err, carve.ErrInput):
		return fmt.Errorf("untyped: %w", err)
	}
	return nil
}

var _ = Describe("malformed nodes", func() {
	It("are refused by typed errors, for every operator and operator set", func(ctx SpecContext) {
		var bad []string
		count := 0
		for _, op := range graph.Operators() {
			if op.Domain == graph.CarveDomain {
				continue
			}
			for _, s := range graph.SchemaVersions(op.Domain, op.Name) {
				for k, m := range malformedNodes(s) {
					for _, at := range []struct {
						since, opset int
						inside       bool
					}{{s.Since, 22, false}, {s.Since, 22, true}, {0, max(1, s.Since-1), false}, {0, 5, k%2 == 0}} {
						count++
						if err := refused(ctx, m.build(s, at.since, at.opset, at.inside)); err != nil && len(bad) < 2000 {
							bad = append(bad, fmt.Sprintf("%v since %d, %+v, %+v: %v", op, s.Since, m, at, err))
						}
					}
				}
			}
		}
		Expect(count).To(BeNumerically(">", 10000))
		Expect(strings.Join(bad, "\n")).To(BeEmpty())
	})
})

var _ = DescribeTable("a malformed node of a file is refused, which names it", func(ctx SpecContext, opset int64, graphs wire, named error) {
	err := runBytes(ctx, wire{}.num(1, 8).sub(8, wire{}.num(2, opset)).sub(7, graphs), nil)
	Expect(err).To(MatchError(named))
	Expect(err.Error()).To(SatisfyAll(MatchRegexp(`\bbad\b`), Not(ContainSubstring("internal error"))))
},
	Entry("an operator that its operator set does not have yet", int64(13),
		wire{}.sub(1, wireNode("Mish", "bad", []string{"x"}, []string{"y"})).sub(11, wirePort("x", 2)).sub(12, wirePort("y", 2)), onnx.ErrUnsupportedOpset),
	Entry("a Max with an operand left out", int64(17),
		wire{}.sub(1, wireNode("Max", "bad", []string{"x", ""}, []string{"y"})).sub(11, wirePort("x", 2)).sub(12, wirePort("y", 2)), graph.ErrArity),
	Entry("a node without outputs", int64(17), wire{}.sub(1, wireNode("Neg", "bad", []string{"x"}, nil), wireNode("Neg", "good", []string{"x"}, []string{"y"})).
		sub(11, wirePort("x", 2)).sub(12, wirePort("y", 2)), graph.ErrArity),
	Entry("an Identity without inputs in a body", int64(17), wireWithBody(wire{}.sub(1, wireNode("Identity", "bad", nil, []string{"r"})).sub(12, wirePort("r", 2))), graph.ErrArity),
	Entry("an Identity without inputs or outputs in a body", int64(17), wireWithBody(wire{}.
		sub(1, wireNode("Identity", "bad", nil, nil), wireNode("Neg", "good", []string{"x"}, []string{"r"})).sub(12, wirePort("r", 2))), graph.ErrArity),
)

// wireWithBody is a graph with an If whose branches are both that graph.
func wireWithBody(body wire) wire {
	branch := func(name string) wire { return wire{}.str(1, name).sub(6, body).num(20, 5) }
	scalar := wire{}.str(1, "c").sub(2, wire{}.sub(1, wire{}.num(1, 9).sub(2, wire{})))
	return wire{}.sub(1, wireNode("If", "if", []string{"c"}, []string{"y"}).sub(5, branch("then_branch"), branch("else_branch"))).
		sub(11, scalar, wirePort("x", 2)).sub(12, wirePort("y", 2))
}
