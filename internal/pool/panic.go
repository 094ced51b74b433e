package pool

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// errGoexit is the value of a Panic for a body that ended its goroutine.
var errGoexit = errors.New("pool: loop body called runtime.Goexit")

// Panic is what For panics with when its body panicked: the body may have run on another goroutine, whose stack would
// otherwise be lost. It is immutable.
type Panic struct {
	Value any    // what the body panicked with
	Stack []byte // of the goroutine that panicked
}

// Error returns the value as text, without the stack.
func (p *Panic) Error() string { return fmt.Sprintf("pool: panic in loop body: %v", p.Value) }

// Unwrap returns the value if it is an error, so that errors.Is and errors.As see runtime.Error and typed errors.
func (p *Panic) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}

// caught wraps a recovered value; that of an inner loop is passed on as it is.
func caught(v any) *Panic {
	if p, ok := v.(*Panic); ok {
		return p
	}
	if v == nil { // since Go 1.21 panic(nil) recovers as *runtime.PanicNilError, so this is Goexit
		v = errGoexit
	}
	return &Panic{Value: v, Stack: debug.Stack()}
}
