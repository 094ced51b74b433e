package listen_test

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/examples/server/listen"
)

// resident returns the memory that Go has of the system.
func resident() int64 {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64() - s[1].Value.Uint64())
}

var _ = Describe("the process's memory", func() {
	bound := func() int64 { return debug.SetMemoryLimit(-1) }

	It("stays within a bound, however much garbage there is", func() {
		listen.PrepareProcess()
		var kept [][]byte
		for range 4 << 10 { // 64 MiB: what is allocated while a collection goes on is a few MiB, whatever there is
			kept = append(kept, make([]byte, 16<<10))
		}
		runtime.GC()
		var before int64
		Eventually(func() int64 { // comes with the collection
			last := before
			before = bound()
			return before - last
		}).WithPolling(200 * time.Millisecond).Should(BeZero())
		Expect(before).To(BeNumerically("<", int64(math.MaxInt64)))
		for i := range 1 << 15 { // half a gigabyte, in half a second or more
			kept[i%len(kept)] = make([]byte, 16<<10)
			if i%64 == 0 {
				time.Sleep(time.Millisecond)
				Expect(resident()).To(BeNumerically("<", before+before/20))
			}
		}
		Expect(bound()).To(Equal(before))
	})

	It("has a bound that follows what is in use, up and down", func() {
		p := listen.PrepareProcess()
		runtime.GC()
		time.Sleep(100 * time.Millisecond) // the bound has followed
		p.Narrow()
		before := bound()
		kept := make([]byte, 256<<20)
		runtime.GC()
		Eventually(bound).Should(BeNumerically(">", int64(2*len(kept))))
		runtime.KeepAlive(kept)
		Eventually(func() int64 {
			runtime.GC()
			return bound()
		}).Should(BeNumerically("<", before+64<<20))
	})

	It("has room for the connections of an overload from the first one on", func() {
		p := listen.PrepareProcess()
		never := func() bool { return false }
		runtime.GC()
		time.Sleep(100 * time.Millisecond) // the bound has followed
		p.Narrow()
		before := bound()
		p.Crowded(never)
		wide := bound()
		Expect(wide - before).To(BeNumerically("~", 32<<20, 8<<20))
		connections := make([]byte, 40<<20)
		for range 5 {
			runtime.GC()
			time.Sleep(20 * time.Millisecond)
			Expect(bound()).To(Equal(wide))
		}
		runtime.KeepAlive(connections)
		Eventually(func() int { return runtime.GOMAXPROCS(0) }).Should(Equal(p.Runs))
		p.Crowded(never)
		Expect(bound()).To(Equal(wide), "once is enough")
		Eventually(func() int { return runtime.GOMAXPROCS(0) }).Should(Equal(p.Runs))
	})

	DescribeTable("has a bound that is left as it is where what is in use is a little more or less, so that connections come out of the room",
		func(used, next int64) { Expect(listen.NextBound(100, used, 40)).To(Equal(next)) },
		Entry("with as much room as is wanted", int64(60), int64(100)),
		Entry("with a quarter of that", int64(90), int64(100)),
		Entry("with less", int64(91), int64(131)),
		Entry("with twice of that", int64(20), int64(100)),
		Entry("with more", int64(19), int64(59)),
		Entry("with more in use than the bound", int64(300), int64(340)),
	)
})
