package cli_test

import (
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/cli"
)

// branched has an If whose arms hold a node each, a folded node and a dead one.
func branched() *graph.Graph {
	g := newGraph()
	x := g.AddInput("x", f32("N"))
	c := g.AddInput("c", typ(tensor.Bool))
	arm := func(op string) *graph.Graph {
		r := newGraph()
		v := r.AddCapture("x", f32("N"))
		r.SetOutputs(add(r, op, "inner", "r", []*graph.Value{v}))
		return r
	}
	n := g.AddNode(graph.NodeSpec{Op: graph.Op{Name: "If"}, Name: "choose", Inputs: []*graph.Value{c}, Captures: []*graph.Value{x}, Outputs: []string{"i"},
		Regions: []graph.Region{{Name: "then_branch", Graph: arm("Neg")}, {Name: "else_branch", Graph: arm("Abs")}}})
	two := add(g, "Add", "fold", "two", []*graph.Value{g.AddConst("a", tensor.From([]float32{1})), g.AddConst("b", tensor.From([]float32{1}))})
	add(g, "Exp", "dead", "d", []*graph.Value{x})
	g.SetOutputs(add(g, "Mul", "mul", "y", []*graph.Value{n.Outputs[0], two}))
	return g
}

type conversionSum struct {
	Count int
	Bytes int64
}

// stem is a convolution of an image, a pool and another convolution.
func stem() *graph.Graph {
	g := newGraph()
	weights := func(name string, dims ...int) *graph.Value {
		t, err := tensor.New(tensor.Float32, dims...)
		Expect(err).NotTo(HaveOccurred())
		return g.AddConst(name, t)
	}
	x := g.AddInput("x", f32(1, 3, 8, 8))
	a := add(g, "Conv", "a", "va", []*graph.Value{x, weights("wa", 16, 3, 3, 3)})
	b := add(g, "Relu", "b", "vb", []*graph.Value{a})
	c := add(g, "GlobalMaxPool", "c", "vc", []*graph.Value{b})
	d := add(g, "Conv", "d", "vd", []*graph.Value{c, weights("wd", 16, 16, 1, 1)})
	g.SetOutputs(d)
	return g
}

type partitionJSON struct {
	Groups []struct {
		ID      int
		Backend string
		Nodes   []string
	}
	Folded []struct {
		Node, Kind string
	}
	Conversions []struct {
		Value, From, To string
		Bytes           int64
		Constant        bool
		Group           *int
		Via             string
	}
	Run     conversionSum `json:"conversions_run"`
	Alone   conversionSum `json:"conversions_alone"`
	Devices []struct {
		Name           string
		ArenaBytes     int64 `json:"arena_bytes"`
		LowerBoundByes int64 `json:"lower_bound_bytes"`
		NaiveBytes     int64 `json:"naive_bytes"`
	}
	Rejected []struct {
		Node, Backend, Reason string
	}
	Dims map[string]int64
}

