package opencl_test

import (
	"math/rand/v2"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/backendtest"
	"github.com/carve-dev/carve/backend/opencl"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/gpugroup/grouptest"
)

var _ = Describe("a queue out of order", func() {
	// loose is a device that has such queues.
	loose := func(options map[string]string) backend.Backend {
		GinkgoHelper()
		open()
		options["queue"] = "out-of-order"
		b, err := opencl.Open(backend.Config{Name: "opencl", Options: options})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(b.Close)
		if b.Info().Unmet != "" {
			Skip(b.Info().Unmet)
		}
		return b
	}

	DescribeTable("runs a group's branches to the same bits, run after run", func(ctx SpecContext, record string) {
		branches, err := graph.Parse(`graph {
  opset 24
  input %x: f32[40,40]
  %a = Softmax(%x)
  %b = MatMul(%x, %x)
  %c = MatMul(%a, %a)
  %d = MatMul(%b, %x)
  %e = MatMul(%c, %x)
  %f = Softmax(%d)
  %g = MatMul(%e, %f)
  %h = MatMul(%f, %e)
  %y = MatMul(%g, %h)
  output %y
}`)
		Expect(err).NotTo(HaveOccurred())
		compile := func(b backend.Backend) *carve.Program {
			g, err := branches.Clone()
			Expect(err).NotTo(HaveOccurred())
			m := carve.FromGraph(g)
			DeferCleanup(m.Close)
			p, err := carve.Compile(ctx, m, &carve.Options{Backends: []backend.Config{{Name: "opencl"}}, Open: map[string]backend.Backend{"opencl": b},
				Placement: carve.Priority, Strict: true, Poison: true})
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(p.Close)
			return p
		}
		together, apart := compile(loose(map[string]string{"record": record})), compile(open())
		for i := range uint64(8) {
			x := map[string]tensor.Value{"x": grouptest.Whole(rand.New(rand.NewPCG(5, i)), 3, 40, 40)}
			got, err := together.Run(ctx, x)
			Expect(err).NotTo(HaveOccurred())
			want, err := apart.Run(ctx, x)
			Expect(err).NotTo(HaveOccurred())
			Expect(got["y"].(*tensor.Tensor).Bytes()).To(Equal(want["y"].(*tensor.Tensor).Bytes()), "run %d", i)
		}
	},
		Entry("one by one", "off"),
		Entry("as command buffers", "on"))

	It("runs random graphs as the reference does", func(ctx SpecContext) {
		b := loose(map[string]string{})
		made := 0
		for seed := uint64(0); made < 20; seed++ {
			c, err := backendtest.RandomChain(seed)
			if err != nil {
				continue // the reference has something against it
			}
			made++
			Expect(c.Agree(ctx, carve.Options{Open: map[string]backend.Backend{"opencl": b}, Backends: []backend.Config{{Name: "opencl"}, {Name: "cpu"}},
				Placement: carve.Priority}, map[string]int{})).To(Succeed(), "seed %d", seed)
		}
	})

	It("is asked for by one of two words", func() {
		open()
		_, err := opencl.Open(backend.Config{Options: map[string]string{"queue": "any"}})
		Expect(err).To(MatchError(backend.ErrOption))
	})
})
