package offheap

import "golang.org/x/sys/unix"

// adviseHuge asks for huge pages. A kernel without them says no, which is no error.
func adviseHuge(data []byte) { _ = unix.Madvise(data, unix.MADV_HUGEPAGE) }

// adviseScattered asks for small pages, and for none but those that are read. It is advice: where the system says no, it does as it would.
func adviseScattered(data []byte) {
	_ = unix.Madvise(data, unix.MADV_NOHUGEPAGE)
	_ = unix.Madvise(data, unix.MADV_RANDOM)
}
