// Package batching puts the calls of many callers into runs of several rows. It knows tensors whose first dim counts rows, and a
// function that runs them; it knows no compiler and no program.
//
// # How calls become runs
//
// A caller makes a [Call] ([Queue.Prepare]), waits for its turn ([Queue.Enter]), and ends it ([Queue.Leave]). No goroutine is the
// Queue's own: callers run the batches. One that finds a slot free leads a run at once; the others wait in the lane of their
// shapes, and when a run ends, the first of them leads the next, with as many of its lane behind it as there is room for. A run of
// one call that needs no padding is the caller's own, on its own tensors; of other runs the leader copies the inputs
// of all together, and each caller takes its rows of the results.
//
// The leader of a short run lets goroutines go first that are ready: their callers wait for a processor, and would each find a slot
// free. It does so less and less often where nobody joins.
//
// Queue.mu guards everything but the tensors of a run under way, which are its leader's, and then its callers', to read.
package batching

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/carve-dev/carve/graph/tensor"
)

// Errors for errors.Is.
var (
	ErrOverloaded = errors.New("too many calls wait")
	ErrDraining   = errors.New("no more calls are taken")
)

// Options are what a Queue works with. They are not changed after New.
type Options struct {
	// Run computes outputs from inputs, all compact and on the host. It is called by as many goroutines as there are Slots.
	Run func(ctx context.Context, inputs, outputs []*tensor.Tensor) error
	// Outputs returns the types of the outputs for inputs of these shapes, nil for one that is left out, or what is wrong with
	// them. It is called once for the shapes of a lane, padded.
	Outputs func(shapes [][]int) ([]Output, error)
	// Fatal reports whether an error of Run would come again for each call of the run alone.
	Fatal func(err error) bool
	// Closed is what calls are told after Close.
	Closed error
	// Turns are what runs have to take in turn with those of others; nil for none.
	Turns Turns
	// Ran is told of each run that has ended, by the goroutine that led it; nil for nobody.
	Ran func(Run)

	Buckets []int  // rows of runs, ascending; the last is the most that a run has
	Long    []bool // inputs whose axis 1 is padded to a length; nil for none
	Lengths []int  // ascending: to which axis 1 is padded
	Slots   int    // runs at one time, at least 1
	Lanes   int    // lists of shapes that are kept, at least 1

	Delay   time.Duration // how long a run waits for more rows
	Timeout time.Duration // how long a call waits for its turn; 0 means no bound
	Calls   int           // most calls that wait
	Bytes   int64         // most bytes of inputs of calls that wait; one call may always wait
}

// Turns are shared with other queues.
type Turns interface {
	// Try takes a turn where there is one. It does not wait: no calls are taken in meanwhile.
	Try() bool
	// Wait waits for a turn, with the context of the call that leads the run. Calls join the run meanwhile.
	Wait(ctx context.Context) error
	// Done gives a turn back.
	Done()
}

// Output is the type of an output of a run.
type Output struct {
	DType tensor.DType
	Shape []int // its first dim counts rows
	Long  bool  // axis 1 has the length to which inputs are padded
}

// Reason says why a run began with the rows that it had.
type Reason int

// The reasons, in an order that Counts has them in.
const (
	Full     Reason = iota // no more rows, or not those of the next call, have room in it
	Idle                   // a slot was free, and nobody else waited with the same shapes
	Delay                  // the first call had waited for Options.Delay
	Deadline               // a call's deadline is near
	Alone                  // the call is one that is not batched
	Ending                 // no more calls are taken
	numReasons
)

// String returns the reason in a word.
func (r Reason) String() string {
	names := [...]string{"full", "idle", "delay", "deadline", "alone", "ending"}
	if r < 0 || int(r) >= len(names) {
		return fmt.Sprintf("Reason(%d)", int(r))
	}
	return names[r]
}

// Run is told to Options.Ran.
type Run struct {
	ID       uint64 // from 1 on
	Calls    int
	Rows     int
	Padded   int // rows with those of padding
	Reason   Reason
	Assemble time.Duration // inputs were copied together
	Took     time.Duration
	Err      error // of the run; calls of a run of several were run again, each alone
}

// Counts are what has happened so far, and what is now.
type Counts struct {
	Waiting      int   // calls
	WaitingBytes int64 // of their inputs
	Running      int   // runs under way

	Calls   uint64 // that had their turn
	Rows    uint64 // of these
	Runs    uint64
	Padding uint64             // rows that were computed for nobody
	Again   uint64             // calls that were run alone since a run of several had failed
	Refused uint64             // calls that found the queue full
	Expired uint64             // calls that waited for longer than Options.Timeout
	Gone    uint64             // calls whose context ended before they had their turn
	Reasons [numReasons]uint64 // runs by why they began
}
