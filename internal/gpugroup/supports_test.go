package gpugroup_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/gpugroup"
	"github.com/carve-dev/carve/internal/gpukernel"
	"github.com/carve-dev/carve/property"
)

var _ = DescribeTable("a node on float64 is the device's where that has double precision, and its type the reason where not",
	func(node string) {
		g, err := graph.Parse("graph \"g\" {\n  opset 21\n  input %x: f64[1,4,6,6]\n  input %w: f64[4,4,6,6]\n  %y = " + node + "\n  output %y\n}\n")
		Expect(err).NotTo(HaveOccurred())
		Expect(graph.InferGraph(g)).To(Succeed())
		n := g.NodesByID()[0]
		d := &gpugroup.Device{ID: tensor.DeviceID{Type: 77}, Kernels: gpukernel.Generic(8, 32<<10)}
		without := d.Supports(n)
		Expect(without.Signatures).To(BeEmpty())
		Expect(without.Reason.Code).To(Equal(property.DTypeReason))
		d.Kernels.Double = true
		Expect(d.Supports(n).Signatures).NotTo(BeEmpty())
		d.Kernels.Prebuilt = true
		Expect(d.Supports(n).Reason.Code).To(Equal(property.DTypeReason))
	},
	Entry("an element-wise operator", "Exp(%x)"),
	Entry("a reduction", "ReduceMax(%x)"),
	Entry("a movement", "Transpose(%x)"),
	Entry("a comparison", "Greater(%x, %x)"),
	Entry("a cast", "Cast(%x; to=1)"),
	Entry("a product", "MatMul(%x, %w)"),
	Entry("a convolution", "Conv(%x, %w)"),
)
