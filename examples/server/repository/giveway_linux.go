package repository

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// newGiveWay returns nil where threads cannot be had to give way.
func newGiveWay() *giveWay {
	found := make(chan *giveWay)
	go func() { // on a thread that ends with it, whose share may stay small
		runtime.LockOSThread()
		usual, ok := threadShares()
		w := &giveWay{usual: usual, behind: usual, from: time.Now()}
		if usual.slice > 0 { // since 6.12
			w.behind.slice = max(usual.slice, longSlice)
		}
		if less := (shares{usual.nice + niceness, usual.slice}); change(usual, less) && change(less, usual) {
			w.behind.nice = less.nice
		}
		if !ok || w.behind == usual {
			w = nil
		}
		found <- w
	}()
	return <-found
}

// begin binds the goroutine to its thread, and has that give way. The thread starts no others meanwhile, which would do so too.
func (w *giveWay) begin() {
	runtime.LockOSThread()
	if !change(w.usual, w.behind) {
		runtime.UnlockOSThread()
	}
}

// end undoes begin. It does nothing where the thread does not give way.
func (w *giveWay) end() {
	if change(w.behind, w.usual) {
		runtime.UnlockOSThread()
	}
}

// threadShares returns those of the calling thread; false where it is not scheduled by shares.
func threadShares() (shares, bool) {
	a, err := unix.SchedGetAttr(0, 0)
	if err != nil || a.Policy != unix.SCHED_NORMAL {
		return shares{}, false
	}
	return shares{a.Nice, time.Duration(a.Runtime)}, true
}

// change changes the shares of the calling thread, and reports whether they were what they are expected to be and could be changed.
func change(from, to shares) bool {
	if now, ok := threadShares(); !ok || now != from {
		return false
	}
	return unix.SchedSetAttr(0, &unix.SchedAttr{Policy: unix.SCHED_NORMAL, Nice: to.nice, Runtime: uint64(to.slice)}, 0) == nil
}
