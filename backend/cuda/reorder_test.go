package cuda_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/cuda"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/gpugroup/grouptest"
	"github.com/carve-dev/carve/internal/gpukernel"
)

var _ = DescribeTable("conversions that copy and reorder make what the host's reorder makes", func(ctx SpecContext, off int, queued bool, kernels int, dt tensor.DType, dims ...int) {
	fake := driver()
	b := open(fake)
	x := grouptest.Reorders{Backend: b, Offset: off, DType: dt, Dims: dims}
	if queued {
		s, err := b.Devices()[0].NewStream()
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(s.Close)
		x.Stream = s
	}
	Expect(x.Compare(ctx)).To(Equal(10))
	Expect(fake.Count("kernels")).To(Equal(kernels))
},
	Entry("at once", 0, false, 10, tensor.Float32, 2, 19, 3, 5),
	Entry("on a stream", 16, true, 10, tensor.Float32, 2, 19, 3, 5),
	Entry("of two bytes an element", 16, true, 10, tensor.Float16, 3, 9, 2, 3),
	Entry("on a stream, of one spatial dim", 64, true, 10, tensor.Float32, 2, 5, 7),
	Entry("where a tensor lies as kernels cannot read it", 4, true, 0, tensor.Float32, 2, 19, 3, 5),
	Entry("of nothing", 0, false, 0, tensor.Float32, 2, 0, 3, 5))

var _ = DescribeTable("conversions that cast as well make what the host's reorder and cast make", func(ctx SpecContext, precision string, many, kernels int, dims ...int) {
	fake := driver()
	b, err := cuda.Open(config(fake, "precision", precision))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(b.Close)
	x := grouptest.Reorders{Backend: b, DType: tensor.Float32, Dims: dims}
	Expect(x.Compare(ctx)).To(Equal(many))
	Expect(fake.Count("kernels")).To(Equal(kernels))
},
	Entry("of images, to half precision", "f16", 50, 26, 2, 19, 3, 5),
	Entry("of matrices, to bfloat16", "bf16", 8, 3, 17, 33),
	Entry("to none where products are exact", "f32", 10, 10, 2, 19, 3, 5))

var _ = Describe("conversions that copy and reorder", func() {
	It("turn down an option that is neither", func() {
		_, err := cuda.Open(config(driver(), "reorder", "both"))
		Expect(err).To(MatchError(backend.ErrOption))
	})

	It("turn down tensors that are too small", func(ctx SpecContext) {
		b := open(driver())
		host, here := grouptest.TooSmall(ctx, b)
		Expect(host).To(MatchError(tensor.ErrShape))
		Expect(here).To(MatchError(device.ErrBounds))
	})
})

var _ = DescribeTable("conversions of what is kept as elements of another type make what the host's reorder and cast make",
	func(ctx SpecContext, dt tensor.DType, kept gpukernel.Type, many int, dims ...int) {
		fake := driver()
		x := grouptest.Reorders{Backend: open(fake), DType: dt, Kept: kept, Dims: dims}
		Expect(x.Compare(ctx)).To(Equal(many))
		Expect(fake.Count("kernels")).To(Equal(many))
	},
	Entry("images of half precision as float32", tensor.Float16, gpukernel.F32, 14, 2, 19, 3, 5),
	Entry("images of uint64 as float32", tensor.Uint64, gpukernel.F32, 14, 1, 5, 7, 3),
	Entry("one spatial dim of float64 as float32", tensor.Float64, gpukernel.F32, 14, 2, 5, 7),
	Entry("matrices of float32 as half precision", tensor.Float32, gpukernel.F16, 2, 17, 33))
