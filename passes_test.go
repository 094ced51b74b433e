package carve_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/reference"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/partition"
	"github.com/carve-dev/carve/property"
)

var _ = Describe("the pass table", func() {
	It("keeps the constraints on its order, and no table does that moves a pass", func() {
		names := carve.PassNames()
		Expect(carve.CheckOrder(names)).To(Succeed())
		for i := range len(names) - 1 {
			swapped := slices.Clone(names)
			swapped[i], swapped[i+1] = swapped[i+1], swapped[i]
			if err := carve.CheckOrder(swapped); err != nil {
				Expect(err).To(MatchError(MatchRegexp(`^pass \S+ has to come before \S+: \w`)))
			} else {
				Expect(names[i] + " " + names[i+1]).To(BeElementOf("pin-dims name-nodes", "name-nodes infer", "order-nodes pack-constants"))
			}
		}
		Expect(carve.CheckOrder(append(slices.Clone(names), "infer"))).To(MatchError("pass infer is in the table twice"))
		Expect(carve.CheckOrder(names[:8])).To(MatchError(ContainSubstring("one of which is not there")))
	})

	It("has the stages of a partition, under their names and in their order", func() {
		var stages []string
		for _, s := range partition.Stages() {
			stages = append(stages, s.Name)
		}
		i := slices.Index(carve.PassNames(), stages[0])
		Expect(carve.PassNames()[i : i+len(stages)]).To(Equal(stages))
	})
})

// edit is a pass after or before another.
func edit(after, before string, run func(g *graph.Graph) error) carve.Pass {
	return carve.Pass{Name: "own", After: after, Before: before, Run: func(_ context.Context, g *graph.Graph) error { return run(g) }}
}

func only(p ...carve.Pass) *carve.Options { return &carve.Options{Passes: p, Verify: true} }

// find returns the node of a name, nil where there is none.
func find(g *graph.Graph, name string) *graph.Node {
	for n := range g.Nodes() {
		if n.Name == name {
			return n
		}
	}
	return nil
}

