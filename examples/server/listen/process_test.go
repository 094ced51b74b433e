package listen_test

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/examples/server/listen"
)

func TestListen(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Listen Suite")
}

var _ = Describe("the process's processors", func() {
	It("are twice as many while runs keep all of them busy, and as many as before soon after", func() {
		before := runtime.GOMAXPROCS(0)
		p := listen.PrepareProcess()
		Expect(p.Runs).To(Equal(before))
		Expect(listen.PrepareProcess()).To(BeIdenticalTo(p))
		var busy atomic.Bool
		for range 3 {
			busy.Store(true)
			Eventually(func() int {
				p.Crowded(busy.Load)
				return runtime.GOMAXPROCS(0)
			}).WithTimeout(time.Minute).Should(Equal(2 * before))
			Consistently(func() int { return runtime.GOMAXPROCS(0) }, 300*time.Millisecond).Should(Equal(2 * before))
			busy.Store(false)
			Eventually(func() int { return runtime.GOMAXPROCS(0) }).WithTimeout(time.Minute).Should(Equal(before))
		}
	})
})
