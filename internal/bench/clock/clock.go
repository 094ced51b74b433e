// Package clock is about measuring on a machine that does other things too: what the processor gave to a thread, and what its
// caches hold.
package clock

import "runtime"

// Touch reads every cache line of b, so that caches hold it, as far as it fits, and what they held before no longer.
func Touch(b []byte) {
	var sum byte
	for i := 0; i < len(b); i += 64 {
		sum += b[i]
	}
	runtime.KeepAlive(sum) // or the reads would be left out
}
