package plugin_test

import (
	"context"
	"runtime"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/plugin"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

var _ = Describe("a plugin in use by many", func() {
	It("runs beside another one in 64 goroutines, 100 times each", func(ctx SpecContext) {
		g, err := graph.Parse("graph {\n  opset 17\n  input %x: f32[2,3]\n  %a = Relu(%x)\n  %y = Tanh(%a)\n  output %y\n}")
		Expect(err).NotTo(HaveOccurred())
		m := carve.FromGraph(g)
		defer m.Close()
		p, err := carve.Compile(ctx, m, &carve.Options{Strict: true, MaxSessions: 8,
			Backends: []backend.Config{{Name: "odd"}, {Name: "tiny-npu"}},
			Plugins:  []string{build(GinkgoTB(), "testdata/odd.c", "-DODD=RIGHT"), build(GinkgoTB(), "testdata/full.c")}})
		Expect(err).NotTo(HaveOccurred())
		defer func() { Expect(p.Close()).To(Succeed()) }()
		run := func(ctx context.Context, x float32) []float32 {
			out, err := p.Run(ctx, map[string]tensor.Value{"x": tensor.From([]float32{x, x, x, -x, -x, -x}, 2, 3)})
			Expect(err).NotTo(HaveOccurred())
			return tensor.Of[float32](out["y"].(*tensor.Tensor))
		}
		want := make([][]float32, 64)
		for i := range want {
			want[i] = run(ctx, float32(i)/64)
		}
		r, err := p.Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Groups).To(HaveExactElements(HaveField("Backend", "odd"), HaveField("Backend", "tiny-npu")))
		var wg sync.WaitGroup
		for i := range want {
			wg.Go(func() {
				defer GinkgoRecover()
				for range 100 {
					Expect(run(ctx, float32(i)/64)).To(Equal(want[i]))
				}
			})
		}
		wg.Wait()
	})

	It("is opened and closed 1,000 times, and leaves nothing", func() {
		l, err := plugin.Open(build(GinkgoTB(), "testdata/full.c"))
		Expect(err).NotTo(HaveOccurred())
		before := runtime.NumGoroutine()
		for range 1000 {
			b, err := l.Open("tiny-npu", nil)
			Expect(err).NotTo(HaveOccurred())
			d := b.Devices()[0]
			s, err := d.NewStream()
			Expect(err).NotTo(HaveOccurred())
			block, err := d.Alloc(64)
			Expect(err).NotTo(HaveOccurred())
			Expect(d.CopyTo(context.Background(), s, block, 0, make([]byte, 64))).To(Succeed())
			Expect(s.Close()).To(Succeed())
			d.Free(block)
			Expect(b.Close()).To(Succeed()) // it asks the plugin what is left
		}
		Eventually(runtime.NumGoroutine).Should(BeNumerically("<=", before))
	})
})
