package cuda_test

import (
	"context"
	"errors"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/gpukernel/fakecuda"
)

var _ = Describe("a CUDA device", func() {
	var fake *fakecuda.Driver
	var d device.Device
	BeforeEach(func() {
		fake = driver()
		d = open(fake).Devices()[0]
	})

	alloc := func(n int64) device.Memory {
		GinkgoHelper()
		m, err := d.Alloc(n)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(d.Free, m)
		return m
	}
	stream := func() device.Stream {
		GinkgoHelper()
		s, err := d.NewStream()
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(s.Close)
		return s
	}
	data := []byte{1, 2, 3, 4, 5, 6, 7, 8}

	It("copies there, about and back, at once and on a stream", func(ctx SpecContext) {
		x, y := alloc(8), alloc(16)
		for _, s := range []device.Stream{nil, stream()} {
			back := make([]byte, 8)
			Expect(d.CopyTo(ctx, s, x, 0, data)).To(Succeed())
			Expect(d.CopyBetween(ctx, s, y, 8, x, 0, 8)).To(Succeed())
			Expect(d.CopyFrom(ctx, s, back, y, 8)).To(Succeed())
			if s != nil {
				Expect(s.Sync(ctx)).To(Succeed())
			}
			Expect(back).To(Equal(data))
			Expect(d.CopyTo(ctx, s, x, 8, nil)).To(Succeed())
			Expect(d.CopyFrom(ctx, s, nil, x, 8)).To(Succeed())
			Expect(d.CopyBetween(ctx, s, y, 0, x, 8, 0)).To(Succeed())
		}
	})

	It("copies to another device, which waits for it by an event", func(ctx SpecContext) {
		fake := own("two", fakecuda.Options{})
		fake.Set("devices", 2)
		b := open(fake)
		d, other := b.Devices()[0], b.Devices()[1]
		Expect(device.CopiesTo(d, other.ID())).To(BeTrue())
		Expect(device.CopiesTo(d, tensor.DeviceID{Type: tensor.CUDA, Index: 7})).To(BeFalse())
		x, err := d.Alloc(8)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(d.Free, x)
		y, err := other.Alloc(16)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(other.Free, y)
		s, err := d.NewStream()
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(s.Close)
		after, err := other.NewStream()
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(after.Close)
		for seed := range 20 {
			fake.Set("seed", seed)
			from, back := []byte{1, 2, 3, byte(seed), 5, 6, 7, 8}, make([]byte, 8)
			Expect(d.CopyTo(ctx, s, x, 0, from)).To(Succeed())
			Expect(d.CopyBetween(ctx, s, y, 8, x, 0, 8)).To(Succeed())
			e, err := s.Record()
			Expect(err).NotTo(HaveOccurred())
			Expect(after.WaitFor(ctx, e)).To(Succeed())
			e.Close()
			Expect(other.CopyFrom(ctx, after, back, y, 8)).To(Succeed())
			Expect(after.Sync(ctx)).To(Succeed())
			Expect(back).To(Equal(from))
		}
		Expect(d.CopyBetween(ctx, nil, y, 0, x, 0, 4)).To(Succeed())
		Expect(d.CopyBetween(ctx, nil, y, 12, x, 0, 8)).To(MatchError(device.ErrBounds))
		Expect(fake.Report()).To(BeEmpty())
	})

	It("bounds copies and memory", func(ctx SpecContext) {
		x, y := alloc(8), alloc(16)
		for _, err := range []error{
			d.CopyTo(ctx, nil, x, 4, data), d.CopyFrom(ctx, nil, make([]byte, 1), x, -1), d.CopyBetween(ctx, nil, x, 0, y, 9, 8),
			d.CopyBetween(ctx, nil, x, 0, y, 0, -1), d.CopyTo(ctx, nil, device.Memory{Device: d.ID(), Handle: 77}, 0, data),
		} {
			Expect(err).To(MatchError(device.ErrBounds))
		}
		Expect(d.CopyTo(ctx, &device.Queue{}, x, 0, data)).To(MatchError(device.ErrStream))
		for _, n := range []int64{-1, 1 << 60} {
			_, err := d.Alloc(n)
			Expect(err).To(MatchError(device.ErrOutOfMemory))
		}
		ended, cancel := context.WithCancel(ctx)
		cancel()
		Expect(d.CopyTo(ended, nil, x, 0, data)).To(MatchError(context.Canceled))
	})

	It("says how much memory there is, and that it is all in use", func() {
		var limit *device.LimitError
		_, err := d.Alloc(1 << 60)
		Expect(errors.As(err, &limit)).To(BeTrue())
		total := limit.Limit
		fake.Set("memory", 1<<20)
		_, err = d.Alloc(min(total, 1<<30))
		Expect(err).To(MatchError(device.ErrOutOfMemory))
		Expect(err).To(MatchError(ContainSubstring("cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY (2)")))
	})

	It("brings what it copied to the host before those who wait for it see it, in whatever order streams run", func(ctx SpecContext) {
		for seed := range 20 {
			fake.Set("seed", seed)
			x, y, first, second := alloc(8), alloc(8), stream(), stream()
			there, back := make([]byte, 8), make([]byte, 8)
			Expect(d.CopyTo(ctx, first, x, 0, data)).To(Succeed())
			Expect(d.CopyFrom(ctx, first, there, x, 0)).To(Succeed())
			e, err := first.Record()
			Expect(err).NotTo(HaveOccurred())
			Expect(second.WaitFor(ctx, e)).To(Succeed())
			Expect(d.CopyTo(ctx, second, y, 0, there)).To(Succeed(), "bytes that another stream's copy brings")
			Expect(d.CopyFrom(ctx, second, back, y, 0)).To(Succeed())
			Expect(d.CopyTo(ctx, second, x, 0, back[:4])).To(Succeed(), "bytes that its own copy brings")
			last, err := second.Record()
			Expect(err).NotTo(HaveOccurred())
			Expect(last.Wait(ctx)).To(Succeed())
			Expect(back).To(Equal(data))
			Expect(there).To(Equal(data))
			done, err := e.Done()
			Expect([]any{done, err}).To(Equal([]any{true, nil}))
			e.Close()
			last.Close()
		}
	})

	It("copies on streams in parts what is longer than its pinned blocks", func(ctx SpecContext) {
		const n = 20<<20 + 12
		x, s := alloc(n), stream()
		from, back := make([]byte, n), make([]byte, n)
		for i := range from {
			from[i] = byte(i>>12 ^ i)
		}
		Expect(d.CopyTo(ctx, s, x, 0, from)).To(Succeed())
		for i := range 4 {
			Expect(d.CopyFrom(ctx, s, back, x, 0)).To(Succeed(), "%d", i) // more than a stream may hold
		}
		Expect(s.Sync(ctx)).To(Succeed())
		Expect(back).To(Equal(from))
		d.ReleaseAll()
	})

	It("lands what copies bring when nobody waits for the event", func(ctx SpecContext) {
		x, s := alloc(8), stream()
		back := make([]byte, 8)
		Expect(d.CopyTo(ctx, nil, x, 0, data)).To(Succeed())
		Expect(d.CopyFrom(ctx, s, back, x, 0)).To(Succeed())
		e, err := s.Record()
		Expect(err).NotTo(HaveOccurred())
		told := make(chan error, 1)
		e.Notify(func(err error) { told <- err })
		e.Close()
		Eventually(told).Should(Receive(BeNil()))
		Expect(back).To(Equal(data))
	})

	It("waits for the host's events, as long as the context goes on", func(ctx SpecContext) {
		x, s := alloc(8), stream()
		gate := device.NewEvent()
		short, cancel := context.WithTimeout(ctx, 5*time.Millisecond)
		defer cancel()
		Expect(s.WaitFor(short, gate)).To(MatchError(context.DeadlineExceeded))
		go gate.Complete(errors.New("of no matter: order alone counts"))
		Expect(s.WaitFor(ctx, gate)).To(Succeed())
		Expect(s.WaitFor(ctx, gate)).To(Succeed())
		Expect(s.WaitFor(ctx, nil)).To(Succeed())
		Expect(d.CopyTo(ctx, s, x, 0, data)).To(Succeed())
	})

	It("says so where a stream is closed", func(ctx SpecContext) {
		s, err := d.NewStream()
		Expect(err).NotTo(HaveOccurred())
		Expect(s.Close()).To(Succeed())
		Expect(s.Close()).To(Succeed())
		_, err = s.Record()
		Expect(err).To(MatchError(device.ErrClosed))
		Expect(s.WaitFor(ctx, nil)).To(MatchError(device.ErrClosed))
		Expect(d.CopyTo(ctx, s, alloc(8), 0, data)).To(MatchError(device.ErrClosed))
	})
})
