package convert

import (
	"errors"
	"fmt"

	"github.com/carve-dev/carve/graph/tensor"
)

// DetourError is what a Converter's Plan returns beside a Move that does what is asked for in another way than the converter is there
// for, at a cost that is not its Cost: the host reorders what a device could not, for example. Cause says why.
type DetourError struct{ Cause error }

// Error implements error.
func (e *DetourError) Error() string { return fmt.Sprintf("a detour: %v", e.Cause) }

// Unwrap returns the cause.
func (e *DetourError) Unwrap() error { return e.Cause }

// Prepare is Plan. It tells told, where that is not nil, of a detour, which is no error of its own.
func (c *Converter) Prepare(dt tensor.DType, dims []int, told func(cause error)) (Move, error) {
	move, err := c.Plan(dt, dims)
	var detour *DetourError
	if move != nil && errors.As(err, &detour) {
		if told != nil {
			told(detour.Cause)
		}
		return move, nil
	}
	return move, err
}
