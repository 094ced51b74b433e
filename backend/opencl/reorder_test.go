package opencl_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/opencl"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/gpugroup/grouptest"
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
