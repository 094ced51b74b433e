package cli_test

import (
	"encoding/json"
	"fmt"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
)

var _ = Describe("inspect", func() {
	It("shows what a model holds", func(ctx SpecContext) {
		r := succeeds(ctx, "inspect", save(ctx, affine()), "--dim", "N=4")
		Expect(r.stdout).To(Equal(`producer    specs
IR version  10
opset       ai.onnx 21
input       x       f32[N,3]
output      y       f32[N,2]
output      flat/y  f32[2*N]
weights     3 tensors, 9 parameters, 40 B
GFLOP       4.8e-08
nodes       4
  Add       1
  MatMul    1
  Relu      1
  Reshape   1
`))
		Expect(r.stderr).To(BeEmpty())
	})

	It("prints JSON", func(ctx SpecContext) {
		r := succeeds(ctx, "inspect", save(ctx, branched()), "--json")
		var i struct {
			Inputs      []struct{ Name, Type string }
			Operators   []struct{ Op string }
			Opsets      map[string]int
			Nodes       int
			Dims        map[string]int
			Unsupported []any
		}
		Expect(json.Unmarshal([]byte(r.stdout), &i)).To(Succeed())
		Expect(i.Nodes).To(Equal(6))
		Expect(i.Operators).To(HaveLen(6))
		Expect(i.Opsets).To(Equal(map[string]int{"": 21}))
		Expect(i.Inputs[1]).To(HaveField("Type", "bool[]"))
		Expect(i.Dims).To(Equal(map[string]int{"N": 1}))
		Expect(i.Unsupported).To(BeEmpty())
		Expect(r.stderr).To(ContainSubstring("taken as 1: N"))
	})

	It("opens no backend beside reference where that runs every operator", func(ctx SpecContext) {
		before := dearOpened.Load()
		succeeds(ctx, "inspect", save(ctx, branched()))
		Expect(dearOpened.Load()).To(Equal(before))

		g := newGraph()
		n := g.AddNode(graph.NodeSpec{Op: graph.Op{Domain: "com.example", Name: "Magic"}, Inputs: []*graph.Value{g.AddInput("x", f32(2))}, Outputs: []string{"y"}})
		g.Opsets["com.example"] = 1
		g.SetOutputs(n.Outputs[0])
		Expect(succeeds(ctx, "inspect", save(ctx, g)).stdout).To(MatchRegexp(`unsupported: com\.example\.Magic .*reference: `))
		Expect(dearOpened.Load()).To(Equal(before + 1))
	})

	It("does not call operators unsupported that others say", func(ctx SpecContext) {
		g := newGraph()
		g.Opsets["com.microsoft"] = 1
		x := g.AddInput("x", f32(2))
		b := g.AddNode(graph.NodeSpec{Op: graph.Op{Domain: "com.microsoft", Name: "BiasGelu"}, Inputs: []*graph.Value{x, x}, Outputs: []string{"b"}})
		g.SetOutputs(b.Outputs[0])
		r := succeeds(ctx, "inspect", save(ctx, g))
		Expect(r.stdout).To(ContainSubstring("com.microsoft.BiasGelu"))
		Expect(r.stdout).NotTo(ContainSubstring("unsupported"))
	})
})

// dearOpened counts how often the backend "dear" was asked for, which is nowhere available.
var dearOpened atomic.Int64

func init() {
	backend.Register("dear", func(backend.Config) (backend.Backend, error) {
		dearOpened.Add(1)
		return nil, fmt.Errorf("%w: it is dear", backend.ErrUnavailable)
	})
}

var _ = Describe("backends", func() {
	It("lists what is linked", func(ctx SpecContext) {
		r := succeeds(ctx, "backends")
		Expect(r.stdout).To(MatchRegexp(`(?m)^cpu +yes`))
		Expect(r.stdout).To(MatchRegexp(`(?m)^reference +yes`))
		var list []struct {
			Name      string
			Available bool
			Reason    string
		}
		r = succeeds(ctx, "backends", "--json", "--backend-option", "cpu.magic=1")
		Expect(json.Unmarshal([]byte(r.stdout), &list)).To(Succeed())
		Expect(list[0].Name).To(Equal("cpu"))
		Expect(list[0].Available).To(BeFalse())
		Expect(list[0].Reason).To(ContainSubstring("magic"))
		r = succeeds(ctx, "backends", "--backend-option", "cpu.magic=1")
		Expect(r.stdout).To(MatchRegexp(`(?m)^cpu +no`))
		Expect(r.stdout).To(MatchRegexp(`(?m)^cpu is not available: .*magic`))
		Expect(fails(ctx, "backends", "--backend-option", "gpu.x=1")).To(ContainSubstring("unknown backend"))
	})
})
