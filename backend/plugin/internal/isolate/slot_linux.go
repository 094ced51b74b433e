//go:build amd64 || arm64

package isolate

import (
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// slot is where one call is made, see the package comment.
type slot struct {
	state, wait, sleep, op uint32
	fn, _                  uint32
	number                 uint64
	args                   [6]uint64
	ret                    uint64
	answers                uint64
	up                     [4]uint64
	upRet                  uint64
	work, pause            uint64
	_                      [slotData - 152]byte
	data                   [slotBytes - slotData]byte
}

const (
	slotBytes = 8192
	slotData  = 256
	slots     = 64 // calls that are under way at one time
)

// area is what a life has of its region.
type area struct {
	beat  uint64
	_     [granule - 8]byte
	slots [slots]slot
}

// areaAt returns the area at an address of a region.
func areaAt(at uintptr) *area { return (*area)(pointer(at)) }

// States of a slot.
const (
	stateIdle = iota
	stateRequest
	stateAnswered
	stateReply
	stateUpcall
)

// How the parent waits.
const (
	waitNot = iota
	waitFutex
	waitMessage
)

const (
	opCall = iota + 1
	opBytes
	opStruct
	opStructs
)

// threadFor is how long the parent sleeps on its thread at most.
const threadFor = 2 * time.Millisecond

// futexWait sleeps while *at is v, for d at most, or without an end where d is 0. It may return early.
func futexWait(at *uint32, v uint32, d time.Duration) {
	var ts *unix.Timespec
	if d > 0 {
		t := unix.NsecToTimespec(int64(d))
		ts = &t
	}
	_, _, _ = syscall.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(at)), 0 /* FUTEX_WAIT */, uintptr(v), uintptr(unsafe.Pointer(ts)), 0, 0)
}

func futexWake(at *uint32) {
	_, _, _ = syscall.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(at)), 1 /* FUTEX_WAKE */, 1, 0, 0, 0)
}

// give sets the state for the child to see, and says whether the child had to be woken.
func (s *slot) give(state uint32) (woken bool) {
	atomic.StoreUint32(&s.state, state)
	if woken = atomic.LoadUint32(&s.sleep) != 0; woken {
		futexWake(&s.state)
	}
	return woken
}

// mine reports whether a state is for the child to see.
func mine(state uint32) bool { return state == stateRequest || state == stateAnswered }

// look looks at the state for a while, as long as pending says so, and returns the last one.
func (s *slot) look(pending func(uint32) bool, spin time.Duration) uint32 {
	st := atomic.LoadUint32(&s.state)
	if !pending(st) || spin == 0 {
		return st
	}
	for begin := time.Now(); time.Since(begin) < spin; {
		for range 32 {
			if st = atomic.LoadUint32(&s.state); !pending(st) {
				return st
			}
		}
	}
	return st
}
