package memplan_test

import (
	"context"
	"math"
	"math/rand/v2"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/memplan"
)

// buf is a buffer of the given size and lifetime.
func buf(size, lower, upper int64) memplan.Buffer {
	return memplan.Buffer{Size: size, Lower: lower, Upper: upper}
}

// randomBuffers returns n small buffers with sizes up to maxSize and times up
// to maxTime.
func randomBuffers(r *rand.Rand, n int, maxSize, maxTime int64) []memplan.Buffer {
	bufs := make([]memplan.Buffer, n)
	for i := range bufs {
		a, b := r.Int64N(maxTime), r.Int64N(maxTime)
		bufs[i] = buf(1+r.Int64N(maxSize), min(a, b), max(a, b)+1)
	}
	return bufs
}

var _ = Describe("Pack", func() {
	DescribeTable("small instances", func(ctx SpecContext, bufs []memplan.Buffer, height int64) {
		plan, err := memplan.Pack(ctx, bufs, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(memplan.Verify(bufs, plan.Offsets, plan.Height)).To(Succeed())
		Expect(plan.Height).To(Equal(height))
		Expect(plan.Optimal).To(BeTrue())
	},
		Entry("none", []memplan.Buffer{}, int64(0)),
		Entry("zero size", []memplan.Buffer{buf(0, 0, 9), buf(4, 0, 9)}, int64(4)),
		Entry("empty lifetime", []memplan.Buffer{buf(7, 3, 3), buf(4, 0, 9)}, int64(4)),
		Entry("one after the other", []memplan.Buffer{buf(7, 0, 3), buf(4, 3, 9)}, int64(7)),
		Entry("all at once", []memplan.Buffer{buf(7, 0, 3), buf(4, 2, 9), buf(1, 0, 9)}, int64(12)),
		Entry("sizes near the largest number", []memplan.Buffer{buf(math.MaxInt64, 0, 1), buf(math.MaxInt64, 1, 2)}, int64(math.MaxInt64)),
		Entry("sizes near the largest number that leave a choice", []memplan.Buffer{
			buf(math.MaxInt64-9, 0, 2), buf(9, 1, 4), buf(math.MaxInt64-9, 3, 6), buf(5, 5, 7), buf(math.MaxInt64-5, 6, 8)}, int64(math.MaxInt64)),
		Entry("times near the largest numbers", []memplan.Buffer{buf(3, math.MinInt64, math.MaxInt64), buf(4, 0, math.MaxInt64)}, int64(7)),
		Entry("a gap that another fills", []memplan.Buffer{
			{Size: 8, Lower: 0, Upper: 10, Gaps: []memplan.Interval{{Lower: 3, Upper: 6}}}, buf(8, 3, 6)}, int64(8)),
		Entry("gaps that leave nothing", []memplan.Buffer{
			{Size: 8, Lower: 0, Upper: 10, Gaps: []memplan.Interval{{Lower: 4, Upper: 10}, {Lower: 0, Upper: 4}}}, buf(8, 3, 6)}, int64(8)),
		Entry("a fixed one", []memplan.Buffer{{Size: 8, Lower: 0, Upper: 10, Fixed: true, Offset: 16}, buf(16, 3, 6)}, int64(24)),
		Entry("in place", []memplan.Buffer{buf(8, 0, 5), {Size: 8, Lower: 4, Upper: 9, Share: []int{0}}}, int64(8)),
		Entry("in place over one of two", []memplan.Buffer{
			buf(8, 0, 5), buf(6, 0, 5), {Size: 8, Lower: 4, Upper: 9, Share: []int{0, 1}}}, int64(14)),
		Entry("aligned alike", []memplan.Buffer{
			{Size: 3, Align: 8, Lower: 0, Upper: 5}, {Size: 5, Align: 8, Lower: 0, Upper: 5}}, int64(11)),
	)

	DescribeTable("faulty input", func(ctx SpecContext, b memplan.Buffer, field string) {
		_, err := memplan.Pack(ctx, []memplan.Buffer{buf(1, 0, 1), b}, nil)
		var fault *memplan.InputError
		Expect(err).To(BeAssignableToTypeOf(fault))
		Expect(err).To(HaveField("Buffer", 1))
		Expect(err).To(HaveField("Field", field))
	},
		Entry("negative size", buf(-1, 0, 1), "size"),
		Entry("inverted lifetime", buf(1, 2, 1), "lifetime"),
		Entry("alignment 3", memplan.Buffer{Size: 1, Upper: 1, Align: 3}, "alignment"),
		Entry("alignment -2^63", memplan.Buffer{Size: 1, Upper: 1, Align: math.MinInt64}, "alignment"),
		Entry("inverted gap", memplan.Buffer{Size: 1, Upper: 9, Gaps: []memplan.Interval{{Lower: 4, Upper: 3}}}, "gaps"),
		Entry("gap outside", memplan.Buffer{Size: 1, Upper: 9, Gaps: []memplan.Interval{{Lower: 4, Upper: 10}}}, "gaps"),
		Entry("fixed below zero", memplan.Buffer{Size: 1, Upper: 9, Fixed: true, Offset: -1}, "offset"),
		Entry("fixed against alignment", memplan.Buffer{Size: 1, Upper: 9, Fixed: true, Offset: 4, Align: 8}, "offset"),
		Entry("fixed beyond all addresses", memplan.Buffer{Size: 2, Upper: 9, Fixed: true, Offset: math.MaxInt64 - 1}, "offset"),
		Entry("shares with itself", memplan.Buffer{Size: 1, Upper: 9, Share: []int{1}}, "share"),
		Entry("shares with nobody", memplan.Buffer{Size: 1, Upper: 9, Share: []int{2}}, "share"),
	)

	It("refuses faulty options", func(ctx SpecContext) {
		for _, o := range []memplan.Options{{Capacity: -1}, {Threads: -1}, {Like: make([]int64, 1)}} {
			_, err := memplan.Pack(ctx, nil, &o)
			Expect(err).To(BeAssignableToTypeOf(&memplan.InputError{}))
		}
	})

	It("proves by load that nothing fits", func(ctx SpecContext) {
		bufs := []memplan.Buffer{buf(7, 0, 3), buf(4, 2, 9)}
		plan, err := memplan.Pack(ctx, bufs, &memplan.Options{Capacity: 10})
		Expect(err).To(MatchError(memplan.ErrInfeasible))
		Expect(err).To(MatchError(ContainSubstring("the height is at least 11, the capacity 10")))
		Expect(plan.LowerBound).To(Equal(int64(11)))
	})

	It("says between what the height lies where it finds no plan", func(ctx SpecContext) {
		bufs := coarse(200, 0) // of exactly 128, which needs a search
		plan, err := memplan.Pack(ctx, bufs, &memplan.Options{Capacity: 128, Steps: -1})
		Expect(err).To(MatchError(memplan.ErrNoPlan))
		Expect(plan.Height).To(BeNumerically(">", 128))
		Expect(err).To(MatchError(ContainSubstring("from 128 to %d, the capacity 128", plan.Height)))
	})

	It("proves that loads beyond 63 bits do not fit", func(ctx SpecContext) {
		bufs := []memplan.Buffer{buf(math.MaxInt64, 0, 3), buf(1, 2, 9)}
		_, err := memplan.Pack(ctx, bufs, nil)
		Expect(err).To(MatchError(memplan.ErrInfeasible))
	})

	It("proves that fixed buffers collide", func(ctx SpecContext) {
		bufs := []memplan.Buffer{
			{Size: 8, Upper: 4, Fixed: true, Offset: 0},
			{Size: 8, Upper: 4, Fixed: true, Offset: 4},
		}
		_, err := memplan.Pack(ctx, bufs, nil)
		Expect(err).To(MatchError(memplan.ErrInfeasible))
	})

	It("returns no plan when the context has ended", func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_, err := memplan.Pack(ctx, []memplan.Buffer{buf(7, 0, 3)}, nil)
		Expect(err).To(MatchError(memplan.ErrNoPlan))
		Expect(err).To(MatchError(context.Canceled))
	})

	It("follows a plan for other sizes where that comes near enough", func(ctx SpecContext) {
		r := rand.New(rand.NewPCG(3, 4))
		followed := 0
		for range 200 {
			bufs := randomBuffers(r, 1+r.IntN(60), 50, 40)
			first, err := memplan.Greedy(bufs)
			Expect(err).NotTo(HaveOccurred())
			near := float64(first.Height) / float64(first.LowerBound)
			same, err := memplan.Pack(ctx, bufs, &memplan.Options{Like: first.Offsets, Near: near + 1e-9})
			Expect(err).NotTo(HaveOccurred())
			Expect(same.Method).To(Equal(memplan.Alike))
			Expect(same.Height).To(BeNumerically("<=", first.Height))
			for i := range bufs {
				bufs[i].Size = 3*bufs[i].Size + r.Int64N(4)
			}
			near += 0.02
			grown, err := memplan.Pack(ctx, bufs, &memplan.Options{Steps: -1, Like: first.Offsets, Near: near})
			Expect(err).NotTo(HaveOccurred())
			Expect(memplan.Verify(bufs, grown.Offsets, grown.Height)).To(Succeed())
			if grown.Method == memplan.Alike {
				Expect(float64(grown.Height)).To(BeNumerically("<=", near*float64(grown.LowerBound)))
				followed++
			}
		}
		Expect(followed).To(BeNumerically(">", 100))
	})

	It("packs by heuristics alone what Greedy is given", func() {
		r := rand.New(rand.NewPCG(1, 2))
		for range 200 {
			bufs := randomBuffers(r, 1+r.IntN(60), 50, 40)
			plan, err := memplan.Greedy(bufs)
			Expect(err).NotTo(HaveOccurred())
			Expect(memplan.Verify(bufs, plan.Offsets, plan.Height)).To(Succeed())
			Expect(plan.Height).To(BeNumerically(">=", plan.LowerBound))
			Expect(plan.Nodes).To(BeZero())
		}
	})
})
