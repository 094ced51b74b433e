//go:build linux && (amd64 || arm64)

package pool

import (
	"syscall"
	"time"
	"unsafe"
)

// systemCore returns the number of the processor that the calling thread runs on, as Linux tells it, which takes 100 ns.
func systemCore() int32 {
	var n uint32
	if _, _, errno := syscall.RawSyscall(sysGetcpu, uintptr(unsafe.Pointer(&n)), 0, 0); errno != 0 {
		return unknownCore
	}
	return int32(n)
}

// nap has the calling thread sleep, so that its processor is free for others: for d, and the 50 µs by which Linux may be late.
func nap(d time.Duration) {
	t := syscall.NsecToTimespec(int64(d))
	_ = syscall.Nanosleep(&t, nil)
}
