package opencl_test

import (
	"context"
	"math/rand/v2"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/opencl"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/gpugroup/grouptest"
)

var _ = Describe("a group's runs", func() {
	// chain is several kernels, each of which reads what the one before has written.
	chain := func() *graph.Graph {
		GinkgoHelper()
		g, err := graph.Parse(`graph {
  opset 24
  input %x: f32[7,7]
  %a = MatMul(%x, %x)
  %s = Softmax(%a)
  %b = MatMul(%s, %x)
  %y = MatMul(%b, %a)
  output %y
}`)
		Expect(err).NotTo(HaveOccurred())
		return g
	}
	program := func(ctx context.Context, b backend.Backend, options map[string]string) *carve.Program {
		GinkgoHelper()
		m := carve.FromGraph(chain())
		DeferCleanup(m.Close)
		o := &carve.Options{Backends: []backend.Config{{Name: "opencl", Options: options}}, Placement: carve.Priority, Strict: true}
		if options == nil {
			o.Open = map[string]backend.Backend{"opencl": b}
		}
		p, err := carve.Compile(ctx, m, o)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(p.Close)
		return p
	}
	agrees := func(ctx context.Context, p *carve.Program, i int) {
		GinkgoHelper()
		x := map[string]tensor.Value{"x": grouptest.Whole(rand.New(rand.NewPCG(5, uint64(i))), 3, 7, 7)}
		out, err := p.Run(ctx, x)
		Expect(err).NotTo(HaveOccurred())
		alone, err := carve.Compile(ctx, carve.FromGraph(chain()), &carve.Options{Backends: []backend.Config{{Name: "reference"}}})
		Expect(err).NotTo(HaveOccurred())
		defer alone.Close()
		want, err := alone.Run(ctx, x)
		Expect(err).NotTo(HaveOccurred())
		got, exact := tensor.Of[float32](out["y"].(*tensor.Tensor)), tensor.Of[float32](want["y"].(*tensor.Tensor))
		for k := range exact {
			Expect(got[k]).To(BeNumerically("~", exact[k], 1e-3), "run %d element %d", i, k)
		}
	}
	watch := func(b backend.Backend, f func() int32) {
		GinkgoHelper()
		restore, ok := opencl.WatchCommands(b, f)
		if !ok {
			Skip("the device has no command buffers")
		}
		DeferCleanup(restore)
	}

	It("are a command buffer from the second on", func(ctx SpecContext) {
		b := open()
		queued := 0
		watch(b, func() int32 { queued++; return 0 })
		p := program(ctx, b, nil)
		for i := range 6 {
			agrees(ctx, p, i)
		}
		Expect(queued).To(Equal(5))
	})

	It("are kernels one by one where the driver queues no command buffer, and where the option says so", func(ctx SpecContext) {
		b := open()
		asked := 0
		watch(b, func() int32 { asked++; return -59 })
		p := program(ctx, b, nil)
		for i := range 4 {
			agrees(ctx, p, i)
		}
		Expect(asked).To(Equal(1))
		p = program(ctx, b, map[string]string{"record": "off"})
		for i := range 4 {
			agrees(ctx, p, i)
		}
		Expect(asked).To(Equal(1))
	})

	It("turn down an option that is neither", func() {
		open()
		_, err := opencl.Open(backend.Config{Options: map[string]string{"record": "sometimes"}})
		Expect(err).To(MatchError(backend.ErrOption))
	})
})
