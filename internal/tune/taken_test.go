package tune_test

import (
	"errors"
	"runtime"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/tune"
)

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

	It("leaves out what other threads had the processor for", func() {
		if runtime.GOOS != "linux" {
			Skip("only Linux tells what a thread waited for a processor")
		}
		work := func() error {
			sum := 0
			for i := range 30_000_000 {
				sum += i & 7
			}
			runtime.KeepAlive(sum)
			return nil
		}
		least := func() time.Duration {
			best := time.Hour
			for range 8 {
				d, err := tune.Taken(work)
				Expect(err).NotTo(HaveOccurred())
				best = min(best, d)
			}
			return best
		}
		alone := least()
		var over atomic.Bool
		for range 8 * runtime.NumCPU() {
			go func() {
				runtime.LockOSThread()
				for !over.Load() {
				}
			}()
		}
		defer over.Store(true)
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(9 * runtime.NumCPU()))
		start := time.Now()
		crowded := least()
		wall := time.Since(start) / 8
		Expect(wall).To(BeNumerically(">", 2*alone), "the machine was busy")
		Expect(crowded).To(BeNumerically("<", (wall+alone)/2))
	})
})
