package batching

import (
	"slices"
	"time"

	"github.com/carve-dev/carve/graph/tensor"
)

// Call is one caller's rows, from Prepare to Leave.
type Call struct {
	Inputs   []*tensor.Tensor // the caller's
	Rows     int
	Bytes    int64 // of inputs
	Priority int   // larger ones first; set it before Enter
	// Entered is when the call came; Enter sets it where it is zero.
	Entered time.Time
	// Keep says that the caller goes on using Results after Leave: set it before Enter.
	Keep bool

	// Direct says that the caller runs its own tensors now.
	Direct bool
	// Results are those of the whole run where Direct is not set: this call's rows are [First, First+Rows).
	Results []*tensor.Tensor
	First   int

	ID       uint64        // of the run
	Of       int           // rows of the run, padding aside
	Queued   time.Duration // from Enter to the call's turn
	Assemble time.Duration // copying inputs together
	Took     time.Duration // the run

	lane       *lane
	prev, next *Call // in the lane
	state      state
	wake       chan struct{} // has one token when a waiting call is given something to do
	timer      *time.Timer
	seq        uint64
	began      time.Time // of its own run
	deadline   time.Time
	length     int // of axis 1 of inputs that are padded there
	bucket     int
	reason     Reason
	batch      *batch
	err        error
	active     bool // Queue.active counts it
	leaves     bool // its context has ended while it was claimed
	left       bool // it is abandoned, and Leave was called
}

// state is where a call is.
type state uint8

const (
	idle      state = iota // not entered, or over
	waiting                // in its lane
	leading                // it has a slot, and leads a run
	claimed                // in another's run, which copies its inputs
	running                // in another's run, which needs its tensors no more
	abandoned              // its caller has gone while the run goes on
	done                   // Results or err are there
)

// before reports whether it is c's turn before that of another call.
func (c *Call) before(other *Call) bool {
	if c.Priority != other.Priority {
		return c.Priority > other.Priority
	}
	return c.seq < other.seq
}

// awake wakes a waiting call that has been given something to do; nil is nobody.
func (c *Call) awake() {
	if c != nil {
		c.wake <- struct{}{}
	}
}

// notify has a call that gathers look again.
func (c *Call) notify() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Shape returns the shape of output i of this call, whose run pads it; nil for a call that is not batched.
func (c *Call) Shape(i int) []int {
	if c.lane.outputs == nil {
		return nil
	}
	dims := slices.Clone(c.lane.outputs[i].Shape)
	for k := range dims {
		dims[k] = c.dim(i, k)
	}
	return dims
}

// dim returns a dim of output i.
func (c *Call) dim(i, k int) int {
	o := &c.lane.outputs[i]
	switch {
	case k == 0:
		return c.Rows
	case k == 1 && o.Long:
		return c.length
	}
	return o.Shape[k]
}

// Misfit returns the first of the caller's outputs that has not this call's rows, by index; -1 where there is none. A call that is not
// batched says nothing of them, nor does nil.
func (c *Call) Misfit(outputs []*tensor.Tensor) int {
	for i, t := range outputs {
		if c.lane.outputs != nil && t != nil && !c.fits(i, t.Shape) {
			return i
		}
	}
	return -1
}

func (c *Call) fits(i int, shape []int) bool {
	if len(shape) != len(c.lane.outputs[i].Shape) {
		return false
	}
	for k, n := range shape {
		if n != c.dim(i, k) {
			return false
		}
	}
	return true
}

// CopyTo copies this call's rows of a run with others to outputs, nil for one that is not wanted.
func (c *Call) CopyTo(outputs []*tensor.Tensor) {
	for i, dst := range outputs {
		if dst != nil {
			copyRows(dst, 0, c.Results[i], c.First, c.Rows)
		}
	}
}

// Result returns this call's rows of output i of a run with others, which has Keep set: a view where they lie together.
func (c *Call) Result(i int) (*tensor.Tensor, error) {
	all := c.Results[i]
	if c.lane.outputs[i].Long && c.length != c.lane.length && c.Rows > 1 {
		t, err := tensor.New(all.DType, c.Shape(i)...)
		if err == nil {
			copyRows(t, 0, all, c.First, c.Rows)
		}
		return t, err
	}
	t := &tensor.Tensor{DType: all.DType, Shape: c.Shape(i)}
	at, n := c.First*rowLen(all), t.Len()
	if all.DType == tensor.String {
		t.Strings = all.Strings[at : at+n : at+n]
		return t, nil
	}
	size := all.DType.Size()
	at, n = all.Offset+at*size, n*size
	t.Data = all.Data[at : at+n : at+n]
	return t, nil
}
