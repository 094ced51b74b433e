package memplan_test

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/memplan"
)

// brute returns the least height of any plan. Some order of placing every
// buffer as low as the ones before it allow leads there. It knows nothing of
// sharing.
func brute(bufs []memplan.Buffer) int64 {
	bufs = slices.Clone(bufs)
	best := int64(math.MaxInt64)
	offsets := make([]int64, len(bufs))
	placed := make([]bool, len(bufs))
	height := int64(0)
	for i, b := range bufs {
		if !together(b, b) {
			placed[i], bufs[i].Size = true, 0
		} else if b.Fixed {
			placed[i], offsets[i] = true, b.Offset
			height = max(height, b.Offset+b.Size)
		}
	}
	var try func(height int64)
	try = func(height int64) {
		if height >= best {
			return
		}
		done := true
		for i := range bufs {
			if placed[i] {
				continue
			}
			done = false
			offsets[i] = lowest(bufs, offsets, placed, i)
			placed[i] = true
			try(max(height, offsets[i]+bufs[i].Size))
			placed[i] = false
		}
		if done {
			best = height
		}
	}
	try(height)
	return best
}

// lowest returns the lowest offset for buffer i among those placed.
func lowest(bufs []memplan.Buffer, offsets []int64, placed []bool, i int) int64 {
	align := max(bufs[i].Align, 1)
	off := int64(0)
	for moved := true; moved; {
		moved = false
		for j := range bufs {
			if !placed[j] || !together(bufs[i], bufs[j]) {
				continue
			}
			if off < offsets[j]+bufs[j].Size && offsets[j] < off+bufs[i].Size {
				off = (offsets[j] + bufs[j].Size + align - 1) / align * align
				moved = true
			}
		}
	}
	return off
}

// together reports whether two buffers take space at one time.
func together(a, b memplan.Buffer) bool {
	for t := max(a.Lower, b.Lower); t < min(a.Upper, b.Upper); t++ {
		if taken(a, t) && taken(b, t) {
			return true
		}
	}
	return false
}

func taken(b memplan.Buffer, t int64) bool {
	for _, g := range b.Gaps {
		if g.Lower <= t && t < g.Upper {
			return false
		}
	}
	return b.Lower <= t && t < b.Upper
}

// bruteProperties is the number of specs in againstBruteForce.
const bruteProperties = 7

// againstBruteForce checks that many random instances of at most seven buffers, drawn from seed.
func againstBruteForce(instances int, seed uint64) {
	each := (instances + bruteProperties - 1) / bruteProperties
	DescribeTable("the least height", func(ctx SpecContext, property uint64, change func(*rand.Rand, *memplan.Buffer)) {
		r := rand.New(rand.NewPCG(property, seed))
		for range each {
			bufs := randomBuffers(r, 1+r.IntN(7), 12, 8)
			for i := range bufs {
				change(r, &bufs[i])
			}
			plan, err := memplan.Pack(ctx, bufs, &memplan.Options{Steps: 1 << 20, Threads: 1 + r.IntN(2)})
			Expect(err).NotTo(HaveOccurred())
			Expect(memplan.Verify(bufs, plan.Offsets, plan.Height)).To(Succeed())
			Expect(plan.Optimal).To(BeTrue(), "%v", bufs)
			Expect(plan.Height).To(Equal(brute(bufs)), "%v", bufs)
			Expect(plan.LowerBound).To(Equal(plan.Height))
		}
	},
		Entry("of plain buffers", uint64(1), func(*rand.Rand, *memplan.Buffer) {}),
		Entry("of buffers aligned alike", uint64(2), func(_ *rand.Rand, b *memplan.Buffer) { b.Align = 4 }),
		Entry("of buffers with mixed alignment", uint64(3), func(r *rand.Rand, b *memplan.Buffer) { b.Align = 1 << r.IntN(4) }),
		Entry("of equal buffers", uint64(4), func(r *rand.Rand, b *memplan.Buffer) { b.Size = 2 + 3*r.Int64N(2) }),
		Entry("of short-lived buffers", uint64(5), func(r *rand.Rand, b *memplan.Buffer) { b.Upper = min(b.Upper, b.Lower+1+r.Int64N(3)) }),
	)

	It("agrees on what fits and what does not", func(ctx SpecContext) {
		r := rand.New(rand.NewPCG(6, seed))
		for range each {
			bufs := randomBuffers(r, 1+r.IntN(7), 12, 8)
			if r.IntN(2) == 0 {
				for i := range bufs {
					bufs[i].Align = 1 << r.IntN(3)
				}
			}
			least := brute(bufs)
			capacity := max(1, least-2+r.Int64N(4))
			plan, err := memplan.Pack(ctx, bufs, &memplan.Options{Capacity: capacity})
			if capacity < least {
				Expect(err).To(MatchError(memplan.ErrInfeasible), "%v in %d", bufs, capacity)
				Expect(plan.LowerBound).To(BeNumerically(">", capacity))
				continue
			}
			Expect(err).NotTo(HaveOccurred(), "%v in %d", bufs, capacity)
			Expect(memplan.Verify(bufs, plan.Offsets, capacity)).To(Succeed())
		}
	})

	It("stays between the bound and the truth with gaps and fixed offsets", func(ctx SpecContext) {
		r := rand.New(rand.NewPCG(8, seed))
		for range each {
			bufs := randomBuffers(r, 1+r.IntN(6), 12, 8)
			for i := range bufs {
				if b := &bufs[i]; r.IntN(2) == 0 {
					g := memplan.Interval{Lower: b.Lower + r.Int64N(b.Upper-b.Lower), Upper: b.Upper}
					g.Upper -= r.Int64N(g.Upper - g.Lower)
					b.Gaps = []memplan.Interval{g}
				}
			}
			if r.IntN(3) == 0 {
				bufs[0].Fixed, bufs[0].Offset = true, r.Int64N(20)
			}
			least := brute(bufs)
			plan, err := memplan.Pack(ctx, bufs, nil)
			Expect(err).NotTo(HaveOccurred())
			Expect(memplan.Verify(bufs, plan.Offsets, plan.Height)).To(Succeed())
			Expect(plan.Height).To(BeNumerically(">=", least), "%v", bufs)
			Expect(memplan.LowerBound(bufs)).To(BeNumerically("<=", least), "%v", bufs)
			if plan.Optimal {
				Expect(plan.Height).To(Equal(least))
			}
		}
	})
}

var _ = Describe("against brute force", func() { againstBruteForce(2_000, 7) })

var _ = Describe("against brute force, in great number", Label("slow"), func() {
	BeforeEach(func() {
		if !strings.Contains(GinkgoLabelFilter(), "slow") {
			Skip("takes long: -ginkgo.label-filter=slow")
		}
	})
	againstBruteForce(100_000, 11)
})

var _ = Describe("determinism", func() {
	It("finds the same plan with any number of threads", func(ctx context.Context) {
		r := rand.New(rand.NewPCG(3, 3))
		for range 20 {
			bufs := randomBuffers(r, 40+r.IntN(40), 100, 30)
			var first memplan.Plan
			for threads := 1; threads <= 4; threads++ {
				plan, err := memplan.Pack(ctx, bufs, &memplan.Options{Steps: 30000, Threads: threads})
				Expect(err).NotTo(HaveOccurred())
				if threads == 1 {
					first = plan
				}
				Expect(plan).To(BeComparableTo(first))
			}
		}
	})
})
