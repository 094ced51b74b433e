package opencl

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/internal/dl"
)

// library is an open OpenCL loader, with the devices that it leads to. It lives until the process ends, as libraries do.
type library struct {
	path string
	fn   map[string]uintptr

	// Those of every run.
	setKernelArg, enqueueKernel, setEventCallback, flush uintptr
	called                                               called
	extension                                            uintptr // what finds functions of extensions, 0 where there is none

	mu      sync.Mutex
	devices []*clDevice
	listed  bool
}

// called counts calls of every run, by what they do.
type called struct{ kernels, recorded, reads, writes, copies atomic.Int64 }

// sonames are tried where no path is given, in this order.
func sonames() []string {
	switch runtime.GOOS {
	case "darwin":
		return []string{"/System/Library/Frameworks/OpenCL.framework/OpenCL"}
	case "windows":
		return []string{"OpenCL.dll"}
	}
	return []string{"libOpenCL.so.1", "libOpenCL.so"}
}

// functions are those of OpenCL 1.2 that are called.
var functions = strings.Fields(`
	clGetPlatformIDs clGetPlatformInfo clGetDeviceIDs clGetDeviceInfo clCreateContext clReleaseContext
	clCreateCommandQueue clReleaseCommandQueue clFlush clFinish
	clCreateBuffer clReleaseMemObject clEnqueueReadBuffer clEnqueueWriteBuffer clEnqueueCopyBuffer
	clCreateProgramWithSource clCreateProgramWithBinary clBuildProgram clGetProgramBuildInfo clGetProgramInfo clReleaseProgram
	clCreateKernel clReleaseKernel clSetKernelArg clEnqueueNDRangeKernel
	clEnqueueMarkerWithWaitList clEnqueueBarrierWithWaitList
	clCreateUserEvent clSetUserEventStatus clSetEventCallback clGetEventInfo clRetainEvent clReleaseEvent`)

// opened are the libraries of the process.
var opened dl.Opened[library]

// openLibrary opens a library by its path, or by the system's names for it where that is "". The error wraps
// backend.ErrUnavailable.
func openLibrary(path string) (*library, error) {
	names := []string{path}
	if path == "" {
		names = sonames()
	}
	l, err := opened.First(names, load)
	if err != nil {
		return nil, fmt.Errorf("%w: no OpenCL loader: %w", backend.ErrUnavailable, err)
	}
	return l, nil
}

func load(name string) (*library, error) {
	h, err := dl.Open(name)
	if err != nil {
		return nil, err
	}
	l := &library{path: name, fn: make(map[string]uintptr, len(functions))}
	for _, f := range functions {
		if l.fn[f], err = h.Symbol(f); err != nil {
			return nil, fmt.Errorf("this is no loader of OpenCL 1.2: %w", err)
		}
	}
	l.setKernelArg, l.enqueueKernel = l.fn["clSetKernelArg"], l.fn["clEnqueueNDRangeKernel"]
	if l.extension, err = h.Symbol("clGetExtensionFunctionAddressForPlatform"); err != nil {
		l.extension = 0
	}
	l.setEventCallback, l.flush = l.fn["clSetEventCallback"], l.fn["clFlush"]
	return l, nil
}

// call is what a call of a C function needs, in memory that does not move. It is for one goroutine.
type call struct {
	frame         dl.Frame
	word          uintptr // an argument or a result that is passed by its address
	value         int64
	status        int32 // of functions that return an object
	global, local [3]uintptr
}

var calls = sync.Pool{New: func() any { return &call{} }}

func newCall() *call { return calls.Get().(*call) }

func (c *call) done() { calls.Put(c) }

// invoke calls a function. What arguments point at lies in the heap, and stays alive through the caller.
func (c *call) invoke(fn uintptr, args ...uintptr) uintptr {
	c.frame.Fn = fn
	copy(c.frame.Args[:], args)
	dl.Invoke(&c.frame)
	return c.frame.Ret
}

// do calls a function that returns a status.
func (c *call) do(l *library, name string, args ...uintptr) error {
	return check(name, int32(c.invoke(l.fn[name], args...)))
}

// create calls a function that returns an object, and stores a status where its last argument points.
func (c *call) create(l *library, name string, args ...uintptr) (uintptr, error) {
	c.status = 0
	c.frame.Fn = l.fn[name]
	n := copy(c.frame.Args[:], args)
	c.frame.Args[n] = at(&c.status)
	dl.Invoke(&c.frame)
	if err := check(name, c.status); err != nil {
		return 0, err
	}
	if c.frame.Ret == 0 {
		return 0, &Error{Function: name}
	}
	return c.frame.Ret, nil
}

// at returns the address of something, which lies in the heap because of it.
func at[T any](p *T) uintptr { return dl.At(p) }

// text returns a string as C has it. The caller keeps it alive.
func text(s string) []byte { return append([]byte(s), 0) }

// release gives an object back. There is nobody to tell where that fails.
func (l *library) release(function string, object uintptr) {
	if object == 0 {
		return
	}
	c := newCall()
	defer c.done()
	c.invoke(l.fn[function], object)
}

// bytesOf asks an Info function for a property whose size is not known.
func (c *call) bytesOf(l *library, function string, args ...uintptr) ([]byte, error) {
	c.word = 0
	if err := c.do(l, function, append(append([]uintptr{}, args...), 0, 0, at(&c.word))...); err != nil {
		return nil, err
	}
	const most = 1 << 26
	if c.word > most {
		return nil, &Error{Function: function, Text: fmt.Sprintf("%d bytes of information", c.word)}
	}
	b := make([]byte, max(c.word, 1))
	err := c.do(l, function, append(append([]uintptr{}, args...), uintptr(len(b)), at(&b[0]), 0)...)
	runtime.KeepAlive(b)
	return b, err
}

// stringOf is bytesOf for text, of which surrounding blanks are removed.
func (c *call) stringOf(l *library, function string, object, what uintptr) string {
	b, err := c.bytesOf(l, function, object, what)
	if err != nil {
		return ""
	}
	s, _, _ := strings.Cut(string(b), "\x00")
	return strings.Join(strings.Fields(s), " ")
}

// numberOf is bytesOf for an integer of up to eight bytes; 0 where the property is not known.
func (c *call) numberOf(l *library, function string, object, what uintptr) uint64 {
	c.value = 0
	if err := c.do(l, function, object, what, 8, at(&c.value), 0); err != nil {
		return 0
	}
	return uint64(c.value)
}
