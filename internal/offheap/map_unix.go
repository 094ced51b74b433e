//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package offheap

import (
	"os"

	"golang.org/x/sys/unix"
)

// granularity returns the alignment of what reserve and view return, in bytes.
func granularity() int { return os.Getpagesize() }

func reserve(n int) ([]byte, error) {
	return unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
}

func release(raw []byte) error { return unix.Munmap(raw) }

// view maps n bytes of the file from off, a multiple of granularity.
func view(f *os.File, off int64, n int) (raw []byte, err error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	if cerr := conn.Control(func(fd uintptr) {
		raw, err = unix.Mmap(int(fd), off, n, unix.PROT_READ, unix.MAP_SHARED)
	}); cerr != nil {
		return nil, cerr
	}
	return raw, err
}

func unview(raw []byte) error { return unix.Munmap(raw) }

func evict(raw []byte) error { return unix.Madvise(raw, unix.MADV_DONTNEED) }
