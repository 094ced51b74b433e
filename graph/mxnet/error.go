package mxnet

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/offheap"
)

// Causes of faults, for errors.Is. Those that other packages of carve have as well are the same values.
var (
	ErrSyntax      = tensor.ErrSyntax      // not what the format allows
	ErrTruncated   = tensor.ErrTruncated   // a file ends too early
	ErrTooLarge    = tensor.ErrTooLarge    // beyond a limit of Options or of the format
	ErrUnsupported = tensor.ErrUnsupported // legal, and not supported
	ErrOperator    = errors.New("operator not known")
	ErrAttribute   = errors.New("bad attribute")
	ErrInputs      = errors.New("wrong inputs")
	ErrShape       = errors.New("shape must be known")
	ErrParameter   = errors.New("no data for a parameter")
	ErrOutput      = errors.New("no such output")
	ErrCycle       = errors.New("nodes that need each other's results")
	ErrNotRegular  = offheap.ErrNotRegular
)

// Error says what is wrong with a model, and where. Fields that do not apply are empty.
type Error struct {
	Op     string // "load"
	File   string // the path of the symbol or of the parameters
	Node   string // the node, or the name of the array
	Offset int64  // the byte of the file at which it was found, -1 where that says nothing
	Err    error  // the cause; wraps one of the sentinels or the system's error
}

// Error names the place and the cause; long names are cut.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("mxnet: " + e.Op)
	if e.File != "" {
		b.WriteString(" " + plain(e.File))
	}
	if e.Node != "" {
		b.WriteString(": node " + plain(e.Node))
	}
	if e.Offset >= 0 {
		fmt.Fprintf(&b, ": at byte %d", e.Offset)
	}
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// plain cuts a long name, and quotes one that would tear the line it is printed on.
func plain(s string) string {
	const most = 200
	if len(s) > most {
		s = s[:most] + "…"
	}
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}

// located adds a place to an error: to the *Error that it is, where that has none, else to a new one.
func located(err error, file, node string) error {
	if err == nil {
		return nil
	}
	var own *Error
	if !errors.As(err, &own) {
		own = &Error{Offset: -1, Err: err}
	}
	own.Op = "load"
	if own.File == "" {
		own.File = file
	}
	if own.Node == "" {
		own.Node = node
	}
	return own
}
