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
	}
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

	It("says where a node is and why", func(ctx SpecContext) {
		path := save(ctx, branched())
		Expect(succeeds(ctx, "partition", path, "--why", "fold").stdout).To(Equal("fold: folded: constant\n"))
		Expect(succeeds(ctx, "partition", path, "--why", "choose/then_branch/inner").stdout).To(HavePrefix("choose/then_branch/inner: cpu\n"))
		g := newGraph()
		x := g.AddInput("x", f32(4, 4))
		g.SetOutputs(add(g, "Det", "det", "y", []*graph.Value{x}))
		r := succeeds(ctx, "partition", save(ctx, g), "--why", "det", "--json")
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
