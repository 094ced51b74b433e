package offheap_test

import (
	"fmt"
	"os"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"

	"github.com/carve-dev/carve/internal/offheap"
)

var _ = It("makes the pages that Populate names", func() {
	resident := func() int {
		status, err := os.ReadFile("/proc/self/statm")
		Expect(err).NotTo(HaveOccurred())
		var size, pages int
		_, err = fmt.Sscan(string(status), &size, &pages)
		Expect(err).NotTo(HaveOccurred())
		return pages * os.Getpagesize()
	}
	b, err := offheap.Alloc(2<<20-64<<10, 0)
	Expect(err).NotTo(HaveOccurred())
	defer b.Free()
	if unix.Madvise(b.Bytes()[:os.Getpagesize()], unix.MADV_POPULATE_WRITE) != nil {
		Skip("the kernel has no MADV_POPULATE_WRITE: it is older than 5.14")
	}
	before := resident()
	offheap.Populate(b.Bytes())
	Expect(resident() - before).To(BeNumerically(">", 1<<20))
})
