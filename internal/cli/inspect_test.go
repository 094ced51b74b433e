package cli_test

import (
	"encoding/json"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
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
})

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
