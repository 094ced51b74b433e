package pool_test

import (
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/pool"
)

var _ = Describe("Spread", func() {
	DescribeTable("covers every item once, without the pool", func(n, threads int) {
		var mu sync.Mutex
		seen := make([]int, n)
		Eventually(goroutines).Should(BeZero()) // those of the specs before end by themselves
		pool.Spread(n, threads, func(lo, hi int) {
			mu.Lock()
			defer mu.Unlock()
			Expect(lo).To(BeNumerically("<", hi))
			for i := lo; i < hi; i++ {
				seen[i]++
			}
		})
		Expect(seen).To(HaveEach(1))
		Expect(goroutines()).To(BeZero())
	},
		Entry("one item", 1, 4), Entry("fewer items than threads", 3, 8), Entry("a prime", 101, 3), Entry("many", 10_000, 2))

	It("does nothing for no items", func() {
		pool.Spread(0, 2, func(int, int) { Fail("called") })
	})

	It("panics where the function did, with what it said", func() {
		Expect(func() { pool.Spread(10, 2, func(int, int) { panic("broken part") }) }).To(PanicWith(MatchError(ContainSubstring("broken part"))))
	})
})
