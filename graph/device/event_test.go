package device_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph/device"
)

var _ = Describe("HostEvent", func() {
	cause := errors.New("cause")

	It("is polled, waited for and told of", func(ctx SpecContext) {
		e := device.NewEvent()
		done, err := e.Done()
		Expect(done, err).To(BeFalse())
		Expect(err).NotTo(HaveOccurred())
		var told []error
		e.Notify(func(err error) { told = append(told, err) })
		e.Complete(cause)
		e.Complete(errors.New("too late"))
		e.Notify(func(err error) { told = append(told, err) })
		Expect(told).To(HaveExactElements(cause, cause))
		Expect(e.Wait(ctx)).To(MatchError(cause))
		done, err = e.Done()
		Expect(done).To(BeTrue())
		Expect(err).To(MatchError(cause))
		e.Close()
	})

	It("has nothing to wait for where it is nil", func(ctx SpecContext) {
		Expect(device.Wait(ctx, nil)).To(Succeed())
	})

	It("ends a wait with the context, but prefers what has happened", func(ctx SpecContext) {
		e := device.NewEvent()
		ended, cancel := context.WithCancel(ctx)
		cancel()
		Expect(e.Wait(ended)).To(MatchError(context.Canceled))
		e.Complete(nil)
		for range 100 {
			Expect(e.Wait(ended)).To(Succeed())
		}
	})

	It("tells everybody once, whoever comes first", func(ctx SpecContext) {
		for range 200 {
			e := device.NewEvent()
			var told atomic.Int32
			var group sync.WaitGroup
			for range 4 {
				group.Go(func() { e.Notify(func(error) { told.Add(1) }) })
				group.Go(func() { _ = e.Wait(ctx) })
			}
			group.Go(func() { e.Complete(nil) })
			group.Wait()
			Expect(told.Load()).To(BeEquivalentTo(4))
		}
	})
})
