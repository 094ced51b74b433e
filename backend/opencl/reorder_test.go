package opencl_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/opencl"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/gpugroup/grouptest"
	"github.com/carve-dev/carve/internal/gpukernel"
)

var _ = DescribeTable("conversions that copy and reorder make what the host's reorder makes", func(ctx SpecContext, off int, queued bool, dt tensor.DType, dims ...int) {
	b := open()
	x := grouptest.Reorders{Backend: b, Offset: off, DType: dt, Dims: dims}
	if queued {
		s, err := b.Devices()[0].NewStream()
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(s.Close)
		x.Stream = s
	}
	Expect(x.Compare(ctx)).To(Equal(10))
},
	Entry("at once", 0, false, tensor.Float32, 2, 19, 3, 5),
	Entry("on a stream", 16, true, tensor.Float32, 2, 19, 3, 5),
	Entry("of two bytes an element", 16, true, tensor.Float16, 3, 9, 2, 3),
	Entry("on a stream, of one spatial dim", 64, true, tensor.Float32, 2, 5, 7),
	Entry("where a tensor lies as kernels cannot read it", 4, true, tensor.Float32, 2, 19, 3, 5),
	Entry("of nothing", 0, false, tensor.Float32, 2, 0, 3, 5))

var _ = DescribeTable("conversions that cast as well make what the host's reorder and cast make",
	func(ctx SpecContext, reorder, precision string, off, many int, dims ...int) {
		b := openWith(map[string]string{"reorder": reorder, "precision": precision})
		s, err := b.Devices()[0].NewStream()
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(s.Close)
		x := grouptest.Reorders{Backend: b, Stream: s, Offset: off, DType: tensor.Float32, Dims: dims}
		Expect(x.Compare(ctx)).To(Equal(many))
	},
	Entry("of images", "device", "f16", 16, 50, 2, 19, 3, 5),
	Entry("of images, to bfloat16", "device", "bf16", 0, 50, 1, 20, 4, 5),
	Entry("of one spatial dim", "device", "f16", 0, 34, 2, 5, 7),
	Entry("of matrices", "device", "bf16", 0, 8, 17, 33),
	Entry("by the host alone", "host", "f16", 0, 22, 2, 19, 3, 5),
	Entry("where a tensor lies as kernels cannot read it", "device", "f16", 4, 50, 2, 19, 3, 5),
	Entry("of nothing", "device", "f16", 0, 50, 2, 0, 3, 5))

var _ = Describe("conversions that copy and reorder", func() {
	It("turn down an option that is neither", func() {
		_, err := opencl.Open(backend.Config{Name: "opencl", Options: map[string]string{"reorder": "both"}})
		Expect(err).To(MatchError(backend.ErrOption))
	})

	It("turn down tensors that are too small", func(ctx SpecContext) {
		b := open()
		host, here := grouptest.TooSmall(ctx, b)
		Expect(host).To(MatchError(tensor.ErrShape))
		Expect(here).To(MatchError(device.ErrBounds))
	})
})

var _ = DescribeTable("conversions of what is kept as elements of another type make what the host's reorder and cast make",
	func(ctx SpecContext, dt tensor.DType, kept gpukernel.Type, many int, dims ...int) {
		b := open()
		s, err := b.Devices()[0].NewStream()
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(s.Close)
		x := grouptest.Reorders{Backend: b, Stream: s, DType: dt, Kept: kept, Dims: dims}
		Expect(x.Compare(ctx)).To(Equal(many))
	},
	Entry("images of half precision as float32", tensor.Float16, gpukernel.F32, 14, 2, 19, 3, 5),
	Entry("matrices of int64 as float32", tensor.Int64, gpukernel.F32, 2, 17, 33),
	Entry("one spatial dim of bytes as float64", tensor.Uint8, gpukernel.F64, 14, 2, 5, 7),
	Entry("images of float32 as bfloat16", tensor.Float32, gpukernel.BF16, 14, 1, 20, 4, 5))
