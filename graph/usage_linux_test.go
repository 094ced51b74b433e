package graph_test

import (
	"syscall"
	"time"
)

// usage returns the processor time that the process has used, and the most bytes that it has had resident.
func usage() (own time.Duration, peak int64) {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0, 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), int64(u.Maxrss) << 10 //nolint:unconvert // it is 32 bits wide on 32-bit machines
}
