package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/onnx"
	"github.com/carve-dev/carve/graph/tensor"
)

// overridable is y = x + w, whose initializer w is an input as well.
func overridable(ctx SpecContext) string {
	GinkgoHelper()
	g := newGraph()
	x, w := g.AddInput("x", f32(2)), g.AddInput("w", f32(2))
	g.SetOutputs(add(g, "Add", "add", "y", []*graph.Value{x, w}))
	path := filepath.Join(GinkgoT().TempDir(), "model.onnx")
	Expect(onnx.Save(ctx, path, &onnx.Model{Graph: g, IRVersion: 8,
		Defaults: map[string]*tensor.Tensor{"w": tensor.From([]float32{5, 7})}}, nil)).To(Succeed())
	return path
}

var _ = Describe("an initializer that is an input", func() {
	var model, x string
	BeforeEach(func(ctx SpecContext) {
		model, x = overridable(ctx), "x="+writeNPY(tensor.From([]float32{1, 2}))
	})
	y := func(ctx SpecContext, args ...string) *tensor.Tensor {
		GinkgoHelper()
		dir := GinkgoT().TempDir()
		succeeds(ctx, append([]string{"run", model, "--output", dir, "--input", x}, args...)...)
		t, err := tensor.ReadNPYFile(filepath.Join(dir, "y.npy"))
		Expect(err).NotTo(HaveOccurred())
		return t
	}

	It("has its own data, unless --input gives other", func(ctx SpecContext) {
		w := "w=" + writeNPY(tensor.From([]float32{10, 20}))
		Expect(tensor.Of[float32](y(ctx))).To(Equal([]float32{6, 9}))
		Expect(tensor.Of[float32](y(ctx, "--override", "w"))).To(Equal([]float32{6, 9}))
		Expect(tensor.Of[float32](y(ctx, "--input", w))).To(Equal([]float32{11, 22}))
		Expect(tensor.Of[float32](y(ctx, "--input", w, "--override", "w", "--check"))).To(Equal([]float32{11, 22}))
		succeeds(ctx, "bench", model, "--time", "0", "--override", "w", "--json")
	})

	It("is no input of the plan, unless --override names it", func(ctx SpecContext) {
		inputs := func(args ...string) (names, over []string) {
			var i struct {
				Inputs      []struct{ Name string }
				Overridable []string
			}
			Expect(json.Unmarshal([]byte(succeeds(ctx, append([]string{"inspect", model, "--json"}, args...)...).stdout), &i)).To(Succeed())
			for _, in := range i.Inputs {
				names = append(names, in.Name)
			}
			return names, i.Overridable
		}
		names, over := inputs()
		Expect(names).To(Equal([]string{"x"}))
		Expect(over).To(Equal([]string{"w"}))
		names, _ = inputs("--override", "w")
		Expect(names).To(Equal([]string{"x", "w"}))
		Expect(succeeds(ctx, "inspect", model).stdout).To(MatchRegexp(`(?m)^overridable +1 initializer +w$`))
		succeeds(ctx, "partition", model, "--override", "w")
	})

	It("is the only one to override", func(ctx SpecContext) {
		Expect(fails(ctx, "run", model, "--override", "x")).To(ContainSubstring(`value x: not an initializer`))
		Expect(fails(ctx, "partition", save(ctx, affine()), "--override", "w")).To(ContainSubstring(`value w: not an initializer`))
		Expect(fails(ctx, "run", model, "--input", "z="+os.DevNull)).To(ContainSubstring("no input"))
	})
})
