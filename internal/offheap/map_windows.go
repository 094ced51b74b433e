package offheap

import (
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

// granularity returns the alignment of what reserve and view return, in bytes: the allocation granularity, which is 64 KiB
// on every Windows.
func granularity() int { return 64 << 10 }

func reserve(n int) ([]byte, error) {
	addr, err := windows.VirtualAlloc(0, uintptr(n), windows.MEM_RESERVE|windows.MEM_COMMIT, windows.PAGE_READWRITE)
	if err != nil {
		return nil, err
	}
	return at(addr, n), nil
}

func release(raw []byte) error {
	return windows.VirtualFree(uintptr(unsafe.Pointer(unsafe.SliceData(raw))), 0, windows.MEM_RELEASE)
}

// view maps n bytes of the file from off, a multiple of granularity.
func view(f *os.File, off int64, n int) (raw []byte, err error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	if cerr := conn.Control(func(fd uintptr) {
		var section windows.Handle
		section, err = windows.CreateFileMapping(windows.Handle(fd), nil, windows.PAGE_READONLY, 0, 0, nil)
		if err != nil {
			return
		}
		defer windows.CloseHandle(section) // the view keeps it
		var addr uintptr
		addr, err = windows.MapViewOfFile(section, windows.FILE_MAP_READ, uint32(off>>32), uint32(off), uintptr(n))
		if err == nil {
			raw = at(addr, n)
		}
	}); cerr != nil {
		return nil, cerr
	}
	return raw, err
}

func unview(raw []byte) error {
	return windows.UnmapViewOfFile(uintptr(unsafe.Pointer(unsafe.SliceData(raw))))
}

func evict([]byte) error { return nil }

// at returns the memory at an address outside the Go heap.
func at(addr uintptr, n int) []byte {
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&addr)), n)
}
