package device_test

import (
	"errors"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph/device"
)

// given is an allocator that gives what it is told to, and notes what comes back.
type given struct {
	m    device.Memory
	err  error
	back []device.Memory
}

func (g *given) Alloc(int64) (device.Memory, error) { return g.m, g.err }
func (g *given) Free(m device.Memory)               { g.back = append(g.back, m) }

var _ = Describe("HostWith", func() {
	block := func() device.Memory {
		GinkgoHelper()
		m, err := device.Host.Alloc(4096)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(device.Host.Free, m)
		return m
	}

	It("is the host with blocks of an allocator, which come back as they were given", func(ctx SpecContext) {
		m := block()
		from := &given{m: device.Memory{Data: m.Data, Handle: 77}}
		d := device.HostWith(from)
		Expect(d.ID().IsHost()).To(BeTrue())
		x, err := d.Alloc(4000)
		Expect(err).NotTo(HaveOccurred())
		Expect(x.Size).To(BeEquivalentTo(4000))
		Expect(d.CopyTo(ctx, nil, x, 1, []byte{7})).To(Succeed())
		Expect(m.Data[1]).To(BeEquivalentTo(7))
		d.Free(x)
		y, err := d.Alloc(1)
		Expect(err).NotTo(HaveOccurred())
		d.DirectFree(y)
		Expect(from.back).To(HaveLen(2))
		Expect(from.back).To(HaveEach(HaveField("Handle", uintptr(77))))
		empty, err := d.Alloc(0)
		Expect(err).NotTo(HaveOccurred())
		d.Free(empty)
		d.ReleaseAll()
		Expect(from.back).To(HaveLen(2), "nothing was asked for")
		Expect(device.HostWith(nil)).To(BeIdenticalTo(device.Host))
	})

	It("gives blocks back that are too small or not aligned, and passes errors on", func() {
		m := block()
		for _, data := range [][]byte{m.Data[:10], m.Data[8:], nil} {
			from := &given{m: device.Memory{Data: data, Handle: 1}}
			_, err := device.HostWith(from).Alloc(100)
			Expect(err).To(MatchError(device.ErrAllocator))
			Expect(from.back).To(HaveLen(1))
		}
		cause := errors.New("cause")
		_, err := device.HostWith(&given{err: cause}).Alloc(100)
		Expect(err).To(MatchError(cause))
		_, err = device.HostWith(&given{m: m}).Alloc(-1)
		Expect(err).To(MatchError(device.ErrOutOfMemory))
	})
})
