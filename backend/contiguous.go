package backend

import (
	"errors"
	"fmt"
)

// ErrContiguous is the cause of a ContiguousError, for errors.Is.
var ErrContiguous = errors.New("storage has to be contiguous")

// ContiguousError says that an instance cannot read or write an operand as it lies: its strides, where the port is Strided,
// or the address of its element 0. It is the status "needs contiguous" of the tensor proposal. Enqueue returns it before it
// has queued or written anything; the executor answers with one conversion, to compact storage aligned to
// tensor.Alignment, and enqueues again.
type ContiguousError struct {
	Output  bool // of the outputs, not of the inputs
	Operand int  // index
	Problem string
}

// Error names the operand.
func (e *ContiguousError) Error() string {
	port := "input"
	if e.Output {
		port = "output"
	}
	if e.Problem == "" {
		return fmt.Sprintf("%s %d: %v", port, e.Operand, ErrContiguous)
	}
	return fmt.Sprintf("%s %d: %v: %s", port, e.Operand, ErrContiguous, e.Problem)
}

// Unwrap returns ErrContiguous.
func (e *ContiguousError) Unwrap() error { return ErrContiguous }
