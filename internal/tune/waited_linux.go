package tune

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// waited returns how long the calling thread has been ready to run without a processor to run on, and how long all other threads of
// this process have run, since they began; false where the system does not say.
func waited() (alone, others time.Duration, ok bool) {
	b, err := os.ReadFile("/proc/thread-self/schedstat") // time that it ran, time that it waited, turns
	if err != nil {
		return 0, 0, false
	}
	f := bytes.Fields(b)
	if len(f) != 3 {
		return 0, 0, false
	}
	ns, err := strconv.ParseInt(string(f[1]), 10, 64)
	if err != nil {
		return 0, 0, false
	}
	var process, thread unix.Timespec
	if unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &process) != nil || unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &thread) != nil {
		return 0, 0, false
	}
	return time.Duration(ns), time.Duration(process.Nano() - thread.Nano()), true
}
