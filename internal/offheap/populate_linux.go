package offheap

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// populate makes the whole pages of data. It is advice: a kernel before 5.14 says no, and makes them at first touch.
func populate(data []byte) {
	page := os.Getpagesize()
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(data))) & uintptr(page-1))
	if n := (len(data) - skip) / page * page; n > 0 {
		_ = unix.Madvise(data[skip:skip+n], unix.MADV_POPULATE_WRITE)
	}
}
