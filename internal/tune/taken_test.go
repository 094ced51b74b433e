package tune_test

import (
	"errors"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/tune"
)

// system is a clock, and what a system would tell of a thread and of the others of its process.
type system struct {
	at            time.Time
	alone, others time.Duration
	unknown       bool
	asking        time.Duration // how long it takes to ask
}

func (s *system) now() time.Time { return s.at }

func (s *system) waited() (alone, others time.Duration, ok bool) {
	s.at = s.at.Add(s.asking)
	return s.alone, s.others, !s.unknown
}

var _ = Describe("Taken", func() {
	It("counts what is waited for, and returns the error", func() {
		fault := errors.New("fault")
		d, err := tune.Taken(func() error {
			time.Sleep(20 * time.Millisecond)
			return fault
		})
		Expect(err).To(Equal(fault))
		Expect(d).To(BeNumerically(">=", 15*time.Millisecond), "sleep is no wait for a processor")
	})

	DescribeTable("leaves out what other processes had the processor for", func(s system, wall, alone, others, want time.Duration) {
		s.at, s.alone, s.others = time.Unix(1, 0), time.Hour, time.Minute // since the thread began
		d, err := tune.TakenBy(func() error {
			s.at, s.alone, s.others = s.at.Add(wall), s.alone+alone, s.others+others
			return nil
		}, s.now, s.waited)
		Expect(err).NotTo(HaveOccurred())
		Expect(d).To(Equal(want))
	},
		Entry("none waited for", system{}, 80*time.Millisecond, time.Duration(0), time.Duration(0), 80*time.Millisecond),
		Entry("all of the wait", system{}, 80*time.Millisecond, 50*time.Millisecond, time.Duration(0), 30*time.Millisecond),
		Entry("but for what threads of its own ran", system{}, 80*time.Millisecond, 50*time.Millisecond, 20*time.Millisecond, 50*time.Millisecond),
		Entry("where those ran longer than it waited", system{}, 80*time.Millisecond, 50*time.Millisecond, 300*time.Millisecond, 80*time.Millisecond),
		Entry("but never everything", system{}, 80*time.Millisecond, 90*time.Millisecond, time.Duration(0), 80*time.Microsecond),
		Entry("where the system says so", system{unknown: true}, 80*time.Millisecond, 50*time.Millisecond, time.Duration(0), 80*time.Millisecond),
		Entry("but for what it may have waited while it asked", system{asking: time.Millisecond}, 80*time.Millisecond, 50*time.Millisecond, time.Duration(0), 32*time.Millisecond),
		Entry("of a short run none that may lie beside it", system{asking: 150 * time.Microsecond}, 211*time.Microsecond, 300*time.Microsecond, time.Duration(0), 211*time.Microsecond),
	)
})
