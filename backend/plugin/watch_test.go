package plugin_test

import (
	"context"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend/plugin"
)

var _ = Describe("what tells a plugin of the end of a context", func() {
	It("sets the flag for the call at hand alone, and not when it is over", func() {
		var flag int32
		w := plugin.NewWatch(&flag)
		set := func() bool { return atomic.LoadInt32(&flag) != 0 }
		for range 3 {
			ctx, cancel := context.WithCancel(context.Background())
			first := w.Begin(ctx)
			Consistently(set).WithTimeout(20 * time.Millisecond).Should(BeFalse())
			cancel()
			Eventually(set).Should(BeTrue())
			w.End(first)
			Expect(set()).To(BeTrue())

			w.End(w.Begin(context.Background()))
			Expect(set()).To(BeFalse())

			ctx, cancel = context.WithCancel(context.Background())
			over := w.Begin(ctx)
			w.End(over)
			cancel()
			Consistently(set).WithTimeout(20 * time.Millisecond).Should(BeFalse())

			next, stop := context.WithCancel(context.Background())
			call := w.Begin(next)
			w.End(over) // late: an event that is closed after the next call has begun
			stop()
			Eventually(set).Should(BeTrue())
			w.End(call)
			w.End(w.Begin(next)) // it has ended before
			Expect(set()).To(BeTrue())
		}
	})
})
