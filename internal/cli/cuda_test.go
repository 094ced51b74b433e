//go:build !nonative

package cli_test

import (
	"errors"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/gpukernel/fakecuda"
)

var _ = Describe("cuda, over a driver of the tests' own", func() {
	It("is listed with device, memory, driver and compiler, and runs a model", func(ctx SpecContext) {
		d, err := fakecuda.Build(ctx, GinkgoT().TempDir(), fakecuda.Options{})
		if errors.Is(err, fakecuda.ErrNoCompiler) {
			Skip(err.Error())
		}
		Expect(err).NotTo(HaveOccurred())
		d.Set("devices", 2)
		options := []string{"--backend-option", "cuda.library=" + d.CUDA, "--backend-option", "cuda.nvrtc=" + d.NVRTC, "--backend-option", "cuda.cache=off"}
		Expect(succeeds(ctx, append([]string{"backends"}, options...)...).stdout).To(
			MatchRegexp(`(?m)^cuda +yes +driver of CUDA 12\.\d, NVRTC 12\.9 +Fake GPU 0, compute capability 8\.\d, \d+ multiprocessors +[\d.]+ [GM]iB .*\ncuda:1 +yes .* Fake GPU 1, .* [\d.]+ [GM]iB `))
		Expect(succeeds(ctx, "backends", "--backend-option", "cuda.library="+d.CUDA, "--backend-option", "cuda.nvrtc=off").stdout).To(
			MatchRegexp(`(?m)^cuda +yes +driver of CUDA 12\.\d, no NVRTC: kernels compiled beforehand, exact float32, element-wise operators interpreted +Fake GPU 0`))
		r := succeeds(ctx, append([]string{"run", save(ctx, affine()), "--backend", "cuda:1,cpu", "--placement", "priority", "--check"}, options...)...)
		Expect(r.stderr + r.stdout).NotTo(ContainSubstring("differ"))
		Expect(d.Count("kernels")).To(BeNumerically(">", 0))
		Expect(d.Report()).To(BeEmpty())
		Expect(d.Live()).To(BeEmpty())
	})

	It("is unavailable without a driver, and the list says so", func(ctx SpecContext) {
		Expect(succeeds(ctx, "backends", "--backend-option", "cuda.library=libdoes-not-exist.so.7").stdout).To(
			MatchRegexp(`(?m)^cuda is not available: no driver of CUDA: .*libdoes-not-exist`))
	})
})
