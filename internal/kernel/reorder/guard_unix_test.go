//go:build unix

package reorder_test

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// guarded returns n floats whose end (or, if front, whose start) touches a page that faults when it is read or written,
// and a function that unmaps them.
func guarded(n int, front bool) ([]float32, func()) {
	page := os.Getpagesize()
	size := (4*n + page - 1) / page * page
	mem, err := unix.Mmap(-1, 0, size+2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return make([]float32, n), func() {}
	}
	free := func() { _ = unix.Munmap(mem) }
	if unix.Mprotect(mem[:page], unix.PROT_NONE) != nil || unix.Mprotect(mem[page+size:], unix.PROT_NONE) != nil {
		return make([]float32, n), free
	}
	at := page + size - 4*n
	if front {
		at = page
	}
	if n == 0 {
		return nil, free
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&mem[at])), n), free
}
