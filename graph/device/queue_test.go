package device_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph/device"
)

var _ = Describe("Queue", func() {
	It("does work in order without holding the caller up", func(ctx SpecContext) {
		var q device.Queue
		hold := make(chan struct{})
		var order []int
		q.Do(func() error { <-hold; return nil })
		for i := range 100 {
			q.Do(func() error { order = append(order, i); return nil })
		}
		last, err := q.Record()
		Expect(err).NotTo(HaveOccurred())
		done, _ := last.Done()
		Expect(done).To(BeFalse())
		close(hold)
		Expect(last.Wait(ctx)).To(Succeed())
		Expect(order).To(HaveLen(100))
		for i, k := range order {
			Expect(k).To(Equal(i))
		}
		Expect(q.Close()).To(Succeed())
	})

	It("begins again when it has been empty", func(ctx SpecContext) {
		var q device.Queue
		n := 0
		for range 50 {
			Expect(q.Do(func() error { n++; return nil }).Wait(ctx)).To(Succeed())
			if n%10 == 0 {
				time.Sleep(time.Millisecond)
			}
		}
		Expect(n).To(Equal(50))
	})

	It("reports the first failure since the Record before, and does what stands behind it", func(ctx SpecContext) {
		var q device.Queue
		fail := func(i int) error { return fmt.Errorf("failure %d", i) }
		ran := 0
		e := q.Do(func() error { return fail(1) })
		q.Do(func() error { ran++; return fail(2) })
		Expect(q.Sync(ctx)).To(MatchError("failure 1"))
		Expect(e.Wait(ctx)).To(MatchError("failure 1"))
		Expect(ran).To(Equal(1))
		Expect(q.Sync(ctx)).To(Succeed())
		q.Do(func() error { return fail(3) })
		r, err := q.Record()
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Wait(ctx)).To(MatchError("failure 3"))
		q.Do(func() error { return fail(4) })
		Expect(q.Close()).To(MatchError("failure 4"))
		Expect(q.Close()).To(Succeed())
	})

	It("is emptied by who waits for it with a context that cannot end, in order and by one at a time", func() {
		var q device.Queue
		for range 200 {
			var order []int // without a lock: the race detector sees two at work
			for i := range 5 {
				q.Do(func() error { order = append(order, i); return nil })
			}
			var wg sync.WaitGroup
			for range 3 {
				wg.Go(func() {
					defer GinkgoRecover()
					Expect(q.Sync(context.Background())).To(Succeed())
				})
			}
			wg.Wait()
			Expect(order).To(Equal([]int{0, 1, 2, 3, 4}))
		}
		Expect(q.Close()).To(Succeed())
	})

	It("does what work itself queues, whoever is at work", func(ctx SpecContext) {
		var q device.Queue
		for range 500 {
			late := make(chan *device.HostEvent, 1)
			q.Do(func() error {
				late <- q.Do(func() error { return nil })
				return nil
			})
			Expect(q.Sync(context.Background())).To(Succeed())
			Expect((<-late).Wait(ctx)).To(Succeed())
		}
		Expect(q.Close()).To(Succeed())
	})

	It("does not keep a caller whose context can end", func(ctx SpecContext) {
		var q device.Queue
		hold := make(chan struct{})
		q.Do(func() error { <-hold; return nil })
		short, cancel := context.WithTimeout(ctx, time.Millisecond)
		defer cancel()
		Expect(q.Sync(short)).To(MatchError(context.DeadlineExceeded))
		close(hold)
		Expect(q.Close()).To(Succeed())
	})

	It("makes a panic the work's error", func(ctx SpecContext) {
		var q device.Queue
		cause := errors.New("cause")
		Expect(q.Do(func() error { panic("no") }).Wait(ctx)).To(MatchError("panic: no"))
		Expect(q.Do(func() error { panic(cause) }).Wait(ctx)).To(MatchError(cause))
	})

	It("does nothing after Close", func(ctx SpecContext) {
		var q device.Queue
		Expect(q.Close()).To(Succeed())
		ran := false
		Expect(q.Do(func() error { ran = true; return nil }).Wait(ctx)).To(MatchError(device.ErrClosed))
		Expect(q.Sync(ctx)).To(MatchError(device.ErrClosed))
		Expect(ran).To(BeFalse())
	})

	It("waits for events of others, whatever their error, also closed ones, and not in the call", func(ctx SpecContext) {
		var a, b device.Queue
		hold := make(chan struct{})
		var made atomic.Bool
		e := a.Do(func() error { <-hold; made.Store(true); return errors.New("a's own") })
		Expect(b.WaitFor(ctx, nil)).To(Succeed())
		ended, cancel := context.WithCancel(ctx)
		Expect(b.WaitFor(ended, e)).To(Succeed())
		e.Close()
		cancel() // the order holds all the same
		seen := false
		second := b.Do(func() error { seen = made.Load(); return nil })
		time.Sleep(5 * time.Millisecond)
		done, _ := second.Done()
		Expect(done).To(BeFalse())
		close(hold)
		Expect(b.Sync(ctx)).To(Succeed())
		Expect(seen).To(BeTrue())
		Expect(a.Close()).To(MatchError("a's own"))
		Expect(b.WaitFor(ctx, e)).To(Succeed()) // it has happened
	})
})
