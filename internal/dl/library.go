package dl

import (
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"
)

// Errors for errors.Is.
var (
	ErrUnsupported = errors.New("this platform cannot open libraries without cgo")
	ErrOpen        = errors.New("cannot be opened")
	ErrSymbol      = errors.New("symbol is missing")
)

// Error is about one library.
type Error struct {
	Library string // the name that it was asked for by
	Symbol  string // "" where the library itself is the matter
	Err     error
}

// Error implements error.
func (e *Error) Error() string {
	if e.Symbol != "" {
		return fmt.Sprintf("library %s: %s: %v", e.Library, e.Symbol, e.Err)
	}
	return fmt.Sprintf("library %s: %v", e.Library, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Library is an open library. It is immutable, and stays open until the process ends.
type Library struct {
	name   string // or path, that it was opened by
	handle uintptr
}

// Open opens the library of a path, or of a name that the system's loader searches. The symbols of the library are not
// offered to libraries that are opened later. The error is an *Error that wraps ErrOpen or ErrUnsupported; the loader's
// text in it names a missing dependency too.
func Open(name string) (*Library, error) {
	if name == "" {
		return nil, &Error{Library: `""`, Err: fmt.Errorf("%w: no name", ErrOpen)}
	}
	h, err := open(name)
	if err != nil {
		return nil, &Error{Library: name, Err: err}
	}
	return &Library{name: name, handle: h}, nil
}

// Symbol returns the address of a function or variable. The error is an *Error that wraps ErrSymbol.
func (l *Library) Symbol(name string) (uintptr, error) {
	p, err := symbol(l.handle, name)
	if err != nil || p == 0 { // what the loader says has both names once more, and no more
		return 0, &Error{Library: l.name, Symbol: name, Err: ErrSymbol}
	}
	return p, nil
}

// FrameArgs is the most arguments that a Frame has.
const FrameArgs = 18

// Frame is the argument block of Invoke: a function and up to eighteen integer or pointer arguments. It must not lie on a
// goroutine's stack: take it from an array in memory outside of Go's heap, or from a struct in the heap.
type Frame struct {
	Fn   uintptr
	Args [FrameArgs]uintptr
	Ret  uintptr
}

// At returns the address of what p points at, as an argument for C. That lies in the heap because of it, so that it does not move; the
// caller keeps it alive until the call is over.
func At[T any](p *T) uintptr {
	if never {
		heap.Store(any(p))
	}
	return uintptr(unsafe.Pointer(p))
}

// never is false, which the compiler does not know: what At is given may be kept, and so is not on a stack.
var (
	never bool
	heap  atomic.Value
)
