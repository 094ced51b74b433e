package cuda_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/cuda"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/property"
)

// alone makes each node of its backend a group of its own.
type alone struct{}

func (alone) Name() string                               { return "alone" }
func (alone) Kind() property.Kind                        { return property.Bounding }
func (alone) NewSelector(*graph.Graph) property.Selector { return aloneSelector{} }

type aloneSelector struct{}

func (aloneSelector) Select(*graph.Node) bool                 { return true }
func (aloneSelector) SelectInput(_, _ *graph.Node) bool       { return false }
func (aloneSelector) SelectOutput(_, _ *graph.Node) bool      { return false }
func (aloneSelector) Filter(list []*graph.Node) []*graph.Node { return list }
func (aloneSelector) Reset()                                  {}

// hosted is a property of cpu that runs Exp by a kernel of the spec's, which copies.
type hosted struct{ during func() }

func (hosted) Name() string                               { return "hosted" }
func (hosted) NewSelector(*graph.Graph) property.Selector { return hostedSelector{} }

type hostedSelector struct{ aloneSelector }

func (hostedSelector) Select(n *graph.Node) bool { return n.Is("Exp") }

func (hosted) Signatures(n *graph.Node) []graph.Signature {
	return []graph.Signature{{Inputs: make([]graph.Port, len(n.Inputs)), Outputs: make([]graph.Port, 1)}}
}

func (h hosted) Kernel(*graph.Node, graph.Bindings) (backend.Kernel, error) {
	return backend.Kernel{Run: func(_ context.Context, a *backend.KernelArgs) error {
		h.during()
		copy(a.Outputs[0].Bytes(), a.Inputs[0].Bytes())
		return nil
	}}, nil
}

var _ = Describe("the device works by itself", func() {
	// branches runs Relu on the device and Exp, which depends on nothing of it, on the host, and their sum.
	branches := func(ctx context.Context, settings map[string]int, during func()) {
		GinkgoHelper()
		fake := driver()
		g, err := graph.Parse(`graph {
  opset 17
  input %x: f32[64,64]
  %a = Relu(%x)
  %b = Exp(%x)
  %c = Add(%a, %b)
  output %c
}`)
		Expect(err).NotTo(HaveOccurred())
		b, err := cuda.Open(config(fake))
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(b.Close)
		m := carve.FromGraph(g)
		DeferCleanup(m.Close)
		p, err := carve.Compile(ctx, m, &carve.Options{
			Open: map[string]backend.Backend{"cuda": b}, Backends: []backend.Config{{Name: "cuda"}, {Name: "cpu"}}, Placement: carve.Priority,
			Pins:       []property.Pin{{Op: "Exp", Backend: "cpu"}, {Op: "Add", Backend: "cpu"}},
			Properties: map[string][]property.SubgraphProperty{"cpu": {hosted{during}, alone{}}}, Strict: true,
		})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(p.Close)
		for name, v := range settings {
			fake.Set(name, v)
		}
		x := whole(rand.New(rand.NewPCG(1, 1)), 3, 64, 64)
		out, err := p.Run(ctx, map[string]tensor.Value{"x": x})
		Expect(err).NotTo(HaveOccurred())
		got := tensor.Of[float32](out["c"].(*tensor.Tensor))
		for i, v := range tensor.Of[float32](x) {
			Expect(got[i]).To(Equal(v + max(v, 0)))
		}
	}

	It("while the host does its groups, for which nobody waits: a kernel of 5 ms is queued and has not run", func(ctx SpecContext) {
		var launched, ran atomic.Int64
		branches(ctx, map[string]int{"early": 0, "slow_us": 5000}, func() {
			d, err := shared()
			Expect(err).NotTo(HaveOccurred())
			launched.Store(int64(d.Count("cuLaunchKernel")))
			ran.Store(int64(d.Count("executed")))
		})
		Expect([]int64{launched.Load(), ran.Load()}).To(Equal([]int64{1, 0}))
	})

	It("and is done with its kernel of 5 ms while the host is at work yet", func(ctx SpecContext) {
		var ran atomic.Int64
		branches(ctx, map[string]int{"worker": 1, "slow_us": 5000}, func() {
			d, err := shared()
			Expect(err).NotTo(HaveOccurred())
			for end := time.Now().Add(time.Minute); d.Count("kernels") == 0 && time.Now().Before(end); {
				time.Sleep(time.Millisecond)
			}
			ran.Store(int64(d.Count("kernels")))
		})
		Expect(ran.Load()).To(Equal(int64(1)))
	})

	It("for a chain of a hundred groups, for which the host waits once", func(ctx SpecContext) {
		fake := driver()
		var text strings.Builder
		text.WriteString("graph {\n  opset 17\n  input %v0: f32[4,8]\n")
		for i := range 100 {
			fmt.Fprintf(&text, "  %%v%d = Sigmoid(%%v%d)\n", i+1, i)
		}
		text.WriteString("  output %v100\n}")
		g, err := graph.Parse(text.String())
		Expect(err).NotTo(HaveOccurred())
		p := program(ctx, fake, g, carve.Options{Properties: map[string][]property.SubgraphProperty{"cuda": {alone{}}}})
		r, err := p.Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Groups).To(HaveLen(100))
		in := map[string]tensor.Value{"v0": whole(rand.New(rand.NewPCG(1, 1)), 3, 4, 8)}
		_, err = p.Run(ctx, in)
		Expect(err).NotTo(HaveOccurred())
		for seed := range 5 {
			fake.Reset()
			fake.Set("early", 0)
			fake.Set("seed", seed)
			out, err := p.Run(ctx, in)
			Expect(err).NotTo(HaveOccurred())
			Expect(fake.Count("cuLaunchKernel")).To(Equal(100))
			Expect(fake.Count("early")).To(BeZero(), "nothing had run when the last command was queued")
			Expect(fake.Count("cuEventSynchronize") + fake.Count("cuStreamSynchronize")).To(BeNumerically("<=", 1))
			v := tensor.Of[float32](out["v100"].(*tensor.Tensor))
			Expect(v).To(HaveEach(BeNumerically("~", 0.659046, 1e-5)), "where Sigmoid of x is x")
		}
	})
})
