package repository

import (
	"sync/atomic"
	"time"
)

// Stats counts what a version was asked for. It outlives reloads, so that counters never fall.
type Stats struct {
	Success, Fail        Timing // requests, from arrival to answer
	Queue                Timing // waiting for a run
	Input, Infer, Output Timing // making tensors, running, making the answer
	Rows, Runs           atomic.Uint64
	Last                 atomic.Int64 // milliseconds since 1970 of the last request
	Pending              atomic.Int64 // requests under way or waiting
	Rejected, Cancelled  atomic.Uint64
}

// Timing is a number of events and how long they took together.
type Timing struct{ count, nanos atomic.Uint64 }

// Add counts one event.
func (t *Timing) Add(d time.Duration) {
	t.count.Add(1)
	t.nanos.Add(uint64(max(d, 0)))
}

// Load returns both numbers.
func (t *Timing) Load() (count uint64, total time.Duration) {
	return t.count.Load(), time.Duration(t.nanos.Load())
}