var _ = Describe("partition", func() {
	It("draws the arena", func(ctx SpecContext) {
		out := filepath.Join(GinkgoT().TempDir(), "arena.svg")
		r := succeeds(ctx, "partition", save(ctx, branched()), "--svg", out, "--dim", "N=64")
		Expect(r.stdout).To(MatchRegexp(`(?m)^peak of live bytes without workspace: .* in the chosen one$`))
		b, err := os.ReadFile(out)
		Expect(err).NotTo(HaveOccurred())
		var root struct{ XMLName xml.Name }
		Expect(xml.Unmarshal(b, &root)).To(Succeed())
		Expect(root.XMLName.Local).To(Equal("svg"))
		Expect(string(b)).To(ContainSubstring("arena of"))
		Expect(fails(ctx, "partition", save(ctx, branched()), "--svg", filepath.Join(out, "no", "folder"))).NotTo(BeEmpty())
	})

	It("accounts for every node once", func(ctx SpecContext) {
		r := succeeds(ctx, "partition", save(ctx, branched()), "--json")
		var p partitionJSON
		Expect(json.Unmarshal([]byte(r.stdout), &p)).To(Succeed())
		where := map[string]string{}
		place := func(node, at string) {
			Expect(where).NotTo(HaveKey(node))
			where[node] = at
		}
		for _, g := range p.Groups {
			for _, n := range g.Nodes {
				place(n, g.Backend)
			}
		}
		for _, f := range p.Folded {
			place(f.Node, f.Kind)
		}
		Expect(where).To(Equal(map[string]string{"choose": "host", "choose/then_branch/inner": "cpu", "choose/else_branch/inner": "cpu",
			"mul": "cpu", "fold": "constant", "dead": "dead"}))
		Expect(p.Dims).To(Equal(map[string]int64{"N": 1}))
		Expect(p.Devices).NotTo(BeEmpty())
		Expect(p.Devices[0].Name).To(Equal("host"))
		Expect(p.Devices[0].ArenaBytes).To(BeNumerically(">=", p.Devices[0].LowerBoundByes))
		Expect(r.stderr).To(Equal("dims not set, taken as 1: N (--dim NAME=N)\n"))
	})

	It("has all keys, also where they are empty", func(ctx SpecContext) {
		r := succeeds(ctx, "partition", save(ctx, affine()), "--json", "--dim", "N=4", "--backend", "reference")
		var keys map[string]json.RawMessage
		Expect(json.Unmarshal([]byte(r.stdout), &keys)).To(Succeed())
		for _, k := range []string{"groups", "folded", "conversions", "devices", "rejected", "dims"} {
			Expect(keys).To(HaveKey(k))
			Expect(string(keys[k])).NotTo(Equal("null"), k)
		}
		Expect(r.stderr).To(BeEmpty())
	})

	It("prints tables", func(ctx SpecContext) {
		r := succeeds(ctx, "partition", save(ctx, branched()), "--dim", "N=1000")
		Expect(r.stdout).To(MatchRegexp(`(?m)^backend +groups +nodes +modelled time$`))
		Expect(r.stdout).To(MatchRegexp(`(?m)^cpu +3 +3 \(75\.0%\)`))
		Expect(r.stdout).To(MatchRegexp(`(?m)^host +1 +1 \(25\.0%\)`))
		Expect(r.stdout).To(MatchRegexp(`(?m)^folded: 1 constant, 1 dead$`))
		Expect(r.stdout).To(MatchRegexp(`(?m)^device +arena +lower bound +naive$`))
	})

	It("shows every conversion, and what operators would need on their own", func(ctx SpecContext) {
		path := save(ctx, stem())
		r := succeeds(ctx, "partition", path, "--json")
		var p partitionJSON
		Expect(json.Unmarshal([]byte(r.stdout), &p)).To(Succeed())
		var run, bytes, constants int
		for _, c := range p.Conversions {
			Expect(c.Via).NotTo(BeEmpty())
			if c.Constant {
				constants++
				continue
			}
			run++
			bytes += int(c.Bytes)
		}
		Expect(constants).To(Equal(2))
		Expect(p.Run).To(Equal(conversionSum{run, int64(bytes)}))
		// The first convolution, fused with its rectifier, writes 16 maps of 6 by 6, the pool reads them, and the second
		// convolution reads and writes pixels.
		const maps, pixels = 16 * 6 * 6 * 4, 16 * 4
		Expect(p.Alone).To(Equal(conversionSum{4, 2*maps + 2*pixels}))
		Expect(p.Run.Count).To(Equal(1), "of the result")
		r = succeeds(ctx, "partition", path)
		Expect(r.stdout).To(MatchRegexp(`(?m)^conversions: 1 between groups, 0 inside groups, 64 B a run; 2 of constants, .* once$`))
		Expect(r.stdout).To(MatchRegexp(`(?m)^saved: 3, 4\.6 KiB a run, of the 4, 4\.6 KiB, of operators that convert on their own; removed as superfluous: 0$`))
		Expect(r.stdout).To(MatchRegexp(`(?m)^  wa +host:NCHW → host:\S+ +\d\.\d KiB +once +host-reorder$`))
		Expect(r.stdout).To(MatchRegexp(`(?m)^  vd +host:NCHW16c → host:NCHW +64 B +between groups +host-reorder$`))
	})

	It("says where a node is and why", func(ctx SpecContext) {
		path := save(ctx, branched())
		Expect(succeeds(ctx, "partition", path, "--why", "fold").stdout).To(Equal("fold: folded: constant\n"))
		Expect(succeeds(ctx, "partition", path, "--why", "choose/then_branch/inner").stdout).To(MatchRegexp(
			`\Achoose/then_branch/inner: cpu, group 1\n  on cpu: chosen \(modelled \S+ by itself\)\n  not on reference: priority: cpu comes before it .*\n\z`))
		Expect(succeeds(ctx, "partition", path, "--why", "choose").stdout).To(HavePrefix("choose: host: the host scheduler runs control flow"))
		g := newGraph()
		x := g.AddInput("x", f32(4, 4))
		g.SetOutputs(add(g, "RandomNormalLike", "noise", "y", []*graph.Value{x}))
		fused := succeeds(ctx, "partition", save(ctx, stem()), "--why", "b").stdout
		Expect(fused).To(MatchRegexp(`\Ab: cpu, group 0\n  fused by conv-tail: Conv \+ Relu \(a, b\)\n  on cpu: chosen`))
		r := succeeds(ctx, "partition", save(ctx, g), "--why", "noise", "--json")
		var why struct {
			Node, Where string
			Rejected    []struct{ Node, Backend, Reason string }
		}
		Expect(json.Unmarshal([]byte(r.stdout), &why)).To(Succeed())
		Expect(why.Where).To(Equal("reference"))
		Expect(why.Rejected).To(HaveLen(1))
		Expect(why.Rejected[0].Backend).To(Equal("cpu"))
		Expect(why.Rejected[0].Reason).To(HavePrefix("unsupported"))
	})
})

