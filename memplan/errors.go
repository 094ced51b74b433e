package memplan

import (
	"errors"
	"fmt"
)

// ErrInfeasible says that it is proven that no plan can exist.
var ErrInfeasible = errors.New("memplan: no plan can exist")

// ErrNoPlan says that time or steps ran out before a plan was found, which
// proves nothing about whether one exists. Where a context ended, the error
// wraps the context's cause as well.
var ErrNoPlan = errors.New("memplan: out of time or steps without a plan")

// InputError reports a faulty buffer, option or file.
type InputError struct {
	Buffer int    // index of the buffer, or -1
	ID     string // id of the buffer, where it has one
	Line   int    // line of the file, from 1; 0 when there is no file
	Field  string // the faulty field or column
	Reason string // what is wrong with it
	Err    error  // cause, may be nil
}

func (e *InputError) Error() string {
	where := ""
	switch {
	case e.Line > 0:
		where = fmt.Sprintf("line %d: ", e.Line)
	case e.Buffer >= 0 && e.ID != "":
		where = fmt.Sprintf("buffer %d (%.40q): ", e.Buffer, e.ID)
	case e.Buffer >= 0:
		where = fmt.Sprintf("buffer %d: ", e.Buffer)
	}
	field := ""
	if e.Field != "" {
		field = e.Field + ": "
	}
	if e.Err != nil {
		return fmt.Sprintf("memplan: %s%s%s: %v", where, field, e.Reason, e.Err)
	}
	return fmt.Sprintf("memplan: %s%s%s", where, field, e.Reason)
}

// Unwrap returns the cause.
func (e *InputError) Unwrap() error { return e.Err }

// ConflictError reports the first fault that Verify finds in a plan.
type ConflictError struct {
	A, B   int // indices of the buffers; B is -1 where only A is at fault
	Reason string
}

func (e *ConflictError) Error() string {
	if e.B < 0 {
		return fmt.Sprintf("memplan: invalid plan: buffer %d %s", e.A, e.Reason)
	}
	return fmt.Sprintf("memplan: invalid plan: buffers %d and %d %s", e.A, e.B, e.Reason)
}
