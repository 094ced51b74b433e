package mkl_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"sync/atomic"
	"testing"

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
  const %w = f32[16,16,1,1]{~}
  %c = Conv(%x, %w)
  %n = Neg(%c)
  %s = Sinh(%n)
  %y = Conv(%s, %w)
  output %y, %s`

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
	// parted is sinhNeg with a kernel that counts into how many parts its work is divided.
	parted := func(parts *atomic.Int64) *property.Rule {
		calls := 0
		r := sinhNeg(&calls, nil)
		r.Kernel = func(*graph.Node, graph.Bindings) (property.Kernel, error) {
			var x, y []float32
			part := func(lo, hi int) {
				parts.Add(1)
				for i := lo; i < hi; i++ {
					y[i] = sinh(-x[i])
				}
			}
			return property.Kernel{Run: func(_ context.Context, a *property.KernelArgs) error {
				x, y = tensor.Of[float32](a.Inputs[0]), tensor.Of[float32](a.Outputs[0])
				a.Workers.Parallel(len(y), part)
				return nil
			}}, nil
		}
		return r
	}
	threaded := func(o carve.Options, threads int) carve.Options {
		o.Threads = threads
		return o
	}
	options := func(p property.SubgraphProperty) carve.Options {
		return carve.Options{Placement: carve.Priority, Properties: map[string][]property.SubgraphProperty{"mkl": {p}}, Verify: true, Poison: true}
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

	DescribeTable("has the run's threads, and the same results on all of them", func(ctx SpecContext, threads int) {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(threads, runtime.GOMAXPROCS(0))))
		g := parse(text)
		var parts atomic.Int64
		p := program(ctx, g, threaded(options(parted(&parts)), threads))
		got, err := p.Run(ctx, feeds(g))
		Expect(err).NotTo(HaveOccurred())
		if threads == 1 {
			Expect(parts.Load()).To(BeEquivalentTo(1))
		} else {
			Expect(parts.Load()).To(BeNumerically(">", 1))
		}
		parts.Store(0)
		want, err := program(ctx, g, threaded(options(parted(&parts)), 1)).Run(ctx, feeds(g))
		Expect(err).NotTo(HaveOccurred())
		Expect(tensor.Elements[float32](got["s"].(*tensor.Tensor))).To(Equal(tensor.Elements[float32](want["s"].(*tensor.Tensor))))
	},
		Entry("one", 1), Entry("two", 2), Entry("three", 3),
	)

	It("allocates nothing in a run after the first", func(ctx SpecContext) {
		g := parse(text)
		var parts atomic.Int64
		p := program(ctx, g, carve.Options{Threads: 2, Properties: options(parted(&parts)).Properties})
		var in, out []*tensor.Tensor
		for _, port := range p.Inputs() {
			in = append(in, feeds(g)[port.Name].(*tensor.Tensor))
		}
		first, err := p.Run(ctx, feeds(g))
		Expect(err).NotTo(HaveOccurred())
		for _, port := range p.Outputs() {
			t := first[port.Name].(*tensor.Tensor)
			out = append(out, tensor.From(make([]float32, t.Len()), t.Shape...))
		}
		Expect(p.RunInto(ctx, in, out)).To(Succeed())
		n := 1.0
		for try := 0; n > 0 && try < 3; try++ { // what earlier specs left behind may be cleaned up meanwhile
			n = testing.AllocsPerRun(5, func() { err = errors.Join(err, p.RunInto(ctx, in, out)) })
		}
		Expect(err).NotTo(HaveOccurred())
		Expect(n).To(BeZero())
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
