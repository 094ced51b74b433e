package oip

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Code is the cause of an error, by the names that Triton gives them; both forms of the protocol translate it into statuses of
// their own.
type Code int

// The causes.
const (
	Unknown Code = iota
	Internal
	NotFound
	InvalidArgument
	Unavailable
	Unsupported
	AlreadyExists
	Cancelled
	TooLarge   // a request beyond the server's limits
	Exhausted  // what all requests may have of something together is taken
	Overloaded // the queue is full; Unavailable, unless the server is told to tell them apart
)

// Error is an error that a client is told. What it wraps is for logs and errors.Is.
type Error struct {
	Code    Code
	Message string
	Err     error // may be nil
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Errorf returns an error of a code, whose message is cut where it is long: what it says may come from a client, and fits into the header
// of an answer. What %w wraps is its cause.
func Errorf(code Code, format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: short(err.Error()), Err: errors.Unwrap(err)}
}

// maxMessage bounds an error's message, in bytes.
const maxMessage = 2 << 10

// short returns a message in UTF-8 that is not too long.
func short(message string) string {
	if len(message) > maxMessage {
		message = message[:maxMessage] + "…"
	}
	return strings.ToValidUTF8(message, "\ufffd")
}

// AsError returns err as an Error: the one that it wraps, or one of Internal, with contexts' ends as Cancelled and Unavailable.
func AsError(err error) *Error {
	var own *Error
	switch {
	case errors.As(err, &own):
		return own
	case errors.Is(err, context.Canceled):
		return &Error{Code: Cancelled, Message: "the request was cancelled", Err: err}
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{Code: Unavailable, Message: "the request's time has run out", Err: err}
	}
	return &Error{Code: Internal, Message: short(err.Error()), Err: err}
}
