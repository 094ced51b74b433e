package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// threadTime returns the processor time of the calling thread; ok is false where it is not known.
func threadTime() (t time.Duration, ok bool) {
	var ts unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts)
	return time.Duration(ts.Nano()), err == nil
}