var _ = Describe("a user's pass", func() {
	const chain = "graph \"chain\" {\n  opset 17\n  input %x: f32[N,4]\n  %a = Neg(%x) \"a\"\n  %b = Exp(%a) \"b\"\n  %y = Abs(%b) \"c\"\n  output %y\n}"
	feeds := map[string]tensor.Value{"x": wave(3, 4)}
	run := func(ctx context.Context, o *carve.Options) (tensor.Value, *carve.Report) {
		GinkgoHelper()
		p := compile(ctx, textModel(chain), o)
		out, err := p.Run(ctx, feeds)
		Expect(err).NotTo(HaveOccurred())
		r, err := p.Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		return out["y"], r
	}
	// double puts a second Neg behind the first, and an Identity without a name or a type behind that.
	double := func(g *graph.Graph) error {
		a := find(g, "a").Outputs[0]
		uses := slices.Clone(a.Uses())
		n := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "Neg"}, Name: "again", Inputs: []*graph.Value{a}, Outputs: []string{"v"}})
		m := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "Identity"}, Inputs: n.Outputs, Outputs: []string{"w"}})
		for _, u := range uses {
			u.Node.SetOperand(u.Slot, m.Outputs[0])
		}
		return g.Sort()
	}

	for _, at := range [][2]string{{"infer", ""}, {"", "simplify"}, {"simplify", ""}, {"", "prepare-properties"}} {
		It(fmt.Sprintf("edits the model's graph, which is typed anew: %q %q", at[0], at[1]), func(ctx SpecContext) {
			calls := 0
			y, r := run(ctx, only(edit(at[0], at[1], func(g *graph.Graph) error {
				calls++
				Expect(find(g, "a").Outputs[0].Type.String()).To(Equal("f32[N,4]"))
				return double(g)
			})))
			want, _ := run(ctx, nil)
			Expect(bits(y)).NotTo(Equal(bits(want)))
			for i, v := range tensor.Of[float32](y.(*tensor.Tensor)) {
				x := tensor.Of[float32](feeds["x"].(*tensor.Tensor))[i]
				w := tensor.Of[float32](want.(*tensor.Tensor))[i]
				Expect(v*w).To(BeNumerically("~", 1, 1e-5), "exp(x) of %v times exp(-x)", x)
			}
			Expect(calls).To(Equal(1))
			_, _, found := r.Why("again")
			Expect(found).To(BeTrue())
		})
	}

	It("edits the partitioned graph, in every round", func(ctx SpecContext) {
		want, _ := run(ctx, nil)
		b := newFaulty("faulty", "Neg")
		b.compile = fails
		o := withFaulty(b)
		rounds := 0
		// Every group is divided into its nodes, and the input is sent through another format.
		o.Passes = []carve.Pass{edit("finish-properties", "", func(g *graph.Graph) error {
			rounds++
			var groups []*graph.Node
			for n := range g.Nodes() {
				if n.IsCarve(graph.OpSubgraph) {
					groups = append(groups, n)
				}
			}
			for _, n := range groups {
				name := n.Backend
				inner, err := g.Inline(n)
				if err != nil {
					return err
				}
				for i, m := range inner {
					s, err := g.Extract([]*graph.Node{m}, graph.NodeSpec{Op: graph.Op{Domain: graph.CarveDomain, Name: graph.OpSubgraph},
						Name: fmt.Sprint(name, "_alone_", i), Attrs: []graph.Attr{graph.StringAttr("backend", name)}})
					if err != nil {
						return err
					}
					s.Backend = name
				}
			}
			return g.Sort()
		})}
		y, r := run(ctx, o)
		Expect(bits(y)).To(Equal(bits(want)))
		Expect(r.Groups).To(HaveLen(3))
		Expect(rounds).To(Equal(2), "once before the group fell back, once after")
	})

	It("runs where it is put, several in their order", func(ctx SpecContext) {
		var seen []string
		pass := func(name, after, before string) carve.Pass {
			return carve.Pass{Name: name, After: after, Before: before, Run: func(context.Context, *graph.Graph) error { return nil }}
		}
		o := only(pass("one", "simplify", ""), pass("two", "simplify", ""), pass("three", "", "simplify"), pass("four", "", "lower-conversions"),
			pass("five", "one", ""), pass("six", "extract-groups", ""))
		o.Observer = func(p carve.Progress) {
			if len(seen) == 0 || seen[len(seen)-1] != p.Pass {
				seen = append(seen, p.Pass)
			}
		}
		run(ctx, o)
		Expect(seen[2:9]).To(Equal([]string{"infer", "three", "simplify", "one", "five", "two", "prepare-properties"}))
		Expect(seen).To(ContainElements("six", "finish-properties", "four", "lower-conversions"))
		Expect(slices.Index(seen, "six") + 1).To(Equal(slices.Index(seen, "finish-properties")))
		Expect(slices.Index(seen, "four") + 1).To(Equal(slices.Index(seen, "lower-conversions")))
	})

	DescribeTable("is an error with its name where it", func(ctx SpecContext, p carve.Pass, cause error, want string) {
		_, err := carve.Compile(ctx, textModel(chain), &carve.Options{Passes: []carve.Pass{p}})
		var pass *carve.PassError
		Expect(errors.As(err, &pass)).To(BeTrue(), "%v", err)
		Expect(pass.Pass).To(Equal(p.Name))
		if cause != nil {
			Expect(err).To(MatchError(cause))
		}
		Expect(err).To(MatchError(ContainSubstring(want)))
	},
		Entry("fails", edit("simplify", "", fails2), errBroken, "pass own: broken on purpose"),
		Entry("panics", edit("simplify", "", func(*graph.Graph) error { panic("out of order") }), nil, "internal error: out of order"),
		Entry("has no function", carve.Pass{Name: "own", After: "simplify"}, carve.ErrPass, "a name and a function"),
		Entry("has the name of another", carve.Pass{Name: "infer", After: "simplify", Run: fails3}, carve.ErrPass, "another pass of that name"),
		Entry("has no place", edit("", "", fails2), carve.ErrPass, "either a pass before"),
		Entry("has two places", edit("infer", "simplify", fails2), carve.ErrPass, "either a pass before"),
		Entry("is beside a pass that is not there", edit("lint", "", fails2), carve.ErrPass, `no pass "lint"`),
		Entry("is before types are known", edit("", "infer", fails2), carve.ErrPass, "no place before infer"),
		Entry("is within the partition", edit("group", "", fails2), carve.ErrPass, "no place after group"),
		Entry("is behind everything", edit("compile-groups", "", fails2), carve.ErrPass, "no place after compile-groups"),
		Entry("takes an output away", edit("simplify", "", func(g *graph.Graph) error { g.SetOutputs(); return nil }), carve.ErrPass, "the inputs or the outputs"),
		Entry("adds an input", edit("simplify", "", func(g *graph.Graph) error {
			g.AddInput("z", graph.TensorType(tensor.Float32, graph.ShapeOf(1)))
			return nil
		}), carve.ErrPass, "the inputs or the outputs"),
		Entry("changes the type of an output", edit("simplify", "", func(g *graph.Graph) error {
			n := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "Cast"}, Inputs: g.Outputs, Outputs: []string{"i"}, Attrs: []graph.Attr{graph.IntAttr("to", 7)}})
			g.SetOutputs(n.Outputs[0])
			return nil
		}), carve.ErrPass, "the inputs or the outputs"),
		Entry("makes a cycle", edit("simplify", "", func(g *graph.Graph) error {
			find(g, "a").SetOperand(0, find(g, "b").Outputs[0])
			return nil
		}), nil, "invariant 7"),
		Entry("adds a node that no type fits", edit("simplify", "", func(g *graph.Graph) error {
			n := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "MatMul"}, Name: "m", Inputs: []*graph.Value{g.Outputs[0], g.AddConst("k", tensor.From(make([]float32, 9), 3, 3))}, Outputs: []string{"m"}})
			g.SetOutputs(n.Outputs[0])
			return nil
		}), nil, `"m"`),
		Entry("leaves a node in no group", edit("finish-properties", "", func(g *graph.Graph) error {
			n := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "Neg"}, Name: "stray", Inputs: []*graph.Value{g.Inputs[0]}, Outputs: []string{"s"}})
			n.Outputs[0].Type = g.Inputs[0].Type
			return nil
		}), partition.ErrPlan, `Neg "stray" is in no group`),
		Entry("gives a group to a backend that is none", edit("finish-properties", "", func(g *graph.Graph) error {
			for n := range g.Nodes() {
				n.Backend = "nobody"
			}
			return nil
		}), partition.ErrPlan, `is on "nobody"`),
	)

	It("that does nothing changes nothing", func(ctx SpecContext) {
		nothing := func(*graph.Graph) error { return nil }
		for _, name := range smallZoo {
			m := openZoo(ctx, name)
			var texts []string
			for _, passes := range [][]carve.Pass{nil, {edit("simplify", "", nothing)}, {edit("finish-properties", "", nothing)}} {
				var text bytes.Buffer
				compile(ctx, m.Model, &carve.Options{Passes: passes, KeepOrder: true, DumpTo: func(pass string) io.Writer {
					if pass != "lower-conversions" {
						return nil
					}
					return &text
				}})
				texts = append(texts, text.String())
			}
			Expect(texts[1]).To(Equal(texts[0]), name)
			Expect(texts[2]).To(Equal(texts[0]), name)
		}
	})
})

