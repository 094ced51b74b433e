package tune_test

import (
	"errors"
	"os/exec"
	"runtime"
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

	It("leaves out what other processes had the processor for", func(ctx SpecContext) {
		shell, err := exec.LookPath("sh")
		if runtime.GOOS != "linux" || err != nil {
			Skip("only Linux tells what a thread waited for a processor, and a shell keeps it busy")
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
		for range 8 * runtime.NumCPU() {
			busy := exec.CommandContext(ctx, shell, "-c", "while :; do :; done")
			Expect(busy.Start()).To(Succeed())
			defer func() {
				_ = busy.Process.Kill()
				_ = busy.Wait()
			}()
		}
		start := time.Now()
		crowded := least()
		wall := time.Since(start) / 8
		Expect(wall).To(BeNumerically(">", 2*alone), "the machine was busy")
		Expect(crowded).To(BeNumerically("<", (wall+alone)/2))
	})
})
