package convert_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
)

var _ = Describe("costs", func() {
	It("count bytes beyond the caches more, and grow with every byte", func() {
		c := convert.Cost{Fixed: 10, PerByte: 1, Far: 2}
		Expect(c.Of(0)).To(Equal(10.0))
		Expect(c.Of(convert.FarBytes)).To(Equal(10.0 + convert.FarBytes))
		Expect(c.Of(convert.FarBytes + 5)).To(Equal(10.0 + convert.FarBytes + 5*3))
	})

	It("of reorders depend on what they do", func() {
		formats := []graph.Format{graph.HostFormat, graph.On(graph.NHWC), graph.On(graph.NCHW16c)}
		r, err := convert.NewRegistry(nil, formats...)
		Expect(err).NotTo(HaveOccurred())
		host, last, blocked := formats[0], formats[1], formats[2]
		for _, bytes := range []int64{1 << 16, 1 << 20, 64 << 20} {
			Expect(r.Cost(host, blocked, bytes)).To(Equal(r.Cost(blocked, host, bytes)))
			Expect(r.Cost(last, blocked, bytes)).To(BeNumerically("<", r.Cost(host, blocked, bytes)))
			Expect(r.Cost(host, last, bytes)).To(BeNumerically(">", r.Cost(host, blocked, bytes)))
		}
		Expect(r.Cost(host, blocked, 1<<20)).To(Equal(convert.HostCost.Of(1 << 20)))
	})
})
