package offheap

import "golang.org/x/sys/unix"

// adviseHuge asks for huge pages. A kernel without them says no, which is no error.
func adviseHuge(data []byte) { _ = unix.Madvise(data, unix.MADV_HUGEPAGE) }
