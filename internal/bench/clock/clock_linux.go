package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// Thread returns the processor time of the calling thread; ok is false where it is not known.
func Thread() (t time.Duration, ok bool) {
	var ts unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts)
	return time.Duration(ts.Nano()), err == nil
}
