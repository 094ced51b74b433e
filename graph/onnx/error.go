package onnx

import (
	"errors"
	"strconv"
	"strings"
	"unicode"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/offheap"
)

// Causes of faults, for errors.Is. Those that other packages of carve have as well are the same values.
var (
	ErrSyntax           = tensor.ErrSyntax      // not what the format allows
	ErrTruncated        = tensor.ErrTruncated   // a message, or data outside, ends too early
	ErrTooLarge         = tensor.ErrTooLarge    // beyond a limit of Options or of the format
	ErrUnsupported      = tensor.ErrUnsupported // legal, and not supported
	ErrCycle            = graph.ErrCycle        // nodes that need each other's results
	ErrDangling         = errors.New("value that nothing defines")
	ErrDuplicate        = errors.New("defined twice")
	ErrExternalData     = errors.New("bad external data")
	ErrUnsupportedOpset = errors.New("operator set not supported")
	ErrRecursion        = errors.New("function calls itself")
	ErrDepth            = errors.New("nested too deep")
	ErrNotRegular       = offheap.ErrNotRegular
	ErrOverride         = errors.New("not an initializer that the model offers as an input")
)

// Error says what is wrong with a model, and where. Fields that do not apply are empty.
type Error struct {
	Op    string // "load" or "save"
	File  string // the model's path
	Node  string // by its path: owner/attribute/name in branches, caller/name in functions
	Value string // the value, initializer or attribute
	Err   error  // the cause; wraps one of the sentinels or the system's error
}

// Error names the place and the cause; long names are cut.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("onnx: ")
	b.WriteString(e.Op)
	for _, p := range [...][2]string{{" ", e.File}, {": node ", e.Node}, {": value ", e.Value}} {
		if p[1] != "" {
			b.WriteString(p[0])
			b.WriteString(plain(short(p[1])))
		}
	}
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// plain quotes a name that would tear the line it is printed on.
func plain(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}

func short(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}

// at adds a place to an error: to the *Error that it is, where that has none, else to a new one.
func at(err error, node, value string) error {
	if err == nil {
		return nil
	}
	var own *Error
	if !errors.As(err, &own) {
		own = &Error{Op: "load", Err: err}
	}
	if own.Node == "" {
		own.Node = node
	}
	if own.Value == "" {
		own.Value = value
	}
	return own
}
