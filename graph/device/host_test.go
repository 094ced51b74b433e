package device_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/offheap"
	"github.com/carve-dev/carve/internal/pool"
)

var _ = Describe("Host", func() {
	alloc := func(n int64) device.Memory {
		GinkgoHelper()
		m, err := device.Host.Alloc(n)
		Expect(err).NotTo(HaveOccurred())
		return m
	}

	It("says how large a block may be", func() {
		for _, n := range []int64{-1, 1 << 47} {
			_, err := device.Host.Alloc(n)
			Expect(err).To(MatchError(device.ErrOutOfMemory))
			Expect(err.Error()).To(ContainSubstring(fmt.Sprintf("a block of %d bytes, which may have 70368744177664", n)))
		}
	})

	It("gives aligned memory outside of Go's heap, and takes it back", func() {
		before := offheap.Total().Anonymous
		m := alloc(1000)
		Expect(m.Device.IsHost()).To(BeTrue())
		Expect(m.Data).To(HaveLen(1000))
		Expect(m.Size).To(BeEquivalentTo(1000))
		Expect(uintptr(unsafe.Pointer(&m.Data[0])) % tensor.Alignment).To(BeZero())
		Expect(offheap.Total().Anonymous - before).To(BeEquivalentTo(1000))
		device.Host.Free(m)
		Expect(offheap.Total().Anonymous).To(Equal(before))
		device.Host.Free(alloc(0))
		device.Host.DirectFree(alloc(8))
		device.Host.ReleaseAll()
		Expect(offheap.Total().Anonymous).To(Equal(before))
	})

	DescribeTable("refuses sizes", func(n int64) {
		_, err := device.Host.Alloc(n)
		Expect(err).To(MatchError(device.ErrOutOfMemory))
	},
		Entry("below 0", int64(-1)),
		Entry("beyond all memory", int64(1)<<60),
		Entry("of 2^40 elements", int64(4)<<40),
	)

	It("copies inside of blocks only", func(ctx SpecContext) {
		m, n := alloc(8), alloc(4)
		defer device.Host.Free(m)
		defer device.Host.Free(n)
		Expect(device.Host.CopyTo(ctx, nil, m, 4, []byte{1, 2, 3, 4})).To(Succeed())
		Expect(device.Host.CopyBetween(ctx, nil, n, 1, m, 5, 3)).To(Succeed())
		back := make([]byte, 4)
		Expect(device.Host.CopyFrom(ctx, nil, back, n, 0)).To(Succeed())
		Expect(back).To(Equal([]byte{0, 2, 3, 4}))
		for _, off := range []int64{-1, 5, 9, 1 << 62} {
			Expect(device.Host.CopyTo(ctx, nil, m, off, back)).To(MatchError(device.ErrBounds))
			Expect(device.Host.CopyFrom(ctx, nil, back, m, off)).To(MatchError(device.ErrBounds))
			Expect(device.Host.CopyBetween(ctx, nil, n, 0, m, off, 4)).To(MatchError(device.ErrBounds))
		}
		Expect(device.Host.CopyBetween(ctx, nil, n, 0, m, 0, -1)).To(MatchError(device.ErrBounds))
		Expect(device.Host.CopyBetween(ctx, nil, n, 1, m, 0, 4)).To(MatchError(device.ErrBounds))
	})

	It("does everything at once: nothing is ever queued on its stream", func(ctx SpecContext) {
		s, err := device.Host.NewStream()
		Expect(err).NotTo(HaveOccurred())
		Expect(s.Record()).To(BeNil())
		Expect(s.WaitFor(ctx, nil)).To(Succeed())
		e := device.NewEvent()
		go e.Complete(errors.New("not the stream's"))
		Expect(s.WaitFor(ctx, e)).To(Succeed())
		Expect(device.Wait(ctx, e)).To(MatchError("not the stream's"))
		ended, cancel := context.WithCancel(ctx)
		cancel()
		Expect(s.WaitFor(ended, device.NewEvent())).To(MatchError(context.Canceled))
		Expect(s.WaitFor(ended, e)).To(Succeed())
		Expect(s.Sync(ctx)).To(Succeed())
		Expect(s.Close()).To(Succeed())
	})
})

var _ = Describe("Workers", func() {
	It("cover every range once, with threads and without", func() {
		pool.Acquire()
		defer pool.Release()
		run := pool.BeginRun(2)
		defer run.End()
		for _, w := range []*device.Workers{nil, {}, {Run: run}} {
			for _, n := range []int{-1, 0, 1, 7, 1000} {
				seen := make([]atomic.Int32, max(n, 0))
				w.Parallel(n, func(lo, hi int) {
					for i := lo; i < hi; i++ {
						seen[i].Add(1)
					}
				})
				for i := range seen {
					Expect(seen[i].Load()).To(BeNumerically("==", 1))
				}
			}
		}
	})
})
