package mkl_test

import (
	"context"
	"errors"
	"math"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/property"
)

var _ = Describe("A user's kernel", func() {
	const text = `
  input %x: f32[2,16,8,8]
  const %w = f32[16,16,3,3]{~}
  %c = Conv(%x, %w; pads=[1,1,1,1])
  %n = Neg(%c)
  %s = Sinh(%n)
  %y = Conv(%s, %w)
  output %y`

	// sinhNeg fuses Neg and Sinh, which is none of the library's, and computes sinh(-x) as -sinh(x) by way of a workspace.
	sinhNeg := func(calls *int, fail func() error) *property.Rule {
		r := property.RuleOf(property.NewPattern("sinh-neg", property.Sequence("Neg", "Sinh"), nil))
		r.Signatures = func(n *graph.Node) []graph.Signature {
			return []graph.Signature{graph.UniformSignature("row-major", n, graph.HostFormat)}
		}
		r.Kernel = func(*graph.Node, graph.Bindings) (property.Kernel, error) {
			return property.Kernel{Workspace: 64, Run: func(_ context.Context, a *property.KernelArgs) error {
				*calls++
				a.Workspace[63]++
				x, y := tensor.Of[float32](a.Inputs[0]), tensor.Of[float32](a.Outputs[0])
				a.Workers.Parallel(len(y), func(lo, hi int) {
					for i := lo; i < hi; i++ {
						y[i] = sinh(-x[i])
					}
				})
				return fail()
			}}, nil
		}
		return r
	}
	options := func(p property.SubgraphProperty) carve.Options {
		return carve.Options{Properties: map[string][]property.SubgraphProperty{"mkl": {p}}, Verify: true, Poison: true}
	}

	BeforeEach(func() { open("") }) // skips where there is no library

	It("runs in the library's group", func(ctx SpecContext) {
		g, calls := parse(text), 0
		p := program(ctx, g, options(sinhNeg(&calls, func() error { return nil })))
		want, err := program(ctx, g, carve.Options{}).Run(ctx, feeds(g))
		Expect(err).NotTo(HaveOccurred())
		for range 2 {
			got, err := p.Run(ctx, feeds(g))
			Expect(err).NotTo(HaveOccurred())
			for i, x := range tensor.Elements[float32](got["y"].(*tensor.Tensor)) {
				Expect(x).To(near(tensor.Elements[float32](want["y"].(*tensor.Tensor))[i]))
			}
		}
		Expect(calls).To(Equal(2))
		r, err := p.Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Groups).To(HaveLen(1))
		Expect(r.Groups[0].Backend).To(Equal("mkl"))
		Expect(r.Groups[0].Ops).To(ContainElement("sinh-neg"))
	})

	DescribeTable("that fails has its group fall back", func(ctx SpecContext, fail func() error) {
		g, calls := parse(text), 0
		p := program(ctx, g, options(sinhNeg(&calls, fail)))
		want, err := program(ctx, g, carve.Options{}).Run(ctx, feeds(g))
		Expect(err).NotTo(HaveOccurred())
		got, err := p.Run(ctx, feeds(g))
		Expect(err).NotTo(HaveOccurred())
		Expect(calls).To(Equal(1))
		for i, x := range tensor.Elements[float32](got["y"].(*tensor.Tensor)) {
			Expect(x).To(near(tensor.Elements[float32](want["y"].(*tensor.Tensor))[i]))
		}
	},
		Entry("with an error", func() error { return errors.New("no luck") }),
		Entry("with a panic", func() error { panic("a bug") }),
	)
})

// near matches what float32 sums in another order come to.
func near(want float32) gomegatypes.GomegaMatcher {
	return BeNumerically("~", want, 1e-4*max(1, math.Abs(float64(want))))
}

func sinh(x float32) float32 { return float32(math.Sinh(float64(x))) }
