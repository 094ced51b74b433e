package fake_test

import (
	"context"
	"errors"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/backendtest/fake"
	"github.com/carve-dev/carve/graph/device"
)

// alloc takes a block, which the spec frees.
func alloc(d device.Device, n int64) device.Memory {
	GinkgoHelper()
	m, err := d.Alloc(n)
	Expect(err).NotTo(HaveOccurred())
	return m
}

// stream opens a stream, which the spec closes.
func stream(d device.Device) device.Stream {
	GinkgoHelper()
	s, err := d.NewStream()
	Expect(err).NotTo(HaveOccurred())
	return s
}

var _ = Describe("a fake device", func() {
	data := []byte{1, 2, 3, 4, 5, 6, 7, 8}

	It("copies there, about and back, at once and on a stream", func(ctx SpecContext) {
		b := fake.New(fake.Options{Devices: 2, Delay: time.Millisecond})
		d, e := b.Devices()[0], b.Devices()[1]
		x, y, z := alloc(d, 8), alloc(d, 16), alloc(e, 8)
		s := stream(d)
		for _, q := range []device.Stream{nil, s} {
			back := make([]byte, 8)
			Expect(d.CopyTo(ctx, q, x, 0, data)).To(Succeed())
			Expect(d.CopyBetween(ctx, q, y, 8, x, 0, 8)).To(Succeed())
			Expect(d.CopyFrom(ctx, q, back, y, 8)).To(Succeed())
			if q != nil {
				Expect(s.Sync(ctx)).To(Succeed())
			}
			Expect(back).To(Equal(data))
			Expect(device.CopiesTo(d, e.ID())).To(BeTrue())
			Expect(d.CopyBetween(ctx, q, z, 0, x, 0, 8)).To(Succeed())
			if q != nil {
				r, err := s.Record()
				Expect(err).NotTo(HaveOccurred())
				Expect(r.Wait(ctx)).To(Succeed())
				r.Close()
			}
			Expect(e.CopyFrom(ctx, nil, back[:4], z, 4)).To(Succeed())
			Expect(back[:4]).To(Equal(data[4:]))
		}
		Expect(b.Leaks()).To(Equal([]string{"2 blocks of device12:100, 24 bytes", "1 blocks of device12:101, 8 bytes", "1 streams"}))
		Expect(s.Close()).To(Succeed())
		d.Free(x)
		d.DirectFree(y)
		e.Free(z)
		Expect(b.Faults()).To(BeEmpty())
		Expect(b.Leaks()).To(BeEmpty())
		Expect(b.Stats()).To(And(HaveField("CopiesTo", 2), HaveField("CopiesFrom", 4), HaveField("CopiesAcross", 2), HaveField("Held", int64(0)), HaveField("Peak", int64(32))))
	})

	It("bounds copies and memory", func(ctx SpecContext) {
		b := fake.New(fake.Options{Devices: 2, Memory: 16, NoPeers: true})
		d := b.Devices()[0]
		x := alloc(d, 8)
		Expect(d.CopyTo(ctx, nil, x, 4, data)).To(MatchError(device.ErrBounds))
		Expect(d.CopyFrom(ctx, nil, make([]byte, 1), x, -1)).To(MatchError(device.ErrBounds))
		Expect(d.CopyBetween(ctx, nil, x, 0, x, 8, 1)).To(MatchError(device.ErrBounds))
		Expect(device.CopiesTo(d, b.Devices()[1].ID())).To(BeFalse())
		Expect(d.CopyTo(ctx, &device.Queue{}, x, 0, data)).To(MatchError(device.ErrStream))
		for _, n := range []int64{-1, 9, 1 << 50} {
			_, err := d.Alloc(n)
			Expect(err).To(MatchError(device.ErrOutOfMemory))
		}
		d.Free(x)
		Expect(b.Faults()).To(BeEmpty())
	})

	It("hands out garbage, and leaves it in what is not copied yet", func(ctx SpecContext) {
		b := fake.New(fake.Options{})
		d := b.Devices()[0]
		x, back := alloc(d, 4), make([]byte, 4)
		Expect(d.CopyFrom(ctx, nil, back, x, 0)).To(Succeed())
		Expect(back).To(Equal([]byte{0xff, 0xff, 0xff, 0xff}))
		d.Free(x)
	})

	// Each row does something wrong, or right, with two streams; what is wrong is found whatever the delays are.
	DescribeTable("knows what is ordered", func(ctx SpecContext, wrong string, use func(ctx context.Context, d device.Device, x device.Memory, a, b device.Stream)) {
		for seed := range uint64(8) {
			b := fake.New(fake.Options{Delay: 200 * time.Microsecond, Seed: seed})
			d := b.Devices()[0]
			x, p, q := alloc(d, 8), stream(d), stream(d)
			use(ctx, d, x, p, q)
			Expect(errors.Join(p.Sync(ctx), q.Sync(ctx), p.Close(), q.Close())).To(Succeed())
			if wrong == "" {
				Expect(b.Faults()).To(BeEmpty())
			} else {
				Expect(b.Faults()).To(ContainElement(ContainSubstring(wrong)))
			}
		}
	},
		Entry("a write and a read without an order", "are not ordered", func(ctx context.Context, d device.Device, x device.Memory, a, b device.Stream) {
			_ = d.CopyTo(ctx, a, x, 0, data)
			_ = d.CopyFrom(ctx, b, make([]byte, 8), x, 0)
		}),
		Entry("two reads", "", func(ctx context.Context, d device.Device, x device.Memory, a, b device.Stream) {
			_ = d.CopyFrom(ctx, a, make([]byte, 8), x, 0)
			_ = d.CopyFrom(ctx, b, make([]byte, 8), x, 0)
		}),
		Entry("other bytes", "", func(ctx context.Context, d device.Device, x device.Memory, a, b device.Stream) {
			_ = d.CopyTo(ctx, a, x, 0, data[:4])
			_ = d.CopyTo(ctx, b, x, 4, data[:4])
		}),
		Entry("one byte in common", "are not ordered", func(ctx context.Context, d device.Device, x device.Memory, a, b device.Stream) {
			_ = d.CopyTo(ctx, a, x, 0, data[:5])
			_ = d.CopyTo(ctx, b, x, 4, data[:4])
		}),
		Entry("an event between them", "", func(ctx context.Context, d device.Device, x device.Memory, a, b device.Stream) {
			_ = d.CopyTo(ctx, a, x, 0, data)
			e, _ := a.Record()
			_ = b.WaitFor(ctx, e)
			e.Close()
			_ = d.CopyFrom(ctx, b, make([]byte, 8), x, 0)
		}),
		Entry("an event of before the write", "are not ordered", func(ctx context.Context, d device.Device, x device.Memory, a, b device.Stream) {
			e, _ := a.Record()
			_ = d.CopyTo(ctx, a, x, 0, data)
			_ = b.WaitFor(ctx, e)
			e.Close()
			_ = d.CopyFrom(ctx, b, make([]byte, 8), x, 0)
		}),
		Entry("the host's wait between them", "", func(ctx context.Context, d device.Device, x device.Memory, a, b device.Stream) {
			_ = d.CopyTo(ctx, a, x, 0, data)
			_ = a.Sync(ctx)
			_ = d.CopyFrom(ctx, b, make([]byte, 8), x, 0)
		}),
		Entry("another's event between them", "", func(ctx context.Context, d device.Device, x device.Memory, a, b device.Stream) {
			_ = d.CopyTo(ctx, a, x, 0, data)
			e, _ := a.Record()
			far := device.NewEvent()
			e.Notify(far.Complete)
			e.Close()
			_ = b.WaitFor(ctx, far)
			_ = d.CopyFrom(ctx, b, make([]byte, 8), x, 0)
		}),
		Entry("a copy at once behind a queued one", "are not ordered", func(ctx context.Context, d device.Device, x device.Memory, a, _ device.Stream) {
			_ = d.CopyTo(ctx, a, x, 0, data)
			_ = d.CopyTo(ctx, nil, x, 0, data)
		}),
		Entry("freed too early", "freed", func(ctx context.Context, d device.Device, x device.Memory, a, _ device.Stream) {
			_ = d.CopyTo(ctx, a, x, 0, data)
			d.Free(x)
		}),
		Entry("freed twice", "freed, but there is none", func(_ context.Context, d device.Device, x device.Memory, _, _ device.Stream) {
			d.Free(x)
			d.Free(x)
		}),
		Entry("used when it is freed", "is used, but there is none", func(ctx context.Context, d device.Device, x device.Memory, a, _ device.Stream) {
			d.Free(x)
			_ = d.CopyTo(ctx, a, x, 0, data)
		}),
		Entry("an event closed twice", "closed twice", func(_ context.Context, _ device.Device, _ device.Memory, a, _ device.Stream) {
			e, _ := a.Record()
			e.Close()
			e.Close()
		}),
		Entry("an event asked after Close", "after Close", func(_ context.Context, _ device.Device, _ device.Memory, a, _ device.Stream) {
			e, _ := a.Record()
			e.Close()
			_, _ = e.Done()
		}),
	)

	It("finds host memory that changes before it is read", func(ctx SpecContext) {
		b := fake.New(fake.Options{})
		d := b.Devices()[0]
		x, s := alloc(d, 4), stream(d)
		hold, src := device.NewEvent(), []byte{1, 2, 3, 4}
		Expect(s.WaitFor(ctx, hold)).To(Succeed())
		Expect(d.CopyTo(ctx, s, x, 0, src)).To(Succeed())
		src[0] = 9
		hold.Complete(nil)
		Expect(s.Close()).To(Succeed())
		Expect(b.Faults()).To(ConsistOf(ContainSubstring("changed before they were read")))
		d.Free(x)
	})

	DescribeTable("fails as it is told, at once or late", func(ctx SpecContext, op fake.Op, use func(ctx context.Context, d device.Device, x device.Memory, s device.Stream) error) {
		b := fake.New(fake.Options{Fail: fake.FailNth(op, 0)})
		d := b.Devices()[0]
		var x device.Memory
		var s device.Stream
		if op != fake.Alloc && op != fake.NewStream {
			x, s = alloc(d, 8), stream(d)
		}
		Expect(use(ctx, d, x, s)).To(MatchError(fake.ErrInjected))
		if s != nil {
			Expect(s.Close()).To(Succeed()) // it was reported
			d.Free(x)
			Expect(b.Leaks()).To(BeEmpty())
		}
		Expect(b.Faults()).To(BeEmpty())
	},
		Entry("allocation", fake.Alloc, func(_ context.Context, d device.Device, _ device.Memory, _ device.Stream) error {
			_, err := d.Alloc(8)
			return err
		}),
		Entry("a stream", fake.NewStream, func(_ context.Context, d device.Device, _ device.Memory, _ device.Stream) error {
			_, err := d.NewStream()
			return err
		}),
		Entry("copy to", fake.CopyTo, func(ctx context.Context, d device.Device, x device.Memory, s device.Stream) error {
			return d.CopyTo(ctx, s, x, 0, data)
		}),
		Entry("copy from", fake.CopyFrom, func(ctx context.Context, d device.Device, x device.Memory, s device.Stream) error {
			return d.CopyFrom(ctx, s, make([]byte, 4), x, 0)
		}),
		Entry("copy between", fake.CopyBetween, func(ctx context.Context, d device.Device, x device.Memory, s device.Stream) error {
			return d.CopyBetween(ctx, s, x, 0, x, 4, 4)
		}),
		Entry("record", fake.Record, func(_ context.Context, _ device.Device, _ device.Memory, s device.Stream) error {
			_, err := s.Record()
			return err
		}),
		Entry("wait", fake.WaitFor, func(ctx context.Context, _ device.Device, _ device.Memory, s device.Stream) error {
			return s.WaitFor(ctx, device.NewEvent())
		}),
		Entry("a copy at once, late", fake.LateCopy, func(ctx context.Context, d device.Device, x device.Memory, _ device.Stream) error {
			return d.CopyTo(ctx, nil, x, 0, data)
		}),
		Entry("a queued copy, late", fake.LateCopy, func(ctx context.Context, d device.Device, x device.Memory, s device.Stream) error {
			if err := d.CopyTo(ctx, s, x, 0, data); err != nil {
				return nil // too early
			}
			e, err := s.Record()
			if err != nil {
				return err
			}
			defer e.Close()
			return e.Wait(ctx)
		}),
	)

	It("fails a share of the calls by seed, of some kinds or all", func() {
		count := func(f func(fake.Call) error, op fake.Op) (n int) {
			for i := range 10000 {
				if f(fake.Call{Op: op, N: i}) != nil {
					n++
				}
			}
			return n
		}
		Expect(count(fake.FailSome(1, 0.01), fake.Alloc)).To(BeNumerically("~", 100, 40))
		Expect(count(fake.FailSome(1, 0.01, fake.Launch), fake.Alloc)).To(BeZero())
		Expect(count(fake.FailSome(1, 0.01, fake.Alloc, fake.Launch), fake.Launch)).To(BeNumerically("~", 100, 40))
	})

	It("has views on each of its devices", func() {
		b := fake.New(fake.Options{Devices: 3, Name: "twins"})
		v, err := b.On(b.Devices()[2].ID())
		Expect(err).NotTo(HaveOccurred())
		Expect(v.Info().Name).To(Equal("twins:2"))
		Expect(v.Devices()[0]).To(Equal(b.Devices()[2]))
		Expect(v.Devices()).To(ConsistOf(b.Devices()[0], b.Devices()[1], b.Devices()[2]))
		same, err := b.On(b.Devices()[0].ID())
		Expect(err).NotTo(HaveOccurred())
		Expect(same.Info()).To(Equal(b.Info()))
		_, err = b.On(device.Host.ID())
		Expect(err).To(MatchError(backend.ErrUnavailable))
	})

	It("counts the host's waits", func(ctx SpecContext) {
		b := fake.New(fake.Options{})
		s := stream(b.Devices()[0])
		hold := device.NewEvent()
		Expect(s.WaitFor(ctx, hold)).To(Succeed())
		e, err := s.Record()
		Expect(err).NotTo(HaveOccurred())
		var group sync.WaitGroup
		group.Go(func() { // when the host waits for it
			defer GinkgoRecover()
			defer hold.Complete(nil)
			Eventually(func() int { return b.Stats().Waits }).WithTimeout(time.Minute).Should(Equal(1))
		})
		for range 3 {
			Expect(e.Wait(ctx)).To(Succeed())
		}
		group.Wait()
		e.Close()
		Expect(b.Stats().Waits).To(Equal(1))
		Expect(s.Close()).To(Succeed())
	})
})
