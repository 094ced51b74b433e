package offheap_test

import (
	"errors"
	"math"
	"runtime"
	"testing"
	"unsafe"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/offheap"
)

func anonymous() int64 { return offheap.Total().Anonymous }

var _ = Describe("Alloc", func() {
	DescribeTable("gives zeroed, writable memory of the size and alignment asked for",
		func(n, align, want int) {
			before := anonymous()
			b, err := offheap.Alloc(n, align)
			Expect(err).NotTo(HaveOccurred())
			data := b.Bytes()
			Expect(data).To(HaveLen(n))
			Expect(data).To(HaveCap(n))
			Expect(anonymous() - before).To(BeEquivalentTo(n))
			if n > 0 {
				Expect(uintptr(unsafe.Pointer(&data[0])) % uintptr(want)).To(BeZero())
			}
			step := max(1, n/1000)
			for i := 0; i < n; i += step {
				Expect(data[i]).To(BeZero())
				data[i] = byte(i)
			}
			if n > 0 {
				data[n-1] = 1
			}
			Expect(b.Free()).To(Succeed())
			Expect(b.Bytes()).To(BeNil())
			Expect(anonymous()).To(Equal(before))
			Expect(b.Free()).To(Succeed())
			Expect(anonymous()).To(Equal(before))
		},
		Entry("nothing", 0, 0, 1),
		Entry("one byte", 1, 0, 64),
		Entry("a page and one byte", 4097, 256, 256),
		Entry("more than page alignment", 1000, 1<<20, 1<<20),
		Entry("1 GiB alignment", 1000, 1<<30, 1<<30),
		Entry("alignment 1", 3, 1, 1),
		Entry("huge pages", 9<<20, 64, 2<<20),
		Entry("huge pages with an odd end", 8<<20+13, 4<<20, 4<<20),
	)

	DescribeTable("refuses", func(n, align int, cause error) {
		if cause == nil && math.MaxInt == math.MaxInt32 {
			Skip("a 32-bit process may have half its address space")
		}
		before := anonymous()
		b, err := offheap.Alloc(n, align)
		Expect(b).To(BeNil())
		var e *offheap.Error
		Expect(errors.As(err, &e)).To(BeTrue())
		Expect(e.Op).To(Equal("alloc"))
		Expect(e.Bytes).To(BeEquivalentTo(n))
		if cause != nil {
			Expect(err).To(MatchError(cause))
		}
		Expect(anonymous()).To(Equal(before))
	},
		Entry("a negative size", -1, 0, offheap.ErrSize),
		Entry("the largest size", math.MaxInt, 0, offheap.ErrSize),
		Entry("more than the address space", math.MaxInt/2, 0, nil),
		Entry("an alignment that is no power of two", 8, 48, offheap.ErrAlign),
		Entry("a negative alignment", 8, math.MinInt, offheap.ErrAlign),
		Entry("an alignment above 1 GiB", 8, 1<<31-1, offheap.ErrAlign),
	)

	It("names the operation and the size in its errors", func() {
		_, err := offheap.Alloc(-3, 0)
		Expect(err).To(MatchError("offheap: alloc -3 bytes: size out of range"))
	})

	It("returns memory that became unreachable", func() {
		before := anonymous()
		func() {
			for range 10 {
				b, err := offheap.Alloc(1<<16, 0)
				Expect(err).NotTo(HaveOccurred())
				b.Bytes()[0] = 1
			}
		}()
		Eventually(func() int64 { runtime.GC(); return anonymous() }).Should(Equal(before))
	})

	It("keeps blocks apart", func() {
		blocks := make([]*offheap.Block, 20)
		for i := range blocks {
			b, err := offheap.Alloc(5000+i, 128)
			Expect(err).NotTo(HaveOccurred())
			blocks[i] = b
			for j := range b.Bytes() {
				b.Bytes()[j] = byte(i + 1)
			}
		}
		for i, b := range blocks {
			for _, v := range b.Bytes() {
				if v != byte(i+1) {
					Fail("a block was overwritten by another")
				}
			}
			Expect(b.Free()).To(Succeed())
		}
	})

	It("frees nil", func() {
		var b *offheap.Block
		Expect(b.Free()).To(Succeed())
	})
})

func BenchmarkAlloc(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		m, err := offheap.Alloc(1<<20, 64)
		if err != nil {
			b.Fatal(err)
		}
		m.Bytes()[0] = 1
		if err := m.Free(); err != nil {
			b.Fatal(err)
		}
	}
}

var _ = DescribeTable("Populate changes nothing", func(n, skip int) {
	b, err := offheap.Alloc(n, 0)
	Expect(err).NotTo(HaveOccurred())
	defer b.Free()
	data := b.Bytes()[skip:]
	for i := range data {
		data[i] = byte(i)
	}
	offheap.Populate(data)
	for i, v := range data {
		if v != byte(i) {
			Fail("a byte was changed")
		}
	}
	fresh, err := offheap.Alloc(n, 0)
	Expect(err).NotTo(HaveOccurred())
	defer fresh.Free()
	offheap.Populate(fresh.Bytes())
	for _, v := range fresh.Bytes() {
		if v != 0 {
			Fail("fresh memory is not zero")
		}
	}
},
	Entry("of nothing", 0, 0),
	Entry("of less than a page", 100, 7),
	Entry("of pages and a part", 3*4096+5, 64),
	Entry("behind huge pages", 5<<20+4096+3, 0),
	Entry("at an odd address", 3<<20, 1001),
)
