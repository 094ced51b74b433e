package cuda

import (
	"errors"
	"fmt"

	"github.com/carve-dev/carve/graph/device"
)

// Errors for errors.Is.
var (
	// ErrBuild says that a kernel did not compile, or that the driver does not take what it was compiled to.
	ErrBuild = errors.New("a kernel did not compile")
	// ErrLost says that the device works no more in this process: a kernel reached beyond its memory, for example, or the hardware
	// failed. It wraps device.ErrGone.
	ErrLost = fmt.Errorf("the device is lost: %w", device.ErrGone)

	// ErrLibrary says that a call of cuBLASLt or cuDNN failed.
	ErrLibrary = errors.New("a library of NVIDIA's failed")
)

// Error is a call of the driver that failed. It wraps device.ErrOutOfMemory, ErrBuild or ErrLost where the code is of that kind.
type Error struct {
	Function string
	Code     int32  // the driver's, 0 where there is none
	Name     string // of the code, "CUDA_ERROR_OUT_OF_MEMORY", for example
	Text     string // what the driver says of it
}

// Error names the function, the code and what the driver says.
func (e *Error) Error() string {
	s := e.Function
	if e.Code != 0 {
		if e.Name != "" {
			s += fmt.Sprintf(": %s (%d)", e.Name, e.Code)
		} else {
			s += fmt.Sprintf(": error %d", e.Code)
		}
	}
	if e.Text != "" {
		s += ": " + e.Text
	}
	return s
}

// Unwrap returns the kind of the failure.
func (e *Error) Unwrap() error {
	switch e.Code {
	case codeOutOfMemory:
		return device.ErrOutOfMemory
	case 200, 209, 218, 220, 222, 300: // an image that is invalid, for another processor, or of a version that the driver does not know
		return ErrBuild
	}
	if e.lost() {
		return ErrLost
	}
	return nil
}

// Codes of the driver's.
const (
	codeOutOfMemory = 2
	codeNoDevice    = 100
	codeNotReady    = 600
)

// lost reports whether every later call of the context fails too.
func (e *Error) lost() bool {
	switch e.Code {
	case 4, 46, 214, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719:
		return true
	}
	return false
}
