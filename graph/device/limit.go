package device

import "fmt"

// LimitError is an allocation that would go beyond a limit. Sizes are in bytes.
type LimitError struct {
	Device string // as tensor.DeviceID prints it; "" where the limit is one on all devices together
	Need   int64  // that were asked for
	Used   int64  // in use then
	Limit  int64
	Kind   error // what it wraps; nil means ErrOutOfMemory
}

// Error says what is needed, in use and allowed.
func (e *LimitError) Error() string {
	s := fmt.Sprintf("%v: %d bytes with %d in use, limit %d", e.Unwrap(), e.Need, e.Used, e.Limit)
	if e.Device != "" {
		s += " on " + e.Device
	}
	return s
}

// Unwrap returns the Kind.
func (e *LimitError) Unwrap() error {
	if e.Kind == nil {
		return ErrOutOfMemory
	}
	return e.Kind
}
