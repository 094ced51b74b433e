package exec

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// pacedRuns has so many runs take what each kind does, and returns whether the last went alone, and how many did.
func pacedRuns(p *pace, runs int, shared, single time.Duration) (last bool, alone int) {
	for range runs {
		kind, _, counts := p.next(true)
		took := shared
		if last = kind; kind {
			took = single
			alone++
		}
		if counts {
			p.ended(kind, took)
		}
	}
	return last, alone
}

const compared = unpaced + 2*pacedBlocks*pacedBlock // runs of the first comparison

var _ = Describe("Runs with and without other threads", func() {
	DescribeTable("stay with what was faster",
		func(shared, single time.Duration, want bool) {
			var p pace
			pacedRuns(&p, compared, shared, single)
			last, alone := pacedRuns(&p, pacedAgain/4, shared, single)
			Expect(last).To(Equal(want))
			Expect(alone).To(BeElementOf(0, pacedAgain/4))
		},
		Entry("with", 60*time.Microsecond, 100*time.Microsecond, false),
		Entry("with, by enough", 96*time.Microsecond, 100*time.Microsecond, false),
		Entry("without", 110*time.Microsecond, 100*time.Microsecond, true),
		Entry("without, where the others save next to nothing", 98*time.Microsecond, 100*time.Microsecond, true),
		Entry("with, where runs are long", 2*longestPaced, longestPaced, false),
	)

	It("are no longer compared once one was long", func() {
		var p pace
		_, alone := pacedRuns(&p, 100_000, longestPaced+1, 1)
		Expect(alone).To(BeZero())
	})

	It("are compared again, ever more rarely", func() {
		var p pace
		last, _ := pacedRuns(&p, compared, 2, 1)
		Expect(last).To(BeTrue())
		last, _ = pacedRuns(&p, 2*pacedAgain, 1, 2)
		Expect(last).To(BeFalse())
		_, early := pacedRuns(&p, 10*pacedRarely, 1, 2)
		_, late := pacedRuns(&p, 10*pacedRarely, 1, 2)
		Expect(late).To(BeNumerically("<=", 11*pacedBlocks*pacedBlock))
		Expect(early).To(BeNumerically(">", late))
	})

	It("that nobody may time follow what is decided", func() {
		var p pace
		for range 3 * pacedAgain {
			alone, compared, counts := p.next(false)
			Expect([]bool{alone, compared, counts}).To(HaveEach(false))
		}
		last, _ := pacedRuns(&p, compared, 2, 1)
		Expect(last).To(BeTrue())
		alone, _, counts := p.next(false)
		Expect(alone).To(BeTrue())
		Expect(counts).To(BeFalse())
	})

	It("of several sessions at a time are all noted, and no more than there is room for", func() {
		var p pace
		for range 50 {
			p.ended(false, 2)
		}
		for range 50 {
			p.ended(true, 1)
		}
		Expect(p.alone).To(BeTrue())
	})
})
