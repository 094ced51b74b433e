package mkl

import (
	"errors"
	"fmt"
)

// ErrStatus is wrapped by every error that the library returned.
var ErrStatus = errors.New("oneDNN refused")

// errUnimplemented is what the library returns where it has no kernel for what it was asked.
var errUnimplemented = fmt.Errorf("%w: unimplemented", ErrStatus)

// errEmpty is what the library is not asked for.
var errEmpty = fmt.Errorf("%w: a tensor without elements", ErrStatus)

// Error is a call that the library refused.
type Error struct {
	Call   string // C function
	Status int32  // dnnl_status_t
}

// Error implements error.
func (e *Error) Error() string {
	names := map[int32]string{1: "out of memory", 2: "invalid arguments", 3: "unimplemented", 4: "iterator ends", 5: "runtime error", 6: "not required"}
	s := names[e.Status]
	if e.Status == 4 || s == "" {
		s = fmt.Sprintf("status %d", e.Status)
	}
	return fmt.Sprintf("%s: %v: %s", e.Call, ErrStatus, s)
}

// Unwrap returns ErrStatus.
func (e *Error) Unwrap() error { return ErrStatus }

// Is reports whether target stands for the same refusal.
func (e *Error) Is(target error) bool {
	return target == errUnimplemented && e.Status == statusUnimplemented
}

func status(call string, st int32) error {
	if st == 0 {
		return nil
	}
	return &Error{Call: call, Status: st}
}
