package device_test

import (
	"errors"
	"math/rand/v2"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend/backendtest/fake"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/internal/offheap"
)

var _ = Describe("Pool", func() {
	const mb = 1 << 20
	alloc := func(p *device.Pool, n int64) device.Memory {
		GinkgoHelper()
		m, err := p.Alloc(n)
		Expect(err).NotTo(HaveOccurred())
		Expect(m.Size).To(BeNumerically(">=", n))
		return m
	}

	It("hands out the kept block that fits best, and none that is twice too large", func() {
		p := device.NewPool(fake.New(fake.Options{}).Devices()[0], nil)
		sizes := []int64{8 * mb, 3 * mb, 5 * mb}
		blocks := map[int64]uintptr{}
		var list []device.Memory
		for _, n := range sizes {
			m := alloc(p, n)
			blocks[n] = m.Handle
			list = append(list, m)
		}
		for _, m := range list {
			p.Free(m)
		}
		Expect(p.Stats()).To(Equal(device.PoolStats{Kept: 16 * mb, Peak: 16 * mb, Misses: 3}))
		Expect(alloc(p, 4*mb).Handle).To(Equal(blocks[5*mb]))
		Expect(alloc(p, 3*mb).Handle).To(Equal(blocks[3*mb]))
		small := alloc(p, 3*mb) // 8 MiB is too much for it
		Expect(small.Handle).NotTo(Equal(blocks[8*mb]))
		Expect(small.Size).To(BeEquivalentTo(3 * mb))
		Expect(p.Stats()).To(Equal(device.PoolStats{InUse: 11 * mb, Kept: 8 * mb, Peak: 19 * mb, Hits: 2, Misses: 4}))
		Expect(p.Stats().Held()).To(BeEquivalentTo(19 * mb))
	})

	It("keeps what is freed, gives back what is freed directly, and everything with ReleaseAll", func() {
		b := fake.New(fake.Options{})
		p := device.NewPool(b.Devices()[0], nil)
		x, y := alloc(p, mb), alloc(p, mb)
		p.Free(x)
		Expect(b.Stats().Held).To(BeEquivalentTo(2 * mb))
		p.DirectFree(y)
		Expect(b.Stats().Held).To(BeEquivalentTo(mb))
		p.ReleaseAll()
		Expect(b.Leaks()).To(BeEmpty())
		Expect(b.Faults()).To(BeEmpty())
		Expect(p.Stats().Held()).To(BeZero())
	})

	It("knows the host's blocks by their address", func() {
		before := offheap.Total().Anonymous
		p := device.NewPool(device.Host, nil)
		m := alloc(p, 1000)
		p.Free(device.Memory{Data: m.Data[:10]})
		Expect(alloc(p, 900).Data).To(HaveLen(1000))
		p.Free(m)
		empty := alloc(p, 0)
		p.Free(empty)
		p.ReleaseAll()
		Expect(offheap.Total().Anonymous).To(Equal(before))
	})

	It("keeps no more than it may, and gives back first what was freed first", func() {
		b := fake.New(fake.Options{})
		p := device.NewPool(b.Devices()[0], &device.PoolOptions{Keep: 4 * mb})
		x, y, z := alloc(p, 2*mb), alloc(p, mb), alloc(p, 2*mb)
		p.Free(x)
		p.Free(y)
		p.Free(z)
		Expect(p.Stats().Kept).To(BeEquivalentTo(3 * mb))
		Expect(b.Stats().Held).To(BeEquivalentTo(3 * mb))
		Expect(alloc(p, 2*mb).Handle).To(Equal(z.Handle))
	})

	It("stays below its limit by giving back what is kept", func() {
		b := fake.New(fake.Options{})
		p := device.NewPool(b.Devices()[0], &device.PoolOptions{Limit: 4 * mb})
		x, y := alloc(p, mb), alloc(p, mb)
		p.Free(x)
		big := alloc(p, 3*mb)
		Expect(b.Stats().Peak).To(BeNumerically("<=", 4*mb))
		_, err := p.Alloc(mb)
		Expect(err).To(MatchError(device.ErrOutOfMemory))
		Expect(err).To(MatchError(ContainSubstring("1048576 bytes with 4194304 in use, limit 4194304")))
		p.Free(y)
		p.Free(big)
		alloc(p, mb)
	})

	It("gives back what is kept when the device has no memory left", func() {
		b := fake.New(fake.Options{Memory: 4 * mb})
		p := device.NewPool(b.Devices()[0], nil)
		p.Free(alloc(p, 3*mb))
		m := alloc(p, 4*mb)
		_, err := p.Alloc(mb)
		Expect(err).To(MatchError(device.ErrOutOfMemory))
		Expect(p.Stats()).To(HaveField("InUse", int64(4*mb)))
		p.DirectFree(m)
		Expect(b.Leaks()).To(BeEmpty())
	})

	It("copies like the device beneath, to its peers as well", func(ctx SpecContext) {
		b := fake.New(fake.Options{Devices: 2})
		p, q := device.NewPool(b.Devices()[0], nil), device.NewPool(b.Devices()[1], nil)
		x, y := alloc(p, 4), alloc(q, 4)
		Expect(device.CopiesTo(p, q.ID())).To(BeTrue())
		Expect(device.CopiesTo(p, p.ID())).To(BeTrue())
		Expect(device.CopiesTo(p, device.Host.ID())).To(BeFalse())
		Expect(p.CopyTo(ctx, nil, x, 0, []byte{1, 2, 3, 4})).To(Succeed())
		Expect(p.CopyBetween(ctx, nil, y, 0, x, 0, 4)).To(Succeed())
		back := make([]byte, 4)
		Expect(q.CopyFrom(ctx, nil, back, y, 0)).To(Succeed())
		Expect(back).To(Equal([]byte{1, 2, 3, 4}))
	})

	It("names device, need, use and limit in its error, and counts what lies elsewhere", func() {
		b := fake.New(fake.Options{})
		p := device.NewPool(b.Devices()[0], &device.PoolOptions{Limit: 4 * mb})
		p.Free(alloc(p, 2*mb))
		Expect(p.Reserve(3 * mb)).To(Succeed())
		Expect(p.Stats()).To(And(HaveField("Kept", int64(0)), HaveField("Reserved", int64(3*mb))), "what was kept is given back first")
		_, err := p.Alloc(2 * mb)
		Expect(err).To(MatchError(device.ErrOutOfMemory))
		var limit *device.LimitError
		Expect(errors.As(err, &limit)).To(BeTrue())
		Expect(*limit).To(Equal(device.LimitError{Device: b.Devices()[0].ID().String(), Need: 2 * mb, Used: 3 * mb, Limit: 4 * mb}))
		Expect(p.Reserve(2 * mb)).To(MatchError(device.ErrOutOfMemory))
		Expect(p.Reserve(-3 * mb)).To(Succeed())
		p.Free(alloc(p, 4*mb))
		Expect(p.Trim()).To(BeEquivalentTo(4 * mb))
		Expect(b.Leaks()).To(BeEmpty())
	})

	It("holds no more than was in use at one time, where it keeps that much", func() {
		b := fake.New(fake.Options{})
		p := device.NewPool(b.Devices()[0], &device.PoolOptions{Keep: device.KeepPeak})
		p.Free(alloc(p, mb))
		Expect(p.Stats().Held()).To(BeEquivalentTo(mb))
		x := alloc(p, 4*mb)
		Expect(b.Stats()).To(And(HaveField("Held", int64(4*mb)), HaveField("Peak", int64(4*mb))), "a small block makes way before the large one comes")
		y := alloc(p, 2*mb)
		p.Free(x)
		p.Free(y)
		Expect(b.Stats().Held).To(BeEquivalentTo(6 * mb))
		Expect(p.Trim()).To(BeEquivalentTo(6 * mb))
		p.Free(alloc(p, mb))
		Expect(p.Stats()).To(And(HaveField("Kept", int64(mb)), HaveField("Peak", int64(6*mb))))
		Expect(p.Trim()).To(BeEquivalentTo(mb))
		Expect(p.Trim()).To(BeZero())
	})

	It("serves many goroutines", func() {
		b := fake.New(fake.Options{Memory: 64 * mb})
		p := device.NewPool(b.Devices()[0], &device.PoolOptions{Limit: 32 * mb, Keep: 8 * mb})
		var group sync.WaitGroup
		for g := range uint64(4) {
			group.Go(func() {
				defer GinkgoRecover()
				r := rand.New(rand.NewPCG(g, 1))
				var held []device.Memory
				for range 300 {
					if m, err := p.Alloc(1 + r.Int64N(4*mb)); err == nil {
						held = append(held, m)
					}
					for len(held) > r.IntN(4) {
						if r.IntN(3) == 0 {
							p.DirectFree(held[0])
						} else {
							p.Free(held[0])
						}
						held = held[1:]
					}
				}
				for _, m := range held {
					p.Free(m)
				}
			})
		}
		group.Wait()
		Expect(p.Stats()).To(And(HaveField("InUse", int64(0)), HaveField("Kept", BeNumerically("<=", 8*mb)), HaveField("Peak", BeNumerically("<=", 32*mb))))
		p.ReleaseAll()
		Expect(b.Leaks()).To(BeEmpty())
		Expect(b.Faults()).To(BeEmpty())
	})
})
