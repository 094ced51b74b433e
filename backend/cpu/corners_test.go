package cpu_test

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/backendtest"
	"github.com/carve-dev/carve/internal/testshare"
)

// checkCorners runs so many cases of every operator with dims of 0 to 3, ranks of 0 to 6 and odd numbers.
func checkCorners(ctx context.Context, from, to int) {
	GinkgoHelper()
	ran, cases := map[string]int{}, 0
	for _, op := range backendtest.RandomOperators() {
		for seed := from; seed < to; seed++ {
			c, err := backendtest.RandomCorner(op, uint64(seed))
			if err != nil {
				continue // the reference kernels have something against it
			}
			cases++
			o := carve.Options{Placement: carve.Priority, Threads: 1 + seed%2, Backends: []backend.Config{{Name: "cpu"}}}
			Expect(c.Agree(ctx, o, ran)).To(Succeed(), "%v", c)
		}
	}
	Expect(cases).To(BeNumerically(">", (to-from)*len(backendtest.RandomOperators())*4/5))
}

var _ = Describe("operators on few elements or none, of all ranks, and on numbers that are none", func() {
	It("agree with the reference kernels", func(ctx SpecContext) {
		checkCorners(ctx, 0, testshare.Of(20))
	})

	It("agree with the reference kernels: thousands", Label("slow"), func(ctx SpecContext) {
		if !strings.Contains(GinkgoLabelFilter(), "slow") {
			Skip("takes minutes: -ginkgo.label-filter=slow")
		}
		checkCorners(ctx, 20, 1000)
	})
})
