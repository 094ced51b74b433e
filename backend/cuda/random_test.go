package cuda_test

import (
	"fmt"
	"maps"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/backendtest"
	"github.com/carve-dev/carve/backend/cuda"
)

// The streams' order, and how much runs before anybody waits, are different for each graph.
var _ = DescribeTable("random graphs agree with the reference, and leave nothing behind", func(ctx SpecContext, from, to uint64) {
	fake := driver()
	ran, made := map[string]int{}, 0
	for seed := from; seed < to; seed++ {
		c, err := backendtest.RandomChain(seed)
		if ops := backendtest.RandomOperators(); seed%2 == 1 {
			c, err = backendtest.RandomOperator(ops[seed/2%uint64(len(ops))], seed)
		}
		if err != nil {
			continue // the reference has something against it
		}
		made++
		fake.Set("seed", int(seed))
		fake.Set("early", int(seed%5*25))
		b, err := cuda.Open(config(fake))
		Expect(err).NotTo(HaveOccurred())
		o := carve.Options{Open: map[string]backend.Backend{"cuda": b}, Backends: []backend.Config{{Name: "cuda"}, {Name: "cpu"}}, Placement: carve.Priority,
			Streams: int(seed % 3)}
		Expect(c.Agree(ctx, o, ran)).To(Succeed(), "%v\n%v", c, fake.Report())
		Expect(b.Close()).To(Succeed())
		Eventually(fake.Live).Should(BeEmpty(), "%v", c)
		Expect(fake.Report()).To(BeEmpty(), "%v", c)
	}
	fmt.Fprintf(GinkgoWriter, "%d graphs, %d kernels; on the device: %v\n", made, fake.Count("kernels"), slices.Sorted(maps.Keys(ran)))
	Expect(made).To(BeNumerically(">", (to-from)*8/10))
	Expect(len(ran)).To(BeNumerically(">", 10))
},
	Entry("a hundred", uint64(0), uint64(100)),
	Entry("the first thousand", Label("random"), uint64(100), uint64(1100)),
	Entry("the second thousand", Label("random"), uint64(1100), uint64(2100)),
	Entry("the third thousand", Label("random"), uint64(2100), uint64(3100)),
	Entry("the fourth thousand", Label("random"), uint64(3100), uint64(4100)),
	Entry("the fifth thousand", Label("random"), uint64(4100), uint64(5100)),
)
