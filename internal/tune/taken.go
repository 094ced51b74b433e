package tune

import (
	"runtime"
	"time"
)

// reading is how long it takes at most to ask what a thread has waited, unless the thread waits meanwhile.
const reading = 200 * time.Microsecond

// Taken returns how long f takes, without the time that the calling thread waited for a processor that other processes had, where the
// system tells that: what else the machine does must not decide which program is the faster one. Threads that f waits for count in full.
func Taken(f func() error) (time.Duration, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	asked := time.Now()
	before, known := waited()
	start := time.Now()
	err := f()
	end := time.Now()
	after, _ := waited()
	took := end.Sub(start)
	if !known || start.Sub(asked) > reading || time.Since(end) > reading { // it may have waited outside of f
		return took, err
	}
	return max(took-(after-before), took/1000), err
}
