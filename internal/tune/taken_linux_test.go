package tune_test

import (
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
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

	It("is told by the kernel how long a thread waited for a processor, and what the others ran", func() {
		n := 4 * runtime.NumCPU()
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2 * n))
		var over atomic.Bool
		var all sync.WaitGroup
		defer all.Wait()
		defer over.Store(true)
		for range n {
			all.Go(func() {
				for !over.Load() {
				}
			})
		}
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		before, othersBefore, ok := tune.Waited()
		if b, err := os.ReadFile("/proc/thread-self/schedstat"); !ok || err != nil || strings.HasPrefix(string(b), "0 ") {
			Skip("this kernel keeps no statistics of its scheduler")
		}
		Eventually(func(g Gomega) { // others want every processor
			for range 10_000_000 {
			}
			alone, others, ok := tune.Waited()
			g.Expect(ok).To(BeTrue())
			g.Expect(alone).To(BeNumerically(">", before))
			g.Expect(others).To(BeNumerically(">", othersBefore))
		}).WithTimeout(time.Minute).Should(Succeed())
	})
})
