package opencl

import (
	"errors"
	"fmt"

	"github.com/carve-dev/carve/graph/device"
)

// Errors for errors.Is.
var (
	// ErrBuild says that a kernel did not compile.
	ErrBuild = errors.New("a kernel did not compile")
	// ErrLost says that the device works no more in this process. It wraps device.ErrGone.
	ErrLost = fmt.Errorf("the device is lost: %w", device.ErrGone)
)

// Error is a call of an OpenCL function that failed. It wraps device.ErrOutOfMemory, ErrBuild or ErrLost where the status is of
// that kind.
type Error struct {
	Function string
	Status   int32  // CL_ error code, 0 where there is none
	Text     string // what is known beside it, a compiler's messages, for example
}

// Error names the function and the status.
func (e *Error) Error() string {
	s := e.Function
	if e.Status != 0 {
		name := statusNames[e.Status]
		if name == "" {
			name = "status"
		}
		s += fmt.Sprintf(": %s (%d)", name, e.Status)
	} else if e.Text == "" {
		s += " returned nothing"
	}
	if e.Text != "" {
		s += ": " + e.Text
	}
	return s
}

// Unwrap returns the kind of the failure.
func (e *Error) Unwrap() error {
	switch e.Status {
	case -4, -5, -6, -61:
		return device.ErrOutOfMemory
	case -11, -15, -17:
		return ErrBuild
	case -2, -34, -36:
		return ErrLost
	}
	return nil
}

// outOfResources is what drivers say of work for which a device has too little of something, and of work that it has died of.
const outOfResources = -5

// lostError is a failure that the device has not survived, whatever it was. It wraps ErrLost and that.
type lostError struct{ cause error }

// Error implements error.
func (e *lostError) Error() string { return fmt.Sprintf("%v: %v", ErrLost, e.cause) }

// Unwrap returns ErrLost and the cause.
func (e *lostError) Unwrap() []error { return []error{ErrLost, e.cause} }

func check(function string, status int32) error {
	if status == 0 {
		return nil
	}
	return &Error{Function: function, Status: status}
}

// statusNames are OpenCL's names of the codes that its functions return.
var statusNames = map[int32]string{
	-1: "device not found", -2: "device not available", -3: "compiler not available", -4: "memory allocation failed",
	-5: "out of resources", -6: "out of host memory", -8: "overlapping copy", -11: "program build failed",
	-14: "an event in the wait list failed", -15: "compilation failed", -17: "linking failed", -30: "invalid value", -33: "invalid device", -34: "invalid context",
	-36: "invalid queue", -38: "invalid memory object", -42: "invalid binary", -44: "invalid program", -45: "invalid executable",
	-46: "invalid kernel name", -48: "invalid kernel", -49: "invalid argument index", -50: "invalid argument", -51: "invalid argument size",
	-52: "invalid arguments", -53: "invalid work dimension", -54: "invalid work-group size", -55: "invalid work-item size",
	-57: "invalid wait list", -58: "invalid event", -59: "invalid operation", -61: "invalid buffer size", -63: "invalid global size", -1001: "no platform",
}
