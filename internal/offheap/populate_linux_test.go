package offheap_test

import (
	"os"
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

var _ = It("makes the pages that Populate names", func() {
	page := os.Getpagesize()
	b, err := offheap.Alloc(1<<20, 0)
	Expect(err).NotTo(HaveOccurred())
	defer b.Free()
	data := b.Bytes()[int(-uintptr(unsafe.Pointer(unsafe.SliceData(b.Bytes())))&uintptr(page-1)):]
	if unix.Madvise(data[:page], unix.MADV_POPULATE_WRITE) != nil {
		Skip("the kernel has no MADV_POPULATE_WRITE: it is older than 5.14")
	}
	all := len(data) / page
	if pagesMade(data) > all/2 {
		Skip("the kernel says of pages that nobody touched that they are made")
	}
	offheap.Populate(b.Bytes())
	Expect(pagesMade(data)).To(Equal(all))
})
