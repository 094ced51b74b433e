package backend

import (
	"errors"
	"fmt"

	"github.com/carve-dev/carve/graph"
)

// ErrRange says that a run's data counts or indexes beyond what is there. It is a fault of the data, which every backend finds.
var ErrRange = errors.New("out of range")

// RangeError names the number of a run's data that is out of range: an index of Gather, say, or the K of TopK. Enqueue
// returns it, or a kernel panics with it on the goroutine that runs the loop; a run that fails so is not repeated by other
// kernels. It wraps ErrRange.
type RangeError struct {
	Op       graph.Op
	Node     string // in the model
	Port     string // the operand, by its name in the operator's schema
	Value    int64
	Min, Max int64 // what is admitted, both included; nothing is where Max is less than Min
}

// OutOfRange returns a RangeError for a number in operand i of n.
func OutOfRange(n *graph.Node, i int, value, low, high int64) *RangeError {
	e := &RangeError{Op: n.Op, Node: n.Label(), Port: fmt.Sprintf("input %d", i), Value: value, Min: low, Max: high}
	if s := n.Schema; s != nil && len(s.Inputs) > 0 {
		e.Port = "input " + s.Inputs[min(i, len(s.Inputs)-1)].Name
	}
	return e
}

// BadIndex is OutOfRange for an index of an axis of n elements, which counts from the end where it is negative.
func BadIndex(node *graph.Node, i int, index int64, n int) *RangeError {
	return OutOfRange(node, i, index, -int64(n), int64(n)-1)
}

// Error returns `Gather "pick", input indices: 7 is out of range: [-5, 4] is admitted`.
func (e *RangeError) Error() string {
	admitted := fmt.Sprintf("[%d, %d] is admitted", e.Min, e.Max)
	if e.Max < e.Min {
		admitted = "there is no element"
	}
	return fmt.Sprintf("%v %q, %s: %d is %v: %s", e.Op, e.Node, e.Port, e.Value, ErrRange, admitted)
}

// Unwrap returns ErrRange.
func (e *RangeError) Unwrap() error { return ErrRange }
