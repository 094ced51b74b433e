package tune

import (
	"runtime"
	"time"
)

// Taken returns how long f takes, without the time that the calling thread waited for a processor that other processes had, where the
// system tells that: what else the machine does must not decide which program is the faster one. Threads that f waits for count in full;
// and as it is not known who had the processor, the time that other threads of this process ran counts as theirs: threads of f that keep
// each other waiting make f slow.
func Taken(f func() error) (time.Duration, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return taken(f, time.Now, waited)
}

// taken is Taken by some clock, and with what some system tells.
func taken(f func() error, now func() time.Time, waited func() (alone, others time.Duration, ok bool)) (time.Duration, error) {
	asked := now()
	before, othersBefore, known := waited()
	start := now()
	err := f()
	end := now()
	after, othersAfter, _ := waited()
	took := end.Sub(start)
	if !known {
		return took, err
	}
	outside := start.Sub(asked) + now().Sub(end) // it may have waited there, while it asked
	return took - min(max(0, after-before-(othersAfter-othersBefore)-outside), took-took/1000), err
}
