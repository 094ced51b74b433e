// Package nvidia has products of matrices and convolutions done by libraries of NVIDIA's, cuBLASLt and cuDNN, opened where they are
// found. It describes a gpukernel.ProductShape or ConvShape to them once, asks how much memory the work takes, and queues it on a stream
// as often as it is wanted, captured or not. Functions of handles and what they make want the context current that the handle was made
// for, on the calling thread.
package nvidia

import (
	"fmt"
	"runtime"
	"sync"
	"unsafe"

	"github.com/carve-dev/carve/internal/dl"
)

// Error is a call of a library that failed.
type Error struct {
	Function string
	Code     int32  // the library's
	Text     string // what the library says of it
}

// Error names the function, the code and what the library says.
func (e *Error) Error() string {
	if e.Text == "" {
		return fmt.Sprintf("%s: error %d", e.Function, e.Code)
	}
	return fmt.Sprintf("%s: %s (%d)", e.Function, e.Text, e.Code)
}

// library is an open library. It lives until the process ends, as libraries do.
type library struct {
	path  string
	names []string
	fn    []uintptr
	text  int // the function that says what a code means
}

// open opens the library of the first name that the loader finds, and binds its functions.
func open(files, functions []string, text int) (*library, error) {
	var first error
	for _, file := range files {
		h, err := dl.Open(file)
		if err != nil {
			if first == nil {
				first = err
			}
			continue
		}
		l := &library{path: file, names: functions, fn: make([]uintptr, len(functions)), text: text}
		for i, name := range functions {
			if l.fn[i], err = h.Symbol(name); err != nil {
				return nil, err
			}
		}
		return l, nil
	}
	return nil, first
}

// named returns what is opened: the path that is given, or else files by the system's names.
func named(path string, linux, windows []string) []string {
	if path != "" {
		return []string{path}
	}
	if runtime.GOOS == "windows" {
		return windows
	}
	return linux
}

// call is what a call of a C function needs, in memory that does not move.
type call struct {
	frame dl.Frame
	word  uint64 // an argument or a result that is passed by its address
}

var calls = sync.Pool{New: func() any { return &call{} }}

// word calls a function that takes nothing, and returns what it returns.
func (l *library) word(f int) uint64 {
	c := calls.Get().(*call)
	defer calls.Put(c)
	c.frame.Fn = l.fn[f]
	dl.Invoke(&c.frame)
	return uint64(c.frame.Ret)
}

// do calls a function that returns a status. What arguments point at lies in the heap, and stays alive through the caller.
func (l *library) do(f int, args ...uintptr) error {
	c := calls.Get().(*call)
	defer calls.Put(c)
	return l.with(c, f, args...)
}

func (l *library) with(c *call, f int, args ...uintptr) error {
	c.frame.Fn = l.fn[f]
	copy(c.frame.Args[:], args)
	dl.Invoke(&c.frame)
	code := int32(c.frame.Ret)
	if code == 0 {
		return nil
	}
	c.frame.Fn, c.frame.Args[0] = l.fn[l.text], uintptr(code)
	dl.Invoke(&c.frame)
	return &Error{Function: l.names[f], Code: code, Text: goText(c.frame.Ret)}
}

// create is do for a function that stores an object where its first argument points.
func (l *library) create(f int, args ...uintptr) (uintptr, error) {
	c := calls.Get().(*call)
	defer calls.Put(c)
	c.word = 0
	if err := l.with(c, f, append([]uintptr{at(&c.word)}, args...)...); err != nil {
		return 0, err
	}
	return uintptr(c.word), nil
}

// set is do for a function that gives an attribute of an object a value of so many bytes.
func (l *library) set(f int, object uintptr, attribute int, value uint64, bytes int) error {
	c := calls.Get().(*call)
	defer calls.Put(c)
	c.word = value // of which the first bytes are the lowest on all processors that there are drivers for
	return l.with(c, f, object, uintptr(attribute), at(&c.word), uintptr(bytes))
}

// objects are descriptors of a library, with what destroys them.
type objects struct {
	l    *library
	list []struct {
		destroy int
		handle  uintptr
	}
}

// create adds a descriptor.
func (o *objects) create(create, destroy int, args ...uintptr) (uintptr, error) {
	h, err := o.l.create(create, args...)
	if err == nil {
		o.list = append(o.list, struct {
			destroy int
			handle  uintptr
		}{destroy, h})
	}
	return h, err
}

// close destroys them, the last first.
func (o *objects) close() {
	for i := len(o.list) - 1; i >= 0; i-- {
		_ = o.l.do(o.list[i].destroy, o.list[i].handle) // there is nobody to tell
	}
	o.list = nil
}

// at returns the address of something, which lies in the heap because of it.
func at[T any](p *T) uintptr { return dl.At(p) }

// goText returns a text of a library's, which ends with a 0.
func goText(p uintptr) string {
	if p == 0 {
		return ""
	}
	const most = 200
	var b []byte
	for i := range most {
		x := *(*byte)(unsafe.Add(*(*unsafe.Pointer)(unsafe.Pointer(&p)), i))
		if x == 0 {
			break
		}
		b = append(b, x)
	}
	return string(b)
}
