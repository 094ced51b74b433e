//go:build windows && (amd64 || arm64)

package dl

import (
	"fmt"
	"runtime"
	"syscall"

	"github.com/ebitengine/purego"
)

// Supported reports whether libraries can be opened on this platform.
const Supported = true

func open(name string) (uintptr, error) {
	h, err := syscall.LoadLibrary(name)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrOpen, err)
	}
	return uintptr(h), nil
}

func symbol(handle uintptr, name string) (uintptr, error) {
	return syscall.GetProcAddress(syscall.Handle(handle), name)
}

// Call calls a C function with integer and pointer arguments. It allocates.
//
//go:uintptrescapes
func Call(fn uintptr, args ...uintptr) uintptr {
	r, _, _ := syscall.SyscallN(fn, args...)
	return r
}

// Bind sets *fptr, a pointer to a variable of function type, to the C function fn; parameters and result may be integers,
// pointers and floats. It panics where the type cannot be translated. Calls allocate.
func Bind(fptr any, fn uintptr) { purego.RegisterFunc(fptr, fn) }

// Callback returns the address of a C function that calls fn, which takes integers and pointers and returns one word. It may
// be called on any thread. A process has some 2000 of them, which are never given back: one for each purpose.
func Callback(fn any) uintptr { return purego.NewCallback(fn) }

// Invoke calls f.Fn with f.Args and sets f.Ret. Other goroutines go on while the function runs.
func Invoke(f *Frame) {
	f.Ret, _, _ = syscall.SyscallN(f.Fn, f.Args[:]...)
	runtime.KeepAlive(f)
}
