package cuda_test

import (
	"context"
	"errors"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/cuda"
	"github.com/carve-dev/carve/internal/gpukernel/fakecuda"
	"github.com/carve-dev/carve/partition"
)

var _ = Describe("tuning", func() {
	// both is a model with a product and a convolution that cuBLASLt and cuDNN do as well as kernels.
	both := func() *carve.Model {
		GinkgoHelper()
		m := carve.FromGraph(weighted(`  input %x: f32[2,8,12,16]
  const %w = f32[16,8,3,3] fill 1
  const %v = f32[16,12] fill 1
  %c = Conv(%x, %w; pads=[1,1,1,1]) "c"
  %y = MatMul(%c, %v) "y"
  output %y`))
		DeferCleanup(m.Close)
		return m
	}
	options := func(fake *fakecuda.Driver, cache string) *carve.Options {
		return &carve.Options{Backends: []backend.Config{config(fake, "libraries", "model", "cublas", fake.CUBLAS, "cudnn", fake.CUDNN)}, Placement: carve.Measured,
			Cache: cache, Threads: 1, Pins: []partition.Pin{{Node: "c", Backend: "cuda"}, {Node: "y", Backend: "cuda"}}}
	}
	tune := func(ctx context.Context, fake *fakecuda.Driver, cache string) (*carve.Tuning, error) {
		return carve.Tune(ctx, both(), &carve.TuneOptions{Options: options(fake, cache), Time: time.Minute})
	}
	// libraries are those that a model compiled by what was measured uses, sorted.
	libraries := func(ctx context.Context, fake *fakecuda.Driver, cache string) []string {
		GinkgoHelper()
		p, err := carve.Compile(ctx, both(), options(fake, cache))
		Expect(err).NotTo(HaveOccurred())
		defer p.Close()
		r, err := p.Report(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		list := []string{}
		for _, g := range r.Groups {
			Expect(g.Backend).To(Equal("cuda"))
			list = append(list, g.Libraries...)
		}
		slices.Sort(list)
		return slices.Compact(list)
	}

	DescribeTable("measures libraries beside kernels, and keeps the choice", func(ctx SpecContext, slow string, want OmegaMatcher) {
		fake := driver()
		fake.Set(slow, 20000)
		cache := GinkgoT().TempDir()
		t, err := tune(ctx, fake, cache)
		Expect(err).NotTo(HaveOccurred())
		Expect(t.Known).To(BeFalse())
		Expect(t.Measured).To(BeNumerically(">", 0))
		chosen := libraries(ctx, fake, cache)
		Expect(chosen).To(want)
		fake.Set(slow, 0)
		Expect(libraries(ctx, fake, cache)).To(Equal(chosen), "later compilations choose by what was measured")
		if t, err = tune(ctx, fake, cache); err != nil {
			Fail(err.Error())
		}
		Expect(t.Known).To(BeTrue())
	},
		Entry("where libraries are faster", "slow_us", Equal([]string{"cuBLASLt", "cuDNN"})),
		Entry("where kernels are", "slow_library_us", BeEmpty()),
	)

	It("leaves out a library that fails, and leaves nothing behind", func(ctx SpecContext) {
		for _, function := range []string{"cublasLtMatmul", "cublasLtMatmulAlgoGetHeuristic", "cudnnConvolutionForward", "cudnnGetConvolutionForwardWorkspaceSize"} {
			fake := driver()
			fake.Set("slow_us", 1000)
			cache := GinkgoT().TempDir()
			fake.FailIn(function)
			fake.Set("fail_every", 1)
			_, err := tune(ctx, fake, cache)
			calls := fake.Count(function)
			fake.Set("fail_every", 0)
			fake.FailIn("")
			Expect(calls).To(BeNumerically(">", 0), function)
			var e *cuda.Error
			Expect(err == nil || errors.Is(err, cuda.ErrLibrary) || errors.As(err, &e)).To(BeTrue(), "%s: %v", function, err)
			GinkgoWriter.Printf("%s: %v\n", function, err)
			Eventually(fake.Live).Should(BeEmpty(), function)
			Expect(fake.Report()).To(BeEmpty(), function)
		}
	})
})
