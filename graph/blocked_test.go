package graph_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
)

var _ = DescribeTable("Layout.IsBlocked tells whether dims are split", func(layout string, want bool) {
	l, err := graph.ParseLayout(layout)
	Expect(err).NotTo(HaveOccurred())
	Expect(l.IsBlocked()).To(Equal(want))
},
	Entry("of no dim", "row-major", false),
	Entry("of dims in another order", "NHWC", false),
	Entry("of one dim", "NCHW16c", true),
	Entry("of one dim twice", "ABcd16b16a", true),
	Entry("of a layout that is not described", "npu@v16:tile8", false),
)