func fails2(*graph.Graph) error { return errBroken }

func fails3(context.Context, *graph.Graph) error { return errBroken }

var _ = Describe("Options of the partition", func() {
	It("send small groups on, and allow groups of several parts", func(ctx SpecContext) {
		text := "graph {\n  opset 17\n  input %x: f32[4]\n  %a = Neg(%x) \"a\"\n  %b = Det2(%x) \"b\"\n  %c = Abs(%x) \"c\"\n  output %a, %b, %c\n}"
		m := textModel(strings.Replace(text, "Det2", "Sin", 1))
		first := &reference.Backend{Name: "first", Accept: func(n *graph.Node) bool { return n.Is("Neg", "Abs") }}
		o := carve.Options{Backends: []backend.Config{{Name: "first"}, {Name: "reference"}}, Open: map[string]backend.Backend{"first": first}, Strict: true, Verify: true}
		groups := func(o carve.Options) (out []string) {
			GinkgoHelper()
			r, err := compile(ctx, m, &o).Report(ctx, nil)
			Expect(err).NotTo(HaveOccurred())
			for _, g := range r.Groups {
				out = append(out, g.Backend+": "+strings.Join(g.Nodes, " "))
			}
			return out
		}
		Expect(groups(o)).To(ConsistOf("first: a", "reference: b", "first: c"))
		o.Disconnected = true
		Expect(groups(o)).To(ConsistOf("first: a c", "reference: b"))
		o.MinNodes = 2
		Expect(groups(o)).To(ConsistOf("first: a c", "reference: b"))
		o.MinNodes = 3
		Expect(groups(o)).To(ConsistOf("reference: a b c"))
	})
})

