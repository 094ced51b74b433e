package repository

import (
	"context"
	"sync/atomic"
	"time"
)

// turns are a version's among the runs of all models.
type turns struct {
	*gate
	way  *giveWay     // nil for threads that stay as they are
	long atomic.Int64 // runs one after the other that each took longRun or more
}

// longRun is how long a run takes at least for which it is worth some microseconds to have its thread give way.
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

// Try implements carve.Turns.
func (t *turns) Try() bool {
	ok := t.try()
	if ok {
		t.begin()
	}
	return ok
}

// Wait implements carve.Turns.
func (t *turns) Wait(ctx context.Context) error {
	priority := uint64(0)
	if w, ok := ctx.Value(waitKey{}).(*wait); ok {
		priority = w.priority
	}
	return t.enter(ctx, priority)
}

// enter waits for a turn by priority.
func (t *turns) enter(ctx context.Context, priority uint64) error {
	err := t.gate.enter(ctx, priority)
	if err == nil {
		t.begin()
	}
	return err
}

// begin has the thread give way where that is worth it.
func (t *turns) begin() {
	if t.way != nil && t.long.Load() >= sure && t.way.wanted() {
		t.way.begin()
	}
}

// Done implements carve.Turns.
func (t *turns) Done() {
	if t.way != nil { // whatever other runs have meanwhile shown this to be worth
		t.way.end()
	}
	t.leave()
}
