package repository

import (
	"time"

	"golang.org/x/sys/unix"
)

const (
	longSlice = 10 * time.Millisecond // usual are up to 3 ms
	niceness  = 5                     // a third of the usual share
)

// giveWay has the calling thread go behind others that wake up, of clients on the same machine too: by a smaller share of the processors,
// and by longer slices of time, since one with a shorter slice need not wait for the end of the other's (Linux 6.12 and later). Otherwise
// that is looked at with the clock's ticks alone, up to four milliseconds later. The thread cannot go back without the right to.
func giveWay() {
	a, err := unix.SchedGetAttr(0, 0)
	if err != nil || a.Policy != unix.SCHED_NORMAL {
		return // somebody has decided otherwise
	}
	a = &unix.SchedAttr{Policy: unix.SCHED_NORMAL, Nice: min(a.Nice+niceness, 19), Runtime: max(a.Runtime, uint64(longSlice))}
	_ = unix.SchedSetAttr(0, a, 0) // it is as well as that goes
}

// onFirstThread reports whether the caller runs on the process's first thread.
func onFirstThread() bool { return unix.Gettid() == unix.Getpid() }