var _ = Describe("a backend without converters", func() {
	It("leaves its groups to others, which is an error under Strict", func(ctx SpecContext) {
		layout, err := graph.OpaqueLayout("island", "1", "own")
		Expect(err).NotTo(HaveOccurred())
		b := &reference.Backend{Name: "island", Layout: func(graph.Type) graph.Layout { return layout }, Accept: func(n *graph.Node) bool { return n.Is("Conv", "Relu") }}
		m := textModel(smallNet())
		o := &carve.Options{Backends: []backend.Config{{Name: "island"}}, Open: map[string]backend.Backend{"island": b}, Verify: true}
		feeds := map[string]tensor.Value{"x": wave(2, 3, 9, 11)}
		want, err := compile(ctx, m, nil).Run(ctx, feeds)
		Expect(err).NotTo(HaveOccurred())
		p := compile(ctx, m, o)
		got, err := p.Run(ctx, feeds)
		Expect(err).NotTo(HaveOccurred())
		near(got["y"], want["y"])
		r, err := p.Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		where, reasons, _ := r.Why("conv0")
		Expect(where).To(Equal("cpu"))
		Expect(reasons).To(ContainElement(SatisfyAll(HaveField("Backend", "island"),
			HaveField("Reason", MatchRegexp("^no-converter: value .*: no conversion between the formats: .*island@1:own")))))

		o.Strict = true
		o.Backends = append(o.Backends, onReference[0])
		_, err = carve.Compile(ctx, m, o)
		Expect(err).To(MatchError(carve.ErrCompile))
		Expect(err).To(MatchError(HavePrefix(`pass check-converters: group does not compile: node "conv0" on island: no-converter: `)))
		Expect(err).NotTo(MatchError(carve.ErrRun))
	})
})

var _ = Describe("a dump", func() {
	It("has the graph and what the pass knows", func(ctx SpecContext) {
		texts := map[string]*bytes.Buffer{}
		pair := property.NewPattern("pair", property.Sequence("Neg", "Abs"), nil)
		p := &negAbs{name: "neg-abs", format: graph.HostFormat}
		compile(ctx, textModel("graph {\n  opset 17\n  input %x: f32[4]\n  %a = Neg(%x) \"a\"\n  %y = Abs(%a) \"b\"\n  output %y\n}"), &carve.Options{
			Properties: map[string][]property.SubgraphProperty{"cpu": {p, pair}}, DumpTo: func(pass string) io.Writer {
				texts[pass] = &bytes.Buffer{}
				return texts[pass]
			}})
		for _, name := range carve.PassNames() {
			Expect(texts).To(HaveKey(name))
			Expect(texts[name].String()).To(HavePrefix("graph {"), name)
		}
		Expect(texts["assign"].String()).To(ContainSubstring("\npartition 0 \"\" after assign\n  candidate a b on cpu as neg-abs, taken, in user\n"))
		Expect(texts["compile-groups"].String()).To(ContainSubstring("\n  group cpu: (a b)\n"))
	})

	It("whose writer fails ends Compile", func(ctx SpecContext) {
		_, err := carve.Compile(ctx, textModel(smallNet()), &carve.Options{DumpTo: func(pass string) io.Writer {
			if pass == "group" {
				return full{}
			}
			return nil
		}})
		Expect(err).To(MatchError(errBroken))
		Expect(err).To(MatchError(HavePrefix("pass group: ")))
	})
})

// full is a writer without room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errBroken }

var _ = It("an Observer that panics is an error of the pass that it is told of, on every goroutine", func(ctx SpecContext) {
	m := textModel(pictures())
	for _, told := range []func(p carve.Progress) bool{
		func(p carve.Progress) bool { return p.Pass == "simplify" },
		func(p carve.Progress) bool { return p.Pass == "pack-constants" && p.Total > 0 },
		func(p carve.Progress) bool { return p.Pass == "compile-groups" && p.Total > 0 },
	} {
		pass := ""
		_, err := carve.Compile(ctx, m, &carve.Options{Observer: func(p carve.Progress) {
			if told(p) {
				pass = p.Pass
				panic("out of order")
			}
		}})
		var fault *carve.PassError
		Expect(errors.As(err, &fault)).To(BeTrue(), "%v", err)
		Expect(fault.Pass).To(Equal(pass))
		Expect(fault).To(MatchError(ContainSubstring("internal error: out of order")))
	}
})
