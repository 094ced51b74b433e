package tune

import (
	"bytes"
	"os"
	"strconv"
	"time"
)

// waited returns how long the calling thread has been ready to run without a processor to run on, since it began; false where the
// system does not say.
func waited() (time.Duration, bool) {
	b, err := os.ReadFile("/proc/thread-self/schedstat") // time that it ran, time that it waited, turns
	if err != nil {
		return 0, false
	}
	f := bytes.Fields(b)
	if len(f) != 3 {
		return 0, false
	}
	ns, err := strconv.ParseInt(string(f[1]), 10, 64)
	return time.Duration(ns), err == nil
}
