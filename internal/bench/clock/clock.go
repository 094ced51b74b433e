// Package clock is about measuring on a machine that does other things too: what the processor gave to a thread, what its
// caches hold, and what memory a process took.
package clock

import (
	"os"
	"runtime"
	"strconv"
	"strings"
)

// PeakMiB returns the most physical memory that the process has had, in MiB; 0 where the system does not tell.
func PeakMiB() float64 {
	b, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "VmHWM:" {
			kib, _ := strconv.ParseFloat(f[1], 64)
			return kib / 1024
		}
	}
	return 0
}

// Touch reads every cache line of b, so that caches hold it, as far as it fits, and what they held before no longer.
func Touch(b []byte) {
	var sum byte
	for i := 0; i < len(b); i += 64 {
		sum += b[i]
	}
	runtime.KeepAlive(sum) // or the reads would be left out
}
