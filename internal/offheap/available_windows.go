package offheap

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

var memoryStatus = windows.NewLazySystemDLL("kernel32.dll").NewProc("GlobalMemoryStatusEx")

// available returns what may still be committed.
func available() int64 {
	var s struct {
		length, load                            uint32
		total, free, totalPage, freePage        uint64
		totalVirtual, freeVirtual, freeExtended uint64
	}
	s.length = uint32(unsafe.Sizeof(s))
	if ok, _, _ := memoryStatus.Call(uintptr(unsafe.Pointer(&s))); ok == 0 || s.freePage > mostMemory {
		return mostMemory
	}
	return int64(s.freePage)
}
