package offheap_test

import (
	"os"
	"sync"
	"unsafe"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"

	"github.com/carve-dev/carve/internal/offheap"
)

// pagesMade counts the whole pages of data that the kernel has made, by mincore(2): the counters of /proc are kept per processor
// and may be hundreds of pages behind.
func pagesMade(data []byte) int {
	page := os.Getpagesize()
	made := make([]byte, len(data)/page)
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(unsafe.SliceData(data))), uintptr(len(made)*page),
		uintptr(unsafe.Pointer(unsafe.SliceData(made))))
	Expect(errno).To(BeZero())
	n := 0
	for _, m := range made {
		n += int(m & 1)
	}
	return n
}

var _ = Describe("Populate", func() {
	// fresh returns the whole pages of a Block that nobody has touched.
	fresh := func(size int) (*offheap.Block, []byte) {
		GinkgoHelper()
		b, err := offheap.Alloc(size, 0)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(b.Free)
		page := os.Getpagesize()
		data := b.Bytes()[int(-uintptr(unsafe.Pointer(unsafe.SliceData(b.Bytes())))&uintptr(page-1)):]
		if unix.Madvise(data[:page], unix.MADV_POPULATE_WRITE) != nil {
			Skip("the kernel has no MADV_POPULATE_WRITE: it is older than 5.14")
		}
		data = data[:len(data)/page*page]
		if size < offheap.HugePage && pagesMade(data) > len(data)/page/2 {
			Skip("the kernel says of pages that nobody touched that they are made")
		}
		return b, data
	}

	It("makes the pages of a small Block", func() {
		b, data := fresh(1 << 20)
		offheap.Populate(b.Bytes())
		Expect(pagesMade(data)).To(Equal(len(data) / os.Getpagesize()))
	})

	DescribeTable("keeps what a large Block holds, and makes its pages where huge ones are dear", func(huge, small int64, all bool) {
		DeferCleanup(offheap.SetPageCosts(huge, small))
		b, data := fresh(11*offheap.HugePage + 12345)
		data[5*offheap.HugePage+7] = 42
		offheap.Populate(b.Bytes())
		made, page := pagesMade(data), os.Getpagesize()
		Expect(made).To(BeNumerically(">=", offheap.HugePage/page), "the page that was measured")
		if all {
			Expect(made).To(Equal(len(data) / page))
		}
		Expect(data[5*offheap.HugePage+7]).To(Equal(byte(42)))
		Expect(data[6*offheap.HugePage]).To(BeZero())
	},
		Entry("nothing is known of either", int64(0), int64(0), false),
		Entry("huge pages are dear, nothing is known of small ones", int64(1e15), int64(0), true),
		Entry("huge pages are dearer", int64(1e15), int64(1), true),
		Entry("both are dear", int64(1e15), int64(1e15), false))

	It("makes the pages of parts that begin and end anywhere, on several goroutines", func() {
		DeferCleanup(offheap.SetPageCosts(1e15, 1))
		_, data := fresh(6 * offheap.HugePage)
		var wg sync.WaitGroup
		for lo, cuts := 0, []int{offheap.HugePage, 3 * offheap.HugePage, 4*offheap.HugePage + 4096, len(data)}; len(cuts) > 0; lo, cuts = cuts[0], cuts[1:] {
			wg.Go(func() { offheap.Populate(data[lo:cuts[0]]) })
		}
		wg.Wait()
		Expect(pagesMade(data)).To(Equal(len(data) / os.Getpagesize()))
	})
})
