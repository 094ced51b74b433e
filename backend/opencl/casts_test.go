package opencl_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend"
	_ "github.com/carve-dev/carve/backend/cpu"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/gpugroup/grouptest"
)

var _ = DescribeTable("a Cast beside a conversion is a part of it, and makes what the reference makes to the bit",
	func(ctx SpecContext, x grouptest.Cast, want ...string) {
		open()
		g, err := x.Graph()
		Expect(err).NotTo(HaveOccurred())
		p, err := compile(ctx, g, nil)
		Expect(err).NotTo(HaveOccurred())
		conversions, groups, err := x.Compare(ctx, p)
		Expect(err).NotTo(HaveOccurred())
		Expect(groups).To(Equal([]string{"opencl 2"}))
		Expect(conversions).To(Equal(want))
	},
	Entry("images of half precision", grouptest.Cast{From: tensor.Float16, To: tensor.Float32, Dims: []int{2, 19, 5, 3}},
		"x: host:NCHW → opencl:0:gpu@1:f32-acdb by upload-cast", "y: opencl:0:NHWC → host:NCHW by download-reorder"),
	Entry("volumes of bytes", grouptest.Cast{From: tensor.Uint8, To: tensor.Float32, Dims: []int{1, 7, 2, 3, 5}},
		"x: host:NCDHW → opencl:0:gpu@1:f32-acdeb by upload-cast", "y: opencl:0:NDHWC → host:NCDHW by download-reorder"),
	Entry("matrices of int64", grouptest.Cast{From: tensor.Int64, To: tensor.Float32, Dims: []int{13, 37}},
		"x: host:row-major → opencl:0:gpu@1:f32-row-major by upload-cast", "y: opencl:0:row-major → host:row-major by download"),
	Entry("one spatial dim, to double precision", grouptest.Cast{From: tensor.Float32, To: tensor.Float64, Dims: []int{2, 5, 11}},
		"x: host:NCW → opencl:0:gpu@1:f64-acb by upload-cast", "y: opencl:0:NWC → host:NCW by download-reorder"),
	Entry("images that become bfloat16", grouptest.Cast{From: tensor.Float32, To: tensor.BFloat16, Dims: []int{1, 23, 4, 3}, Behind: true},
		"x: host:NCHW → opencl:0:NHWC by upload-reorder", "y: opencl:0:gpu@1:f32-acdb → host:NCHW by download-cast"),
	Entry("matrices that become half precision", grouptest.Cast{From: tensor.Float32, To: tensor.Float16, Dims: []int{5, 35}, Behind: true},
		"x: host:row-major → opencl:0:row-major by upload", "y: opencl:0:gpu@1:f32-row-major → host:row-major by download-cast"),
)

var _ = It("conversions between blocks of channels on the host and what a device keeps in another type are one step", func(ctx SpecContext) {
	open()
	hops, err := grouptest.RunBetween(ctx, backend.Config{Name: "opencl"})
	Expect(err).NotTo(HaveOccurred())
	Expect(hops).To(Equal([]string{"x: host:NCHW → host:NCHW16c by host-reorder", "Op1: host:NCHW16c → opencl:0:gpu@1:f64-acdb by upload-cast",
		"Op4: opencl:0:gpu@1:f64-acdb → host:NCHW16c by download-cast", "Op5: host:NCHW16c → host:NCHW by host-reorder"}))
})

var _ = DescribeTable("a caller's image on the device is brought into the order that a group reads there",
	func(ctx SpecContext, offset, copied int) {
		b := open()
		copies, err := grouptest.CompareOnDevice(ctx, b, offset, func() int { return b.(interface{ Calls() map[string]int }).Calls()["clEnqueueWriteBuffer"] })
		Expect(err).NotTo(HaveOccurred())
		Expect(copies).To(Equal(copied), "from the host's memory")
	},
	Entry("by one kernel", 0, 0),
	Entry("by one kernel, where it lies behind something else", 64, 0),
	Entry("by way of the host, where kernels do not read", 4, 1),
)
