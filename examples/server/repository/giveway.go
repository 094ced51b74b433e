package repository

import (
	"sync/atomic"
	"time"
)

// giveWay has threads that run models go behind others while requests are turned down.
//
// Linux gives each thread a share of the processors. One that wakes up, to read from a connection or to write to it, goes before one that
// computes where its slice of time is shorter and it has had less than its share, or else when the other's slice is over, which is looked at
// with the clock's ticks, up to four milliseconds later. That wait comes with each step of a request, in a client's process too where that is
// on the same machine. So runs get longer slices, which takes no rights and leaves their share as it is, and a smaller share where the
// process may give it back.
//
// Runs are then interrupted more often, and find their data in slower caches: so this is for the time in which requests are turned down.
type giveWay struct {
	usual, behind shares
	from          time.Time
	turnedDown    atomic.Int64 // when a request was, last: nanoseconds since then; 0 for never
}

// shares are how the system has a thread share processors with others.
type shares struct {
	nice  int32
	slice time.Duration // 0 where there is none of a thread's own
}

const (
	longSlice = 10 * time.Millisecond // usual are up to 3 ms
	niceness  = 5                     // a third of the usual share
)

// overloaded is for how long after a request was turned down the server counts as overloaded.
const overloaded = time.Second

// TurnedDown says that a request was turned down because there are too many: see Options.GiveWay.
func (r *Repository) TurnedDown() {
	if w := r.way; w != nil {
		w.turnedDown.Store(int64(time.Since(w.from)))
	}
}

// wanted reports whether requests are turned down.
func (w *giveWay) wanted() bool {
	at := w.turnedDown.Load()
	return at > 0 && time.Since(w.from)-time.Duration(at) < overloaded
}
