package nvidia_test

import (
	"flag"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/dl"
	"github.com/carve-dev/carve/internal/gpukernel"
	"github.com/carve-dev/carve/internal/gpukernel/nvidia"
)

var (
	blasPath = flag.String("cublas", "", "path of NVIDIA's libcublasLt; empty: the loader searches")
	dnnPath  = flag.String("cudnn", "", "path of NVIDIA's libcudnn; empty: the loader searches")
)

// Calls over a device are tried with the libraries of package fakecuda, by the specs of backend/cuda.
var _ = Describe("the libraries of NVIDIA's", func() {
	It("are not there", func() {
		_, err := nvidia.OpenBLAS("/nowhere/libcublasLt.so", 13000)
		Expect(err).To(SatisfyAny(MatchError(dl.ErrOpen), MatchError(dl.ErrUnsupported)))
		_, err = nvidia.OpenDNN("/nowhere/libcudnn.so")
		Expect(err).To(SatisfyAny(MatchError(dl.ErrOpen), MatchError(dl.ErrUnsupported)))
	})

	steps := []gpukernel.Step{{Op: gpukernel.AddColumn, Operand: gpukernel.F32}, {Op: gpukernel.AddMatrix, Operand: gpukernel.F32}, {Op: gpukernel.Relu}}

	It("take descriptors of products", func() {
		b, err := nvidia.OpenBLAS(*blasPath, 12040)
		if err != nil {
			Skip("cuBLASLt is not found: " + err.Error())
		}
		GinkgoWriter.Println("cuBLASLt", b)
		m := func(n int) gpukernel.Matrix { return gpukernel.Matrix{Type: gpukernel.F32, Stride: n, Batch1: 16 * n} }
		for _, p := range []gpukernel.Precision{gpukernel.Exact, gpukernel.TF32, gpukernel.RoundedF16, gpukernel.RoundedBF16} {
			Expect(b.Describe(gpukernel.ProductShape{M: 16, N: 24, K: 32, Batch1: 3, A: m(32), B: m(48), C: m(24), Precision: p, Finish: steps})).To(Succeed())
		}
	})

	It("take descriptors of convolutions", func() {
		d, err := nvidia.OpenDNN(*dnnPath)
		if err != nil {
			Skip("cuDNN is not found: " + err.Error())
		}
		GinkgoWriter.Println("cuDNN", d)
		s := gpukernel.ConvShape{N: 2, H: 9, W: 8, C: 6, Filters: 4, KernelH: 3, KernelW: 3, PadTop: 1, PadLeft: 1, PadBottom: 1, PadRight: 1, Groups: 2,
			Type: gpukernel.F32, Result: gpukernel.F32, Finish: steps}
		Expect(d.Describe(s)).To(Succeed())
		s.Depth = gpukernel.Depth{In: 5, Kernel: 2, Front: 1, Back: 1}
		Expect(d.Describe(s)).To(Succeed())
	})
})