var _ = Describe("dump", func() {
	It("prints the graph after a pass, and what the pass has made", func(ctx SpecContext) {
		path := save(ctx, stem())
		r := succeeds(ctx, "dump", path, "--after", "group")
		Expect(r.stdout).To(HavePrefix("graph "))
		Expect(r.stdout).To(ContainSubstring(`) "c" on "cpu"`))
		Expect(r.stdout).To(HaveSuffix("after group\n  group cpu: (a b) c d\n"))
		Expect(succeeds(ctx, "dump", path).stdout).To(ContainSubstring("after finish-properties\n  group cpu: "), "of the last pass")
		file := filepath.Join(GinkgoT().TempDir(), "text")
		Expect(succeeds(ctx, "dump", path, "--after", "group", "-o", file).stdout).To(BeEmpty())
		Expect(os.ReadFile(file)).To(BeEquivalentTo(r.stdout))
	})

	It("names the passes where there is none of the name", func(ctx SpecContext) {
		Expect(fails(ctx, "dump", save(ctx, stem()), "--after", "nothing")).To(ContainSubstring("there is no such pass (there are: pin-dims, name-nodes,"))
	})

	It("prints what there is where the model does not compile", func(ctx SpecContext) {
		g := newGraph()
		g.Opsets["com.example"] = 1
		n := g.AddNode(graph.NodeSpec{Op: graph.Op{Domain: "com.example", Name: "Magic"}, Name: "wand", Inputs: []*graph.Value{g.AddInput("x", f32(2))}, Outputs: []string{"y"}})
		g.SetOutputs(n.Outputs[0])
		r := carve(ctx, "dump", save(ctx, g), "--after", "simplify")
		Expect(r.code).To(Equal(cli.ExitError))
		Expect(r.stdout).To(ContainSubstring("com.example::Magic(%x)"))
		Expect(r.stderr).To(ContainSubstring("no backend runs the node"))
	})

	It("gives small groups to others where that is asked for", func(ctx SpecContext) {
		g := newGraph()
		x := g.AddInput("x", f32(4, 4))
		a := add(g, "Neg", "a", "va", []*graph.Value{x})
		b := add(g, "RandomNormalLike", "b", "vb", []*graph.Value{a})
		g.SetOutputs(add(g, "Exp", "c", "vc", []*graph.Value{b}))
		path := save(ctx, g)
		Expect(succeeds(ctx, "dump", path, "--after", "group").stdout).To(HaveSuffix("  group cpu: a\n  group reference: b\n  group cpu: c\n"))
		Expect(succeeds(ctx, "dump", path, "--after", "group", "--min-nodes", "2").stdout).To(HaveSuffix("  group reference: a b c\n"))
		Expect(fails(ctx, "dump", path, "--min-nodes", "-1")).To(ContainSubstring("must not be negative"))
		succeeds(ctx, "dump", path, "--disconnected")
	})

	It("chooses by cost where --placement says so, and says what nodes lost by", func(ctx SpecContext) {
		g := graph.New("g")
		g.Opsets[""] = 17
		x := g.AddInput("x", f32(4, 4))
		g.SetOutputs(add(g, "Exp", "b", "vb", []*graph.Value{add(g, "Neg", "a", "va", []*graph.Value{x})}))
		path := save(ctx, g)
		out := succeeds(ctx, "partition", path, "--placement", "modelled", "--budget", "1s").stdout
		Expect(out).To(MatchRegexp(`chosen by cost: \d+\.\d{3} ms, of at least \d+\.\d{3} ms\n`))
		Expect(succeeds(ctx, "partition", path, "--placement", "priority").stdout).NotTo(ContainSubstring("chosen by cost"))
		Expect(succeeds(ctx, "partition", path, "--placement", "modelled", "--why", "a").stdout).To(ContainSubstring("not on reference: cost: "))
		Expect(fails(ctx, "partition", path, "--placement", "best")).To(ContainSubstring("is none of automatic, priority, modelled"))
		Expect(fails(ctx, "partition", path, "--budget", "-1s")).To(ContainSubstring("must not be negative"))
	})
})
