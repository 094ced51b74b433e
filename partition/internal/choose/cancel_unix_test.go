//go:build unix

package choose_test

import (
	"context"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/partition/internal/choose"
	"github.com/carve-dev/carve/partition/internal/dagtest"
)

// watched is a context that ends when it has been asked so many times, and notes the processor time between two questions.
type watched struct {
	context.Context
	left        int
	last, worst time.Duration
}

// Err implements context.Context.
func (w *watched) Err() error {
	now := processorTime()
	if w.last > 0 {
		w.worst = max(w.worst, now-w.last)
	}
	w.last = now
	if w.left--; w.left < 0 {
		return context.Canceled
	}
	return nil
}

// processorTime returns what the process has used: others on the machine do not count.
func processorTime() time.Duration {
	var u syscall.Rusage
	Expect(syscall.Getrusage(syscall.RUSAGE_SELF, &u)).To(Succeed())
	return time.Duration(u.Utime.Nano())
}

var _ = Describe("A search", func() {
	It("ends with its context at once, wherever that happens", func(ctx SpecContext) {
		p := placed(dagtest.Random(10_000, 20, 1), 1)
		w := &watched{Context: ctx, left: 1 << 30}
		_, err := choose.Solve(w, p, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(w.worst).To(BeNumerically("<", 100*time.Millisecond))
		asked := 1<<30 - w.left
		for k := range 12 {
			w := &watched{Context: ctx, left: asked * k / 12}
			_, err := choose.Solve(w, p, nil)
			Expect(err).To(MatchError(context.Canceled))
			Expect(w.left).To(BeNumerically(">=", -2), "who asks and hears that it is over asks once more for the error")
		}
	})
})
