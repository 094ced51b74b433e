//go:build amd64 || arm64

package pool_test

import (
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"

	"github.com/carve-dev/carve/internal/pool"
)

// pin lets every thread of the process run on the given processors alone, those too that begin meanwhile.
func pin(set *unix.CPUSet) {
	GinkgoHelper()
	for before := -1; ; {
		tasks, err := os.ReadDir("/proc/self/task")
		Expect(err).NotTo(HaveOccurred())
		for _, task := range tasks {
			id, err := strconv.Atoi(task.Name())
			Expect(err).NotTo(HaveOccurred())
			if err := unix.SchedSetaffinity(id, set); err != unix.ESRCH {
				Expect(err).NotTo(HaveOccurred())
			}
		}
		if len(tasks) == before {
			return
		}
		before = len(tasks)
	}
}

var _ = Describe("workers that have the caller's processor", Serial, func() {
	It("leave the first milliseconds of a loop to the caller", func() {
		var all, one unix.CPUSet
		Expect(unix.SchedGetaffinity(0, &all)).To(Succeed())
		for i := range 1024 {
			if all.IsSet(i) {
				one.Set(i)
				break
			}
		}
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
		pool.Acquire()
		defer pool.Release()
		r := pool.BeginRun(4)
		defer r.End()
		r.For(64, 1, cover, newCoverage(64, 4)) // the workers begin
		pin(&one)
		defer pin(&all)
		r.For(64, 1, cover, newCoverage(64, 4)) // workers may have looked before they were moved
		shared := 0                             // loops of which a worker had a chunk early
		for range 20 {
			var early atomic.Int64
			start := time.Now()
			r.For(64, 1, func(_ any, worker, _, _ int) {
				if worker > 0 && time.Since(start) < 5*time.Millisecond {
					early.Add(1)
				}
				for begin := time.Now(); time.Since(begin) < 500*time.Microsecond; {
				}
			}, nil)
			if early.Load() > 0 {
				shared++
			}
		}
		// A worker that was about to claim its next chunk when the system took the processor from it claims one of the next
		// loop. That is rare; workers that do not look take part in every loop.
		Expect(shared).To(BeNumerically("<", 10))
	})
})
