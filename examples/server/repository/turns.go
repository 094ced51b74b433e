package repository

import (
	"context"
	"sync/atomic"
	"time"
)

// turns are a version's among the runs of all models.
type turns struct {
	*gate
	apart *runners
	long  atomic.Int64 // runs one after the other that each took longRun or more
}

// longRun is how long a run takes at least for which it is worth some microseconds to have it on a thread of its own.
const longRun = 300 * time.Microsecond

// sure is how many runs have to be long: one that is short by itself may wait for a processor.
const sure = 16

// ran notes how long a run took.
func (t *turns) ran(took time.Duration) {
	if took < longRun {
		t.long.Store(0)
	} else {
		t.long.Add(1)
	}
}

// do returns what does a run that has a turn: threads for that where runs are long and keep all processors busy while requests are turned
// down, or will be soon, and else nil.
func (t *turns) do() func(run func()) {
	if t.long.Load() < sure || !t.overloaded() {
		return nil
	}
	return t.apart.do
}

// Try implements carve.Turns.
func (t *turns) Try() bool { return t.try() }

// Wait implements carve.Turns.
func (t *turns) Wait(ctx context.Context) error {
	rank := 0
	if w, ok := ctx.Value(waitKey{}).(*wait); ok {
		rank = w.rank
	}
	return t.enter(ctx, rank)
}

// Done implements carve.Turns.
func (t *turns) Done() { t.leave() }
