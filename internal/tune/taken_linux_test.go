package tune_test

import (
	"runtime"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"

	"github.com/carve-dev/carve/internal/tune"
)

var _ = Describe("Taken", func() {
	It("counts what threads of its own keep it waiting for", func() {
		n := 4 * runtime.NumCPU()
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2 * n))
		spin := func(until time.Time) {
			for time.Now().Before(until) {
			}
		}
		var before, after unix.Rusage
		Expect(unix.Getrusage(unix.RUSAGE_SELF, &before)).To(Succeed())
		start := time.Now()
		d, err := tune.Taken(func() error {
			until := time.Now().Add(100 * time.Millisecond)
			var all sync.WaitGroup
			for range n {
				all.Go(func() { spin(until) })
			}
			spin(until)
			all.Wait()
			return nil
		})
		Expect(err).NotTo(HaveOccurred())
		wall := time.Since(start)
		Expect(unix.Getrusage(unix.RUSAGE_SELF, &after)).To(Succeed())
		ran := time.Duration(after.Utime.Nano() - before.Utime.Nano())
		Expect(d).To(BeNumerically(">=", ran*9/10/time.Duration(runtime.NumCPU())), "no less than its work on all processors")
		Expect(d).To(BeNumerically("<=", wall))
	})
})
