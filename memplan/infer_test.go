package memplan_test

import (
	"math/rand/v2"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/memplan"
)

// coarse returns buffers that fill an arena of 128 over 50 units of time
// without gaps, cut so that many sizes and lifetimes are equal.
func coarse(n int, seed uint64) []memplan.Buffer {
	r := rand.New(rand.NewPCG(seed, 6))
	bufs := []memplan.Buffer{buf(128, 0, 50)}
	for len(bufs) < n {
		b := &bufs[r.IntN(len(bufs))]
		if other := &bufs[r.IntN(len(bufs))]; other.Size*(other.Upper-other.Lower) > b.Size*(b.Upper-b.Lower) {
			b = other
		}
		rest := *b
		switch life := b.Upper - b.Lower; {
		case life > 1 && r.IntN(5) < 3:
			b.Upper = b.Lower + 1 + r.Int64N(life-1)
			rest.Lower = b.Upper
		case b.Size > 1:
			b.Size = 1 + r.Int64N(b.Size-1)
			rest.Size -= b.Size
		default:
			continue
		}
		bufs = append(bufs, rest)
	}
	r.Shuffle(len(bufs), func(i, j int) { bufs[i], bufs[j] = bufs[j], bufs[i] })
	return bufs
}

var _ = Describe("space without slack", func() {
	DescribeTable("is filled in few steps, alike with any number of threads", func(ctx SpecContext, seed uint64) {
		bufs := coarse(200, seed)
		var plans []memplan.Plan
		for _, threads := range []int{1, 2, 5} {
			plan, err := memplan.Pack(ctx, bufs, &memplan.Options{Capacity: 128, Steps: 1 << 14, Threads: threads})
			Expect(err).NotTo(HaveOccurred())
			Expect(memplan.Verify(bufs, plan.Offsets, 128)).To(Succeed())
			plans = append(plans, plan)
		}
		Expect(plans[1]).To(BeComparableTo(plans[0]))
		Expect(plans[2]).To(BeComparableTo(plans[0]))
	},
		Entry("after no restart", uint64(6)),
		Entry("after one", uint64(0)),
		Entry("after several", uint64(1)),
	)
})
