package guard_test

import (
	"testing"
	"unsafe"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/kernel/guard"
)

func TestGuard(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "guard")
}

var _ = DescribeTable("Buffer", func(side guard.Side, n int) {
	b, err := guard.New(n, side)
	Expect(err).NotTo(HaveOccurred())
	Expect(b.Data).To(HaveLen(n))
	for i := range b.Data {
		b.Data[i] = 1
	}
	Expect(b.Check()).To(Succeed())
	Expect(b.Free()).To(Succeed())
},
	Entry(nil, guard.End, 1), Entry(nil, guard.End, 1023), Entry(nil, guard.End, 1024), Entry(nil, guard.End, 5000), Entry(nil, guard.End, 0),
	Entry(nil, guard.Start, 1), Entry(nil, guard.Start, 1024),
)

var _ = Describe("CheckGaps", func() {
	It("finds a write between rows", func() {
		b, err := guard.New(3*5, guard.End)
		Expect(err).NotTo(HaveOccurred())
		defer b.Free()
		Expect(b.CheckGaps(3, 5)).To(Succeed())
		b.Data[2] = 1
		Expect(b.CheckGaps(3, 5)).To(Succeed())
		b.Data[3] = 1
		Expect(b.CheckGaps(3, 5)).To(MatchError(ContainSubstring("element 3")))
	})
})

var _ = Describe("Set", func() {
	It("frees its buffers once a spec, and finds what was written beside them", func() {
		var s guard.Set
		var free func() error
		cleanup := func(args ...any) {
			Expect(free).To(BeNil())
			free = args[0].(func() error)
		}
		for range 2 {
			first, err := s.New(5, guard.End, cleanup)
			Expect(err).NotTo(HaveOccurred())
			second, err := s.New(7, guard.Start, cleanup)
			Expect(err).NotTo(HaveOccurred())
			first.Data[0], second.Data[6] = 1, 1
			Expect(free()).To(Succeed())
			free = nil
		}
		b, err := s.New(5, guard.Start, cleanup)
		Expect(err).NotTo(HaveOccurred())
		_, err = s.New(5, guard.Start, cleanup)
		Expect(err).NotTo(HaveOccurred())
		unsafe.Slice(&b.Data[0], 6)[5] = 2
		Expect(free()).To(MatchError(ContainSubstring("element 5, outside of [0, 5)")))
	})
})
