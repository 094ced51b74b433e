// Package nvrtc compiles CUDA C++ to machine code with NVIDIA's run-time compiler, opened where it is found. It needs neither a
// graphics processor nor a driver.
package nvrtc

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"unsafe"

	"github.com/carve-dev/carve/internal/dl"
)

// Library is the compiler. It is safe for concurrent use.
type Library struct {
	Major, Minor                                            int
	create, compile, destroy, logSize, log, binSize, binary uintptr
	lib                                                     *dl.Library
	architectures                                           []int
}

// libraryNames are the files that Open tries without a path, newest first.
func libraryNames() []string {
	if runtime.GOOS == "windows" {
		return []string{"nvrtc64_130_0.dll", "nvrtc64_120_0.dll", "nvrtc64_112_0.dll"}
	}
	return []string{"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so"}
}

// Open opens the compiler at a path, or, where it is empty, the first of those that the system's loader finds. The error wraps
// package dl's.
func Open(path string) (*Library, error) {
	names := []string{path}
	if path == "" {
		names = libraryNames()
	}
	var first error
	for _, n := range names {
		lib, err := dl.Open(n)
		if err == nil {
			return bind(lib)
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}

func bind(lib *dl.Library) (*Library, error) {
	l := &Library{lib: lib}
	var version uintptr
	for _, s := range []struct {
		name string
		to   *uintptr
	}{
		{"nvrtcVersion", &version}, {"nvrtcCreateProgram", &l.create}, {"nvrtcCompileProgram", &l.compile},
		{"nvrtcDestroyProgram", &l.destroy}, {"nvrtcGetProgramLogSize", &l.logSize}, {"nvrtcGetProgramLog", &l.log},
		{"nvrtcGetCUBINSize", &l.binSize}, {"nvrtcGetCUBIN", &l.binary},
	} {
		p, err := lib.Symbol(s.name)
		if err != nil {
			return nil, err
		}
		*s.to = p
	}
	v := new([2]int32)
	if r := dl.Call(version, uintptr(unsafe.Pointer(&v[0])), uintptr(unsafe.Pointer(&v[1]))); int32(r) != 0 {
		return nil, fmt.Errorf("nvrtcVersion: error %d", int32(r))
	}
	l.Major, l.Minor = int(v[0]), int(v[1])
	l.architectures = supported(lib)
	return l, nil
}

// Architectures returns the numbers of those that the compiler knows, 90 for sm_90; nil where it does not say.
func (l *Library) Architectures() []int { return slices.Clone(l.architectures) }

func supported(lib *dl.Library) []int {
	count, err := lib.Symbol("nvrtcGetNumSupportedArchs")
	if err != nil {
		return nil
	}
	get, err := lib.Symbol("nvrtcGetSupportedArchs")
	if err != nil {
		return nil
	}
	const most = 1000
	n := new(int32)
	if int32(dl.Call(count, uintptr(unsafe.Pointer(n)))) != 0 || *n <= 0 || *n > most {
		return nil
	}
	numbers := make([]int32, *n)
	if int32(dl.Call(get, uintptr(unsafe.Pointer(&numbers[0])))) != 0 {
		return nil
	}
	list := make([]int, len(numbers))
	for i, x := range numbers {
		list[i] = int(x)
	}
	return list
}

// Error is a program that does not compile.
type Error struct {
	Code int // the library's
	Log  string
}

// Error implements error.
func (e *Error) Error() string {
	return fmt.Sprintf("nvrtc: error %d: %s", e.Code, strings.TrimSpace(e.Log))
}

// Compile returns the machine code of a program for an architecture such as "sm_90", and what the assembler says of registers,
// spills and local memory. The error is an *Error.
func (l *Library) Compile(source, arch string) (binary []byte, log string, err error) {
	return l.translate(source, arch, l.binSize, l.binary, "--ptxas-options=-v")
}

// Text returns a program in the assembler's language, PTX, for a virtual architecture such as "compute_80". The assembler has not
// seen it: see Compile. The error is an *Error, or wraps package dl's.
func (l *Library) Text(source, arch string) ([]byte, error) {
	size, err := l.lib.Symbol("nvrtcGetPTXSize")
	if err != nil {
		return nil, err
	}
	get, err := l.lib.Symbol("nvrtcGetPTX")
	if err != nil {
		return nil, err
	}
	text, _, err := l.translate(source, arch, size, get)
	return bytes.TrimRight(text, "\x00"), err
}

// translate compiles a program, and returns what the last two functions give of it, and the log.
func (l *Library) translate(source, arch string, size, get uintptr, more ...string) (result []byte, log string, err error) {
	text := cString(source)
	program := new(uintptr)
	if r := dl.Call(l.create, uintptr(unsafe.Pointer(program)), uintptr(unsafe.Pointer(&text[0])), 0, 0, 0, 0); int32(r) != 0 {
		return nil, "", &Error{Code: int(int32(r))}
	}
	defer dl.Call(l.destroy, uintptr(unsafe.Pointer(program)))
	options := append([]string{"--gpu-architecture=" + arch, "--device-as-default-execution-space", "--std=c++14"}, more...)
	held, pointers := make([][]byte, len(options)), make([]uintptr, len(options))
	var pin runtime.Pinner
	defer pin.Unpin()
	for i, o := range options {
		held[i] = cString(o)
		pin.Pin(&held[i][0])
		pointers[i] = uintptr(unsafe.Pointer(&held[i][0]))
	}
	code := int32(dl.Call(l.compile, *program, uintptr(len(options)), uintptr(unsafe.Pointer(&pointers[0]))))
	log = string(fetch(*program, l.logSize, l.log))
	log = strings.TrimRight(log, "\x00")
	if code != 0 {
		return nil, log, &Error{Code: int(code), Log: log}
	}
	return fetch(*program, size, get), log, nil
}

func fetch(program, size, get uintptr) []byte {
	n := new(uintptr)
	if int32(dl.Call(size, program, uintptr(unsafe.Pointer(n)))) != 0 || *n == 0 {
		return nil
	}
	b := make([]byte, *n)
	if int32(dl.Call(get, program, uintptr(unsafe.Pointer(&b[0])))) != 0 {
		return nil
	}
	return b
}

func cString(s string) []byte { return append([]byte(s), 0) }
