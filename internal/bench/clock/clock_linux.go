package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// Process returns the processor time of the process, 0 where it is not known.
func Process() time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// Thread returns the processor time of the calling thread; ok is false where it is not known.
func Thread() (t time.Duration, ok bool) {
	var ts unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts)
	return time.Duration(ts.Nano()), err == nil
}
