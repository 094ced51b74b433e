package reference

import (
	"errors"
	"fmt"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// operandError is what shape inference has against operands that a run gives to a node. It wraps the cause as this package
// and as package graph call it.
type operandError struct {
	cause error
	found *graph.InferError
}

// Error leaves out the place, which the error around it names.
func (e *operandError) Error() string {
	return fmt.Sprintf("%v: expected %s, found %s", e.found.Err, e.found.Expected, e.found.Found)
}

// Unwrap returns both causes.
func (e *operandError) Unwrap() []error { return []error{e.cause, e.found} }

// checkOperands refuses operands that contradict each other. Kernels check what they compute with, and say it better, so that
// it comes after them: what a kernel made of operands that it did not look at closely is thrown away. Element types are
// not judged, as kernels take more than the operators admit.
func (c *Call) checkOperands(given []tensor.Value) error {
	err := graph.CheckOperands(c.Node, given)
	if err == nil || errors.Is(err, graph.ErrTypeMismatch) {
		return nil
	}
	var found *graph.InferError
	if !errors.As(err, &found) {
		return &Error{Op: c.Node.Op, Node: c.Node.Name, Err: err}
	}
	cause := tensor.ErrShape
	if errors.Is(err, graph.ErrAttr) {
		cause = ErrAttribute
	}
	return &Error{Op: c.Node.Op, Node: c.Node.Name, Port: found.Port, Err: &operandError{cause, found}}
}
