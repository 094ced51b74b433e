//go:build !((linux || darwin || windows) && (amd64 || arm64))

package dl

// Supported reports whether libraries can be opened on this platform.
const Supported = false

func open(string) (uintptr, error) { return 0, ErrUnsupported }

func symbol(uintptr, string) (uintptr, error) { return 0, ErrUnsupported }

// Call returns 0: no Library can be opened here, so there is nothing to call.
func Call(uintptr, ...uintptr) uintptr { return 0 }

// Bind leaves *fptr alone, see Call.
func Bind(any, uintptr) {}

// Callback returns 0, see Call.
func Callback(any) uintptr { return 0 }

// Invoke does nothing, see Call.
func Invoke(*Frame) {}
