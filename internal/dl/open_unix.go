//go:build (linux || darwin) && (amd64 || arm64)

package dl

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
)

// Supported reports whether libraries can be opened on this platform.
const Supported = true

func open(name string) (uintptr, error) {
	if err := checkFile(name); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrOpen, err)
	}
	runtime.LockOSThread() // the loader keeps its messages by thread
	defer runtime.UnlockOSThread()
	openMathematics()
	h, err := purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return 0, fmt.Errorf("%w: %s", ErrOpen, strings.TrimPrefix(err.Error(), name+": ")) // the loader begins with the name
	}
	return h, nil
}

// openMathematics opens the C library's mathematics on Linux, once. A C program has them from its start; libraries that call them and do not
// say so (Intel's libimf) are otherwise bound to functions that are not ready where they come with one library of several, and the process
// ends.
var openMathematics = sync.OnceFunc(func() {
	if runtime.GOOS == "linux" {
		_, _ = purego.Dlopen("libm.so.6", purego.RTLD_NOW|purego.RTLD_GLOBAL) // other C libraries have no such file, and no need
	}
})

func symbol(handle uintptr, name string) (uintptr, error) { return purego.Dlsym(handle, name) }

// Call calls a C function with integer and pointer arguments. It allocates.
//
//go:uintptrescapes
func Call(fn uintptr, args ...uintptr) uintptr {
	r, _, _ := purego.SyscallN(fn, args...)
	return r
}

// Bind sets *fptr, a pointer to a variable of function type, to the C function fn; parameters and result may be integers,
// pointers and floats. It panics where the type cannot be translated. Calls allocate.
func Bind(fptr any, fn uintptr) { purego.RegisterFunc(fptr, fn) }

// Callback returns the address of a C function that calls fn, which takes integers and pointers and returns one word. It may
// be called on any thread. A process has some 2000 of them, which are never given back: one for each purpose.
func Callback(fn any) uintptr { return purego.NewCallback(fn) }

// Invoke calls f.Fn with f.Args and sets f.Ret. It allocates nothing and costs about 20 ns. Other goroutines go on while
// the function runs.
func Invoke(f *Frame) {
	cgocall(trampolineABI0, unsafe.Pointer(f))
	runtime.KeepAlive(f)
}

// cgocall is the runtime's; package purego sets up what it needs.
//
//go:linkname cgocall runtime.cgocall
func cgocall(fn uintptr, arg unsafe.Pointer) int32

// trampolineABI0 is the address of the code that moves a Frame's arguments into registers, by the C calling convention.
var trampolineABI0 uintptr
